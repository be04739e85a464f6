"""torch's side of the door: pipelines and readers as iterables of torch's tensors. Imports pipeline and readers.

batches = seqpipe.torch.Iterator(pipe, names=("pixels", "label"), device="cuda")
loader = torch.utils.data.DataLoader(reader.as_torch(batch_size=8), batch_size=None, num_workers=4)
"""

from __future__ import annotations

from .dataset import Dataset
from .iterator import Iterator

__all__ = ["Dataset", "Iterator"]
