"""Conversion of a call of DALI's operator into nodes, by the operator's row of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from .. import ops
from ..array import LAYOUTS
from ..errors import ParameterError
from ..ops import REGISTRY, Run, per_frame
from .data_node import (
    DataNode,
    Recipe,
    attached,
    current,
    fixed_value,
    node_of,
    nodes_in,
    pop_pipeline,
    push_pipeline,
)
from .declared import DaliCall, Row, image_layout, location
from .device import gpu_number
from .dtypes import DALIDataType, DALIImageType, DALIInterpType, converted, dtype_name
from .raised import as_dali_raises
from .serialized import Origin, set_origin
from .value import Value

__all__ = ["BORDERS", "Draft", "call_operator", "called", "check_known", "native", "plain", "stacked_nodes"]

BORDERS: Final = {
    "clamp": "edge",
    "repeat": "edge",
    "reflect_101": "reflect",
    "reflect_1001": "symmetric",
}
"""DALI's names of border modes that differ from those of :mod:`seqpipe.core.padding`."""

_IGNORED: Final = ("bytes_per_sample_hint", "preserve", "minibatch_size", "temp_buffer_hint")
"""Arguments of all of DALI's operators that do not affect results."""

_SOURCES: Final = (
    *(
        "readers.",
        "experimental.readers.",
        "experimental.inputs.",
        "random.",
        "transforms.",
        "batch_permutation",
        "roi_random_crop",
        "external_source",
        "constant",
        "zeros",
        "ones",
        "full",
    ),
    *("python_function", "torch_python_function", "dl_tensor_python_function"),
)
"""Prefixes of operators that need no input."""
_PIXELS_UNCHANGED: Final = frozenset({"mirror"})
"""Parameters that do not change which pixels an operator reads."""
_FILTERS: Final = {
    **{kind: kind.name.removeprefix("INTERP_").lower() for kind in DALIInterpType},
    DALIInterpType.INTERP_NN: "nearest",
}


def call_operator(row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Return the nodes of a call; for lists of nodes as inputs, a list with the result of each.

    Args:
        row: the operator.
        inputs: positional arguments.
        arguments: arguments by name.

    Raises:
        ParameterError: the operator is not available, or lacks an argument.
    """
    with as_dali_raises:
        pipe = current()
        if pipe is not None and pipe.computes:
            return pipe.computed(row, inputs, arguments)
        return set_origin(called(row, inputs, arguments), Origin("fn", (row.name, *inputs), arguments))


def called(row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Return the nodes of a call, also where calls compute at once; see :func:`call_operator`."""
    if row.why:
        raise ParameterError(
            f"{location()}DALI's {row.name} is not available",
            source=f"fn.{row.name}",
            advice=_sentence(row.why),
        )
    if current() is None:
        return _outside(row, inputs, arguments)
    count = next((len(operand) for operand in inputs if _is_node_list(operand)), 0)
    if not count:
        call = _checked_call(row, inputs, arguments)
        return native(call) if row.build is None else row.build(call)
    results = [
        call_operator(
            row, tuple(item[n] if _is_node_list(item) else item for item in inputs), dict(arguments)
        )
        for n in range(count)
    ]
    if isinstance(results[0], (tuple, list)):
        return [list(output) for output in zip(*results, strict=True)]
    return results


class Draft:
    """The pipeline of calls outside of pipelines, which are repeated in the pipeline that they become part of."""

    is_draft, computes, scope, seed = True, False, None, 0
    batch_size, py_num_workers, py_start_method, anonymous = 1, 1, "fork", 0
    num_threads: int | None = None

    def gpu_index(self) -> int | None:
        """Return the number of the GPU that a pipeline runs on by default; None for the CPU."""
        return gpu_number(None)

    def seed_of(self, name: str, seed: int | None, *, shared: bool = False) -> int:  # noqa: ARG002  the pipeline's count
        """Return a valid seed."""
        return 0

    def register_source(self, name: str | None, source: Any) -> None:
        """Do nothing: the source is made anew in the pipeline."""


def _outside(row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Return the nodes of a call outside of a pipeline."""
    recipe = Recipe(lambda: call_operator(row, inputs, dict(arguments)))
    push_pipeline(Draft())
    try:
        result = recipe.call()
    finally:
        pop_pipeline()
    recipe.outputs = nodes_in(result)
    for node in recipe.outputs:
        node.recipe = recipe
    return result


def _checked_call(row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> DaliCall:
    """Return a call whose inputs are nodes on the call's device, with its arguments by seqpipe's names."""
    args, inputs = _arguments(row, inputs, arguments)
    device, name, seed = (args.pop(key, None) for key in ("device", "name", "seed"))
    for key in _IGNORED:
        args.pop(key, None)
    nodes = [node_of(operand) for operand in inputs if operand is not None]
    if not nodes and not row.name.startswith(_SOURCES):
        raise ParameterError(f"{location()}the input is missing", source=f"fn.{row.name}", allowed="a node")
    pipe = current()
    if not pipe.is_draft:
        nodes = [node_of(attached(node, pipe)) for node in nodes]
    if device not in (None, "cpu", "gpu", "mixed"):
        raise ParameterError(
            f"device={device!r} is not valid", source=f"fn.{row.name}", allowed="'cpu', 'gpu', 'mixed'"
        )
    on_gpu = device in ("gpu", "mixed") or (device is None and any(node.device == "gpu" for node in nodes))
    result_device = "gpu" if on_gpu and pipe.gpu_index() is not None else "cpu"
    if device == "gpu" and result_device == "gpu":
        nodes = [node.gpu() for node in nodes]
    return DaliCall(row, nodes, {**row.defaults, **args}, result_device, name, seed, device)


def _arguments(
    row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the arguments of a call by seqpipe's names, including positional ones, and its inputs."""
    args = dict(_translated(row, name, fixed_value(value)) for name, value in arguments.items())
    for name, value in zip(row.positional, map(fixed_value, inputs), strict=False):
        if not isinstance(value, ops.DataNode):
            args[name], inputs = value, inputs[1:]
    if row.inputs and len(inputs) > 1:
        further = dict(zip(row.inputs, map(fixed_value, inputs[1:]), strict=False))
        for name in further.keys() & args.keys():
            raise ParameterError(
                f"{location()}{name} is given twice, as an input and as an argument", source=f"fn.{row.name}"
            )
        args |= further
        inputs = (inputs[0], *inputs[1 + len(further) :])
    for name, why in row.refuse.items():
        if args.get(name) is not None:
            raise ParameterError(
                f"{location()}{name}={args[name]!r} is not available",
                source=f"fn.{row.name}",
                advice=_sentence(why),
            )
    return args, inputs


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
    on_images = cls.traits.takes == "images"
    if on_images and len(call.inputs) > 1:
        raise call.wrong(f"there are {len(call.inputs)} inputs", allowed="one input")
    parameters = {parameter.name: parameter for parameter in cls.parameters}
    cast_to = None
    if "dtype" not in parameters and call.args.get("dtype") is not None:
        cast_to = dtype_name(call.take("dtype"))
    constants, nodes = _split_arguments(call, parameters)
    constants |= fixed
    if "seed" in parameters:
        constants["seed"] = call.drawing_seed
    positions = {name: len(call.inputs) + n for n, name in enumerate(nodes)}
    try:
        constant_op = None if nodes else cls(**constants)
        if nodes and constants.keys() - {"seed", *fixed}:
            cls(**constants, **_placeholders(cls, nodes))  # checks the constant arguments now
    except ParameterError as error:
        error.source = f"fn.{call.row.name}"
        error.fact = f"{location()}{error.fact}"
        raise
    sizes_differ = bool(nodes) and not cls.traits.keeps_size and not {"crop", "size"} & constants.keys()

    def compute(values: list[Value], run: Run) -> Any:
        if instead is not None:
            settings = {**constants, "dtype": constants.get("dtype", cast_to)}
            result = instead(values[0], {**settings, **{name: values[n] for name, n in positions.items()}})
            if result is not None:
                return result
        op = constant_op
        if op is None:
            sampled = {
                name: _numbers(values[n], parameters[name].size, values[0]) for name, n in positions.items()
            }
            op = cls(**constants, **sampled)
        if on_images:
            return _on_images(op, values[0], run, cast_to, apart=sizes_differ)
        return _on_lists(op, values[: len(call.inputs)], run)

    summary = ", ".join(f"{name}={value!r}" for name, value in constants.items() if name != "seed" or value)
    applies = None
    if on_images:
        applies = cls(**constants) if nodes and nodes.keys() <= _PIXELS_UNCHANGED else constant_op
    return call.node(compute, *nodes.values(), summary=summary, applies=applies)


def _placeholders(cls: Any, nodes: Mapping[str, DataNode]) -> dict[str, Any]:
    """Return valid values for sizes that are nodes, since operators without a size refuse all other arguments."""
    return {name: 1 for name in nodes if name.startswith("resize_")} if hasattr(cls, "resize_x") else {}


def _split_arguments(
    call: DaliCall, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, DataNode]]:
    """Return the constant arguments of a call, and those that are nodes."""
    constants: dict[str, Any] = {}
    nodes: dict[str, DataNode] = {}
    for name, value in call.args.items():
        if value is None or name in call.row.accept:
            continue
        if name not in parameters:
            raise call.wrong(f"there is no argument {name!r}", allowed=", ".join(sorted(parameters)))
        if isinstance(value, ops.DataNode):
            nodes[name] = node_of(value).cpu()
        elif isinstance(value, (list, tuple)) and any(isinstance(item, ops.DataNode) for item in value):
            nodes[name] = stacked_nodes(value)
        else:
            constants[name] = _constant(call, parameters[name], value)
    call.args.clear()
    return constants, nodes


def _constant(call: DaliCall, parameter: Any, value: Any) -> Any:
    """Return the value of a constant argument."""
    if isinstance(value, np.ndarray) and parameter.size:
        value = value.reshape(-1)  # matrices are flattened row by row
    converted = plain(parameter.name, value)
    if parameter.size or not parameter.drawn or not isinstance(converted, tuple):
        return converted
    if len(converted) == 1:
        return converted[0]
    raise call.wrong(
        f"{parameter.name}={value!r} is several numbers",
        allowed="one number, or a node with one for each sample",
        advice="fn.random.uniform(range=(low, high)) draws numbers",
    )


def _on_images(op: Any, value: Value, run: Run, cast_to: str | None, *, apart: bool) -> Value:
    """Apply an operator on images, and convert the result to a dtype unless it is None."""
    layout = image_layout(value)
    # an operator may have been applied while the samples were copied
    if value.copied is not None and value.copied.applied is op:
        result = value.with_data(value.data, op.result_layout(layout))
    else:
        as_batch = value.dense and not apart and f"N{layout}" in LAYOUTS
        images = op(
            list(value.data) if value.dense and not as_batch else value.data,
            layout=f"N{layout}" if as_batch else layout or None,
            epoch=run.epoch,
            index=run.index,
        )
        result_layout = op.result_layout(layout) if layout else ""
        if isinstance(images, (list, tuple)):
            result = Value.of(images, result_layout, value.sources)
        else:
            result = value.with_data(images, result_layout)
    return result.with_data(_cast(result, cast_to)) if cast_to else result


def _cast(value: Value, kind: str) -> Any:
    return converted(value.data, kind) if value.dense else [converted(array, kind) for array in value.data]


def _on_lists(op: Any, values: list[Value], run: Run) -> Any:
    """Apply an operator on boxes or points, which takes a list with an array for each sample."""
    results = op(*(list(value.data) for value in values), epoch=run.epoch, index=run.index)
    return Value.of(list(results), values[0].layout, values[0].sources)


def _numbers(value: Value, size: Any, samples: Value) -> Any:
    """Return the numbers of a parameter, one for each sample or frame, or each volume of sequences of volumes."""
    value = value.on_host()
    if value.by_frame:
        numbers = value.stacked("a parameter by frames")
        if not size and numbers.ndim > 2:
            numbers = numbers.reshape(numbers.shape[:2])
        elif size and numbers.ndim > 3:  # matrices are flattened row by row
            numbers = numbers.reshape(*numbers.shape[:2], -1)
        return per_frame(numbers)
    numbers = value.stacked("a parameter")
    if numbers.dtype.kind in "iu":
        numbers = numbers.astype(np.float64)
    if isinstance(size, int) and size > 0 and numbers.ndim > 2:
        numbers = numbers.reshape(len(numbers), -1)  # matrices are flattened row by row
    if not size and numbers.ndim > 1:
        if int(np.prod(numbers.shape[1:])) != 1:
            raise ParameterError(
                f"a parameter of the shape {numbers.shape[1:]}", allowed="one number for each sample"
            )
        numbers = numbers.reshape(-1)
    if samples.layout.startswith("FD"):  # operators take each volume as a sample
        return np.repeat(numbers, [shape[0] for shape in samples.shapes()], axis=0)
    return numbers


def stacked_nodes(components: Seq[Any]) -> DataNode:
    """Return a node of vectors from nodes and numbers for each component."""

    def compute(values: list[Value], _: Run) -> Value:
        return Value(np.stack([value.stacked().reshape(len(value)) for value in values], axis=1))

    return DataNode("stack", [node_of(component).cpu() for component in components], compute)


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
        return tuple(plain("", item) for item in value)
    return value


def check_known(call: DaliCall, *names: str) -> None:
    """Check that a call has only the named arguments.

    Raises:
        ParameterError: there is another argument.
    """
    for name, value in call.args.items():
        if name not in names and name not in call.row.accept and value is not None:
            raise call.wrong(f"there is no argument {name!r}", allowed=", ".join(sorted(names)))


def _is_node_list(argument: Any) -> bool:
    return (
        isinstance(argument, list)
        and bool(argument)
        and all(isinstance(item, ops.DataNode) for item in argument)
    )


def _sentence(text: str) -> str:
    """Return advice as a sentence; names of functions keep their case."""
    return text if text.startswith("fn.") else text[0].upper() + text[1:]
