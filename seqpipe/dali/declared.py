"""Declarations of DALI's operators: a function with an operator's arguments, and the call that it gets."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from .. import ops
from ..array import namespace
from ..errors import ParameterError, user_line
from ..ops import Run
from ..random import stream
from .data_node import Compute, DataNode, current, node_of, outputs_of
from .dtypes import dtype_name
from .value import Value

__all__ = [
    "IMAGE_LAYOUTS",
    "OPERATORS",
    "DaliCall",
    "Kind",
    "Row",
    "Seed",
    "built",
    "image_layout",
    "location",
    "operator",
]

_Build = TypeVar("_Build", bound=Callable[..., Any])
Kind: TypeAlias = "Any"
"""An argument that is a type, as NumPy's name; see :func:`operator`."""
Seed: TypeAlias = "Any"
"""The seed of an operator's random numbers; see :func:`operator`."""

IMAGE_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC"}
"""Layouts of samples that state none, by their number of axes."""


@dataclass(frozen=True)
class Row:
    """How seqpipe implements one of DALI's operators; only differences are set.

    Attributes:
        name: name in ``nvidia.dali.fn``.
        to: name of seqpipe's operator; by default the same.
        build: creates the nodes of a call that is not a single operator.
        renamed: seqpipe's names of arguments with other names.
        values: seqpipe's values of arguments with other values, by seqpipe's name of the argument.
        defaults: DALI's defaults where they differ.
        accept: arguments that are accepted and ignored.
        refuse: arguments that are not available, with the alternative.
        why: for operators that are not available: the alternative.
        note: difference in meaning, for the documentation.
        positional: arguments that may be positional, unless they are nodes.
        inputs: arguments that DALI also takes as further inputs, in their order.
    """

    name: str
    to: str = ""
    build: Callable[[DaliCall], Any] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    refuse: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    note: str = ""
    positional: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass
class DaliCall:
    """A call of an operator.

    Attributes:
        row: the operator.
        inputs: the input nodes.
        args: arguments by name, without those that all operators have.
        device: device of the result, "cpu" or "gpu".
        name: the argument ``name``.
        seed: the argument ``seed``.
        requested_device: the argument ``device``: "cpu", "gpu", "mixed" or None. ``device`` is derived from it and the
            inputs.
        settings: the declared arguments that may differ by sample, as nodes in main memory.
        summary: the other declared arguments as text.
    """

    row: Row
    inputs: list[DataNode]
    args: dict[str, Any]
    device: str
    name: str | None = None
    seed: int | None = None
    requested_device: str | None = None
    settings: dict[str, DataNode] = field(default_factory=dict)
    summary: str = ""

    def take(self, name: str, default: Any = None) -> Any:
        """Remove an argument and return its value, or a default."""
        value = self.args.pop(name, None)
        return default if value is None else value

    def input(self, number: int = 0) -> DataNode:
        """Return one of the inputs.

        Raises:
            ParameterError: the input is missing.
        """
        if number >= len(self.inputs):
            raise self.wrong(f"input {number} is missing")
        return self.inputs[number]

    def wrong(self, fact: str, **more: Any) -> ParameterError:
        """Return an error about this call."""
        return ParameterError(f"{location()}{fact}", source=f"fn.{self.row.name}", **more)

    def fault(self, fact: str, **more: Any) -> ParameterError:
        """Return an error about samples of this call, which is raised when they are computed."""
        return ParameterError(fact, source=f"fn.{self.row.name}", **more)

    def declared(self, parameter: inspect.Parameter) -> Any:
        """Remove a declared argument, and return its value in the form of its annotation; see :func:`operator`."""
        name, default = parameter.name, parameter.default
        if parameter.annotation == "Seed":
            value: Any = self.drawing_seed
        else:
            value = self.take(name, None if default is parameter.empty else default)
            if parameter.annotation == "Kind" and not (value is None is default):
                value = dtype_name(value)
            elif parameter.annotation in _PLAIN and value is not None:
                value = _PLAIN[parameter.annotation](value)
        self.summary += f" {name}={_text(value)}"
        return value

    def done(self) -> None:
        """Check that every argument was used.

        Raises:
            ParameterError: the operator lacks an argument.
        """
        for name in self.args:
            if name not in self.row.accept and self.args[name] is not None:
                raise self.wrong(f"there is no argument {name!r}")

    def node(
        self,
        compute: Compute,
        *more: DataNode,
        summary: str = "",
        inputs: Seq[DataNode] | None = None,
        applies: Any = None,
    ) -> DataNode:
        """Return a node of the inputs, of the arguments that may differ by sample, and of further nodes."""
        operands = [*(self.inputs if inputs is None else inputs), *self.settings.values(), *more]
        label, summary = self.name or self.row.name, f"{self.summary} {summary}".strip()
        return DataNode(label, operands, compute, device=self.device, summary=summary, applies=applies)

    def on_host(self, compute: Compute) -> DataNode:
        """Return a node that computes in main memory, of the only input; its result is on the call's device."""
        device, self.device = self.device, "cpu"
        result = self.node(compute, inputs=[self.input().cpu()])
        return result.gpu() if device == "gpu" else result

    def outputs(self, compute: Compute, count: int) -> tuple[DataNode, ...]:
        """Return the nodes of a computation with several results; see :meth:`node`."""
        return outputs_of(self.node(compute), count)

    def by_sample(
        self,
        function: Callable[..., Any],
        *,
        layout: str | None = None,
        count: int = 0,
        seed: int | None = None,
    ) -> Any:
        """Return the node of a function of each sample.

        Args:
            function: takes a sample of each input, and the arguments that may differ by sample by their names.
            layout: letters of the result's axes; by default those of the first input.
            count: number of results of the function, for a node of each; 0 for a result that is no tuple.
            seed: seed of a generator of random numbers for each sample, the argument ``rng``.
        """
        inputs = len(self.inputs)

        def compute(values: list[Value], run: Run) -> Any:
            rows, framed = [], any(value.by_frame for value in values)
            for n in range(len(values[0]) if values else len(run.index)):
                row = [value[n] for value in values]
                more = (
                    {} if seed is None else {"rng": stream(seed, self.row.name, run.epoch, int(run.index[n]))}
                )

                def computed(row: list[Any], more: dict[str, Any] = more) -> Any:
                    return function(
                        *row[:inputs], **dict(zip(self.settings, row[inputs:], strict=True)), **more
                    )

                rows.append(_by_frame(computed, row, values, inputs) if framed else computed(row))
            if count:
                return tuple(Value.of(column) for column in zip(*rows, strict=True))
            like = values[0] if inputs else Value(run.index)
            return Value.of(rows, like.layout if layout is None else layout, like.sources)

        return self.outputs(compute, count) if count else self.node(compute)

    def each(self, function: Callable[[Any], Any]) -> DataNode:
        """Return a node that applies a function to every sample of the only input."""
        self.inputs = [self.input()]
        return self.node(lambda values, _: values[0].each(function))

    @property
    def drawing_seed(self) -> int:
        """Seed of the operator's random numbers."""
        return int(current().seed_of(self.row.name, self.seed))


OPERATORS: Final[dict[str, Row]] = {}
"""The operators that :func:`operator` has declared, by name."""
_PLAIN: Final[dict[Any, Callable[[Any], Any]]] = {item.__name__: item for item in (bool, int, float, str)}


def operator(
    *names: str, each: Mapping[str, Any] = MappingProxyType({}), passes: bool = False, **facts: Any
) -> Callable[[_Build], _Build]:
    """Declare an operator of DALI by a function that returns the nodes of a call.

    The function's keyword-only parameters are the operator's arguments, whose defaults are theirs, too. ``Kind`` is the
    name of a type, and ``Seed`` the operator's seed; bool, int, float and str are converted; any other annotation
    leaves a value as it is. Nodes of the call have the arguments in their summary.

    Args:
        *names: names in ``nvidia.dali.fn`` of the operators.
        each: defaults of arguments that may differ by sample: nodes of the call get them as operands that follow the
            inputs, in main memory. Those that are None are left out.
        passes: whether the function passes further arguments on, instead of an error about them.
        **facts: further attributes of the :class:`Row`.
    """

    def declare(function: _Build) -> _Build:
        parameters = [q for q in inspect.signature(function).parameters.values() if q.kind is q.KEYWORD_ONLY]

        def build(call: DaliCall) -> Any:
            given = {name: call.take(name, default) for name, default in each.items()}
            call.settings = {
                name: node_of(setting).cpu() for name, setting in given.items() if setting is not None
            }
            arguments = {parameter.name: call.declared(parameter) for parameter in parameters}
            if not passes:
                call.done()
            return function(call, **arguments)

        OPERATORS.update((name, Row(name, build=build, **facts)) for name in names)
        return function

    return declare


def built(name: str, call: DaliCall) -> Any:
    """Return the nodes of a declared operator for a call."""
    build = OPERATORS[name].build
    assert build is not None
    return build(call)


def _text(value: Any) -> str:
    """Return an argument as text for fingerprints, a digest of long ones."""
    if isinstance(value, ops.DataNode):
        return "node"
    if isinstance(value, (list, tuple)):
        text = ", ".join(map(_text, value))
    elif isinstance(value, np.ndarray):
        text = f"{value.dtype}{value.tolist()}"
    else:
        named = getattr(type(value), "__repr__", None) is not getattr(object, "__repr__", None)
        text = getattr(value, "__qualname__", repr(value if named else type(value)))
    return text if len(text) <= 200 else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _by_frame(function: Callable[[list[Any]], Any], row: list[Any], values: list[Value], inputs: int) -> Any:
    """Return the stacked results of a function of each frame; what has none, or one, is the same for all."""
    framed = [v.by_frame or (n < inputs and v.layout.startswith("F")) for n, v in enumerate(values)]
    counts = {len(array) for array, by_frame in zip(row, framed, strict=True) if by_frame}
    if len(counts - {1}) > 1:
        raise ParameterError(f"samples and arguments of {sorted(counts)} frames", allowed="as many in each")
    arrays = [
        function(
            [
                array[frame % len(array)] if by_frame else array
                for array, by_frame in zip(row, framed, strict=True)
            ]
        )
        for frame in range(max(counts))
    ]
    return namespace(arrays[0]).stack(arrays)


def image_layout(value: Value) -> str:
    """Return the layout of samples; one that is unknown is that of images or sequences with as many axes."""
    return value.layout or IMAGE_LAYOUTS.get(value.ndim, "")


def location() -> str:
    """Return the user's line as the start of a message; "" if there is none."""
    line = user_line()
    return f"{line}: " if line else ""
