"""``nvidia.dali.plugin.numba``: functions that Numba compiles, ``fn.experimental.numba_function`` and its class."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .. import fn as functions
from .. import ops

__all__ = ["NumbaFunction", "experimental", "fn"]


def _module(name: str, **members: Any) -> ModuleType:
    """Return a submodule of this one, which can be imported."""
    made = ModuleType(f"{__name__}.{name}")
    vars(made).update(members, __all__=sorted(members), __path__=[])
    sys.modules[made.__name__] = made
    return made


NumbaFunction = ops.NumbaFunction
experimental = _module("experimental", NumbaFunction=NumbaFunction)
fn = _module("fn", experimental=_module("fn.experimental", numba_function=functions.numba_function))
__path__: list[str] = []
