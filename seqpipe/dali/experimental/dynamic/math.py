"""``ndd.math``: element-wise functions of tensors and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import math
from ...declared import Row
from .calls import computed

__all__: list[str] = []


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    of_nodes = getattr(math, name)

    def function(*values: Any) -> Any:
        return computed(Row(f"math.{name}", build=lambda call: of_nodes(*call.inputs)), values, {})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = of_nodes.__doc__
    return function


def __dir__() -> list[str]:
    return dir(math)
