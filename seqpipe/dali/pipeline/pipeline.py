"""Pipeline with DALI's interface: defined by functions, ``with`` blocks or classes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from ...array import on_gpu
from ...core.json_text import parse_json
from ...core.turns import TakesTurns
from ...core.whole_file import replacing
from ...dataset.dealt import Last
from ...errors import ParameterError, SeqpipeError, StateError
from ...ops import DataNode as NativeNode
from ...pipeline import Graph
from ...pipeline.executor import BatchResult, Executor
from ...pipeline.source import BatchSource, SourceNode
from ...random import new_seed
from ..data_node import DataNode, attached, current, node_of, pop_pipeline, push_pipeline
from ..device import gpu_number
from ..dtypes import CPU_ONLY_DEVICE_ID, dali_type, dtype_name
from ..raised import as_dali_raises
from ..reading import Indexed, SampleCounter
from ..serialized import SerializedPipeline
from ..sources.copying import plan_copies
from ..sources.mapped import owned
from ..sources.pushed import PushSource, push_source
from ..sources.staging import Staging
from ..tensors import TensorListCPU, TensorListGPU, tensor_list
from ..value import value_of
from .description import PipelineDescription, UnknownSourceError, all_nodes, dot_text
from .state import graph_fingerprint, load_state, state_of

__all__ = ["NotBuiltError", "Pipeline"]


class NotBuiltError(SeqpipeError, RuntimeError):
    """A method was called that the pipeline's state does not allow, such as before ``build()``."""


class Pipeline(TakesTurns, PipelineDescription, SerializedPipeline):
    """A graph of operators with its readers and sources; see ``nvidia.dali.Pipeline``.

    ``run()`` builds the pipeline if necessary. With readers it never ends: epochs follow one another, each completed to
    whole batches with its first samples. The number of threads, ``exec_*`` and the depth of the queue change the speed,
    but neither samples nor sampled parameters. Derived classes may use any names that DALI leaves free for their own
    attributes, such as ``self.reader`` or ``self.gpu``. Arguments that are not listed, such as ``set_affinity``, are
    accepted without effect.

    Args:
        batch_size: maximum number of samples in a batch.
        num_threads: threads that decode; by default one for each core.
        device_id: number of the GPU; None for a pipeline on the CPU.
        seed: seed of operators without their own, and of readers that shuffle one shard of several; None and -1 draw
            one anew for each pipeline, as in DALI, which :attr:`seed` tells. State it for the same numbers in each run.
        exec_pipelined: False disables reading ahead.
        prefetch_queue_depth: number of batches to compute ahead.
        exec_async: with ``exec_pipelined``: whether to compute batches ahead.
        py_num_workers: processes of each external source that is declared with ``parallel=True``.
        py_start_method: start method of these processes, "fork" or "spawn".
        enable_checkpointing: accepted without effect, as states can always be saved.
        checkpoint: a result of :meth:`checkpoint` to continue from.
        output_dtype: required dtype of outputs; one for all, or one for each.
        output_ndim: required number of axes of output samples; one for all, or one for each.
        output_layout: required layout of output samples; one for all, or one for each.

    Raises:
        ParameterError: an argument is not valid.
    """

    in_turn = ("build", "run", "schedule_run", "outputs", "next_batch", "checkpoint")
    is_draft = False
    """Whether it only stands for a pipeline that is not known yet."""
    computes = False
    """Whether operators compute when they are called, in debug mode."""

    def __init__(
        self,
        batch_size: int = -1,
        num_threads: int = -1,
        device_id: int | None = -1,
        seed: int | None = -1,
        exec_pipelined: bool = True,
        prefetch_queue_depth: Any = 2,
        exec_async: bool = True,
        bytes_per_sample: int = 0,  # noqa: ARG002  of DALI's own memory
        set_affinity: bool = False,  # threads stay where the system puts them
        max_streams: int | None = None,  # likewise
        default_cuda_stream_priority: int | None = None,  # likewise
        *,
        enable_memory_stats: bool = False,
        enable_checkpointing: bool = False,  # noqa: ARG002  states can always be saved
        checkpoint: str | None = None,
        py_num_workers: int = 1,
        py_start_method: Literal["fork", "spawn"] = "fork",
        py_callback_pickler: Any = None,  # noqa: ARG002  sources are inherited, or pickled by pickle
        output_dtype: Any = None,
        output_ndim: Any = None,
        exec_dynamic: bool | None = None,  # there is one executor
        experimental_exec_dynamic: bool | None = None,  # noqa: ARG002  likewise
        output_layout: Any = None,
        stream_policy: Any = None,  # likewise
        concurrency: Any = None,  # likewise
    ) -> None:
        batch_size = int(batch_size) if hasattr(batch_size, "__index__") else batch_size
        if not (batch_size == -1 or (isinstance(batch_size, int) and batch_size > 0)):
            raise ParameterError(
                f"batch_size={batch_size!r} is not valid", source="Pipeline", allowed="1 or more"
            )
        self._batch_size, self._num_threads = batch_size, num_threads
        self._device_id = {-1: 0, CPU_ONLY_DEVICE_ID: None}.get(device_id, device_id)  # type: ignore[arg-type]
        self._checkpoint = checkpoint
        stated = seed if seed is not None and seed >= 0 else None
        self._seed, self._draws_seed = _seed_in(checkpoint) if stated is None else (stated, False)
        depth = prefetch_queue_depth
        depth = max(depth.values(), default=2) if isinstance(depth, dict) else depth
        self._prefetch_count = int(depth) if exec_pipelined and exec_async else 0
        self._queue_depth = prefetch_queue_depth
        self.py_num_workers, self.py_start_method = py_num_workers, py_start_method
        self.exec_pipelined, self.exec_async = exec_pipelined, exec_async
        self.exec_dynamic = bool(exec_dynamic)
        self.set_affinity, self.max_streams = set_affinity, max_streams
        self.enable_memory_stats = enable_memory_stats
        self._output_dtype, self._output_ndim = output_dtype, output_ndim
        self._output_layout, self.default_cuda_stream_priority = output_layout, default_cuda_stream_priority
        self.stream_policy, self.concurrency = stream_policy, concurrency
        self._counts: Counts[str] = Counts()
        self._outputs: tuple[DataNode, ...] = ()
        self._declared: list[Any] = []
        self._named_sources: dict[str, BatchSource] = {}
        self._graph: Graph | None = None
        self._executor: Executor | None = None
        self._copy_notes: tuple[str, ...] = ()
        self._caller = ""
        self.attached_nodes: dict[DataNode, DataNode] = {}
        self.scope: Any = None
        self.anonymous = 0

    def __enter__(self) -> Pipeline:
        push_pipeline(self)
        return self

    def __exit__(self, *_: object) -> None:
        pop_pipeline()

    @staticmethod
    def current() -> Pipeline | None:
        """Return the pipeline that is being defined in this thread, or None."""
        pipeline: Pipeline | None = current()
        return pipeline

    def gpu_index(self) -> int | None:
        """Return the number of the GPU that the pipeline runs on; None for the CPU."""
        return None if self._device_id is None else gpu_number(self._device_id)

    def seed_of(self, name: str, seed: int | None, *, shared: bool = False) -> int:
        """Return the seed of an operator: its own, or one derived from the pipeline's and the operator's occurrence.

        Args:
            name: name of the operator.
            seed: the operator's argument; None or -1 for none.
            shared: whether other processes must have the same; a seed that the pipeline drew does not count then.
        """
        if seed is not None and seed != -1:
            return int(seed)
        own = 0 if shared and self._draws_seed else self._seed
        number, self._counts[name] = self._counts[name], self._counts[name] + 1
        if not number:
            return own
        digest = hashlib.blake2b(f"{own} {name} {number}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") >> 1

    def register_source(self, name: str | None, source: BatchSource) -> None:
        """Register a source under a name, unless the name is None.

        Raises:
            ParameterError: another source has this name.
        """
        if name is None:
            return
        if name in self._named_sources:
            raise ParameterError(
                f"two sources have the name {name!r}", source="Pipeline", allowed="different names"
            )
        self._named_sources[name] = source

    def define_graph(self) -> Any:
        """Return the output nodes; derived classes override it."""
        return self._outputs or None

    def iter_setup(self) -> None:
        """Feed the sources for the next batch; derived classes override it. StopIteration ends the epoch."""

    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs of the pipeline.

        Raises:
            ParameterError: there is no output, or an output cannot be converted to a node.
        """
        nodes = [
            item
            for output in outputs
            for item in (output if isinstance(output, (list, tuple)) else (output,))
        ]
        if not nodes or any(entry is None for entry in nodes):
            raise _no_output("Return nodes from the function, or call set_outputs within the with block")
        with self:
            self._declared = [node_of(node) for node in nodes]
            self._outputs = tuple(_in_memory(node_of(attached(element, self))) for element in self._declared)

    @property
    def built(self) -> bool:
        """Whether the pipeline is built."""
        return self._executor is not None

    def build(self) -> None:
        """Check the graph and prepare the executor; ``run()`` calls it if necessary.

        Raises:
            ParameterError: there are no outputs, or an operator does not accept its inputs.
            StateError: the checkpoint belongs to another pipeline, or is not the text of one.
        """
        if self._executor is None:
            with as_dali_raises:
                self._build()

    def _build(self) -> None:
        if type(self).define_graph is not Pipeline.define_graph:
            with self:
                outputs = self.define_graph()
            if outputs is not None:
                self.set_outputs(outputs)
        if not self._outputs:
            raise _no_output("Call set_outputs(…) in the with block, or return nodes from define_graph")
        graph = Graph(*self._outputs)
        nodes = [node for node in graph.input_nodes if isinstance(node, SourceNode)]
        nodes.sort(key=lambda node: node.order)
        sources = list(dict.fromkeys(node.source for node in nodes)) or [SampleCounter(self.batch_size)]
        setup = self.iter_setup if type(self).iter_setup is not Pipeline.iter_setup else None
        self._graph = graph
        self._copy_notes = plan_copies(graph, self._prefetch_count, self._gpu_of_nodes())
        self._executor = Executor(sources, nodes, graph, self._prefetch_count, setup, self._device_context())
        if self._checkpoint:
            try:
                state = parse_json(self._checkpoint)
            except ValueError as error:
                raise StateError(
                    f"the checkpoint is not JSON ({error})",
                    source="Pipeline",
                    allowed="a result of checkpoint()",
                ) from error
            load_state(self._executor, state, self.fingerprint)

    def _gpu_of_nodes(self) -> int | None:
        """Return the number of the GPU that some nodes run on; None if all run on the CPU."""
        uses_gpu = any(getattr(node, "device", "cpu") == "gpu" for node in all_nodes(self._outputs))
        return self.gpu_index() if uses_gpu else None

    def _device_context(self) -> Callable[[], AbstractContextManager[Any]] | None:
        """Return a function that selects the GPU of the nodes; None if all run on the CPU."""
        number = self._gpu_of_nodes()
        return None if number is None else functools.partial(on_gpu, number)

    @property
    def executor(self) -> Executor:
        """The executor.

        Raises:
            NotBuiltError: the pipeline is not built.
        """
        if self._executor is None:
            raise NotBuiltError(
                "the pipeline is not built",
                source="Pipeline",
                advice="Call build() first; run() builds by itself",
            )
        return self._executor

    def reserve_for(self, caller: str, reader: str | None = None, last_batch: Last | None = None) -> None:
        """Reserve the pipeline for one caller: ``run()``, or an iterator.

        Args:
            caller: name of the caller, for messages.
            reader: the reader whose epochs end one by one; None for endless readers.
            last_batch: policy for the reader's incomplete last batch.

        Raises:
            NotBuiltError: another caller runs the pipeline.
        """
        if self._caller and self._caller != caller:
            raise NotBuiltError(
                f"the pipeline is run by {self._caller}, and cannot be run by {caller} as well",
                source="Pipeline",
                advice="Create a pipeline for each",
            )
        self._caller = caller
        if reader is not None:
            source = self.source_of_reader(reader)
            source.endless, source.equal_steps = False, True
            source.last_batch = last_batch or source.last_batch

    def next_batch(self) -> BatchResult | None:
        """Return the next batch; None at the end of the epoch."""
        with as_dali_raises:
            batch = self.executor.next()
            if batch is not None:
                self._check_outputs(batch)
            return batch

    def _check_outputs(self, result: BatchResult) -> None:
        """Compare a batch with the arguments ``output_dtype`` and ``output_ndim``."""
        wanted = (self._output_dtype, self._output_ndim, self._output_layout)
        if all(output is None for output in wanted):
            return
        for required in (self.output_dtype(), self.output_ndim(), self.output_layout()):
            if len(required) != self.output_count:
                raise ParameterError(
                    f"Lengths of {required} and of the {self.output_count} outputs do not match",
                    source="Pipeline",
                )
        rows = zip(result.values, self.output_dtype(), self.output_ndim(), self.output_layout(), strict=True)
        for number, (made, dtype, ndim, layout) in enumerate(rows):
            value = value_of(made)
            dtype = None if dtype is None else dali_type(dtype_name(dtype)).name
            for what, actual, wanted_one in (
                ("Number of dimensions", value.ndim, ndim),
                ("Data type", dali_type(value.dtype.name).name, dtype),
                ("Layout", value.layout, layout),
            ):
                if wanted_one is not None and actual != wanted_one:
                    raise ParameterError(
                        f"{what} in the output_idx={number} does not match. Expected: {wanted_one}. Received: {actual}",
                        source="Pipeline",
                    )

    def run(self, cuda_stream: Any = None, **inputs: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:  # noqa: ARG002
        """Return the next batch: a list of tensors for each output.

        Args:
            cuda_stream: accepted and ignored; results are ready for the default stream.
            **inputs: batches for sources without their own data, by name; no batch may be pending then.

        Raises:
            StopIteration: a source has ended; ``reset()`` starts the next epoch.
            Exception: the error of this batch; the next call returns the batch after it.
        """
        self.build()
        self.reserve_for("run()")
        if inputs and self.executor.pending_batches:
            raise NotBuiltError(
                "run() has inputs while batches are pending",
                source="Pipeline",
                advice="Use feed_input for all",
            )
        for name, batch in inputs.items():
            self.feed_input(name, batch)
        return self._outputs_of(self.next_batch())

    def _outputs_of(self, result: BatchResult | None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        if result is None:
            raise StopIteration("the epoch has ended; reset() starts the next one")
        return tuple(tensor_list(value_of(value)) for value in result.values)

    def schedule_run(self) -> None:
        """Start a batch; ``outputs()`` returns it.

        Raises:
            NotBuiltError: the pipeline is not built.
        """
        executor = self.executor
        self.reserve_for("run()")
        executor.fill(executor.pending_batches + 1)

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorListCPU | TensorListGPU, ...]:  # noqa: ARG002
        """Return the first pending batch.

        Raises:
            NotBuiltError: the pipeline is not built.
            StopIteration: a source has ended.
        """
        _ = self.executor
        return self._outputs_of(self.next_batch())

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Return the same as :meth:`outputs`; the arrays stay valid."""
        return self.outputs(cuda_stream)

    def release_outputs(self) -> None:
        """Do nothing: outputs are valid while they are referenced."""

    def feed_input(
        self,
        data_node: Any,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,  # noqa: ARG002  read in the order of the default stream
        use_copy_kernel: bool = False,  # noqa: ARG002  of DALI's own memory
    ) -> None:
        """Append a batch to the queue of an external source without its own data.

        Args:
            data_node: name of the source, or its node.
            data: an array ``(N, …)``, a list of arrays, or a list of tensors.
            layout: letters of the axes of a sample; None for those of the declaration.
            cuda_stream: accepted and ignored; arrays on a GPU are read in the order of the default stream.
            use_copy_kernel: accepted and ignored.

        Raises:
            KeyError: the source does not exist.
            ParameterError: the batch does not match the declaration of the source.
        """
        self.build()
        executor, layout = self.executor, layout or None
        name = data_node
        if isinstance(data_node, NativeNode):
            data_node = self.attached_nodes.get(data_node, data_node)  # type: ignore[call-overload]
            node = next((n for n in all_nodes((data_node,)) if isinstance(n, SourceNode)), None)
            if node is None or not isinstance(node.source, PushSource):
                raise ParameterError(
                    f"{data_node} is not an external source without its own data", source="feed_input"
                )
            if node.source not in executor.sources:
                return  # no output depends on it
            node.source.feed(data, layout)
            return
        if name in self._named_sources and self._named_sources[name] not in executor.sources:
            return
        try:
            feed = push_source(executor.sources, name)
        except ParameterError as error:
            raise UnknownSourceError(error.fact, source="feed_input", allowed=error.allowed) from None
        feed.feed(data, layout)

    @property
    def restarts(self) -> bool:
        """Whether a source restarts at each epoch, even if the previous epoch was not finished."""
        return any(getattr(source, "restarts", False) for source in self.executor.sources)

    def reset(self) -> None:
        """Start the next epoch of all sources, except for endless readers."""
        executor = self.executor
        positions = executor.positions()
        executor.go_to(
            [
                (epoch, position, None)
                if isinstance(source, Indexed) and source.endless
                else (epoch + 1, 0, None)
                for source, (epoch, position, _) in zip(executor.sources, positions, strict=True)
            ]
        )

    def empty(self) -> bool:
        """Return whether no batch is pending."""
        return self._executor is None or not self._executor.pending_batches

    @property
    def fingerprint(self) -> str:
        """Digest of everything that determines the batches."""
        assert self._graph is not None
        return f"{graph_fingerprint(self._graph, self.executor.sources)} batch={self.batch_size}"

    def state_dict(self) -> Mapping[str, Any]:
        """Return the position as plain values."""
        self.build()
        return {**state_of(self.executor, self.fingerprint), "seed": self._seed, "drawn": self._draws_seed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state with exactly the batches that would have followed.

        Raises:
            StateError: the state belongs to another pipeline, or a source cannot continue from it.
        """
        self.build()
        own, stored = self.fingerprint, state if isinstance(state, Mapping) else {}
        seed = stored.get("seed")
        if self._draws_seed and "seed" in stored and seed != self._seed and stored.get("fingerprint") != own:
            raise StateError(
                f"the state has the seed {seed}, and this pipeline drew another",
                source="Pipeline",
                advice="State the same seed=… in both programs, or pass the text of checkpoint() as "
                "Pipeline(checkpoint=…)",
            )
        load_state(self.executor, state, own)

    def checkpoint(self, filename: str | None = None) -> str:
        """Return the state as text, for ``Pipeline(checkpoint=…)``; with a file name, also write it there, atomically.

        Raises:
            StateError: a source's own state cannot be represented as JSON.
            OSError: the file cannot be written.
        """
        try:
            text = json.dumps(self.state_dict())
        except TypeError as error:
            raise StateError(
                f"the state of a source is no plain value: {error}", source="checkpoint"
            ) from error
        if filename is not None:
            _write(filename, text)
        return text

    def executor_statistics(self) -> Mapping[str, Any]:
        """Return the times of the stages; see :meth:`seqpipe.dataset.Epoch.stats`."""
        return self.executor.statistics()

    stats = executor_statistics

    def save_graph_to_dot_file(self, filename: str, **_: Any) -> None:
        """Write the graph in Graphviz's DOT language, atomically."""
        self.build()
        _write(filename, dot_text(self._outputs, self._copy_notes))

    def start_py_workers(self) -> None:
        """Do nothing: workers start when they are needed."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[TensorListCPU | TensorListGPU, ...]:
        return self.run()

    def close(self) -> None:
        """Cancel pending batches, and stop the threads and the readers."""
        if self._executor is not None:
            self._executor.close()


def _seed_in(checkpoint: str | None) -> tuple[int, bool]:
    """Return the seed in a checkpoint, and whether it was drawn; a new one if there is none, or no checkpoint."""
    try:
        state = parse_json(checkpoint or "{}")
        seed, drawn = state.get("seed"), state.get("drawn", False)
    except (ValueError, AttributeError):  # build() tells
        seed, drawn = None, True
    return (seed, bool(drawn)) if isinstance(seed, int) and seed >= 0 else (new_seed(), True)


def _in_memory(node: DataNode) -> DataNode:
    """Return an output whose arrays belong to the user, not to a file."""
    if not node.maps_files:
        return node
    memory = Staging()
    return DataNode(node.label, [node], lambda v, _: owned(v[0], memory), device=node.device)


def _no_output(advice: str) -> ParameterError:
    return ParameterError(
        "the pipeline has no output", source="Pipeline", allowed="one output or more", advice=advice
    )


def _write(filename: str, text: str) -> None:
    with replacing(Path(filename)) as temporary:
        temporary.write_text(text, encoding="utf-8")
