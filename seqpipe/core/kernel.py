"""Compilation and launch of CUDA kernels, whose ``.cu`` sources lie next to the modules that launch them.

NVRTC compiles a source through CuPy on first launch, for the current device; compiled kernels are cached in the
process, and by CuPy on disk. Comments of the form ``// variant: NAME=1 …`` in a source declare the sets of macros it is
compiled with; a test compiles all of them for every architecture, without a GPU.
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
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import INSTALL_HINTS, Array
from ..errors import BackendError
from .cached import cached_property
from .native import source_text

__all__ = [
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

_INSTALL: Final = INSTALL_HINTS["cupy"]
_FOLDER: Final = "Set CUPY_CACHE_DIR to a folder that you may write to, where CuPy keeps kernels"
_NO_SWITCH: Final[AbstractContextManager[Any]] = nullcontext()
_ARGUMENT_BYTES: Final = 4096
_ARGUMENT_BYTES_12_1: Final = 32764  # since CUDA 12.1
_VARIANT = re.compile(r"^// variant: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class CudaSource:
    """A CUDA source of the package.

    Attributes:
        package: the package that holds the file.
        name: file name of the source.
    """

    package: str
    name: str

    @cached_property
    def text(self) -> str:
        """The source text, with its includes."""
        return source_text(self.package, self.name)

    @property
    def variants(self) -> tuple[dict[str, int], ...]:
        """The sets of macros that the source's comments declare."""
        lines = _VARIANT.findall(self.text)
        pairs = ((part.partition("=") for part in line.split()) for line in lines)
        return tuple({name: int(value) for name, _, value in line} for line in pairs)


def all_sources() -> tuple[CudaSource, ...]:
    """Return every CUDA source of seqpipe, sorted by package and name."""
    from importlib import resources

    root = __name__.partition(".")[0]
    return tuple(sorted(_sources_in(root, resources.files(root)), key=lambda s: (s.package, s.name)))


def _sources_in(package: str, folder: Any) -> list[CudaSource]:
    result = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.joinpath("__init__.py").is_file():
            result += _sources_in(f"{package}.{entry.name}", entry)
        elif entry.name.endswith(".cu"):
            result.append(CudaSource(package, entry.name))
    return result


def compile_options(defines: Defines) -> tuple[str, ...]:
    """Return the options that NVRTC compiles with, without the architecture."""
    return ("--std=c++17", *(f"-D{name}={value}" for name, value in sorted(defines.items())))


class KernelDevice:
    """One GPU, through CuPy; thread-safe. Tests pass an emulation on the CPU in its place.

    Args:
        number: the device's number.

    Raises:
        BackendError: CuPy is missing or does not fit the driver, or the device does not exist.
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
        """The largest size of a kernel's argument in bytes."""
        cuda = self._cupy.cuda
        compiler, driver = cuda.nvrtc.getVersion(), int(cuda.runtime.driverGetVersion())
        return _ARGUMENT_BYTES_12_1 if compiler >= (12, 1) and driver >= 12010 else _ARGUMENT_BYTES

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
        """Launch a kernel.

        Args:
            source: source of the kernel.
            function: name of the kernel.
            defines: macros that the source is compiled with.
            grid: blocks along x, y and z.
            block: threads of a block, along x.
            argument: a 0-d array, passed by value; a structured dtype must have the layout of the C struct.
            stream: the stream to launch on; None for CuPy's current stream.

        Raises:
            BackendError: NVRTC is missing.
        """
        with self._current(stream):
            kernel = _kernel(self._cupy, source, function, defines, self.number)
            kernel(grid, (block, 1, 1), (_without_fields(argument),))

    def handle(self, source: CudaSource, function: str, defines: Defines) -> int:
        """Return the driver's handle (CUfunction) of a compiled kernel; the device must be current.

        Raises:
            BackendError: NVRTC is missing.
        """
        return int(_kernel(self._cupy, source, function, defines, self.number).kernel.ptr)

    def _current(self, stream: Any) -> AbstractContextManager[Any]:
        """Return a context in which this device and the stream are current; None keeps the current stream."""
        if stream is None and self._cupy.cuda.runtime.getDevice() == self.number:
            return _NO_SWITCH  # entering cuda.Device costs several microseconds
        return self._entered(stream)

    @contextmanager
    def _entered(self, stream: Any) -> Iterator[None]:
        cuda = self._cupy.cuda
        with cuda.Device(self.number), cuda.get_current_stream() if stream is None else stream:
            yield


def _without_fields(argument: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of a structured array as raw bytes."""
    # CuPy reads the array interface, whose description of fields NumPy builds in Python: slowly, and a
    # KeyboardInterrupt there is printed and lost.
    return argument if argument.dtype.names is None else argument.view(_void_dtype(argument.itemsize))


@lru_cache(maxsize=64)
def _void_dtype(length: int) -> np.dtype[np.void]:
    return np.dtype((np.void, length))


def device_count() -> int:
    """Return the number of GPUs that this process sees."""
    return int(load_cupy().cuda.runtime.getDeviceCount())


_compiled: dict[Any, Array] = {}
_compiling = threading.Lock()


def _kernel(cupy: ModuleType, source: CudaSource, function: str, defines: Defines, device: int) -> Any:
    """Return a compiled kernel, cached for each device; the device must be current."""
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
            else f"NVRTC must fit CuPy: {_INSTALL}; in one environment only one of the two",
        ) from error


def load_cupy() -> ModuleType:
    """Import CuPy, and check it against the driver."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendError("cupy is not installed, or not whole", advice=f"Install it: {_INSTALL}") from error
    except OSError as error:  # CuPy creates its cache folder on import
        raise BackendError(f"cupy cannot be loaded: {error}", advice=_FOLDER) from error
    runtime = cupy.cuda.runtime
    try:
        driver = int(runtime.driverGetVersion())
        built = int(runtime.runtimeGetVersion())
        if driver // 1000 < built // 1000:
            raise BackendError(
                f"the NVIDIA driver supports CUDA {driver // 1000}, but CuPy was built for CUDA {built // 1000}",
                advice=f"Update the driver, or install CuPy for CUDA {driver // 1000}: {_INSTALL}",
            )
        runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise BackendError(
            f"CUDA cannot be used: {error}", advice="Check the output of nvidia-smi"
        ) from error
    return cupy
