"""NaN and infinite voxels: kept, counted, and reported once per image. On a GPU nothing waits for the count."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import warn_caller
from .state import SampleState

__all__ = ["count_nonfinite", "warn_of_counts"]

_counted: deque[tuple[str, Any, Any]] = deque(maxlen=256)
"""Counts being copied from GPUs: name of the image, pinned memory, and the event after the copy."""


def count_nonfinite(state: SampleState) -> None:
    """Count the NaN and infinite voxels of a sample's images, and warn; for a GPU in a later call.

    Args:
        state: the sample.
    """
    for name, item in state.images.items():
        values = item.values
        if values.dtype.kind != "f":
            continue
        if isinstance(values, np.ndarray):
            if not bool(np.isfinite(values.sum())):
                _warn(name, int((~np.isfinite(values)).sum()))
            continue
        _count_later(name, values)


def _count_later(name: str, values: Array) -> None:
    xp = namespace(values)
    count = values.size - xp.count_nonzero(xp.isfinite(values))
    memory = xp.cuda.alloc_pinned_memory(count.nbytes)
    here = np.frombuffer(memory, count.dtype, 1).reshape(())
    count.get(out=here, blocking=False)
    event = xp.cuda.Event(disable_timing=True)
    event.record()
    _counted.append((name, (here, count, memory), event))


def warn_of_counts() -> None:
    """Warn of the counts of earlier calls on GPUs that are available by now."""
    while _counted and _counted[0][2].done:
        name, (here, *_), _ = _counted.popleft()
        _warn(name, int(here))


def _warn(name: str, count: int) -> None:
    if count:
        warn_caller(
            f"{count} voxels of {name!r} are NaN or infinite: they are kept, and left out of statistics"
        )
