"""pipeline_def: functions that give nodes become functions that give pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from ..errors import ParameterError
from .rewrite import rewritten
from .running import Pipeline

__all__ = ["pipeline_def"]

_RESERVED: Final = tuple(name for name in inspect.signature(Pipeline.__init__).parameters if name != "self")


def pipeline_def(
    fn: Callable[..., Any] | None = None, *, enable_conditionals: bool = False, **options: Any
) -> Callable[..., Any]:
    """A decorator: a function that gives nodes becomes one that gives a pipeline.

    With or without arguments, ``@pipeline_def`` and ``@pipeline_def(batch_size=8, …)``. Arguments of
    :class:`Pipeline` may be given here, or when the function is called, beside its own.

    Args:
        fn: the function.
        enable_conditionals: whether ``if``, ``and``, ``or`` and ``not`` work on nodes in it.
        **options: for the pipeline.

    Raises:
        ParameterError: there is no such argument.
    """
    unknown = [name for name in options if name not in _RESERVED]
    if unknown:
        raise ParameterError(
            f"there is no argument {unknown[0]!r}", source="pipeline_def", allowed=", ".join(_RESERVED)
        )

    def decorated(function: Callable[..., Any]) -> Callable[..., Pipeline]:
        taken = inspect.signature(function).parameters

        @functools.wraps(function)
        def create(*args: Any, **kwargs: Any) -> Pipeline:
            conditionals = kwargs.pop("enable_conditionals", enable_conditionals)
            own = {name: value for name, value in kwargs.items() if name in _RESERVED}
            given = {name: value for name, value in kwargs.items() if name not in _RESERVED or name in taken}
            pipe = Pipeline(**{**options, **own})
            defined = rewritten(function) if conditionals else function
            with pipe:
                made = defined(*args, **given)
            pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else (made,)))
            return pipe

        return create

    return decorated if fn is None else decorated(fn)
