"""NumPy on the CPU, CuPy on the GPU, torch at the door: the one module that knows how arrays cross.

A library is looked for only when the user holds one of its arrays (it is then in ``sys.modules``) or asks for
it by name.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import BackendError, ParameterError

__all__ = [
    "Array",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "admit",
    "device_of",
    "distinct",
    "namespace",
    "on_device_of",
    "on_gpu",
    "to_cupy",
    "to_numpy",
    "to_torch",
]

Array: TypeAlias = Any
"""A NumPy array, or a CuPy array for data on a GPU."""
IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_HERE: AbstractContextManager[Any] = nullcontext()
_EXTRAS = {
    "torch": "pip install 'seqpipe[torch]'",
    "cupy": "pip install 'seqpipe[cuda12]' or 'seqpipe[cuda13]', after your driver",
}


def device_of(array: Array) -> str:
    """Where an array lives: ``"cpu"`` or ``"cuda:N"``.

    Raises:
        ParameterError: it is not an array.
    """
    if isinstance(array, np.ndarray):
        return "cpu"
    if _is_of(array, "cupy"):  # for DLPack it asks the driver
        return f"cuda:{int(array.device.id)}"
    if not hasattr(array, "__dlpack_device__"):
        raise _not_an_array(array)
    kind, number = array.__dlpack_device__()
    return "cpu" if int(kind) in (1, 3) else f"cuda:{int(number)}"


def distinct(numbers: npt.ArrayLike) -> IntArray:
    """Whole numbers, ascending, each once: :func:`numpy.unique` without ``numpy.ma``, which that imports.

    Args:
        numbers: int64 of any shape.
    """
    ordered: IntArray = np.sort(np.asarray(numbers, dtype=np.int64), axis=None)
    found: IntArray = (
        ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if ordered.size else ordered
    )
    return found


def admit(array: Array) -> Array:
    """The array as seqpipe works with it: NumPy on the CPU, CuPy on a GPU; a view, never a copy.

    An array of a class that derives from NumPy's, as of a memory map, is seen as NumPy's own: others have methods that
    mean something else, as those of a matrix do.

    Raises:
        ParameterError: it is not an array of numbers, or some of its values are masked.
        BackendError: it is on a GPU and CuPy is not installed.
    """
    if type(array) is np.ndarray:
        return _numbers(array)
    if _is_of(array, "cupy"):
        return array
    if isinstance(array, np.ndarray):
        if np.ma.is_masked(array):
            raise ParameterError(
                "an array with masked values",
                allowed="arrays whose values all count",
                advice="Say what they are: array.filled(0), and give the mask by itself",
            )
        return _numbers(array.view(np.ndarray))
    return to_numpy(array) if device_of(array) == "cpu" else to_cupy(array)


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "OUSMm" or array.dtype.names is not None:
        raise ParameterError(
            f"an array of dtype {array.dtype}",
            allowed="arrays of numbers",
            advice="Stack pictures of one shape with numpy.stack; keep those of several shapes in a list",
        )
    return array


def namespace(array: Array) -> ModuleType:
    """The library that an array belongs to: NumPy or CuPy.

    Args:
        array: as :func:`admit` gives it.
    """
    return sys.modules["cupy"] if _is_of(array, "cupy") else np


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """The array as NumPy: itself or a view on the CPU, a copy from the GPU.

    Raises:
        ParameterError: it is not an array.
    """
    if isinstance(array, np.ndarray):
        return array
    if _is_of(array, "cupy"):
        result: npt.NDArray[Any] = array.get()
        return result
    if _is_of(array, "torch"):
        tensor = array.detach().cpu()
        # DLPack leaves out that the values of a view are negated, as those of conj().imag are
        return np.from_dlpack(tensor.resolve_neg() if tensor.is_neg() else tensor)
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    raise _not_an_array(array)


def to_torch(array: Array) -> Any:
    """The array as a torch tensor on the same device; no copy where torch can share the memory."""
    torch = _load("torch")
    if _is_of(array, "torch"):
        return array
    if isinstance(array, np.ndarray):
        # torch warns at read-only memory, and it has no notion of it: give it memory of its own
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    return torch.from_dlpack(array)


def to_cupy(array: Array, number: int | None = None) -> Any:
    """The array as CuPy: itself or a view on the GPU, a copy from the CPU.

    Args:
        array: on a GPU, or on the CPU.
        number: of the GPU that a copy goes to; by default the current one.
    """
    cupy = _load("cupy")
    if _is_of(array, "cupy"):
        return array
    if device_of(array) == "cpu":
        with cupy.cuda.Device(number):
            return cupy.asarray(to_numpy(array))
    return cupy.from_dlpack(array)


def on_device_of(array: Array) -> AbstractContextManager[Any]:
    """A context in which memory is taken where an array lies, and kernels run there."""
    if isinstance(array, np.ndarray):
        return _HERE
    cuda, number = namespace(array).cuda, int(array.device.id)
    if cuda.runtime.getDevice() == number:  # to enter it takes time
        return _HERE
    device: AbstractContextManager[Any] = cuda.Device(number)
    return device


def on_gpu(number: int) -> AbstractContextManager[Any]:
    """A context in which a GPU, by its number, is the current one of the thread.

    Raises:
        BackendError: CuPy is not installed.
    """
    made: AbstractContextManager[Any] = _load("cupy").cuda.Device(number)
    return made


def _is_of(array: Array, library: str) -> bool:
    return library in sys.modules and type(array).__module__.partition(".")[0] == library


def _not_an_array(value: Array) -> ParameterError:
    return ParameterError(
        f"a {type(value).__name__} is not an array",
        allowed="NumPy, CuPy and torch arrays, and others with DLPack",
    )


def _load(library: str) -> ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise BackendError(f"{library} is not installed", advice=f"Install it: {_EXTRAS[library]}") from error
