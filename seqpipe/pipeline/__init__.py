"""Pipelines: readers and operators together, of which neither knows the other; and graphs of operators.

with seqpipe.pipeline.Augmented(reader, ops.Chain(ops.RandomResizedCrop(size=(224, 224)), ops.Flip(p=0.5))) as dataset:
    for batch in dataset.batches(8):
        batch.numpy()

images = seqpipe.pipeline.Input("images")
graph = seqpipe.pipeline.Graph(fn.rotate(images, angle=fn.random.uniform(range=(-10.0, 10.0))))
(turned,) = graph(images=batch, epoch=1)
"""

from __future__ import annotations

from ..ops import DataNode
from .augmented import Augmented
from .fusion import Fuse
from .graph import Graph
from .inputs import Input
from .passes import AugmentedBatches, AugmentedSequences

__all__ = ["Augmented", "AugmentedBatches", "AugmentedSequences", "DataNode", "Fuse", "Graph", "Input"]
