"""``@seqpipe.operator``: an operator defined by a function on arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from ...array import Array
from ...errors import ParameterError
from ..core.fields import COMMON
from .functions import function_of
from .op import Op

__all__ = ["operator"]


@overload
def operator(function: Callable[..., Array], /) -> Callable[..., Any]: ...
@overload
def operator(**parameters: Any) -> Callable[[Callable[..., Array]], Callable[..., Any]]: ...
def operator(function: Callable[..., Array] | None = None, /, **parameters: Any) -> Any:
    """Define an operator by a function, as a decorator.

    The function gets images ``(F, H, W, C)`` in float32 (NumPy, or CuPy on a GPU) and its parameters by keyword, as
    numbers, strings or arrays with the numbers of a vector; None is NaN for parameters that can be sampled. It returns
    floats of the same shape, which are rounded to the dtype of the input::

        @seqpipe.operator(strength=seqpipe.ops.param(0.5, "how dark the corners become", lo=0, hi=1, identity=0.0))
        def vignette(x, strength):
            "Darken the corners."
            …

        vignette(clip, strength=(0.2, 0.6), seed=7)          # seqpipe.fn.vignette is the same function
        ops.Chain(ops.Flip(), vignette(strength=0.3))        # without images, it creates the operator
        ops.Chain(ops.Flip(), vignette)                      # the same with the default strength

    Args:
        function: implementation; its first argument is the array of images.
        **parameters: each of the other arguments, declared by :func:`seqpipe.ops.param`.

    Returns:
        A function as those of :mod:`seqpipe.fn`, which also stands for the operator in a chain; without images, it
        returns the operator with these parameters. Its attribute ``op`` is the operator's class.

    Raises:
        ParameterError: an operator has that name already, or the parameters are not those of the function.
    """
    return partial(_defined, parameters) if function is None else _defined(parameters, function)


def _defined(parameters: dict[str, Any], function: Callable[..., Array]) -> Callable[..., Any]:
    name, taken = _signature_of(function)
    if set(taken) != set(parameters):
        raise ParameterError(
            f"{name} takes {', '.join(taken) or 'no parameters'}, but {', '.join(parameters) or 'none'} is declared",
            advice=f"Declare its parameters: @seqpipe.operator({', '.join(f'{q}=param(…)' for q in taken)})",
        )
    if common := set(COMMON).intersection(taken):
        raise ParameterError(
            f"{name} takes {', '.join(sorted(common))}",
            allowed="other names: all operators have these parameters, and functions do not get them",
        )

    def reference(self: Op, images: Array, p: Any) -> Array:
        return function(images, **{q: getattr(p if q in drawn else self, q) for q in taken})

    body = {
        "__doc__": inspect.getdoc(function),
        "__module__": function.__module__,
        "__qualname__": f"{function.__qualname__}.op",  # where pickle finds the class
        "is_function": True,
        "__annotations__": dict.fromkeys(taken, Any),
        "reference": reference,
        **parameters,
    }
    kind: Any = type(Op)
    cls = kind(name, (Op,), body, function_name=name)
    # a block's rows hold these; strings and values common to all samples are attributes of the operator
    drawn = {q.name for q in cls.drawable}
    result: Any = function_of(name)
    result.__module__ = function.__module__
    return result  # type: ignore[no-any-return]  # a function, to which attributes are added


def _signature_of(function: Any) -> tuple[str, list[str]]:
    """Return the name of a function, and of its arguments after the images.

    Raises:
        ParameterError: it is not a function, or cannot be called with the images by position and all others by keyword.
    """
    name = getattr(function, "__name__", "")
    if not (callable(function) and function.__doc__ and name.isidentifier()) or isinstance(function, type):
        raise ParameterError(
            f"{f'the function {name}' if inspect.isroutine(function) else repr(function)} cannot be an operator",
            allowed="a function with a docstring and a name",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:  # functions written in C may have no signature
        raise ParameterError(f"{name} has no signature", allowed="a function with a signature") from error
    images, others = [*signature.parameters.values()][:1], [*signature.parameters.values()][1:]
    positional = any(q.kind not in (q.KEYWORD_ONLY, q.VAR_KEYWORD) for q in images)
    if not positional or any(q.kind not in (q.POSITIONAL_OR_KEYWORD, q.KEYWORD_ONLY) for q in others):
        raise ParameterError(
            f"{name}{signature} cannot be an operator",
            allowed="a function that takes the images by position, and each of its parameters by keyword",
        )
    return name, [q.name for q in others]
