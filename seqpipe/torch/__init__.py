"""Adapters to torch: readers and pipelines as iterables of tensors. May import pipeline and readers.

batches = seqpipe.torch.Iterator(pipe, names=("pixels", "label"), device="cuda")
loader = torch.utils.data.DataLoader(reader.as_torch(batch_size=8), batch_size=None, num_workers=4)
"""

from __future__ import annotations

from .dataset import Dataset
from .iterator import Iterator

__all__ = ["Dataset", "Iterator"]
