"""``@seqpipe.operator``: a function on arrays made an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..array import Array
from ..errors import ParameterError
from ._function import function_of
from ._op import Op

__all__ = ["operator"]


def operator(function: Callable[..., Array]) -> Callable[..., Any]:
    """Make an operator of a function, as a decorator.

    The function is given images ``(F, H, W, C)`` in float32 (NumPy, or CuPy on a GPU) and its parameters as
    numbers, and returns images of the same shape; they are rounded to the type that came in. Its parameters have
    a default made by :func:`seqpipe.ops.param`::

        @seqpipe.operator
        def vignette(x, *, strength=param(0.5, "how dark the corners become", lo=0, hi=1, identity=0.0)):
            "Darken the corners."
            …

        vignette(clip, strength=(0.2, 0.6), seed=7)          # seqpipe.fn.vignette is the same function

    Returns:
        A function as those of :mod:`seqpipe.fn`; its attribute ``op`` is the operator's class.

    Raises:
        ParameterError: there is an operator of that name, or a parameter is not declared.
    """
    x, *parameters = inspect.signature(function).parameters.values()
    if x.default is not inspect.Parameter.empty or not function.__doc__:
        raise ParameterError(
            f"the function {function.__name__} cannot be an operator",
            allowed="a function of images and of parameters declared by param(), with a docstring",
        )

    def reference(self: Op, images: Array, p: Any) -> Array:  # noqa: ARG001  the function has no self
        return function(images, **{q.name: getattr(p, q.name) for q in parameters})

    namespace = {
        "__doc__": inspect.getdoc(function),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__annotations__": {q.name: Any for q in parameters},
        "reference": reference,
        **{q.name: q.default for q in parameters},
    }
    name = "".join(part.title() for part in function.__name__.split("_"))
    kind: Any = type(Op)
    cls: Any = kind(name, (Op,), namespace, name=function.__name__)
    made: Any = function_of(function.__name__)
    made.op, made.__module__ = cls, function.__module__
    return made  # type: ignore[no-any-return]  # a function, to which attributes are added
