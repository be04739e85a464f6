"""``@seqpipe.operator``: a function on arrays made an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, overload

from ...array import Array
from ...errors import ParameterError
from .functions import function_of
from .op import Op

__all__ = ["operator"]

_COMMON: Final = frozenset(q.name for q in Op.parameters)


@overload
def operator(function: Callable[..., Array], /) -> Callable[..., Any]: ...
@overload
def operator(**parameters: Any) -> Callable[[Callable[..., Array]], Callable[..., Any]]: ...
def operator(function: Callable[..., Array] | None = None, /, **parameters: Any) -> Any:
    """Make an operator of a function, as a decorator.

    The function is given images ``(F, H, W, C)`` in float32 (NumPy, or CuPy on a GPU) and its parameters by name, as
    numbers, texts or arrays with the numbers of a vector; None, where one may be drawn, is NaN. It returns floats of
    the same shape, which are rounded to the type that came in::

        @seqpipe.operator(strength=seqpipe.ops.param(0.5, "how dark the corners become", lo=0, hi=1, identity=0.0))
        def vignette(x, strength):
            "Darken the corners."
            …

        vignette(clip, strength=(0.2, 0.6), seed=7)          # seqpipe.fn.vignette is the same function

    Args:
        function: what it does; its first argument are the images.
        **parameters: each of the others, declared by :func:`seqpipe.ops.param`.

    Returns:
        A function as those of :mod:`seqpipe.fn`; its attribute ``op`` is the operator's class.

    Raises:
        ParameterError: there is an operator of that name, or the parameters are not those of the function.
    """
    return partial(_made, parameters) if function is None else _made(parameters, function)


def _made(parameters: dict[str, Any], function: Callable[..., Array]) -> Callable[..., Any]:
    name, taken = _signature_of(function)
    if set(taken) != set(parameters):
        raise ParameterError(
            f"{name} takes {', '.join(taken) or 'nothing'}, but {', '.join(parameters) or 'nothing'} is declared",
            advice=f"Declare its parameters: @seqpipe.operator({', '.join(f'{q}=param(…)' for q in taken)})",
        )
    if common := _COMMON.intersection(taken):
        raise ParameterError(
            f"{name} takes {', '.join(sorted(common))}",
            allowed="other names: all operators have these parameters, and they are not given to functions",
        )

    def reference(self: Op, images: Array, p: Any) -> Array:
        return function(images, **{q: getattr(p if q in drawn else self, q) for q in taken})

    body = {
        "__doc__": inspect.getdoc(function),
        "__module__": function.__module__,
        "__annotations__": dict.fromkeys(taken, Any),
        "reference": reference,
        **parameters,
    }
    kind: Any = type(Op)
    cls = kind("".join(part.title() for part in name.split("_")), (Op,), body, called=name)
    # what rows of a block hold; texts, and what is one value for all, are the operator's own
    drawn = {q.name for q in cls.drawable}
    made: Any = function_of(name)
    made.__module__ = function.__module__
    return made  # type: ignore[no-any-return]  # a function, to which attributes are added


def _signature_of(function: Any) -> tuple[str, list[str]]:
    """The name of a function, and of what it takes besides the images.

    Raises:
        ParameterError: it is none, or cannot be called with images by place and all else by name.
    """
    name = getattr(function, "__name__", "")
    if not (callable(function) and function.__doc__ and name.isidentifier()) or isinstance(function, type):
        raise ParameterError(
            f"{f'the function {name}' if inspect.isroutine(function) else repr(function)} cannot be an operator",
            allowed="a function with a docstring and a name",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:  # of some that are written in C
        raise ParameterError(f"{name} does not say what it takes", allowed="a function that does") from error
    images, others = [*signature.parameters.values()][:1], [*signature.parameters.values()][1:]
    by_place = any(q.kind not in (q.KEYWORD_ONLY, q.VAR_KEYWORD) for q in images)
    if not by_place or any(q.kind not in (q.POSITIONAL_OR_KEYWORD, q.KEYWORD_ONLY) for q in others):
        raise ParameterError(
            f"{name}{signature} cannot be an operator",
            allowed="a function that takes the images by place, and each of its parameters by name",
        )
    return name, [q.name for q in others]
