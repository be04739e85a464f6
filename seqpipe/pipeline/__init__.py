"""Pipelines: readers and operators together, of which neither knows the other; and graphs of operators.

images = seqpipe.pipeline.Input("images")
graph = seqpipe.pipeline.Graph(fn.rotate(images, angle=fn.random.uniform(range=(-10.0, 10.0))))
(turned,) = graph(images=batch, epoch=1)

clip = seqpipe.pipeline.read(reader, batch_size=8)
for pixels, labels in seqpipe.pipeline.Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip()), clip.label):
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import renamed
from ..ops import DataNode
from .external import BatchInfo, SampleInfo
from .fusion import Fuse
from .graph import Graph
from .inputs import Input
from .pipeline import ClipNodes, Pipeline, PipelineState, external_source, read, read_items
from .source import DatasetProtocol, PipelineLastBatch
from .views import VideoScores

__all__ = [
    "BatchInfo",
    "ClipNodes",
    "DataNode",
    "DatasetProtocol",
    "Fuse",
    "Graph",
    "Input",
    "Pipeline",
    "PipelineLastBatch",
    "PipelineState",
    "SampleInfo",
    "VideoScores",
    "external_source",
    "read",
    "read_items",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        {
            "Augmented": "seqpipe.videos(…, seqpipe.Clip(…)).map(chain).batch(size)",
            "AugmentedBatches": "seqpipe.dataset.Epoch, which ds.epoch(number) gives",
            "Clip": "seqpipe.Clip, or ds.graph(build)",
            "crop_views": "ds.views(size, count=3)",
        },
    )
