"""``@seqpipe.operator``: a function on arrays made an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from ..array import Array
from ..errors import ParameterError
from ._function import function_of
from ._op import Op

__all__ = ["operator"]


@overload
def operator(function: Callable[..., Array], /) -> Callable[..., Any]: ...
@overload
def operator(**parameters: Any) -> Callable[[Callable[..., Array]], Callable[..., Any]]: ...
def operator(function: Callable[..., Array] | None = None, /, **parameters: Any) -> Any:
    """Make an operator of a function, as a decorator.

    The function is given images ``(F, H, W, C)`` in float32 (NumPy, or CuPy on a GPU) and its parameters as
    numbers, and returns images of the same shape; they are rounded to the type that came in::

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
    name = function.__name__
    _, *taken = inspect.signature(function).parameters
    if not function.__doc__ or not name.isidentifier():
        raise ParameterError(
            f"the function {name} cannot be an operator", allowed="a function with a docstring and a name"
        )
    if set(taken) != set(parameters):
        raise ParameterError(
            f"{name} takes {', '.join(taken) or 'nothing'}, but {', '.join(parameters) or 'nothing'} is declared",
            advice=f"Declare its parameters: @seqpipe.operator({', '.join(f'{q}=param(…)' for q in taken)})",
        )

    def reference(self: Op, images: Array, p: Any) -> Array:  # noqa: ARG001  the function has no self
        return function(images, **{q: getattr(p, q) for q in taken})

    body = {
        "__doc__": inspect.getdoc(function),
        "__module__": function.__module__,
        "__annotations__": dict.fromkeys(taken, Any),
        "reference": reference,
        **parameters,
    }
    kind: Any = type(Op)
    kind("".join(part.title() for part in name.split("_")), (Op,), body, called=name)
    made: Any = function_of(name)
    made.__module__ = function.__module__
    return made  # type: ignore[no-any-return]  # a function, to which attributes are added
