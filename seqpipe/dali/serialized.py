"""Pipelines as text: the calls that made their nodes, as JSON, which are repeated when it is read.

The format is seqpipe's own. Functions of the user are no part of it: sources of ``external_source`` are left out, and
their data is fed; other functions are refused.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

import numpy as np

from ..core.json_text import parse_json
from ..core.whole_file import replacing
from ..errors import ParameterError, StateError, described_type
from . import dtypes
from .expressions import NewAxis
from .raised import as_dali_raises, dali_error

__all__ = ["FUNCTIONS", "Origin", "SerializedPipeline", "recorded", "set_origin"]

_FORMAT: Final = "seqpipe.dali pipeline 1"
_COUNTER: Final = itertools.count()
_Function = TypeVar("_Function", bound=Callable[..., Any])
_LEFT_OUT: Final = {"external_source": ("source", "batch_info", "parallel", "prefetch_queue_depth")}

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}
"""The functions whose calls are recorded, by name; those of operators are called ``fn`` with the operator's name."""


@dataclass(frozen=True)
class Origin:
    """A call that made nodes.

    Attributes:
        function: name in :data:`FUNCTIONS`.
        inputs: positional arguments.
        arguments: arguments by name.
        order: number of the call in the order of time.
    """

    function: str
    inputs: tuple[Any, ...]
    arguments: Mapping[str, Any]
    order: int = field(default_factory=lambda: next(_COUNTER))


def set_origin(result: Any, origin: Origin) -> Any:
    """Note how the nodes of a call's result were made; return the result."""
    nodes = _flat(result)
    for number, node in enumerate(nodes):
        if hasattr(type(node), "origin") and not any(
            node is operand for operand in _flat(list(origin.inputs))
        ):
            node.origin = origin, number
    return result


def _flat(result: Any) -> list[Any]:
    if isinstance(result, Mapping):
        result = list(result.values())
    return (
        [item for part in result for item in _flat(part)] if isinstance(result, (list, tuple)) else [result]
    )


def recorded(name: str) -> Callable[[_Function], _Function]:
    """Return a decorator of functions that return a node: their calls are noted, to be repeated by their names."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*inputs: Any, **arguments: Any) -> Any:
            return set_origin(function(*inputs, **arguments), Origin(name, inputs, arguments))

        FUNCTIONS[name] = call
        return call  # type: ignore[return-value]  # of the function's signature

    return decorate


def _origin_of(node: Any) -> tuple[Origin, int]:
    """Return the call that made a node."""
    if node.origin is None:
        raise ParameterError(
            f"{node} is made by no call that is recorded",
            source="serialize",
            allowed="operators, arithmetic, subscripts and constants, without conditionals",
        )
    origin: tuple[Origin, int] = node.origin
    return origin


def _is_node(value: Any) -> bool:
    return hasattr(type(value), "origin")


def _collect(value: Any, calls: dict[int, Origin]) -> None:
    """Add the calls that a value depends on."""
    if _is_node(value):
        origin, _ = _origin_of(value)
        if origin.order not in calls:
            calls[origin.order] = origin
            _collect([*origin.inputs, *_kept(origin).values()], calls)
    elif isinstance(value, slice):
        _collect([value.start, value.stop, value.step], calls)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, calls)


class _Encoder:
    """Values of calls as plain values of JSON.

    Args:
        calls: the calls by their order in time.
    """

    def __init__(self, calls: Iterable[int]) -> None:
        self._numbers = {order: number for number, order in enumerate(sorted(calls))}
        self._kinds: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
            (IntEnum, lambda value: {"enum": [type(value).__name__, value.name]}),
            ((bool, str, int, float, type(None)), lambda item: item),
            (
                (np.ndarray, np.generic),
                lambda entry: {"array": [np.asarray(entry).tolist(), entry.dtype.name, list(entry.shape)]},
            ),
            (dtypes.ScalarConstant, lambda one: {"constant": [one.value, one.dtype.name]}),
            (list, lambda one: list(map(self.encoded, one))),
            (tuple, lambda one: {"tuple": list(map(self.encoded, one))}),
            (slice, lambda one: {"slice": list(map(self.encoded, (one.start, one.stop, one.step)))}),
            (NewAxis, lambda one: {"newaxis": one.name}),
            (type(...), lambda _: {"newaxis": None}),
            (PurePath, str),
        )

    def encoded(self, value: Any) -> Any:
        """Return a value for JSON.

        Raises:
            ParameterError: it is no plain value.
        """
        if _is_node(value):
            origin, number = _origin_of(value)
            return {"node": [self._numbers[origin.order], number]}
        for kinds, encode in self._kinds:
            if isinstance(value, kinds):
                return encode(value)
        if isinstance(value, type) and issubclass(value, (np.generic, bool, int, float)):
            return np.dtype(value).name
        raise ParameterError(
            f"{described_type(value)} as an argument, which is no plain value",
            source="serialize",
            advice="Import the function that defines the pipeline where the pipeline is needed",
        )


def _text_of(outputs: list[Any], options: Mapping[str, Any]) -> str:
    """Return a pipeline as text, of its output nodes and its arguments."""
    calls: dict[int, Origin] = {}
    _collect(outputs, calls)
    encoded = _Encoder(calls).encoded
    steps = []
    for _, item in sorted(calls.items()):
        try:
            arguments = {name: encoded(value) for name, value in _kept(item).items()}
            steps.append(
                {"call": item.function, "inputs": encoded(list(item.inputs)), "arguments": arguments}
            )
        except ParameterError as error:
            operator = item.inputs[0] if item.function == "fn" else item.function
            error.fact = f"{operator} has {error.fact}"
            raise
    plain = {name: encoded(value) for name, value in options.items() if value is not None}
    return json.dumps({"format": _FORMAT, "pipeline": plain, "calls": steps, "outputs": encoded(outputs)})


def _kept(origin: Origin) -> dict[str, Any]:
    """Return the arguments of a call without those that are functions of the user by nature."""
    left_out = _LEFT_OUT.get(str(origin.inputs[0]) if origin.function == "fn" else "", ())
    return {name: value for name, value in origin.arguments.items() if name not in left_out}


def _options_in(text: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pipeline's arguments, and the rest of its text for :func:`_repeated`."""
    try:
        stored = parse_json(text if isinstance(text, str) else text.decode())
    except (ValueError, UnicodeDecodeError):
        stored = None
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise StateError(
            "the data is no pipeline that seqpipe.dali has serialized; pipelines that NVIDIA DALI has serialized "
            "(protobuf) are not read",
            source="deserialize",
            allowed=f"a result of serialize(), of the format {_FORMAT!r}",
            advice="Define the pipeline in Python, and serialize it by seqpipe.dali",
        )
    return {name: _decoded(value, []) for name, value in stored["pipeline"].items()}, stored


def _repeated(stored: Mapping[str, Any]) -> list[Any]:
    """Repeat the calls of a pipeline while it is being defined, and return its output nodes."""
    made: list[list[Any]] = []
    for step in stored["calls"]:
        arguments = {name: _decoded(value, made) for name, value in step["arguments"].items()}
        result = FUNCTIONS[step["call"]](*_decoded(step["inputs"], made), **arguments)
        made.append(_flat(result))
    return list(_decoded(stored["outputs"], made))


def _decoded(value: Any, made: list[list[Any]]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, made) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "node":
        return made[content[0]][content[1]]
    if kind == "tuple":
        return tuple(_decoded(content, made))
    if kind == "enum":
        return getattr(dtypes, content[0])[content[1]]
    if kind == "array":
        return np.array(content[0], content[1]).reshape(content[2])
    if kind == "constant":
        return dtypes.ScalarConstant(content[0], dtypes.DALIDataType[content[1]])
    if kind == "slice":
        return slice(*(_decoded(entry, made) for entry in content))
    return ... if content is None else NewAxis(content)


class SerializedPipeline:
    """The part of :class:`seqpipe.dali.Pipeline` that writes and reads it."""

    _declared: list[Any]

    def serialize(self: Any, define_graph: Any = None, filename: str | None = None) -> str:
        """Return the pipeline as text, for :meth:`deserialize`; with a file name, also write it there, atomically.

        The format is seqpipe's own. It has the calls of operators, but no functions: sources of ``external_source``
        are left out, and their data is fed.

        Args:
            define_graph: function that returns the output nodes, if none are set.
            filename: name of a file.

        Raises:
            TypeError: ``define_graph`` cannot be called.
            ParameterError: an operator has a function as its argument, or there are conditions on nodes.
            OSError: the file cannot be written.
        """
        if define_graph is not None and not callable(define_graph):
            raise dali_error(
                f"the argument `define_graph` is {define_graph!r}", source="serialize", allowed="a callable"
            )
        if not self._declared:
            with self:
                self.set_outputs((define_graph or self.define_graph)())
        with as_dali_raises:
            text = _text_of(self._declared, self._options)
        if filename is not None:
            with replacing(Path(filename)) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return text

    @property
    def _options(self: Any) -> dict[str, Any]:
        """The arguments that are serialized."""
        return {
            "batch_size": self._batch_size,
            "num_threads": self._num_threads,
            "device_id": self._device_id,
            "seed": None if self._draws_seed else self._seed,
            "prefetch_queue_depth": self._prefetch_count or 2,
            "output_dtype": self._output_dtype,
            "output_ndim": self._output_ndim,
            "output_layout": self._output_layout,
            "stream_policy": self.stream_policy,
            "concurrency": self.concurrency,
        }

    @classmethod
    def deserialize(
        cls, serialized_pipeline: str | bytes | None = None, filename: str | None = None, **options: Any
    ) -> Any:
        """Return the pipeline of a text that :meth:`serialize` returned or wrote.

        Args:
            serialized_pipeline: the text.
            filename: name of its file, instead.
            **options: arguments of the pipeline that replace the stored ones.

        Raises:
            ParameterError: both or none are given.
            StateError: the data is no such text, such as a pipeline that NVIDIA DALI serialized.
        """
        with as_dali_raises:
            if (serialized_pipeline is None) == (filename is None):
                raise ParameterError(
                    "serialized_pipeline and filename arguments are mutually exclusive. Precisely one of them should "
                    "be defined",
                    source="deserialize",
                )
            text = Path(filename).read_bytes() if filename is not None else serialized_pipeline
            stored_options, stored = _options_in(text or "")
            stored_options.setdefault("device_id", None)
            pipe: Any = cls(**{**stored_options, **options})
            with pipe:
                nodes = _repeated(stored)
            pipe.set_outputs(*nodes)
            pipe.build()
            return pipe
