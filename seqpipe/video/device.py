"""Device names, and the parameters that choose the decode backend."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Final, Literal

from ..core.param import Param, choice
from ..errors import BackendError, ParameterError

__all__ = ["DECODE", "STREAM", "THREADS", "DecodeChoice", "Device", "parse_device", "parse_devices"]

DecodeChoice = Literal["auto", "nvdec", "mixed", "cpu"]
DECODE: Final = choice(
    "decode",
    "What decodes for a GPU: NVDEC, with the CPU for streams that it cannot decode (auto); NVDEC alone (nvdec); "
    "NVDEC and the CPU concurrently (mixed); the CPU alone (cpu)",
    ("auto", "nvdec", "mixed", "cpu"),
)
THREADS: Final = Param(
    name="threads", doc="Number of decoding threads; by default one per core", lo=1, hi=4096, optional=True
)
STREAM: Final = Param(
    name="stream",
    doc="Stream to read, by its number in the container; by default the best video stream",
    lo=0,
    hi=2**31 - 1,
    optional=True,
)
_log = logging.getLogger(__name__)
_NAME = re.compile(r"cpu|auto|cuda(?::(\d{1,9}))?")


@dataclass(frozen=True)
class Device:
    """Device that frames are delivered on.

    Attributes:
        kind: ``"cpu"`` or ``"cuda"``.
        number: GPU number among those visible to the process.
    """

    kind: Literal["cpu", "cuda"]
    number: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"cuda:{self.number}"


def parse_device(name: str) -> Device:
    """Parse a device name: "cpu", "cuda", "cuda:1"; "auto" is the first GPU if it is usable, else the CPU."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise ParameterError(f"device={name!r} is unknown", allowed="'cpu', 'cuda', 'cuda:N', 'auto'")
    if name == "cpu":
        return Device("cpu")
    if name == "auto":
        try:
            return _usable(0)
        except BackendError as error:
            _log.info("device='auto' is the CPU: %s", error)
            return Device("cpu")
    return _usable(int(match[1] or 0))


def parse_devices(name: str) -> tuple[Device, ...]:
    """Parse a device name as :func:`parse_device` does; "cuda:all" additionally stands for all visible GPUs."""
    if name != "cuda:all":
        try:
            return (parse_device(name),)
        except ParameterError as error:
            error.allowed = f"{error.allowed}, 'cuda:all'"
            raise
    from ..core.kernel import device_count

    first = _usable(0)
    return (first, *(Device("cuda", number) for number in range(1, device_count())))


def _usable(number: int) -> Device:
    """Return a GPU after checking that CuPy and the driver's decoder work."""
    from ..core.kernel import KernelDevice

    KernelDevice(number)
    from .nvdec.cuvid import load  # imported late: most machines have no GPU

    load()
    return Device("cuda", number)
