"""Dataset parameters, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Final

from ..core.limits import main_memory_bytes
from ..core.param import Param
from ..errors import ParameterError
from ..video.device import Device

__all__ = [
    "PREFETCH",
    "PREFETCH_GIB",
    "TORCH_ADAPTER",
    "bytes_ahead",
    "check_index",
    "device_bytes",
    "one_source",
]

TORCH_ADAPTER: Final = "seqpipe.torch"
"""The package that ``torch()`` imports by name when called, since it imports pipelines and data sets itself."""

PREFETCH: Final = Param(name="prefetch", doc="Batches that are read ahead", lo=0, hi=10_000, unit="batches")
PREFETCH_GIB: Final = Param(
    name="prefetch_gib",
    doc="Memory limit of batches that are read ahead; default: a quarter of the device's memory",
    kind=float,
    lo=0,
    unit="GiB",
    optional=True,
)
_SHARE_AHEAD: Final = 0.25
_NO_BOUND: Final = 2.0**32  # GiB, more than any machine has


def one_source(sources: Mapping[str, Any]) -> str:
    """Return the name of the one argument that is not None."""
    names = [name for name, value in sources.items() if value is not None]
    if len(names) != 1:
        fact = f"{' and '.join(names)} exclude one another" if names else "there is nothing to read"
        raise ParameterError(fact, allowed=f"one of {', '.join(sources)}")
    return names[0]


def device_bytes(device: Device) -> int:
    """Return a device's total memory in bytes, free or not; for the CPU at most the container's (cgroup) limit."""
    if device.kind == "cuda":
        from ..video.cuda.memory import total_bytes

        return total_bytes(device.number)
    return main_memory_bytes()


def bytes_ahead(prefetch_gib: float | None, device: Device) -> int:
    """Return the memory limit in bytes for batches that are read ahead.

    The default is a share of the device's total memory: a constant would be too much for small GPUs, and leave the
    decoders of large ones idle. A share of the free memory would make runs on one machine differ.
    """
    return int(
        _SHARE_AHEAD * device_bytes(device) if prefetch_gib is None else min(prefetch_gib, _NO_BOUND) * 2**30
    )


def check_index(index: Any, total: int) -> int:
    """Return the sample index as an int."""
    whole = int(index) if type(index) is not bool and isinstance(index, Integral) else -1
    if not 0 <= whole < total:
        raise ParameterError(f"index={index!r} is not valid", allowed=f"0 to {total - 1}")
    return whole
