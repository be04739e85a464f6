"""Calls of operators on tensors and batches, which compute at once, by the operators of ``fn`` on computed nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ....errors import ParameterError, StateError
from ...call import Draft, call_operator
from ...computed import ComputedNode, flat, holding, run_of, with_each_node
from ...data_node import DataNode, pop_pipeline, push_pipeline
from ...declared import Row
from ...device import gpu_number
from ...pipeline import Pipeline
from ...raised import as_dali_raises, dali_error
from ...table import OperatorGroup, class_name, operators_in, row_of
from ...tensors import TensorListCPU, TensorListGPU
from ...value import Value, value_of
from .context import Device, EvalContext
from .generator import rng_of
from .kinds import DType
from .values import Batch, Tensor, _broadcast, as_batch, as_tensor, is_samples

__all__ = ["GROUP", "ExternalSource", "Reader", "computed", "imread"]

_NOT_HERE: Final = (
    *("external_source", "python_function", "numba_function", "torch_python_function"),
    *("dl_tensor_python_function", "constant", "experimental.inputs.video", "inputs.video"),
)
"""Operators that pipelines have, and dynamic mode has not."""


class _Call(Draft):
    """The pipeline of one call: it has the call's samples, threads and seed.

    Args:
        batch_size: number of samples.
        rng: generator of seeds.
    """

    is_draft = False

    def __init__(self, batch_size: int, rng: Any) -> None:
        self.batch_size, self._rng = batch_size, rng
        self.num_threads = EvalContext.current().num_threads
        self.attached_nodes: dict[DataNode, DataNode] = {}

    def gpu_index(self) -> int | None:
        """Return the number of the GPU; None for the CPU."""
        return gpu_number(EvalContext.current().device_id)

    def seed_of(self, name: str, seed: int | None, *, shared: bool = False) -> int:  # noqa: ARG002
        """Return the seed of a call: its own, or the next number of the generator."""
        return int(seed) if seed is not None and seed >= 0 else rng_of(self._rng)() >> 1


def computed(row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Return the results of an operator: batches if an argument is one or ``batch_size`` is given, else tensors.

    Args:
        row: the operator.
        inputs: tensors, batches, arrays and numbers.
        arguments: arguments by name; tensors and batches where the operator takes nodes. ``batch_size`` is the number
            of samples of operators without inputs, and ``rng`` generates their seed.

    Raises:
        ParameterError: batches differ in their number of samples, or the operator does not accept an argument.
    """
    batch_size, rng = arguments.pop("batch_size", None), arguments.pop("rng", None)
    samples = [None if operand is None else _samples_of(operand) for operand in inputs]
    arguments = {name: _plain(argument) for name, argument in arguments.items() if argument is not None}
    counts = {item.batch_size for item in (*samples, *arguments.values()) if isinstance(item, Batch)}
    if batch_size is not None:
        counts.add(int(batch_size))
    with as_dali_raises:
        if len(counts) > 1:
            raise ParameterError(
                f"batches of {' and '.join(map(str, sorted(counts)))} samples",
                source=f"ndd.{row.name}",
                allowed="one batch size",
            )
        kind, count = (Batch, counts.pop()) if counts else (Tensor, 1)
        pipe = _Call(count, rng)
        push_pipeline(pipe)
        try:
            nodes = tuple(
                sample if sample is None else ComputedNode(_broadcast(sample, count)) for sample in samples
            )
            named = {
                name: ComputedNode(_broadcast(entry, count)) if is_samples(entry) else entry
                for name, entry in arguments.items()
            }
            result = holding(call_operator(row, nodes, named), run_of(count))
        finally:
            pop_pipeline()
    results = with_each_node(result, lambda node: kind._of(node.batch))
    return tuple(results) if isinstance(results, list) else results


def _samples_of(value: Any) -> Any:
    if isinstance(value, (TensorListCPU, TensorListGPU)):
        return Batch(value)
    return value if is_samples(value) else as_tensor(value)


def _plain(value: Any) -> Any:
    """Return an argument as ``fn`` takes it, but tensors and batches as they are."""
    if isinstance(value, DType):
        return value.type_id
    if isinstance(value, Device):
        return value.device_type
    if isinstance(value, (TensorListCPU, TensorListGPU)):
        return Batch(value)
    if isinstance(value, (list, tuple)) and any(map(is_samples, value)):
        if all(isinstance(item, Tensor) or not is_samples(item) for item in value):
            return as_tensor(np.stack([np.asarray(entry) for entry in value]))
        return value
    if (
        hasattr(value, "__dlpack__")
        and not isinstance(value, (np.ndarray, np.generic))
        and not is_samples(value)
    ):
        return as_tensor(value)
    return value


def _made(group: str, name: str) -> Any:
    """Return an operator, or the class of a reader; "" for the module itself."""
    full_name = f"{group}.{name}" if group else name
    if group.endswith("readers"):
        for operator in operators_in(group):
            if class_name(operator).lower() == name.lower():
                members = {
                    "operator": f"{group}.{operator}",
                    "__doc__": f"``fn.{group}.{operator}`` as an object.",
                }
                return type(name, (Reader,), members)
    elif (row := row_of(full_name)) is not None and full_name not in _NOT_HERE:
        return _function(full_name, row)
    raise AttributeError(f"module 'seqpipe.dali.experimental.dynamic' has no operator {full_name!r}")


def _function(name: str, row: Row) -> Callable[..., Any]:
    def function(*inputs: Any, **arguments: Any) -> Any:
        return computed(row, inputs, arguments)

    function.__name__ = name.rpartition(".")[2]
    function.__qualname__ = name
    function.__doc__ = f"``fn.{name}``, computed at once."
    return function


class Reader:
    """A reader of data sets: :meth:`next_epoch` returns its batches.

    Args:
        **arguments: arguments of the reader in ``fn``.

    Raises:
        ParameterError: the reader is not available.
    """

    operator = ""

    def __init__(self, **arguments: Any) -> None:
        arguments.pop("max_batch_size", None)
        arguments = {name: _plain(argument) for name, argument in arguments.items()}
        wanted = arguments.get("device")
        if wanted == "gpu" and not any(kind in self.operator for kind in ("video", "numpy", "fits")):
            raise dali_error(f"Invalid device {wanted!r}", source=f"ndd.{self.operator}", allowed="'cpu'")
        self._arguments, self._batch_size = {**arguments, "name": "reader"}, 0
        self._pipe: Pipeline | None = None
        self._structure: Any = None
        self._state: Any = None
        row = row_of(self.operator)
        assert row is not None
        self._row = row
        if row.why:
            call_operator(row, (), {})

    def next_epoch(
        self,
        batch_size: int | None = None,
        *,
        ctx: Any = None,  # noqa: ARG002  DALI's signature
        capture: bool = False,  # noqa: ARG002  likewise
    ) -> Iterator[Any]:
        """Return an iterator over the next epoch; after a ``break``, over the rest of the epoch.

        Args:
            batch_size: number of samples in each batch; the last batch is completed from the epoch's start. None for
                single samples.
            ctx: the context of evaluation; by default the current one.
            capture: accepted and ignored: batches are always read ahead.

        Yields:
            A tuple of batches, or of tensors without a batch size; a dictionary of them for TFRecord.

        Raises:
            StateError: another batch size was used before.
        """
        pipe, kind = self._piped(batch_size), Tensor if batch_size is None else Batch
        while (result := pipe.next_batch()) is not None:
            values = iter(result.values)
            made = with_each_node(self._structure, lambda _: kind._of(value_of(next(values))))  # noqa: B023
            yield (
                tuple(made)
                if isinstance(made, list)
                else made
                if isinstance(made, (tuple, dict))
                else (made,)
            )
        pipe.reset()

    def _piped(self, batch_size: int | None) -> Pipeline:
        count = batch_size or 1
        if self._pipe is not None and self._batch_size == count:
            return self._pipe
        if self._pipe is not None:
            raise StateError(
                f"batch_size={batch_size} after epochs of {self._batch_size}",
                source=f"ndd.{self.operator}",
                allowed="one batch size for a reader",
                advice="Create a reader for each",
            )
        context = EvalContext.current()
        pipe = Pipeline(count, context.num_threads, context.device_id, seed=rng_of(None)() >> 1)
        with as_dali_raises, pipe:
            self._structure = call_operator(self._row, (), dict(self._arguments))
        pipe.set_outputs(*flat(self._structure))
        pipe.build()
        source = pipe.source_of_reader("reader")
        pipe.reserve_for("an iterator", "reader", "pad" if source.declared_pad else "fill")
        if self._state is not None:
            pipe.load_state_dict(self._state)
        self._pipe, self._batch_size = pipe, count
        return pipe

    def get_metadata(self) -> dict[str, Any]:
        """Return the sizes and shards of the data set; see ``reader_meta``."""
        if self._pipe is not None:
            return self._pipe.reader_meta("reader")
        pipe = Pipeline(1, 1, EvalContext.current().device_id, seed=0)
        with as_dali_raises, pipe:
            pipe.set_outputs(*flat(call_operator(self._row, (), dict(self._arguments))))
        meta = pipe.reader_meta("reader")
        pipe.close()
        return meta

    def get_state(self) -> Any:
        """Return the position as plain values, for :meth:`set_state`."""
        return self._state if self._pipe is None else dict(self._pipe.state_dict())

    def set_state(self, state: Any) -> None:
        """Continue from a state; before the first epoch.

        Raises:
            StateError: the reader has begun.
        """
        if self._pipe is not None:
            raise StateError("the reader has begun", source=f"ndd.{self.operator}", advice="Create it anew")
        self._state = state


class ExternalSource:
    """Values of a function or an iterable, one at each call.

    Args:
        source: a callable without arguments, or an iterable; it returns an array or a batch, or a tuple of them.
        num_outputs: number of values in each tuple; None for values that are no tuples.
        cycle: what follows the end of an iterable: "no" raises StopIteration at each call, "quiet" starts anew, and
            "raise" raises StopIteration once and then starts anew.
        device: device of the values.
        layout: letters of the axes; one for all, or one for each output.
        dtype: type of the values; one for all, or one for each output.
    """

    def __init__(
        self,
        source: Any,
        num_outputs: int | None = None,
        *,
        cycle: str | bool | None = None,
        device: Any = "cpu",
        layout: Any = None,
        dtype: Any = None,
    ) -> None:
        allowed = (None, False, "no") if callable(source) else (None, False, True, "no", "quiet", "raise")
        if cycle not in allowed:
            raise ParameterError(
                f"cycle={cycle!r} is not valid",
                source="ndd.ExternalSource",
                allowed="'no', 'quiet' and 'raise', of iterables",
            )
        self._source, self._iterator = source, None if callable(source) else iter(source)
        self._cycle, self._count = cycle, num_outputs
        self._options = (device, layout, dtype)

    def __call__(self, *, batch_size: int | None = None) -> Any:
        """Return the next value: a batch with ``batch_size``, whose arrays are repeated or have an axis of samples."""
        values = self._source() if self._iterator is None else self._following()
        parts = values if self._count is not None else (values,)
        if len(parts) != len(self._of_each(None)):
            raise ParameterError(
                f"{len(parts)} values", source="ndd.ExternalSource", allowed=f"{self._count} (num_outputs)"
            )
        made = [
            self._converted(part, batch_size, layout, kind)
            for part, layout, kind in zip(
                parts, self._of_each(self._options[1]), self._of_each(self._options[2]), strict=True
            )
        ]
        return tuple(made) if self._count is not None else made[0]

    def _of_each(self, option: Any) -> list[Any]:
        count = self._count or 1
        return list(option) if isinstance(option, (list, tuple)) else [option] * count

    def _following(self) -> Any:
        assert self._iterator is not None
        try:
            return next(self._iterator)
        except StopIteration:
            if self._cycle in (None, False, "no"):
                raise
            self._iterator = iter(self._source)
            if self._cycle == "raise":
                raise
            return next(self._iterator)

    def _converted(self, part: Any, batch_size: int | None, layout: str | None, kind: Any) -> Any:
        device = self._options[0]
        if isinstance(part, (Batch, list, TensorListCPU, TensorListGPU)):
            return as_batch(part, dtype=kind, device=device, layout=layout)
        if batch_size is None:
            return as_tensor(part, dtype=kind, device=device, layout=layout)
        made = Batch.broadcast(part, batch_size, device=device, dtype=kind)
        return as_batch(made, layout=layout)


def imread(filepaths: Any, /, *, device: Any = "cpu", **arguments: Any) -> Any:
    """Return the image of a file, or a batch of images for a list, a tuple or a batch of paths.

    Args:
        filepaths: a path, paths, or a tensor or a batch with their bytes.
        device: device of the images.
        arguments: arguments of ``fn.decoders.image``.
    """
    if isinstance(filepaths, (list, tuple)):
        texts: Any = as_batch([_path_bytes(path) for path in filepaths])
    else:
        texts = filepaths if is_samples(filepaths) else _path_bytes(filepaths)
    data = GROUP.io.file.read(texts)
    return GROUP.decoders.image(
        data, device="mixed" if str(device).startswith("gpu") else device, **arguments
    )


def _path_bytes(path: Any) -> Tensor:
    if isinstance(path, Tensor):
        return path
    made: Tensor = Tensor._of(Value(np.frombuffer(os.fsencode(path), np.uint8)[None]))
    return made


GROUP: Final = OperatorGroup(
    "experimental.dynamic",
    "",
    _made,
    lambda group, operator: class_name(operator) if group.endswith("readers") else operator,
)
"""The operators of dynamic mode, and its readers."""
