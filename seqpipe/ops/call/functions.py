"""Functions of operators: ``seqpipe.fn``, its type stub, and operators defined by a function."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain
from textwrap import dedent, indent, shorten
from typing import Any, Final, overload

from ...array import Array
from ...errors import ParameterError
from ..core.declaration import REGISTRY, Declaration
from ..core.names import keyword_form, operator_hint
from ..core.parameters import ANY, COMMON, MATRIX, Parameter, sentence_of
from .op import Op

__all__ = ["Group", "call_of", "function_of", "functions", "operator", "own_operator", "stub", "table"]

_MAX_CACHED_OPERATORS: Final = 4096  # operators that are cached for calls with constant arguments
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))
_operators: dict[Any, Op] = {}
_functions: dict[str, Any] = {}
_groups: dict[str, Group] = {}

_CALL: Final = """
    Args:
        x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these with one shape each; or a DataNode.
{parameters}
        layout: layout of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
        epoch: epoch that random parameters are sampled for.
        index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it.

    Returns:
        The result, of the type of x and on the same device, in its own memory. A DataNode, if x or a parameter is
        one; epoch and index are then arguments of the seqpipe.pipeline.Graph.
"""


def functions(group: str = "") -> tuple[str, ...]:
    """Return the names of all functions and groups, or of the functions of a group such as ``reductions``."""
    before = f"{group}." if group else ""
    inside = (name.removeprefix(before) for name in REGISTRY if name.startswith(before))
    return tuple(sorted({name.partition(".")[0] for name in inside}))


class Group:
    """Namespace of functions, such as ``fn.reductions``.

    Args:
        name: name of the group.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return function_of(f"{self.__name__}.{name}")

    def __dir__(self) -> list[str]:
        return list(functions(self.__name__))

    def __repr__(self) -> str:
        return f"<functions {', '.join(f'{self.__name__}.{name}' for name in functions(self.__name__))}>"


def function_of(name: str) -> Callable[..., Any]:
    """Return the function of an operator, or the group of that name.

    Raises:
        AttributeError: there is no such operator or group.
    """
    cls = REGISTRY.get(name)
    if cls is None:
        if name in _groups or functions(name):
            return _groups.setdefault(name, Group(name))  # type: ignore[return-value]  # of functions
        group, _, last = name.rpartition(".")
        module = f"seqpipe.fn.{group}" if group else "seqpipe.fn"
        known = functions(group)
        near = operator_hint(last, known, functions=True)
        raise AttributeError(
            f"module {module!r} has no attribute {last!r}; it has {', '.join(known)}{near and f'. {near}'}"
        )
    kept = _functions.get(name)
    if kept is None or kept.op is not cls:
        kept = _functions[name] = _create(name, cls)
    return kept  # type: ignore[no-any-return]  # a function, to which an attribute is added


def _create(name: str, cls: Any) -> Any:
    """Return the function of an operator, with its signature and documentation."""
    inputs, keywords = call_of(cls)
    by_name = [option.name for option in keywords]
    several = any(q.kind is q.VAR_POSITIONAL for q in inputs)
    most = sys.maxsize if several else len(inputs)
    needs_input = bool(inputs) and not several and inputs[0].default is inspect.Parameter.empty

    def function(*positional: Any, **arguments: Any) -> Any:
        if not positional and needs_input:
            if cls.is_function:
                return _operator(cls, arguments)
            raise _without_input(cls, inputs[0].name, arguments)
        options = {key: arguments.pop(key) for key in by_name if key in arguments}
        if len(positional) > most > 0:
            others = positional[most:]
            form = "" if hasattr(others[0], "shape") else keyword_form(cls, others)
            raise ParameterError(
                f"{len(positional)} positional arguments",
                source=name,
                allowed=f"{', '.join(q.name for q in inputs)} by position, parameters by keyword",
                advice=f"fn.{name}(…, {form})" if form else "",
            )
        return _operator(cls, arguments)(*positional, **options)

    parameters = cls.__signature__.parameters.values()
    described: Any = function
    described.op = cls
    described.__signature__ = inspect.Signature([*inputs, *parameters, *keywords])
    function.__name__ = name.rpartition(".")[2]
    function.__qualname__ = name
    function.__module__ = "seqpipe.fn"
    lines = "\n".join(f"        {q.name}: {sentence_of(cls, q)}" for q in cls.parameters)
    if cls.traits.takes == "images":
        call = _CALL.format(parameters=lines)
    else:
        nodes = "\nThe result for a DataNode is a DataNode.\n" if inputs else ""
        call = f"\nParameters:\n{indent(dedent(lines), '    ')}\n\n{inspect.getdoc(cls.__call__)}\n{nodes}"
    function.__doc__ = f"{cls.summary}\n{call}"
    return function


def own_operator(value: Any) -> Op | None:
    """Return the operator that a function of a user stands for; None for every other value."""
    cls = getattr(value, "op", None) if inspect.isfunction(value) else None
    return cls() if isinstance(cls, type) and getattr(cls, "is_function", False) else None


def _without_input(cls: Any, name: str, arguments: dict[str, Any]) -> ParameterError:
    """Return the error for a function that is called without data."""
    if name in arguments:
        return ParameterError(
            f"{name} is given by keyword",
            source=cls.name,
            advice=f"Pass it by position: fn.{cls.name}({name}, …)",
        )
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return ParameterError(
        f"there is no {name} to apply it to",
        source=cls.name,
        allowed=f"fn.{cls.name}({', '.join(filter(None, (name, given)))})",
        advice=f"ops.{cls.__name__}({given}) creates the operator, for chains",
    )


def call_of(cls: Any) -> tuple[list[inspect.Parameter], list[inspect.Parameter]]:
    """Return the positional and the keyword arguments of an operator's call."""
    _, *all_of_them = inspect.signature(cls.__call__).parameters.values()
    inputs = [q for q in all_of_them if q.kind is not q.KEYWORD_ONLY]
    options = [q for q in all_of_them if q.kind is q.KEYWORD_ONLY]
    return [q if q.kind is q.VAR_POSITIONAL else q.replace(kind=q.POSITIONAL_ONLY) for q in inputs], options


def _operator(cls: type[Op], arguments: dict[str, Any]) -> Op:
    """Return the operator with some arguments; cached if these are constants."""
    values = tuple(arguments.values())
    kinds: tuple[Any, ...] = tuple(map(type, values))
    if not _PLAIN.issuperset(kinds):
        kinds = tuple(tuple(map(type, v)) if type(v) is tuple else type(v) for v in values)
        inner = chain.from_iterable(kind if type(kind) is tuple else (kind,) for kind in kinds)
        if not _PLAIN.issuperset(inner):
            return cls(**arguments)
    # with the types, because True, 1 and 1.0 are equal and have one hash
    key = cls, tuple(arguments), values, kinds
    operator = _operators.get(key)
    if operator is None:
        if len(_operators) >= _MAX_CACHED_OPERATORS:
            _operators.clear()
        operator = _operators[key] = cls(**arguments)
    return operator


_HEAD = """# Written by `python -m seqpipe.ops` from the registry of operators; a test compares the two.
from typing import Any, Literal, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from seqpipe import ops
from seqpipe.ops import BoxCrop, DataNode, Mixed

X = TypeVar("X")
# the result for a node is a node, although it is annotated as X: DataNode has no public call type of its own
Number: TypeAlias = ops.Number | DataNode
Flag: TypeAlias = ops.Flag | DataNode

"""


def stub() -> str:
    """Return the text of the file."""
    own = [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]
    text = _HEAD + "".join(_function(cls) for cls in own if "." not in cls.name)
    groups = {cls.name.partition(".")[0]: "" for cls in own if "." in cls.name}
    for group in groups:
        inside = (_function(cls) for cls in own if cls.name.startswith(f"{group}."))
        text += f"class {group}:\n" + indent(
            "".join(f"@staticmethod\n{function}" for function in inside), "    "
        )
    return text


def _function(cls: type[Declaration]) -> str:
    inputs, options = call_of(cls)
    several = any(q.kind is q.VAR_POSITIONAL for q in inputs)
    lines = [f"*{_argument(q)}" for q in inputs] if several else [*map(_argument, inputs), *"/*"]
    lines = lines if inputs else ["*"]
    lines += [f"{q.name}: {_type(q)} = {q.default!r}" for q in cls.parameters]
    lines += map(_argument, options)
    arguments = "".join(f"    {line},\n" for line in lines)
    call: Any = cls
    return f"def {cls.name.rpartition('.')[2]}(\n{arguments}) -> {call.__call__.__annotations__['return']}: ...\n"


def _argument(q: inspect.Parameter) -> str:
    default = "" if q.default is q.empty else f" = {q.default!r}"
    return f"{q.name}: {q.annotation}{default}"


def _type(q: Parameter) -> str:
    none = " | None" if q.param.optional else ""
    if q.hint:
        return q.hint + none
    if q.drawn:
        return "Flag" if q.param.kind is bool else f"Number{none}"
    kind = q.param.kind.__name__
    if q.param.choices:
        kind = f"Literal[{', '.join(f'{choice!r}' for choice in q.param.choices)}]".replace("'", '"')
    if q.size == MATRIX:
        kind = "ArrayLike"
    elif q.size == ANY:
        constant = "" if q.param.kind is str else f"{kind} | "
        kind = f"{constant}list[{kind}] | tuple[{kind}, ...]"
    elif q.size:
        kind = f"tuple[{', '.join([kind] * q.size)}]"
    return kind + none


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
    """Return the name of a function, and of its arguments after the images."""
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


_MARKUP: Final = re.compile(r":[a-z]+:(?=`)|`")
_WIDTH: Final = 100  # columns of a terminal


def table(*, markdown: bool = False) -> str:
    """Return a table of all built-in operators, one line for each.

    Args:
        markdown: whether to format it as Markdown, with parameters, dtypes, channels and backends.
    """
    own = [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]
    if markdown:
        head = "| operator | what it does | parameters | types | channels | backends |\n" + "|---" * 6 + "|\n"
        return head + "".join(map(_row, own))
    wide = max(len(cls.name) for cls in own)
    plain = (_MARKUP.sub("", cls.summary.partition("\n")[0]) for cls in own)
    lines = (shorten(line, _WIDTH - wide - 2, placeholder=" …") for line in plain)
    return "\n".join(f"{cls.name:<{wide}}  {line}" for cls, line in zip(own, lines, strict=True))


def _row(cls: type[Declaration]) -> str:
    parameters = ", ".join(f"`{q.name}={q.default!r}`" for q in cls.parameters if q.name not in COMMON)
    channels = " or ".join(map(str, cls.traits.channels)) or "any"
    what = cls.summary.partition("\n")[0]
    backends = "CPU, CUDA" if cls.traits.body or cls.traits.composed else "CPU, CuPy"
    if cls.traits.takes not in ("images", "batches"):
        channels, backends = (
            cls.traits.takes,
            "CPU" if cls.traits.takes in ("boxes", "nothing") else "CPU, CuPy",
        )
    return f"| `{cls.name}` | {what} | {parameters} | {', '.join(cls.traits.dtypes)} | {channels} | {backends} |\n"
