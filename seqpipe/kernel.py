"""CUDA kernels: sources in ``.cu`` files beside the modules that launch them, compiled when first launched.

Sources are compiled by NVRTC through CuPy, for the device at hand, and kept for the process; CuPy keeps what it
compiled on disk, too. A source says in comments which sets of macros it is compiled with, one set in each line that
begins with ``// variant:``; a test compiles them all for every architecture, without a GPU.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from .array import Array
from .cached import cached_property
from .errors import BackendError
from .source_text import source_text

__all__ = [
    "CudaDevice",
    "CudaSource",
    "Defines",
    "KernelDevice",
    "all_sources",
    "compile_options",
    "device_count",
    "load_cupy",
]

Defines = Mapping[str, int]
"""Macros by name."""

_EXTRAS: Final = "pip install 'seqpipe[cuda12]' or 'seqpipe[cuda13]', after your driver"
_FOLDER: Final = "Set CUPY_CACHE_DIR to a folder that you may write to, where CuPy keeps kernels"
_HERE: Final[AbstractContextManager[Any]] = nullcontext()
_SHORT: Final = 4096  # bytes of arguments
_LONG: Final = 32764  # since CUDA 12.1
_VARIANT = re.compile(r"^// variant: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class CudaSource:
    """A CUDA source of the package.

    Attributes:
        package: the package whose folder it lies in.
        name: its file's name.
    """

    package: str
    name: str

    @cached_property
    def text(self) -> str:
        """The source."""
        return source_text(self.package, self.name)

    @property
    def variants(self) -> tuple[dict[str, int], ...]:
        """The sets of macros that its comments name."""
        lines = _VARIANT.findall(self.text)
        pairs = ((part.partition("=") for part in line.split()) for line in lines)
        return tuple({name: int(value) for name, _, value in line} for line in pairs)


def all_sources() -> tuple[CudaSource, ...]:
    """Every CUDA source of seqpipe, by package and name."""
    from importlib import resources

    root = __name__.partition(".")[0]
    return tuple(sorted(_sources_in(root, resources.files(root)), key=lambda s: (s.package, s.name)))


def _sources_in(package: str, folder: Any) -> list[CudaSource]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.joinpath("__init__.py").is_file():
            found += _sources_in(f"{package}.{entry.name}", entry)
        elif entry.name.endswith(".cu"):
            found.append(CudaSource(package, entry.name))
    return found


def compile_options(defines: Defines) -> tuple[str, ...]:
    """What NVRTC is given besides the source and the architecture."""
    return ("--std=c++17", *(f"-D{name}={value}" for name, value in sorted(defines.items())))


class KernelDevice(Protocol):
    """What kernels run on: a GPU, or in tests something that takes its place."""

    @property
    def argument_bytes(self) -> int:
        """How long the argument of a kernel may be."""

    def launch(
        self,
        source: CudaSource,
        function: str,
        defines: Defines,
        grid: tuple[int, int, int],
        block: int,
        argument: npt.NDArray[Any],
        stream: Any,
    ) -> None:
        """Start a kernel.

        Args:
            source: its source.
            function: its name.
            defines: macros that the source is compiled with.
            grid: blocks along x, y and z.
            block: threads of a block, along x.
            argument: an array without axes, given by value; a structure is laid out as C lays it out.
            stream: where it is queued; None for CuPy's current stream.
        """

    def handle(self, source: CudaSource, function: str, defines: Defines) -> int:
        """What the driver knows a compiled kernel by; the device must be the current one."""


class CudaDevice:
    """One GPU of the machine, through CuPy. May be used by several threads.

    Args:
        number: the device's number.

    Raises:
        BackendError: CuPy is missing or does not fit the driver, or there is no such device.
    """

    def __init__(self, number: int) -> None:
        self._cupy = load_cupy()
        self.number = number
        devices = self._cupy.cuda.runtime.getDeviceCount()
        if not 0 <= number < devices:
            raise BackendError(
                f"there is no device cuda:{number}",
                allowed=", ".join(f"cuda:{known}" for known in range(devices)),
                advice="CUDA_VISIBLE_DEVICES decides which GPUs a process sees",
            )

    @cached_property
    def argument_bytes(self) -> int:
        """How long the argument of a kernel may be."""
        cuda = self._cupy.cuda
        compiler, driver = cuda.nvrtc.getVersion(), int(cuda.runtime.driverGetVersion())
        return _LONG if compiler >= (12, 1) and driver >= 12010 else _SHORT

    def launch(
        self,
        source: CudaSource,
        function: str,
        defines: Defines,
        grid: tuple[int, int, int],
        block: int,
        argument: npt.NDArray[Any],
        stream: Any,
    ) -> None:
        """Start a kernel; see :meth:`KernelDevice.launch`.

        Raises:
            BackendError: NVRTC is missing.
        """
        with self._current(stream):
            kernel = _kernel(self._cupy, source, function, defines, self.number)
            kernel(grid, (block, 1, 1), (_plain(argument),))

    def handle(self, source: CudaSource, function: str, defines: Defines) -> int:
        """What the driver knows a compiled kernel by; see :meth:`KernelDevice.handle`.

        Raises:
            BackendError: NVRTC is missing.
        """
        return int(_kernel(self._cupy, source, function, defines, self.number).kernel.ptr)

    def _current(self, stream: Any) -> AbstractContextManager[Any]:
        """A context in which this device, and a stream of it, are the current ones; None is the stream that is so."""
        if stream is None and self._cupy.cuda.runtime.getDevice() == self.number:
            return _HERE  # to enter the device anew would take time
        return self._entered(stream)

    @contextmanager
    def _entered(self, stream: Any) -> Iterator[None]:
        cuda = self._cupy.cuda
        with cuda.Device(self.number), cuda.get_current_stream() if stream is None else stream:
            yield


def _plain(argument: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory without fields.

    CuPy has NumPy describe the argument, and fields are described in Python: slowly, and a Ctrl-C there is lost.
    """
    return argument if argument.dtype.names is None else argument.view(_bytes(argument.itemsize))


@lru_cache(maxsize=64)
def _bytes(length: int) -> np.dtype[np.void]:
    return np.dtype((np.void, length))


def device_count() -> int:
    """How many GPUs this process sees.

    Raises:
        BackendError: CuPy is missing or does not fit the driver.
    """
    return int(load_cupy().cuda.runtime.getDeviceCount())


_compiled: dict[Any, Array] = {}
_compiling = threading.Lock()


def _kernel(cupy: ModuleType, source: CudaSource, function: str, defines: Defines, device: int) -> Any:
    """The compiled kernel, compiled once for each device; the device must be the current one."""
    key = (source, function, frozenset(defines.items()), device)
    kernel = _compiled.get(key)
    if kernel is None:
        with _compiling:
            kernel = _compiled.get(key)
            if kernel is None:
                kernel = _compiled[key] = _compile(cupy, source, function, defines)
    return kernel


def _compile(cupy: ModuleType, source: CudaSource, function: str, defines: Defines) -> Any:
    try:
        module = cupy.RawModule(code=source.text, options=compile_options(defines), backend="nvrtc")
        return module.get_function(function)
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendError(
            f"{source.name} cannot be compiled for this GPU: {error}",
            advice=_FOLDER
            if isinstance(error, OSError)
            else f"NVRTC must fit CuPy: {_EXTRAS}; in one environment only one of the two",
        ) from error


def load_cupy() -> ModuleType:
    """CuPy, if it fits the driver.

    Raises:
        BackendError: CuPy is missing, has no folder for its kernels, or was built for a newer CUDA; or there is no
            driver or GPU.
    """
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendError("cupy is not installed, or not whole", advice=f"Install it: {_EXTRAS}") from error
    except OSError as error:  # it makes its folder when it is loaded
        raise BackendError(f"cupy cannot be loaded: {error}", advice=_FOLDER) from error
    runtime = cupy.cuda.runtime
    try:
        driver = int(runtime.driverGetVersion())
        built = int(runtime.runtimeGetVersion())
        if driver // 1000 < built // 1000:
            raise BackendError(
                f"the NVIDIA driver knows CUDA {driver // 1000}, but CuPy was built for CUDA {built // 1000}",
                advice=f"Update the driver, or install CuPy for CUDA {driver // 1000}: {_EXTRAS}",
            )
        runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise BackendError(f"CUDA cannot be used: {error}", advice="See what nvidia-smi says") from error
    return cupy
