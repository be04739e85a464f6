"""Enumerations and numbers with types of ``nvidia.dali.types``."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np

from ..array import Array, namespace
from ..errors import ParameterError, described_type
from ..ops.core.arithmetic import cast_array
from .sources.external import BatchInfo, SampleInfo

__all__ = [
    "CPU_ONLY_DEVICE_ID",
    "NCHW",
    "NFCHW",
    "NFHWC",
    "NHWC",
    "BatchInfo",
    "DALIDataType",
    "DALIImageType",
    "DALIInterpType",
    "OperatorConcurrency",
    "PipelineAPIType",
    "SampleInfo",
    "ScalarConstant",
    "StreamPolicy",
    "TensorLayout",
    "converted",
    "dali_type",
    "dtype_name",
    "to_dali_type",
    "to_numpy_type",
]


class _Named(IntEnum):
    """Base of enumerations that are printed as in DALI."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class DALIDataType(_Named):
    """Data types, with DALI's numbers."""

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22


class PipelineAPIType(_Named):
    """How a pipeline is run: by ``run()``, by an iterator, or by ``schedule_run()``."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class StreamPolicy(_Named):
    """DALI's assignment of CUDA streams, which has no effect."""

    UNSPECIFIED = 0
    SINGLE = 16
    PER_BACKEND = 32
    PER_OPERATOR = 48


class OperatorConcurrency(_Named):
    """Which of DALI's operators may run at once, which has no effect."""

    UNSPECIFIED = 0
    NONE = 2
    BACKEND = 4
    FULL = 6


class DALIInterpType(_Named):
    """Interpolation filters for resampling."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class DALIImageType(_Named):
    """Color formats of images."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


CPU_ONLY_DEVICE_ID: Final = -99999
"""DALI's number for a pipeline without a GPU."""
TensorLayout = str
"""Layouts are plain text."""

NHWC: Final = "HWC"
NCHW: Final = "CHW"
NFHWC: Final = "FHWC"
NFCHW: Final = "FCHW"

_NUMPY: Final = {
    DALIDataType.FLOAT: "float32",
    DALIDataType.BOOL: "bool",
    **{kind: kind.name.lower() for kind in DALIDataType if kind.name[-1].isdigit()},
}
_DALI: Final = {name: kind for kind, name in _NUMPY.items()}


def dtype_name(kind: Any) -> str:
    """Return the NumPy name of a type of DALI, NumPy or Python.

    Raises:
        ParameterError: the argument is not a type of numbers.
    """
    if isinstance(kind, DALIDataType):
        if kind not in _NUMPY:
            raise ParameterError(
                f"{kind.name} is no type of numbers", allowed=", ".join(t.name for t in _NUMPY)
            )
        return _NUMPY[kind]
    try:
        return str(np.dtype(kind).name)
    except TypeError as error:
        raise ParameterError(
            f"dtype={kind!r} is not valid", allowed="types.UINT8, types.FLOAT, … or NumPy's"
        ) from error


def to_numpy_type(kind: Any) -> Any:
    """Return the NumPy type for a type of DALI."""
    return np.dtype(dtype_name(kind)).type


def to_dali_type(framework_type: Any) -> DALIDataType:
    """Return DALI's type for a type of NumPy or Python."""
    return dali_type(dtype_name(framework_type))


def dali_type(name: str) -> DALIDataType:
    """Return DALI's type for a NumPy name."""
    return _DALI[name]


def converted(array: Array, kind: Any) -> Array:
    """Convert values to a type as DALI does: halves are rounded away from zero on the CPU, to even numbers on a GPU."""
    name = dtype_name(kind)
    if name == "bool" and array.dtype.kind == "f":  # rounded first
        return abs(array) >= 0.5
    return cast_array(array, name, away=namespace(array) is np)


class ScalarConstant:
    """A number with a type, the same for all samples of a batch; see :func:`seqpipe.dali.types.Constant`.

    Args:
        value: the number.
        dtype: its type; by default INT32, FLOAT or BOOL, or that of a NumPy number.
    """

    def __init__(self, value: Any, dtype: Any = None) -> None:
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "biuf":
            raise ParameterError(f"{described_type(value)} as a constant", allowed="a number")
        if dtype is None:
            plain = {"b": "bool", "i": "int32", "u": "int32", "f": "float32"}[array.dtype.kind]
            dtype = array.dtype if hasattr(value, "dtype") else plain
        self.dtype, self.shape = to_dali_type(dtype), ()
        self.value = array.astype(dtype_name(self.dtype)).item() if array.dtype.kind == "f" else array.item()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The number as an array without axes; one that is too large becomes the largest number of the type."""
        array: np.ndarray[Any, Any] = converted(np.asarray(self.value), self.dtype)
        return array

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, ScalarConstant):
            return self.value == other.value and self.dtype == other.dtype
        return other.__eq__(self)

    def __ne__(self, other: Any) -> Any:
        if isinstance(other, ScalarConstant):
            return not self == other
        return other.__ne__(self)

    def __hash__(self) -> int:
        return hash((self.value, self.dtype))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Constant({self.value!r}, {self.dtype.name})"


def _conversion(kind: DALIDataType) -> Callable[[ScalarConstant], ScalarConstant]:
    def convert(self: ScalarConstant) -> ScalarConstant:
        return ScalarConstant(self.value, kind)

    convert.__doc__ = f"Return the number as {kind.name}."
    return convert


for _kind, _name in _NUMPY.items():  # uint8(), float32(), bool() and others
    setattr(ScalarConstant, _name, _conversion(_kind))
