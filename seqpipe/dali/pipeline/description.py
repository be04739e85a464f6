"""What a pipeline's definition determines: its properties, its outputs, its readers' metadata, its graph as text."""

from __future__ import annotations

from typing import Any

from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...pipeline import Graph
from ...pipeline.source import BatchSource
from ..data_node import DataNode, pop_pipeline, push_pipeline
from ..reading import Indexed

__all__ = ["PipelineDescription", "UnknownSourceError", "all_nodes", "dot_text"]


class UnknownSourceError(ParameterError, KeyError):
    """No reader or source has the given name."""


class PipelineDescription:
    """The part of :class:`seqpipe.dali.Pipeline` that does not depend on its state."""

    _batch_size: int
    _num_threads: int
    _device_id: int | None
    _seed: int
    _queue_depth: Any
    _checkpoint: str | None
    _output_dtype: Any
    _output_ndim: Any
    _output_layout: Any
    _outputs: tuple[DataNode, ...]
    _named_sources: dict[str, BatchSource]

    @property
    def batch_size(self) -> int:
        """Maximum number of samples in a batch.

        Raises:
            ParameterError: the pipeline has no batch size yet.
        """
        if self._batch_size == -1:
            raise ParameterError(
                "batch_size is missing",
                source="Pipeline",
                advice="Pass it to the pipeline: pipe(batch_size=8)",
            )
        return self._batch_size

    max_batch_size = batch_size

    @property
    def num_threads(self) -> int | None:
        """Number of decoding threads; None for one per core."""
        return None if self._num_threads == -1 else self._num_threads

    @property
    def device_id(self) -> int | None:
        """Number of the GPU; None for a pipeline on the CPU."""
        return self._device_id

    @property
    def seed(self) -> int:
        """Seed of operators without their own."""
        return self._seed

    @property
    def prefetch_queue_depth(self) -> Any:
        """The argument ``prefetch_queue_depth``."""
        return self._queue_depth

    @property
    def cpu_queue_size(self) -> int:
        """Number of batches that are computed ahead on the CPU."""
        return self._queue_size("cpu_size")

    @property
    def gpu_queue_size(self) -> int:
        """Number of batches that are computed ahead on a GPU."""
        return self._queue_size("gpu_size")

    def _queue_size(self, key: str) -> int:
        return int(self._queue_depth[key] if isinstance(self._queue_depth, dict) else self._queue_depth)

    @property
    def exec_separated(self) -> bool:
        """Whether the queues of the CPU and of a GPU have depths of their own."""
        return isinstance(self._queue_depth, dict)

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether the pipeline continues from a checkpoint."""
        return bool(self._checkpoint)

    @property
    def output_count(self) -> int:
        """Number of outputs."""
        return len(self._outputs)

    @property
    def output_labels(self) -> list[str]:
        """Label of each output's node."""
        return [node.label for node in self._outputs]

    def output_dtype(self) -> list[Any]:
        """Return the required type of each output; None for any."""
        return self._by_output(self._output_dtype)

    def output_ndim(self) -> list[int | None]:
        """Return the required number of axes of each output's samples; None for any."""
        return self._by_output(self._output_ndim)

    def output_layout(self) -> list[str | None]:
        """Return the required layout of each output; None for any."""
        return self._by_output(self._output_layout)

    def _by_output(self, argument: Any) -> list[Any]:
        return list(argument) if isinstance(argument, (list, tuple)) else [argument] * self.output_count

    num_outputs = output_count

    def input_feed_count(self, input_name: str) -> int:  # noqa: ARG002  the same for each
        """Return how many batches an input needs before the first run: as many as are computed ahead."""
        return self.cpu_queue_size

    @property
    def source_names(self) -> frozenset[str]:
        """Names of the readers and external sources."""
        return frozenset(self._named_sources)

    def source_of_reader(self, name: str | None) -> Indexed:
        """Return a reader by its name; for None the only reader.

        Raises:
            KeyError: the reader does not exist.
        """
        readers = {key: source for key, source in self._named_sources.items() if isinstance(source, Indexed)}
        if name is None and len(readers) == 1:
            return next(iter(readers.values()))
        if name not in readers:
            raise UnknownSourceError(
                f"there is no reader {name!r}",
                source="Pipeline",
                allowed=", ".join(map(repr, readers)) or "none: no reader was given a name=",
            )
        return readers[name]

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Return the metadata of a reader, or of all readers by their names."""
        if name is None:
            return {
                key: _reader_meta(known)
                for key, known in self._named_sources.items()
                if isinstance(known, Indexed)
            }
        return _reader_meta(self.source_of_reader(name))

    def epoch_size(self, name: str | None = None) -> Any:
        """Return the number of samples of an epoch over all shards, of a reader, or of all readers by their names."""
        if name is None:
            return {
                key: _epoch_size(known)
                for key, known in self._named_sources.items()
                if isinstance(known, Indexed)
            }
        return _epoch_size(self.source_of_reader(name))

    @classmethod
    def push_current(cls, pipeline: Any) -> None:
        """Begin the definition of a pipeline, as ``with pipeline:`` does."""
        push_pipeline(pipeline)

    @classmethod
    def pop_current(cls) -> None:
        """End the definition that :meth:`push_current` began."""
        pop_pipeline()


def _epoch_size(source: Indexed) -> int:
    """Return the number of samples of an epoch over all shards, including padding if the reader pads."""
    meta = _reader_meta(source)
    return int(meta["epoch_size_padded"] if meta["pad_last_batch"] else meta["epoch_size"])


def _reader_meta(source: Indexed) -> dict[str, Any]:
    """Return a reader's metadata in the form of DALI's ``reader_meta``."""
    order = source.order
    largest_shard = -(-order.size // order.shard[1])
    return {
        "epoch_size": order.size,
        "epoch_size_padded": largest_shard * order.shard[1],
        "number_of_shards": order.shard[1],
        "shard_id": order.shard[0],
        "pad_last_batch": int(source.declared_pad),
        "stick_to_shard": int(order.stick_to_shard),
    }


def all_nodes(outputs: tuple[NativeNode, ...]) -> list[NativeNode]:
    """Return the nodes that outputs depend on, including the outputs."""
    return list(Graph(*outputs).nodes)


def dot_text(outputs: tuple[NativeNode, ...], remarks: tuple[str, ...] = ()) -> str:
    """Return the graph of some outputs in Graphviz's DOT language, with remarks as comments."""
    nodes = all_nodes(outputs)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    lines = [f'  n{numbers[id(node)]} [label="{_escaped(node.label)}"];' for node in nodes]
    lines += [
        f"  n{numbers[id(operand)]} -> n{numbers[id(node)]};" for node in nodes for operand in node.operands
    ]
    return "".join(f"// {remark}\n" for remark in remarks) + "digraph {\n" + "\n".join(lines) + "\n}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
