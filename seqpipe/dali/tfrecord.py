"""``nvidia.dali.tfrecord``: descriptions of the features that ``fn.readers.tfrecord`` returns."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

from ..errors import ParameterError
from ..readers.tfrecord import Feature

__all__ = ["Feature", "FixedLenFeature", "VarLenFeature", "float32", "int64", "string"]

int64: Final = 0
string: Final = 1
float32: Final = 2

_NAMES: Final = ("int64", "string", "float32")


def FixedLenFeature(shape: Seq[int], dtype: int, default_value: Any = None) -> Feature:  # noqa: N802  DALI's name
    """Describe a feature with equally many values in all records.

    Args:
        shape: shape of the values; any for a string, of which there is one.
        dtype: ``int64``, ``string`` or ``float32``.
        default_value: value of records without the feature; None for an error.

    Raises:
        ParameterError: the dtype is not valid.
    """
    return Feature(_kind(dtype), tuple(int(length) for length in shape), default_value, varies=False)


def VarLenFeature(*description: Any) -> Feature:  # noqa: N802  DALI's name
    """Describe a feature whose number of values varies; records without it have none.

    Args:
        *description: the shape of an element of the first axis, which may be left out; the dtype, ``int64`` or
            ``float32``; and a default, which is not used.

    Raises:
        ParameterError: the description has another form, or the dtype is not valid.
    """
    shape, *rest = description if description and not isinstance(description[0], int) else ((), *description)
    if len(rest) not in (1, 2) or rest[0] == string:
        raise ParameterError(
            f"VarLenFeature{description!r} is not valid",
            allowed="VarLenFeature([partial_shape,] dtype, default_value), of int64 or float32",
            advice="Declare a single string as a FixedLenFeature",
        )
    return Feature(_kind(rest[0]), tuple(int(length) for length in shape), None, varies=True)


def _kind(dtype: int) -> str:
    if dtype not in range(len(_NAMES)):
        raise ParameterError(f"dtype={dtype!r} is not valid", allowed="tfrecord.int64, .string, .float32")
    return _NAMES[dtype]
