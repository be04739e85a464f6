"""Graphs of operators, and the executor that data sets and DALI programs share.

images = seqpipe.pipeline.Input("images")
graph = seqpipe.pipeline.Graph(fn.rotate(images, angle=fn.random.uniform(range=(-10.0, 10.0))))
(turned,) = graph(images=batch, epoch=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import renamed
from ..ops import DataNode
from .fusion import Fuse
from .graph import Graph
from .inputs import Input

__all__ = ["DataNode", "Fuse", "Graph", "Input"]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        {
            "Augmented": "seqpipe.videos(…, seqpipe.Clip(…)).map(chain).batch(size)",
            "AugmentedBatches": "seqpipe.dataset.Epoch, which ds.epoch(number) gives",
            "BatchInfo": "seqpipe.feed(generator_function); in DALI programs seqpipe.dali.types.BatchInfo",
            "Clip": "seqpipe.Clip, or ds.graph(build)",
            "ClipNodes": "the nodes that ds.graph(build) passes by the names of the parts",
            "DatasetProtocol": "seqpipe.items(…), or seqpipe.dataset.SampleSource",
            "Pipeline": "seqpipe.items(…) or seqpipe.feed(…), then .graph(build).batch(size); "
            "seqpipe.dali.Pipeline for DALI's programs",
            "PipelineLastBatch": "ds.batch(size, last=…)",
            "PipelineState": "batch.state, or state_dict() of ds.epoch(number)",
            "SampleInfo": "seqpipe.items(function, size=…); seqpipe.dali.types.SampleInfo in DALI programs",
            "VideoScores": "seqpipe.VideoScores",
            "crop_views": "ds.views(size, count=3)",
            "external_source": "seqpipe.items(data), or seqpipe.feed(iterable) for what is read from front to back",
            "read": "seqpipe.videos(…, seqpipe.Clip(…)).graph(build).batch(size)",
            "read_items": "seqpipe.items(…).graph(build).batch(size)",
        },
    )
