"""Pipelines: readers and operators together, of which neither knows the other.

with seqpipe.pipeline.Augmented(reader, ops.Chain(ops.RandomResizedCrop(size=(224, 224)), ops.Flip(p=0.5))) as dataset:
    for batch in dataset.batches(8):
        batch.numpy()
"""

from __future__ import annotations

from .augmented import Augmented
from .fusion import Fuse
from .passes import AugmentedBatches, AugmentedSequences

__all__ = ["Augmented", "AugmentedBatches", "AugmentedSequences", "Fuse"]
