"""Debug mode: a pipeline whose operators compute when they are called, so that values can be printed in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...errors import ParameterError, StateError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ..call import called
from ..computed import ComputedNode, evaluated, flat, holding, run_of, with_each_node
from ..data_node import nodes_in
from ..declared import Row
from ..raised import as_dali_raises
from ..tensors import TensorListCPU, TensorListGPU, tensor_list
from ..value import Value, value_of
from .pipeline import Pipeline

__all__ = ["DebugPipeline"]

_SOURCES: Final = ("readers.", "experimental.readers.", "experimental.inputs.", "external_source")


class _SourcePipeline(Pipeline):
    """The pipeline of one reader or external source of a pipeline in debug mode; seeds are those of the latter."""

    owner: DebugPipeline

    def seed_of(self, name: str, seed: int | None, *, shared: bool = False) -> int:
        """See :meth:`Pipeline.seed_of`."""
        return self.owner.seed_of(name, seed, shared=shared)


class DebugPipeline(Pipeline):
    """A pipeline in debug mode: each ``run()`` calls the defining function, whose operators compute at their call.

    Args:
        define: the function, which returns nodes.
        options: arguments of :class:`Pipeline`.
    """

    def __init__(self, define: Callable[[], Any], **options: Any) -> None:
        super().__init__(**options)
        self._define = define
        self._inner: list[tuple[Row, _SourcePipeline, Any]] = []
        self._fed: dict[str, list[tuple[Any, str | None]]] = {}
        self._known: dict[int, Any] = {}
        self._run, self._iteration, self._sources_used = run_of(1), 0, 0

    computes = True

    def build(self) -> None:
        """Do nothing: operators are prepared when they are called."""

    @property
    def built(self) -> bool:
        """Whether the pipeline is built; always."""
        return True

    def feed_input(self, data_node: Any, data: Any, layout: str | None = None, *_: Any, **__: Any) -> None:
        """Append a batch to the queue of an external source without its own data; see :meth:`Pipeline.feed_input`."""
        for row, pipe, _result in self._inner:
            if row.name == "external_source" and data_node in pipe.source_names:
                pipe.feed_input(data_node, data, layout)
                return
        if isinstance(data_node, NativeNode):
            raise ParameterError(
                "feed_input of a node",
                source="Pipeline",
                allowed="the name of the source, in debug mode",
            )
        self._fed.setdefault(data_node, []).append((data, layout))

    def run(self, cuda_stream: Any = None, **inputs: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:  # noqa: ARG002
        """Call the defining function, and return what its nodes hold; see :meth:`Pipeline.run`."""
        for name, batch in inputs.items():
            self.feed_input(name, batch)
        self._counts.clear()
        self._known.clear()
        self.attached_nodes.clear()
        self.anonymous, self._sources_used = 0, 0
        self._run = run_of(self.batch_size, 0, self._iteration * self.batch_size)
        with as_dali_raises, self:
            result = self._define()
            outputs = self._outputs if result is None else nodes_in(result)
            lists = tuple(self.batch_of(output) for output in outputs)
        self._iteration += 1
        return lists

    def batch_of(self, output: Any) -> TensorListCPU | TensorListGPU:
        """Return the batch of a node, or of a value that is the same for all samples."""
        if isinstance(output, (TensorListCPU, TensorListGPU)):
            return output
        if isinstance(output, NativeNode):
            return tensor_list(value_of(evaluated(output, self._run, self._known)))
        value = np.asarray(output)
        return TensorListCPU(Value(np.broadcast_to(value, (len(self._run.index), *value.shape)).copy()))

    def computed(self, row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Return the nodes of a call, which hold their values; calls without inputs compute when they are used."""
        inputs = tuple(map(_as_node, inputs))
        of_nodes = any(isinstance(operand, (NativeNode, list)) for operand in inputs)
        if not of_nodes and row.name.startswith(_SOURCES):
            return self._next_of_source(row, inputs, arguments)
        result = called(row, inputs, {name: _as_node(argument) for name, argument in arguments.items()})
        return holding(result, self._run, self._known) if of_nodes else result

    def _next_of_source(self, row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Return the next batch of a reader or an external source, which is made at the first iteration."""
        number, self._sources_used = self._sources_used, self._sources_used + 1
        if number == len(self._inner):
            self._inner.append(self._new_source(row, inputs, arguments))
        known_row, pipe, result = self._inner[number]
        if known_row.name != row.name:
            raise StateError(
                f"source {number} of the iteration is fn.{row.name}, and was fn.{known_row.name}",
                source="Pipeline",
                advice="Call the same readers and external sources in each iteration, in the same order",
            )
        batch = pipe.next_batch()
        if batch is None:
            raise StopIteration("the epoch has ended; reset() starts the next one")
        if number == 0:
            count = len(batch.samples.indices)
            self._run = Run(batch.samples.epoch, batch.samples.indices, count, None, None, None)
        values = iter(batch.values)
        return with_each_node(result, lambda _: ComputedNode(value_of(next(values)), row.name))

    def _new_source(
        self, row: Row, inputs: tuple[Any, ...], arguments: dict[str, Any]
    ) -> tuple[Row, _SourcePipeline, Any]:
        pipe = _SourcePipeline(self.batch_size, self._num_threads, self._device_id, self._seed)
        pipe.owner, pipe.anonymous = self, self.anonymous
        with pipe:
            result = called(row, inputs, dict(arguments))
        self.anonymous = pipe.anonymous
        pipe.set_outputs(*flat(result))
        pipe.build()
        for name in pipe.source_names & self._fed.keys():
            for data, layout in self._fed.pop(name):
                pipe.feed_input(name, data, layout)
        return row, pipe, result

    def reset(self) -> None:
        """Start the next epoch of all sources; see :meth:`Pipeline.reset`."""
        for _, pipe, _result in self._inner:
            pipe.reset()

    def close(self) -> None:
        """Stop the readers."""
        for _, pipe, _result in self._inner:
            pipe.close()


def _as_node(value: Any) -> Any:
    """Return a list of tensors, such as a result of ``get()``, as a node; other arguments unchanged."""
    return ComputedNode(value.value) if isinstance(value, (TensorListCPU, TensorListGPU)) else value
