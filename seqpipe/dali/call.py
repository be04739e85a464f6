"""Conversion of a call of DALI's operator into nodes, by the operator's row of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .. import ops
from ..errors import ParameterError, user_line
from ..layout import LAYOUTS
from ..ops import REGISTRY, Run, cast_array, per_frame
from ..pipeline.value import Value
from .data_node import Compute, DataNode, current, node_of, outputs_of
from .types import Constant, DALIDataType, DALIImageType, DALIInterpType, dtype_name

__all__ = [
    "BORDERS",
    "IMAGE_LAYOUTS",
    "DaliCall",
    "Row",
    "called",
    "check_known",
    "native",
    "plain",
    "several",
]

BORDERS: Final = {
    "clamp": "edge",
    "repeat": "edge",
    "reflect_101": "reflect",
    "reflect_1001": "symmetric",
}
"""DALI's names of border modes that differ from those of :mod:`seqpipe.core.padding`."""

OF_ALL: Final = ("bytes_per_sample_hint", "preserve", "minibatch_size", "temp_buffer_hint")
"""Arguments of all of DALI's operators that do not affect results."""

_SOURCES: Final = (
    *(
        "readers.",
        "experimental.readers.",
        "random.",
        "transforms.",
        "batch_permutation",
        "external_source",
        "constant",
        "zeros",
        "ones",
    ),
    *("python_function", "torch_python_function", "dl_tensor_python_function"),
)
"""Prefixes of operators that need no input."""
_ANYWHERE: Final = {"mirror"}  # parameters that do not change which pixels are read
IMAGE_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC"}
"""Layouts of samples that state none, by their number of axes."""
_FILTERS: Final = {
    DALIInterpType.INTERP_NN: "nearest",
    DALIInterpType.INTERP_LINEAR: "linear",
    DALIInterpType.INTERP_CUBIC: "cubic",
    DALIInterpType.INTERP_LANCZOS3: "lanczos3",
    DALIInterpType.INTERP_TRIANGULAR: "triangular",
    DALIInterpType.INTERP_GAUSSIAN: "gaussian",
}


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
        asked: the argument ``device``: "cpu", "gpu", "mixed" or None.
    """

    row: Row
    inputs: list[DataNode]
    args: dict[str, Any]
    device: str
    name: str | None = None
    seed: int | None = None
    asked: str | None = None

    def take(self, name: str, default: Any = None) -> Any:
        """Remove an argument and return its value, or a default."""
        found = self.args.pop(name, None)
        return default if found is None else found

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
        return ParameterError(
            f"{user_line()}: {fact}" if user_line() else fact, source=f"fn.{self.row.name}", **more
        )

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
        """Return a node of the inputs and of further nodes."""
        given = [*(self.inputs if inputs is None else inputs), *more]
        label = self.name or self.row.name
        return DataNode(label, given, compute, device=self.device, summary=summary, applies=applies)

    def each(self, function: Callable[[Any], Any], layout: str | None = None, summary: str = "") -> DataNode:
        """Return a node that applies a function to every sample of the only input."""
        return self.node(
            lambda values, _: values[0].each(function, layout), summary=summary, inputs=[self.input()]
        )

    @property
    def drawing_seed(self) -> int:
        """Seed of the operator's random numbers."""
        pipe = current()
        if pipe is not None:
            return int(pipe.seed_of(self.row.name, self.seed))
        return self.seed if self.seed is not None and self.seed >= 0 else 0


def called(row: Row, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Return the nodes of a call.

    Args:
        row: the operator.
        given: positional arguments.
        arguments: arguments by name.

    Raises:
        ParameterError: the operator is not available, or lacks an argument.
    """
    if row.why:
        raise ParameterError(
            f"{_at()}DALI's {row.name} is not available", source=f"fn.{row.name}", advice=_sentence(row.why)
        )
    sets = next((len(one) for one in given if _is_set(one)), 0)
    if sets:
        each = [
            called(row, tuple(one[n] if _is_set(one) else one for one in given), dict(arguments))
            for n in range(sets)
        ]
        return (
            [list(column) for column in zip(*each, strict=True)]
            if isinstance(each[0], (tuple, list))
            else each
        )
    args, given = _arguments(row, given, arguments)
    asked, name = args.pop("device", None), args.pop("name", None)
    seed = args.pop("seed", None)
    for one in OF_ALL:
        args.pop(one, None)
    inputs = [node_of(one) for one in given if one is not None]
    if not inputs and not row.name.startswith(_SOURCES):
        raise ParameterError(f"{_at()}the input is missing", source=f"fn.{row.name}", allowed="a node")
    pipe = current()
    if pipe is None:
        raise ParameterError(
            f"{_at()}the operator is called outside of a pipeline",
            source=f"fn.{row.name}",
            advice="Call it in a function with @pipeline_def, within `with pipe:`, or in define_graph; on arrays call "
            "seqpipe.fn",
        )
    if asked not in (None, "cpu", "gpu", "mixed"):
        raise ParameterError(
            f"device={asked!r} is not valid", source=f"fn.{row.name}", allowed="'cpu', 'gpu', 'mixed'"
        )
    on_gpu = asked in ("gpu", "mixed") or (asked is None and any(one.device == "gpu" for one in inputs))
    device = "gpu" if on_gpu and pipe.gpu_index() is not None else "cpu"
    if asked == "gpu" and device == "gpu":
        inputs = [one.gpu() for one in inputs]
    args = {**row.defaults, **args}
    made = DaliCall(row, inputs, args, device, name, seed, asked)
    return row.build(made) if row.build is not None else native(made)


def _arguments(
    row: Row, given: tuple[Any, ...], arguments: dict[str, Any]
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the arguments of a call by seqpipe's names, including positional ones, and its inputs.

    Raises:
        ParameterError: an argument is given twice, or is not available.
    """
    args = dict(_translated(row, name, value) for name, value in arguments.items())
    for name, value in zip(row.positional, given, strict=False):
        if not isinstance(value, ops.DataNode):
            args[name], given = value, given[1:]
    if row.inputs and len(given) > 1:
        further = dict(zip(row.inputs, given[1:], strict=False))
        for name in further.keys() & args.keys():
            raise ParameterError(
                f"{_at()}{name} is given twice, as an input and as an argument", source=f"fn.{row.name}"
            )
        args |= further
        given = (given[0], *given[1 + len(further) :])
    for name, why in row.refuse.items():
        if args.get(name) is not None:
            raise ParameterError(
                f"{_at()}{name}={args[name]!r} is not available",
                source=f"fn.{row.name}",
                advice=_sentence(why),
            )
    return args, given


def _translated(row: Row, name: str, value: Any) -> tuple[str, Any]:
    """Return seqpipe's name and value of an argument."""
    name = row.renamed.get(name, name)
    return name, row.values.get(name, {}).get(value, value) if isinstance(value, str) else value


def native(
    call: DaliCall,
    to: str = "",
    *,
    instead: Callable[[Value, Mapping[str, Any]], Value | None] | None = None,
    **fixed: Any,
) -> Any:
    """Return the node of one of seqpipe's operators on images, boxes or points.

    Args:
        call: the call; arguments that are None have their defaults.
        to: name of the operator; by default that of the row.
        instead: computes the result of samples that the operator does not accept, such as volumes, from the arguments
            by name, those that are nodes as their values; returns None for all others.
        **fixed: further arguments; None is passed on.
    """
    cls: Any = REGISTRY[to or call.row.to or call.row.name]
    if cls.traits.takes == "images" and len(call.inputs) > 1:
        raise call.wrong(f"there are {len(call.inputs)} inputs", allowed="one input")
    known = {parameter.name: parameter for parameter in cls.parameters}
    cast_to = None
    if "dtype" not in known and call.args.get("dtype") is not None:
        cast_to = dtype_name(call.take("dtype"))
    constants, nodes = _parted(call, known)
    constants |= fixed
    if "seed" in known:
        constants["seed"] = call.drawing_seed
    numbers = {name: len(call.inputs) + n for n, name in enumerate(nodes)}
    try:
        whole = None if nodes else cls(**constants)
        if nodes and constants.keys() - {"seed", *fixed}:
            cls(**constants, **_placeholders(cls, nodes))  # checks the constant arguments now
    except ParameterError as error:
        error.source = f"fn.{call.row.name}"
        error.fact = f"{_at()}{error.fact}"
        raise
    sizes_differ = bool(nodes) and not cls.traits.keeps_size and not {"crop", "size"} & constants.keys()
    sizes = {name: q.size for name, q in known.items()}

    def compute(values: list[Value], run: Run) -> Any:
        if instead is not None:
            settings = {**constants, "dtype": constants.get("dtype", cast_to)}
            other = instead(values[0], {**settings, **{name: values[at] for name, at in numbers.items()}})
            if other is not None:
                return other
        op = whole
        if op is None:
            given = {name: _numbers(values[at], sizes[name]) for name, at in numbers.items()}
            op = cls(**constants, **given)
        main = values[: len(call.inputs)]
        if cls.traits.takes == "images":
            return _on_images(op, main[0], run, cast_to, apart=sizes_differ)
        return _on_lists(op, main, run)

    summary = ", ".join(f"{name}={value!r}" for name, value in constants.items() if name != "seed" or value)
    reads = whole if whole is not None or not nodes.keys() <= _ANYWHERE else cls(**constants)
    return call.node(
        compute, *nodes.values(), summary=summary, applies=reads if cls.traits.takes == "images" else None
    )


def _placeholders(cls: Any, nodes: Mapping[str, DataNode]) -> dict[str, Any]:
    """Return valid values for sizes that are nodes, since operators without a size refuse all other arguments."""
    return {name: 1 for name in nodes if name.startswith("resize_")} if hasattr(cls, "resize_x") else {}


def _parted(call: DaliCall, known: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, DataNode]]:
    """Return the constant arguments of a call, and those that are nodes.

    Raises:
        ParameterError: the operator lacks an argument.
    """
    constants: dict[str, Any] = {}
    nodes: dict[str, DataNode] = {}
    for name, value in call.args.items():
        if value is None or name in call.row.accept:
            continue
        if name not in known:
            raise call.wrong(f"there is no argument {name!r}", allowed=", ".join(sorted(known)))
        if isinstance(value, ops.DataNode):
            nodes[name] = node_of(value).cpu()
        elif isinstance(value, (list, tuple)) and any(isinstance(one, ops.DataNode) for one in value):
            nodes[name] = _joined([node_of(one).cpu() for one in value])
        else:
            constants[name] = _constant(call, known[name], value)
    call.args.clear()
    return constants, nodes


def _constant(call: DaliCall, parameter: Any, value: Any) -> Any:
    """Return the value of a constant argument.

    Raises:
        ParameterError: the value is several numbers, which is a range for seqpipe's operators, but an error for DALI's.
    """
    if isinstance(value, Constant):
        value = value.value
    if isinstance(value, np.ndarray) and parameter.size:
        value = value.reshape(-1)  # matrices are flattened row by row
    found = plain(parameter.name, value)
    if parameter.size or not parameter.drawn or not isinstance(found, tuple):
        return found
    if len(found) == 1:
        return found[0]
    raise call.wrong(
        f"{parameter.name}={value!r} is several numbers",
        allowed="one number, or a node with one for each sample",
        advice="fn.random.uniform(range=(low, high)) draws numbers",
    )


def _on_images(op: Any, value: Value, run: Run, cast_to: str | None, *, apart: bool) -> Value:
    """Apply an operator; samples are passed as a list if their results may differ in size."""
    letters = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
    if value.gathered is not None and value.gathered.cut is op:
        made = value.with_data(value.data, op.result_layout(letters))
        return made.with_data(_cast(made, cast_to)) if cast_to else made
    data, layout = value.data, letters
    if value.dense and not apart and f"N{letters}" in LAYOUTS:
        layout = f"N{letters}"
    elif value.dense:
        data = list(data)
    found = op(data, layout=layout or None, epoch=run.epoch, index=run.index)
    letters = op.result_layout(letters) if letters else ""
    if isinstance(found, (list, tuple)):
        made = Value.of(found, letters, value.sources)
    else:
        made = value.with_data(found, letters)
    return made.with_data(_cast(made, cast_to)) if cast_to else made


def _cast(value: Value, kind: str) -> Any:
    return cast_array(value.data, kind) if value.dense else [cast_array(part, kind) for part in value.data]


def _on_lists(op: Any, values: list[Value], run: Run) -> Any:
    """Apply an operator on boxes or points, which takes a list with an array for each sample."""
    found = op(*(list(value.data) for value in values), epoch=run.epoch, index=run.index)
    return Value.of(list(found), values[0].layout, values[0].sources)


def _numbers(value: Value, size: Any) -> Any:
    """Return the numbers of a parameter, one for each sample or frame.

    Args:
        value: value of the parameter's node.
        size: number of components of the parameter; 0 for a scalar.
    """
    value = value.on_host()
    if value.by_frame:
        table = value.stacked("a parameter by frames")
        return per_frame(table.reshape(table.shape[:2]) if not size and table.ndim > 2 else table)
    table = value.stacked("a parameter")
    if table.dtype.kind in "iu":
        table = table.astype(np.float64)
    if isinstance(size, int) and size > 0 and table.ndim > 2:
        table = table.reshape(len(table), -1)  # matrices are flattened row by row
    if not size and table.ndim > 1:
        if int(np.prod(table.shape[1:])) != 1:
            raise ParameterError(
                f"a parameter of the shape {table.shape[1:]}", allowed="one number for each sample"
            )
        table = table.reshape(-1)
    return table


def _joined(nodes: list[DataNode]) -> DataNode:
    """Return a node of vectors from a node for each component."""

    def compute(values: list[Value], _: Run) -> Value:
        return Value(np.stack([value.stacked().reshape(len(value)) for value in values], axis=1))

    return DataNode("stack", nodes, compute)


def plain(name: str, value: Any) -> Any:
    """Convert a constant argument: DALI's enumerations to names, NumPy scalars to Python numbers."""
    if isinstance(value, DALIInterpType):
        return _FILTERS[value]
    if isinstance(value, DALIImageType):
        return value.name
    if name == "dtype" or isinstance(value, DALIDataType):
        return dtype_name(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim <= 1 else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return tuple(plain("", one) for one in value)
    return value


def check_known(call: DaliCall, *names: str) -> None:
    """Check that a call has only the named arguments.

    Raises:
        ParameterError: there is another argument.
    """
    for name, value in call.args.items():
        if name not in names and name not in call.row.accept and value is not None:
            raise call.wrong(f"there is no argument {name!r}", allowed=", ".join(sorted(names)))


def several(call: DaliCall, compute: Compute, count: int, summary: str = "") -> tuple[DataNode, ...]:
    """Return the nodes of a computation with several results."""
    return outputs_of(call.node(compute, summary=summary), count)


def _is_set(one: Any) -> bool:
    return isinstance(one, list) and bool(one) and all(isinstance(part, ops.DataNode) for part in one)


def _at() -> str:
    line = user_line()
    return f"{line}: " if line else ""


def _sentence(text: str) -> str:
    """Return advice as a sentence; names of functions keep their case."""
    return text if text.startswith("fn.") else text[0].upper() + text[1:]
