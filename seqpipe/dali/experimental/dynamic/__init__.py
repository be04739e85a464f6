"""``nvidia.dali.experimental.dynamic``: operators as functions of tensors and batches, which compute at once.

    reader = ndd.readers.File(file_root="images", random_shuffle=True)
    for jpegs, labels in reader.next_epoch(batch_size=16):
        images = ndd.resize(ndd.decoders.image(jpegs), size=(224, 224))
        angles = ndd.random.uniform(range=(-10, 10), batch_size=16)
        turned = ndd.rotate(images, angle=angles).torch()

Operators have the names, arguments and results of :mod:`seqpipe.dali.fn`. They differ from DALI's in that errors are
raised by the call itself, in each mode of evaluation, and in that a reader's epoch has each sample once.
"""

from __future__ import annotations

from typing import Any

from ...table import operators_in
from . import checkpoint, context, math, random
from .calls import GROUP, ExternalSource, imread
from .context import *  # noqa: F403  there is one list of names, that of the module
from .kinds import BY_PUBLIC_NAME, DType, dtype, type_id
from .values import Batch, Tensor, as_batch, as_tensor, batch, tensor

__all__ = [
    "Batch",
    "DType",
    "ExternalSource",
    "Tensor",
    "as_batch",
    "as_tensor",
    "batch",
    "checkpoint",
    "dtype",
    "imread",
    "math",
    "random",
    "tensor",
    "type_id",
]
__all__ += context.__all__


def __getattr__(name: str) -> Any:
    return BY_PUBLIC_NAME[name] if name in BY_PUBLIC_NAME else getattr(GROUP, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *BY_PUBLIC_NAME, *operators_in("")})
