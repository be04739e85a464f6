"""GPUs of this machine, with the streams that they decode."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from ...core.kernel import device_count, load_cupy
from ...errors import BackendError
from ..nvdec.cuvid import CHROMA, CODECS
from ..nvdec.hardware import ability

__all__ = ["GpuInfo", "gpus", "launch_functions"]

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_LAUNCH_FUNCTIONS: Final = ("cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize")


@cache
def launch_functions() -> tuple[int, ...]:
    """Return the addresses of the functions that launch a kernel, record an event, and wait for an event or stream."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise BackendError(
            f"{_LIBRARY}, the NVIDIA driver, cannot be loaded ({error})",
            advice="Install the NVIDIA driver, or use device='cpu'",
        ) from error
    return tuple(
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _LAUNCH_FUNCTIONS
    )


_BITS = (8, 10, 12)


@dataclass(frozen=True)
class GpuInfo:
    """Properties of one GPU.

    Attributes:
        number: GPU number, as in ``cuda:N``.
        name: the driver's name of the GPU.
        capability: compute capability, such as "9.0".
        memory_bytes: total memory.
        engines: number of NVDEC engines.
        decodes: supported codecs with chroma format and bits per sample, such as "h264 4:2:0 8".
    """

    number: int
    name: str
    capability: str
    memory_bytes: int
    engines: int
    decodes: tuple[str, ...]


def gpus() -> list[GpuInfo]:
    """Return the GPUs visible to this process."""
    return [_gpu_info(number) for number in range(device_count())]


def _gpu_info(number: int) -> GpuInfo:
    """Return name, memory and capability of a GPU."""
    runtime = load_cupy().cuda.runtime
    with load_cupy().cuda.Device(number):
        runtime.free(0)  # creates the GPU's context
        facts = runtime.getDeviceProperties(number)
        decodes = [
            f"{codec} {chroma} {bits}"
            for codec, code in CODECS.items()
            for chroma, chroma_code in CHROMA.items()
            for bits in _BITS
            if ability(number, code, chroma_code, bits).supported
        ]
        return GpuInfo(
            number=number,
            name=facts["name"].decode(),
            capability=f"{facts['major']}.{facts['minor']}",
            memory_bytes=int(facts["totalGlobalMem"]),
            engines=ability(number, CODECS["h264"], CHROMA["4:2:0"], 8).engines,
            decodes=tuple(decodes),
        )
