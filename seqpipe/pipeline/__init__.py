"""Graphs of operators, and pipelines of the user's own batches.

images = seqpipe.pipeline.Input("images")
graph = seqpipe.pipeline.Graph(fn.rotate(images, angle=fn.random.uniform(range=(-10.0, 10.0))))
(turned,) = graph(images=batch, epoch=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import renamed
from ..ops import DataNode
from .external import BatchInfo, SampleInfo
from .fusion import Fuse
from .graph import Graph
from .inputs import Input
from .pipeline import Pipeline, PipelineState, external_source
from .source import PipelineLastBatch
from .views import VideoScores

__all__ = [
    "BatchInfo",
    "DataNode",
    "Fuse",
    "Graph",
    "Input",
    "Pipeline",
    "PipelineLastBatch",
    "PipelineState",
    "SampleInfo",
    "VideoScores",
    "external_source",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        {
            "Augmented": "seqpipe.videos(…, seqpipe.Clip(…)).map(chain).batch(size)",
            "AugmentedBatches": "seqpipe.dataset.Epoch, which ds.epoch(number) gives",
            "Clip": "seqpipe.Clip, or ds.graph(build)",
            "ClipNodes": "the nodes that ds.graph(build) passes by the names of the parts",
            "DatasetProtocol": "seqpipe.items(…), or seqpipe.dataset.SampleSource",
            "crop_views": "ds.views(size, count=3)",
            "read": "seqpipe.videos(…, seqpipe.Clip(…)).graph(build).batch(size)",
            "read_items": "seqpipe.items(…).graph(build).batch(size)",
        },
    )
