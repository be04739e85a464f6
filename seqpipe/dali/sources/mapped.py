"""Samples that are views of mapped files: operators select parts of them, and the first that computes copies these."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...array import Array
from ..value import Value
from .staging import Staging

__all__ = ["is_mapped", "owned", "views"]


def is_mapped(part: Array) -> bool:
    """Return whether a sample is a view of memory that must not be handed out, such as that of a file."""
    return isinstance(part, np.ndarray) and not part.flags.writeable


def views(parts: Iterable[Array], layout: str = "", sources: tuple[str, ...] = ()) -> Value:
    """Return samples as a batch, as :meth:`Value.of` does, but views of mapped files are not copied."""
    samples = list(parts)
    return (
        Value(samples, layout, sources)
        if any(map(is_mapped, samples))
        else Value.of(samples, layout, sources)
    )


def owned(value: Value, memory: Staging | None = None) -> Value:
    """Return a batch whose samples are in memory of their own; views of mapped files are copied into one array.

    Args:
        value: the batch.
        memory: memory to copy them into, which is reused; None for new memory.
    """
    if value.dense or not any(map(is_mapped, value)):
        return value
    if len({(part.shape, part.dtype) for part in value}) > 1:
        return value.with_data([part.copy() if is_mapped(part) else part for part in value])
    return value.with_data((memory or Staging()).copy(value.data))
