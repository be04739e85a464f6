"""``nvidia.dali.types``: constants, and the names of :mod:`seqpipe.dali.dtypes`."""

from __future__ import annotations

from . import dtypes
from .data_node import Constant
from .dtypes import *  # noqa: F403  there is one list of names, that of the other module

__all__ = ["Constant"]
__all__ += dtypes.__all__
