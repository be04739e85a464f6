"""``pipeline_def``: the decorator that turns functions which return nodes into functions which return pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from ...errors import ParameterError
from ..rewrite import rewritten
from .debug import DebugPipeline
from .pipeline import Pipeline

__all__ = ["do_not_convert", "pipeline_def"]

_PIPELINE_ARGUMENTS: Final = tuple(
    name for name in inspect.signature(Pipeline.__init__).parameters if name != "self"
)


def do_not_convert(func: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a function that is called in a definition with ``enable_conditionals``: its ``if`` stays Python's."""
    func.__dict__["__conditions__"] = True
    return func


def pipeline_def(
    fn: Callable[..., Any] | None = None,
    *,
    enable_conditionals: bool = False,
    debug: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """Decorate a function that returns nodes, so that it returns a pipeline.

    Used as ``@pipeline_def`` or ``@pipeline_def(batch_size=8, …)``. Arguments of :class:`Pipeline` can also be passed
    when the function is called, in addition to its own.

    Args:
        fn: the function.
        enable_conditionals: whether ``if``, ``and``, ``or`` and ``not`` work on nodes in the function.
        debug: whether operators compute when they are called, so that ``node.get()`` tells their values; slow.
        **options: arguments of :class:`Pipeline`.

    Raises:
        ParameterError: an argument does not exist.
    """
    unknown = [name for name in options if name not in _PIPELINE_ARGUMENTS]
    if unknown:
        raise ParameterError(
            f"there is no argument {unknown[0]!r}",
            source="pipeline_def",
            allowed=", ".join(_PIPELINE_ARGUMENTS),
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Pipeline]:
        parameters = inspect.signature(function).parameters

        @functools.wraps(function)
        def create(*args: Any, **kwargs: Any) -> Pipeline:
            conditionals = kwargs.pop("enable_conditionals", enable_conditionals)
            debugs = kwargs.pop("debug", debug)
            pipeline_arguments = {
                name: value for name, value in kwargs.items() if name in _PIPELINE_ARGUMENTS
            }
            function_arguments = {
                name: value
                for name, value in kwargs.items()
                if name not in _PIPELINE_ARGUMENTS or name in parameters
            }
            pipe_options = {**options, **pipeline_arguments}
            define = rewritten(function) if conditionals else function
            if debugs:
                return DebugPipeline(functools.partial(define, *args, **function_arguments), **pipe_options)
            pipe = Pipeline(**pipe_options)
            with pipe:
                nodes = define(*args, **function_arguments)
            pipe.set_outputs(nodes)
            return pipe

        create.__dict__["is_pipeline_def"] = True
        return create

    return decorate if fn is None else decorate(fn)
