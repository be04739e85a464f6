"""``ndd.DType`` and its instances: types of values, with DALI's short names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import numpy as np

from ....errors import ParameterError
from ...dtypes import DALIDataType, DALIImageType, DALIInterpType, to_dali_type

__all__ = ["DType", "dtype", "enumeration_of", "type_id"]


@dataclass(frozen=True)
class DType:
    """Type of the values of tensors and batches; calling it makes a tensor of the type, as ``tensor()`` does.

    Attributes:
        kind: kind of numbers.
        bits: size in bits.
        name: short name, such as ``"u8"``.
        type_id: DALI's type; None for bfloat16.
        exponent_bits: bits of the exponent of floating-point numbers, else None.
        significand_bits: bits of the significand of floating-point numbers, else None.
    """

    class Kind(Enum):
        """Kinds of numbers."""

        signed = auto()
        unsigned = auto()
        float = auto()
        bool = auto()
        enum = auto()

    kind: Kind
    bits: int
    name: str
    type_id: DALIDataType | None
    exponent_bits: int | None = None
    significand_bits: int | None = None

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.bits // 8

    def __str__(self) -> str:
        return self.name


_KIND: Final = DType.Kind
_ALL: Final = (
    *(DType(_KIND.signed, bits, f"i{bits}", DALIDataType[f"INT{bits}"]) for bits in (8, 16, 32, 64)),
    *(DType(_KIND.unsigned, bits, f"u{bits}", DALIDataType[f"UINT{bits}"]) for bits in (8, 16, 32, 64)),
    DType(_KIND.float, 16, "f16", DALIDataType.FLOAT16, 5, 10),
    DType(_KIND.float, 32, "f32", DALIDataType.FLOAT, 8, 23),
    DType(_KIND.float, 64, "f64", DALIDataType.FLOAT64, 11, 52),
    DType(_KIND.float, 16, "bfloat16", None, 8, 7),
    DType(_KIND.bool, 8, "bool", DALIDataType.BOOL),
    DType(_KIND.enum, 32, "DataType", DALIDataType.DATA_TYPE),
    DType(_KIND.enum, 32, "ImageType", DALIDataType.IMAGE_TYPE),
    DType(_KIND.enum, 32, "InterpType", DALIDataType.INTERP_TYPE),
)
_BY_NAME: Final = {item.name: item for item in _ALL}
_BY_ID: Final = {entry.type_id: entry for entry in _ALL if entry.type_id is not None}
_ENUMERATIONS: Final[dict[type, str]] = {
    DALIDataType: "DataType",
    DALIImageType: "ImageType",
    DALIInterpType: "InterpType",
}
BY_PUBLIC_NAME: Final = {
    (
        str(np.dtype(f"{element.name[0]}{element.bytes}")) if element.name[1:].isdigit() else element.name
    ): element
    for element in _ALL
}
"""The types by the names that they have in the module: ``uint8``, ``float32``, ``bool`` and others."""


def enumeration_of(value: Any) -> DType | None:
    """Return the type of a member of one of DALI's enumerations; None for all else."""
    name = _ENUMERATIONS.get(type(value))
    return None if name is None else _BY_NAME[name]


def dtype(kind: Any) -> DType:
    """Return the type for a type of DALI, NumPy or Python, or for a name such as ``"u8"``.

    Raises:
        ParameterError: there is no such type.
    """
    if isinstance(kind, DType):
        return kind
    if isinstance(kind, DALIDataType):
        if kind in _BY_ID:
            return _BY_ID[kind]
    elif isinstance(kind, str) and kind in _BY_NAME:
        return _BY_NAME[kind]
    else:
        return _BY_ID[to_dali_type(kind)]
    raise ParameterError(f"dtype={kind!r} is not valid", source="ndd.dtype", allowed=", ".join(_BY_NAME))


def type_id(kind: Any) -> DALIDataType | None:
    """Return DALI's type for a type."""
    return kind if isinstance(kind, DALIDataType) else dtype(kind).type_id
