"""``nvidia.dali.types``: dtypes, interpolation, colors, constants."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np

from ..errors import ParameterError
from ..pipeline.external import BatchInfo, SampleInfo

__all__ = [
    "ANY_DATA",
    "BGR",
    "BOOL",
    "CPU_ONLY_DEVICE_ID",
    "FLOAT",
    "FLOAT16",
    "FLOAT64",
    "GRAY",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "INTERP_CUBIC",
    "INTERP_GAUSSIAN",
    "INTERP_LANCZOS3",
    "INTERP_LINEAR",
    "INTERP_NN",
    "INTERP_TRIANGULAR",
    "NCHW",
    "NFCHW",
    "NFHWC",
    "NHWC",
    "NO_TYPE",
    "RGB",
    "STRING",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BatchInfo",
    "Constant",
    "DALIDataType",
    "DALIImageType",
    "DALIInterpType",
    "PipelineAPIType",
    "SampleInfo",
    "ScalarConstant",
    "TensorLayout",
    "YCbCr",
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


class PipelineAPIType(_Named):
    """How a pipeline is run: by ``run()``, by an iterator, or by ``schedule_run()``."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


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


NO_TYPE, UINT8, UINT16, UINT32, UINT64 = list(DALIDataType)[:5]
INT8, INT16, INT32, INT64, FLOAT16, FLOAT, FLOAT64, BOOL, STRING = list(DALIDataType)[5:]
INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = DALIInterpType
RGB, BGR, GRAY, YCbCr, ANY_DATA = DALIImageType

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


class Constant:
    """A value that is the same for all samples of a batch.

    Args:
        value: a number, or an array or a list of numbers.
        dtype: type of the values; by default int32, float32 or bool, or that of the array.
        shape: shape of the value; a single number is repeated.
        layout: letters of the axes.
        device: "cpu" or "gpu".
    """

    def __init__(
        self,
        value: Any,
        dtype: Any = None,
        shape: Any = None,
        layout: str | None = None,
        device: str | None = None,
    ) -> None:
        array = np.asarray(value)
        if dtype is not None:
            array = array.astype(dtype_name(dtype))
        elif (array.dtype.kind in "if" and not isinstance(value, np.ndarray)) or array.dtype in (
            np.int64,
            np.float64,
        ):
            array = array.astype("int32" if array.dtype.kind == "i" else "float32")
        if shape is not None:
            sides = tuple(shape) if np.ndim(shape) else (int(shape),)
            array = (
                array.reshape(sides)
                if array.size > 1
                else np.broadcast_to(array.reshape(-1)[0], sides).copy()
            )
        self.value, self.layout, self.device = array, layout or "", device or "cpu"

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


ScalarConstant = Constant
"""DALI's name of constants that are numbers."""
