"""Arrays: layouts, one letter per axis, and conversion between NumPy, CuPy, torch and DLPack without needless copies.

Internally, seqpipe uses NumPy on the CPU and CuPy on the GPU. Other libraries are imported only when the user passes
one of their arrays (the library is then in ``sys.modules``) or asks for one by name.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import BackendError, ParameterError

__all__ = [
    "DEFAULT_LAYOUTS",
    "INSTALL_HINTS",
    "LAYOUTS",
    "Array",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "address_of",
    "as_native",
    "axis",
    "check_layout",
    "device_of",
    "distinct",
    "frame_axis",
    "is_torch",
    "namespace",
    "on_device_of",
    "on_gpu",
    "overlap",
    "scaled_values",
    "to_cupy",
    "to_numpy",
    "to_torch",
    "without_gradients",
]

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array for data on a GPU."""
IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

DEFAULT_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC", 5: "NFHWC"}
"""Layout of arrays that state none, by their number of axes."""

_SLICEWISE_BYTES: Final = 1 << 22  # bytes of stored values that are scaled slice by slice
LAYOUTS: Final = (
    "HW",
    "HWC",
    "CHW",
    "FHW",
    "FHWC",
    "FCHW",
    "CFHW",
    "DHW",
    "DHWC",
    "FDHWC",
    "NHW",
    "NHWC",
    "NCHW",
    "NFHWC",
    "NFCHW",
    "NCFHW",
    "NDHWC",
    "CDHW",
    "NDHW",
    "NCDHW",
    "NFDHWC",
)
"""N: samples, F: frames, D: slices of a volume (treated as frames), H: rows, W: columns, C: channels.

Networks with 3-D convolutions take ``CFHW`` and ``NCFHW``. In ``FDHWC``, a series of volumes, F counts time points;
operators process each time point as a volume of its own.
"""

_NO_SWITCH: AbstractContextManager[Any] = nullcontext()
_CPU_KINDS = (1, 3)  # of DLPack: kDLCPU, kDLCUDAHost (pinned memory)
INSTALL_HINTS: Final = {
    "torch": "pip install 'seqpipe[torch]'",
    "cupy": "pip install 'seqpipe[cuda12]' or 'seqpipe[cuda13]', after your driver",
}


def device_of(array: Array) -> str:
    """Return the device of an array: ``"cpu"`` or ``"cuda:N"``.

    Raises:
        ParameterError: the value is not an array.
    """
    if isinstance(array, np.ndarray):
        return "cpu"
    if _is_of(array, "cupy"):  # for DLPack it asks the driver
        return f"cuda:{int(array.device.id)}"
    if not hasattr(array, "__dlpack_device__"):
        raise _not_an_array(array)
    kind, number = array.__dlpack_device__()
    return "cpu" if int(kind) in _CPU_KINDS else f"cuda:{int(number)}"


def distinct(numbers: npt.ArrayLike) -> IntArray:
    """Return the distinct integers, ascending: :func:`numpy.unique`, without its import of ``numpy.ma``.

    Args:
        numbers: int64 of any shape.
    """
    ordered: IntArray = np.sort(np.asarray(numbers, dtype=np.int64), axis=None)
    unique: IntArray = (
        ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if ordered.size else ordered
    )
    return unique


def as_native(array: Array) -> Array:
    """Return a NumPy view of an array on the CPU, or a CuPy view of one on a GPU; never a copy.

    Subclasses of :class:`numpy.ndarray`, such as memory maps, are viewed as plain arrays, since some of them (matrix)
    redefine operators.

    Raises:
        ParameterError: the value is not an array of numbers, or some of its values are masked.
        BackendError: the array is on a GPU and CuPy is not installed.
    """
    if type(array) is np.ndarray:
        return _numbers(array)
    if _is_of(array, "cupy"):
        return array
    if isinstance(array, np.ndarray):
        if np.ma.is_masked(array):
            raise ParameterError(
                "an array with masked values",
                allowed="arrays without masked values",
                advice="Fill them with array.filled(0), and pass the mask as an array of its own",
            )
        return _numbers(array.view(np.ndarray))
    return to_numpy(array) if device_of(array) == "cpu" else to_cupy(array)


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "OUSMm" or array.dtype.names is not None:
        raise ParameterError(
            f"an array of dtype {array.dtype}",
            allowed="arrays of numbers",
            advice="Stack images of one shape with numpy.stack; pass images of several shapes as a list",
        )
    return array


def namespace(array: Array) -> ModuleType:
    """Return the module of an array's library: NumPy or CuPy.

    Args:
        array: a NumPy or CuPy array, as :func:`as_native` returns it.
    """
    return sys.modules["cupy"] if _is_of(array, "cupy") else np


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Return an array as NumPy: itself or a view on the CPU, a copy from the GPU.

    Raises:
        ParameterError: the value is not an array.
    """
    if isinstance(array, np.ndarray):
        return array
    if _is_of(array, "cupy"):
        result: npt.NDArray[Any] = array.get()
        return result
    if _is_of(array, "torch"):
        tensor = array.detach().cpu()
        # DLPack does not carry torch's negative bit, which lazy views such as x.conj().imag set
        return np.from_dlpack(tensor.resolve_neg() if tensor.is_neg() else tensor)
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    raise _not_an_array(array)


def to_torch(array: Array) -> Any:
    """Return an array as a torch tensor on the same device, without a copy unless its memory is read-only."""
    torch = _load("torch")
    if _is_of(array, "torch"):
        return array
    if isinstance(array, np.ndarray):
        # torch has no read-only tensors, and warns about read-only memory
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    return torch.from_dlpack(array)


def to_cupy(array: Array, number: int | None = None) -> Any:
    """Return an array as CuPy: itself or a view on the GPU, a copy from the CPU.

    Args:
        array: on a GPU, or on the CPU.
        number: the GPU that a copy goes to; None for the current one.
    """
    cupy = _load("cupy")
    if _is_of(array, "cupy"):
        return array
    if device_of(array) == "cpu":
        with cupy.cuda.Device(number):
            return cupy.asarray(to_numpy(array))
    return cupy.from_dlpack(array)


def overlap(first: Array, second: Array) -> bool:
    """Whether two arrays may lie in the same memory.

    Args:
        first: as :func:`as_native` returns it.
        second: likewise.
    """
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return type(first) is type(second) and bool(np.may_share_memory(first, second))
    return bool(first.data.mem.ptr == second.data.mem.ptr)


def on_device_of(array: Array) -> AbstractContextManager[Any]:
    """Return a context in which CuPy allocates memory and launches kernels on an array's device."""
    if isinstance(array, np.ndarray):
        return _NO_SWITCH
    cuda, number = namespace(array).cuda, int(array.device.id)
    if cuda.runtime.getDevice() == number:  # entering cuda.Device costs several microseconds
        return _NO_SWITCH
    device: AbstractContextManager[Any] = cuda.Device(number)
    return device


def on_gpu(number: int) -> AbstractContextManager[Any]:
    """Return a context in which a GPU, given by its number, is the thread's current device.

    Raises:
        BackendError: CuPy is not installed.
    """
    device: AbstractContextManager[Any] = _load("cupy").cuda.Device(number)
    return device


def without_gradients() -> AbstractContextManager[Any]:
    """Return a context in which torch records no gradients.

    Raises:
        BackendError: torch is not installed.
    """
    context: AbstractContextManager[Any] = _load("torch").inference_mode()
    return context


def is_torch(value: Any) -> bool:
    """Return whether a value is a torch tensor, or of a subclass such as MONAI's MetaTensor."""
    return _is_of(value, "torch")


def _is_of(array: Array, library: str) -> bool:
    if library not in sys.modules:
        return False
    kind = type(array)
    return kind.__module__.partition(".")[0] == library or any(
        base.__module__.partition(".")[0] == library for base in kind.__mro__[1:-1]
    )


def _not_an_array(value: Array) -> ParameterError:
    return ParameterError(
        f"an object of type {type(value).__name__} is not an array",
        allowed="NumPy, CuPy and torch arrays, and others that support DLPack",
    )


def _load(library: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise BackendError(
            f"{library} is not installed", advice=f"Install it: {INSTALL_HINTS[library]}"
        ) from error


def address_of(array: Array) -> int:
    """Return the address of an array's data on its device."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def check_layout(layout: str, ndim: int) -> str:
    """Return the layout, checked against the array's number of axes."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ParameterError(f"layout={layout!r} is unknown", allowed=", ".join(LAYOUTS))
    if len(layout) != ndim:
        raise ParameterError(
            f"layout={layout!r} names {len(layout)} axes, but the array has {ndim}",
            allowed=", ".join(known for known in LAYOUTS if len(known) == ndim),
        )
    return layout


def axis(layout: str, letter: str) -> int | None:
    """Return the position of a letter's axis, or None if the layout lacks it."""
    position = layout.find(letter)
    return position if position >= 0 else None


def frame_axis(layout: str) -> int | None:
    """Return the position of the axis of frames: F, or D for a volume; None for a single image."""
    frames = axis(layout, "F")
    return frames if frames is not None else axis(layout, "D")


def scaled_values(stored: Array, slope: float, intercept: float) -> Array:
    """Return ``stored * slope + intercept``; see :meth:`seqpipe.Sequence.scaled` for the dtype."""
    kind = _scaled_type(np.dtype(stored.dtype), slope, intercept)
    if kind.kind == "i":
        data = stored.astype(kind)
        if slope != 1:
            data *= kind.type(slope)
        if intercept:
            data += kind.type(intercept)
        return data
    xp = namespace(stored)
    if xp is not np or stored.nbytes < _SLICEWISE_BYTES or stored.dtype.kind == "c":
        return _in_float64(stored, slope, intercept)
    data = np.empty(stored.shape, np.float32)
    for plane, target in zip(
        stored.reshape(-1, *stored.shape[-3:]), data.reshape(-1, *data.shape[-3:]), strict=True
    ):
        target[...] = _in_float64(plane, slope, intercept)  # slice by slice: float64 stays in the CPU's cache
    return data


def _in_float64(stored: Array, slope: float, intercept: float) -> Array:
    data = stored.astype(np.complex128 if stored.dtype.kind == "c" else np.float64)
    data *= slope
    if intercept:
        data += intercept
    return data.astype(np.complex64 if data.dtype.kind == "c" else np.float32)


def _scaled_type(stored: np.dtype[Any], slope: float, intercept: float) -> np.dtype[Any]:
    """Return the smallest of int16, int32 and int64 that holds all scaled values of an integer dtype; else float32."""
    if stored.kind in "iu" and slope.is_integer() and intercept.is_integer():
        limits = np.iinfo(stored)
        ends = [int(limits.min) * int(slope) + int(intercept), int(limits.max) * int(slope) + int(intercept)]
        for kind in (np.int16, np.int32, np.int64):
            if np.iinfo(kind).min <= min(ends) and max(ends) <= np.iinfo(kind).max:
                return np.dtype(kind)
    return np.dtype(np.float32)
