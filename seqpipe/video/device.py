"""Devices by name, and who decodes for them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Final, Literal

from ..errors import BackendError, ParameterError
from ..param import Param, choice

__all__ = ["DECODE", "STREAM", "THREADS", "Decode", "Device", "parse_device", "parse_devices"]

Decode = Literal["auto", "nvdec", "mixed", "cpu"]
DECODE: Final = choice(
    "decode",
    "who decodes for a GPU: its engines, and the CPU what they cannot (auto); the engines alone (nvdec); "
    "engines and CPU side by side (mixed); the CPU alone (cpu)",
    ("auto", "nvdec", "mixed", "cpu"),
)
THREADS: Final = Param(
    name="threads", doc="Threads that decode; one for each core unless given", lo=1, hi=4096, optional=True
)
STREAM: Final = Param(
    name="stream",
    doc="Which of the file's streams, by its number in the container; the best video unless given",
    lo=0,
    hi=2**31 - 1,
    optional=True,
)
_log = logging.getLogger(__name__)
_NAME = re.compile(r"cpu|auto|cuda(?::(\d{1,9}))?")


@dataclass(frozen=True)
class Device:
    """Where frames are to be.

    Attributes:
        kind: ``"cpu"`` or ``"cuda"``.
        number: of the GPU among those that the process sees.
    """

    kind: Literal["cpu", "cuda"]
    number: int = 0

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"cuda:{self.number}"


def parse_device(name: str) -> Device:
    """The device of a name: "cpu", "cuda", "cuda:1"; "auto" is the first GPU that can be used, else the CPU.

    Raises:
        ParameterError: it is no name of a device.
        BackendError: there is no such GPU, or what is needed to use it is missing.
    """
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise ParameterError(f"device={name!r} is unknown", allowed="'cpu', 'cuda', 'cuda:N', 'auto'")
    if name == "cpu":
        return Device("cpu")
    if name == "auto":
        try:
            return _usable(0)
        except BackendError as error:
            _log.info("device='auto' is the CPU: %s", error)
            return Device("cpu")
    return _usable(int(found[1] or 0))


def parse_devices(name: str) -> tuple[Device, ...]:
    """The devices of a name; beside those of :func:`parse_device`, "cuda:all" stands for all GPUs that there are.

    Raises:
        ParameterError: it is no name of a device.
        BackendError: there is no such GPU, or what is needed to use it is missing.
    """
    if name != "cuda:all":
        try:
            return (parse_device(name),)
        except ParameterError as error:
            error.allowed = f"{error.allowed}, 'cuda:all'"
            raise
    from ..kernel import device_count

    first = _usable(0)
    return (first, *(Device("cuda", number) for number in range(1, device_count())))


def _usable(number: int) -> Device:
    from ..kernel import CudaDevice

    CudaDevice(number)
    from .nvdec.cuvid import load  # here: most machines have no GPU

    load()
    return Device("cuda", number)
