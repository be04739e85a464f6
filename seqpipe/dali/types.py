"""``nvidia.dali.types``: constants, the names of :mod:`seqpipe.dali.dtypes`, and the members of its enumerations."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .data_node import Constant
from .dtypes import *  # noqa: F403  there is one list of names, that of the other module

__all__ = ["Constant"]
__all__ += dtypes.__all__

for _enumeration in (dtypes.DALIDataType, dtypes.DALIImageType, dtypes.DALIInterpType):
    globals().update(_enumeration.__members__)
    __all__ += _enumeration.__members__


def __getattr__(name: str) -> Any:  # the members, for type checkers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
