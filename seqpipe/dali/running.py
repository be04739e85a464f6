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

from ..array import on_gpu
from ..errors import ParameterError, SeqpipeError, StateError
from ..ops import DataNode as NativeNode
from ..pipeline import Graph
from ..pipeline.executor import Executor, Made
from ..pipeline.external import Feed
from ..pipeline.gathering import plan_gathering
from ..pipeline.nodes import Fed
from ..pipeline.pipeline import feed_of, graph_fingerprint, load_state, sources_of, state_of
from ..pipeline.source import BatchSource, Counter, Indexed, PipelineLastBatch
from ..pipeline.value import Value, value_of
from .data_node import DataNode, current, entered, left, node_of
from .describe import all_nodes, dot_text, epoch_samples, reader_facts
from .device import gpu_number
from .tensors import TensorListCPU, TensorListGPU, listed
from .types import dtype_name

__all__ = ["NotBuiltError", "Pipeline", "UnknownSourceError"]


class NotBuiltError(SeqpipeError, RuntimeError):
    """A method was called that the pipeline's state does not allow, such as before ``build()``."""


class Pipeline:
    """A graph of operators with its readers and sources; see ``nvidia.dali.Pipeline``.

    ``run()`` builds the pipeline if necessary. With readers it never ends: epochs follow one another, each completed to
    whole batches with its first samples. The number of threads, ``exec_*`` and the depth of the queue change the speed,
    but neither samples nor sampled parameters.

    Args:
        batch_size: maximum number of samples in a batch.
        num_threads: threads that decode; by default one for each core.
        device_id: number of the GPU; None for a pipeline on the CPU.
        seed: seed of operators without their own; None and -1 mean 0, so that all ranks agree.
        exec_pipelined: False disables reading ahead.
        prefetch_queue_depth: number of batches to make ahead.
        exec_async: with ``exec_pipelined``: whether to make batches ahead.
        py_num_workers: processes of each external source that is declared with ``parallel=True``.
        py_start_method: start method of these processes, "fork" or "spawn".
        enable_checkpointing: accepted without effect, as states can always be saved.
        checkpoint: a result of :meth:`checkpoint` to continue from.
        output_dtype: required dtype of outputs; one for all, or one for each.
        output_ndim: required number of axes of output samples; one for all, or one for each.
        **accepted: arguments of DALI without effect here, such as ``set_affinity``.

    Raises:
        ParameterError: an argument is not valid.
    """

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
        set_affinity: bool = False,  # noqa: ARG002  threads stay where the system puts them
        max_streams: int | None = None,  # noqa: ARG002  likewise
        default_cuda_stream_priority: int | None = None,  # noqa: ARG002  likewise
        *,
        enable_memory_stats: bool = False,  # noqa: ARG002  likewise
        enable_checkpointing: bool = False,  # noqa: ARG002  states can always be saved
        checkpoint: str | None = None,
        py_num_workers: int = 1,
        py_start_method: Literal["fork", "spawn"] = "fork",
        py_callback_pickler: Any = None,  # noqa: ARG002  sources are inherited, or pickled by pickle
        output_dtype: Any = None,
        output_ndim: Any = None,
        exec_dynamic: bool | None = None,  # noqa: ARG002  there is one executor
        experimental_exec_dynamic: bool | None = None,  # noqa: ARG002  likewise
    ) -> None:
        if not (batch_size == -1 or (isinstance(batch_size, int) and batch_size > 0)):
            raise ParameterError(
                f"batch_size={batch_size!r} is not valid", source="Pipeline", allowed="1 or more"
            )
        self._batch_size, self._num_threads = batch_size, num_threads
        self._device_id = 0 if device_id == -1 else device_id
        self._seed = 0 if seed is None or seed < 0 else seed
        depth = prefetch_queue_depth
        if isinstance(depth, dict):
            depth = max(depth.values(), default=2)
        self._ahead = int(depth) if exec_pipelined and exec_async else 0
        self._depth = depth
        self._checkpoint = checkpoint
        self.py_num_workers, self.py_start_method = py_num_workers, py_start_method
        self.exec_pipelined, self.exec_async = exec_pipelined, exec_async
        self._output_dtype, self._output_ndim = output_dtype, output_ndim
        self._counts: Counts[str] = Counts()
        self._outputs: tuple[DataNode, ...] = ()
        self._names: dict[str, BatchSource] = {}
        self._graph: Graph | None = None
        self._executor: Executor | None = None
        self._gathered: tuple[str, ...] = ()
        self._user = ""
        self.scope: Any = None

    # ------------------------------------------------------------------ definition

    def __enter__(self) -> Pipeline:
        entered(self)
        return self

    def __exit__(self, *_: object) -> None:
        left()

    @staticmethod
    def current() -> Pipeline | None:
        """The pipeline that is being defined."""
        found: Pipeline | None = current()
        return found

    @property
    def batch_size(self) -> int:
        """The most samples that a batch has.

        Raises:
            ParameterError: it was not given.
        """
        if self._batch_size == -1:
            raise ParameterError(
                "batch_size is missing",
                source="Pipeline",
                advice="Pass it to the pipeline: pipe(batch_size=8)",
            )
        return self._batch_size

    @property
    def max_batch_size(self) -> int:
        """The most samples that a batch has."""
        return self.batch_size

    @property
    def num_threads(self) -> int | None:
        """Threads that decode; None for one for each core."""
        return None if self._num_threads == -1 else self._num_threads

    @property
    def device_id(self) -> int | None:
        """The GPU; None for a pipeline on the CPU."""
        return self._device_id

    @property
    def seed(self) -> int:
        """Of operators that have none of their own."""
        return self._seed

    @property
    def prefetch_queue_depth(self) -> Any:
        """Batches that are made ahead, as it was given."""
        return self._depth

    def gpu(self) -> int | None:
        """The number of the GPU that it runs on; None on a machine without one."""
        return None if self._device_id is None else gpu_number(self._device_id)

    def seed_of(self, name: str, seed: int | None) -> int:
        """The seed of an operator: its own, or one that follows from the pipeline's and how many of its name there are.

        Args:
            name: of the operator.
            seed: that it was given; None or -1 for none.
        """
        if seed is not None and seed != -1:
            return int(seed)
        number, self._counts[name] = self._counts[name], self._counts[name] + 1
        if not number:
            return self._seed
        digest = hashlib.blake2b(f"{self._seed} {name} {number}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") >> 1

    def register(self, name: str | None, source: BatchSource) -> None:
        """Know a source by a name.

        Raises:
            ParameterError: another one has it.
        """
        if name is None:
            return
        if name in self._names:
            raise ParameterError(
                f"there are two sources of the name {name!r}", source="Pipeline", allowed="different names"
            )
        self._names[name] = source

    def define_graph(self) -> Any:
        """Make the nodes that are wanted; a class that derives from this one has its own."""
        return self._outputs or None

    def iter_setup(self) -> None:
        """DeferredCall before each batch is begun; a class that derives from this one feeds its sources here.

        StopIteration ends the epoch.
        """

    def set_outputs(self, *outputs: Any) -> None:
        """Choose what the pipeline gives.

        Raises:
            ParameterError: nothing, or something that no node can be made of.
        """
        found = tuple(
            one for output in outputs for one in (output if isinstance(output, (list, tuple)) else (output,))
        )
        if not found or any(one is None for one in found):
            raise ParameterError(
                "the pipeline gives nothing",
                source="Pipeline",
                allowed="one output or more",
                advice="Return nodes from the function, or call set_outputs within the with block",
            )
        with self:
            self._outputs = tuple(node_of(one) for one in found)

    # ------------------------------------------------------------------ running

    @property
    def built(self) -> bool:
        """Whether it has a graph that can be run."""
        return self._executor is not None

    def build(self) -> None:
        """Check the graph and get ready to run; done by ``run()`` where it was not done before.

        Raises:
            ParameterError: there are no outputs, or an operator cannot have what it is given.
        """
        if self._executor is not None:
            return
        if type(self).define_graph is not Pipeline.define_graph:
            with self:
                made = self.define_graph()
            if made is not None:
                self.set_outputs(*(made if isinstance(made, (list, tuple)) else (made,)))
        if not self._outputs:
            raise ParameterError(
                "the pipeline gives nothing",
                source="Pipeline",
                allowed="one output or more",
                advice="Call set_outputs(…) in the with block, or return nodes from define_graph",
            )
        graph = Graph(*self._outputs)
        nodes = [node for node in graph.input_nodes if isinstance(node, Fed)]
        nodes.sort(key=lambda node: node.order)
        sources = sources_of(nodes) or [Counter(self.batch_size)]
        for source in sources:
            if isinstance(source, Indexed):
                source.endless = True
        setup = self.iter_setup if type(self).iter_setup is not Pipeline.iter_setup else None
        self._graph = graph
        self._gathered = plan_gathering(graph, self._device())
        self._executor = Executor(sources, nodes, graph, self._ahead, setup, self._around())
        if self._checkpoint:
            load_state(self._executor, json.loads(self._checkpoint), self.fingerprint)

    def _device(self) -> int | None:
        """The number of the GPU that some of its nodes run on; None if there are none."""
        on_any = any(getattr(node, "device", "cpu") == "gpu" for node in all_nodes(self._outputs))
        return self.gpu() if on_any else None

    def _around(self) -> Callable[[], AbstractContextManager[Any]] | None:
        number = self._device()
        return None if number is None else functools.partial(on_gpu, number)

    @property
    def output_count(self) -> int:
        """How many outputs there are."""
        return len(self._outputs)

    def output_dtype(self) -> list[Any]:
        """The type that each output must have; None for any."""
        return self._by_output(self._output_dtype)

    def output_ndim(self) -> list[int | None]:
        """The number of axes that samples of each output must have; None for any."""
        return self._by_output(self._output_ndim)

    def _by_output(self, wanted: Any) -> list[Any]:
        return list(wanted) if isinstance(wanted, (list, tuple)) else [wanted] * self.output_count

    @property
    def output_labels(self) -> list[str]:
        """What makes each output."""
        return [node.label for node in self._outputs]

    @property
    def executor(self) -> Executor:
        """What runs it.

        Raises:
            NotBuiltError: it was not built.
        """
        if self._executor is None:
            raise NotBuiltError(
                "the pipeline is not built",
                source="Pipeline",
                advice="Call build() first; run() builds by itself",
            )
        return self._executor

    def drive(
        self, user: str, reader: str | None = None, last_batch: PipelineLastBatch | None = None
    ) -> None:
        """Be run by one user alone from now on: by ``run()``, or by an iterator.

        Args:
            user: what runs it.
            reader: the reader whose epochs are gone through one by one.
            last_batch: what becomes of the rest of an epoch.

        Raises:
            NotBuiltError: another one runs it already.
        """
        if self._user and self._user != user:
            raise NotBuiltError(
                f"the pipeline is run by {self._user}, and cannot be run by {user} as well",
                source="Pipeline",
                advice="Create a pipeline for each",
            )
        self._user = user
        if reader is not None:
            source = self.reader(reader)
            source.endless, source.lockstep = False, True
            source.last_batch = last_batch or source.last_batch

    def made(self) -> Made | None:
        """The next batch with what is known of it; None at the end."""
        found = self.executor.next()
        if found is not None:
            self._check_outputs(found)
        return found

    def _check_outputs(self, made: Made) -> None:
        facts: tuple[tuple[str, Any, Callable[[Value], Any]], ...] = (
            ("dtype", self._output_dtype, lambda value: value.dtype.name),
            ("ndim", self._output_ndim, lambda value: value.ndim),
        )
        for what, wanted, read in facts:
            if wanted is None:
                continue
            for number, (one, asked) in enumerate(zip(made.values, self._by_output(wanted), strict=True)):
                expected = dtype_name(asked) if what == "dtype" and asked is not None else asked
                if asked is not None and (found := read(value_of(one))) != expected:
                    raise ParameterError(
                        f"output {number} has the {what} {found}",
                        source="Pipeline",
                        allowed=f"{expected} (output_{what})",
                    )

    def run(self, cuda_stream: Any = None, **inputs: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:  # noqa: ARG002
        """The next batch: a list of tensors for each output.

        Args:
            cuda_stream: accepted; results are ready for the default stream.
            **inputs: batches for sources that are fed by hand, by their names; nothing may be under way then.

        Raises:
            StopIteration: a source has ended; ``reset()`` begins anew.
            Exception: what making the batch has raised; the next call gives the batch behind it.
        """
        self.build()
        self.drive("run()")
        if inputs and self.executor.under_way:
            raise NotBuiltError(
                "run() is given inputs while batches are under way",
                source="Pipeline",
                advice="Use feed_input for all",
            )
        for name, batch in inputs.items():
            self.feed_input(name, batch)
        return self._outputs_of(self.made())

    def _outputs_of(self, made: Made | None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        if made is None:
            raise StopIteration("the epoch has ended; reset() starts the next one")
        return tuple(listed(value_of(value)) for value in made.values)

    def schedule_run(self) -> None:
        """Begin a batch; ``outputs()`` gives it.

        Raises:
            NotBuiltError: it was not built.
        """
        executor = self.executor
        self.drive("run()")
        executor.fill(executor.under_way + 1)

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorListCPU | TensorListGPU, ...]:  # noqa: ARG002
        """The batch that was begun first.

        Raises:
            NotBuiltError: it was not built.
            StopIteration: a source has ended.
        """
        _ = self.executor
        return self._outputs_of(self.made())

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """The same as :meth:`outputs`; what it gives stays valid."""
        return self.outputs(cuda_stream)

    def release_outputs(self) -> None:
        """Nothing has to be done: outputs are valid while somebody holds them."""

    def feed_input(
        self,
        data_node: Any,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,  # noqa: ARG002  arrays on a GPU are taken in order of the default stream
        use_copy_kernel: bool = False,  # noqa: ARG002  of DALI's own memory
    ) -> None:
        """Give a batch to an external source that has no source of its own; batches wait in a queue.

        Args:
            data_node: its name, or the node.
            data: an array ``(N, …)``, a list of arrays, or a list of tensors.
            layout: accepted; the source was declared with one.
            cuda_stream: accepted; arrays on a GPU are taken in order of the default stream.
            use_copy_kernel: accepted, as all that concerns DALI's own memory.

        Raises:
            NotBuiltError: it was not built.
            KeyError: there is no such source.
            ParameterError: the batch is not what the source was declared to have.
        """
        executor = self.executor
        name = data_node
        if isinstance(data_node, NativeNode):
            fed = next((n for n in all_nodes((data_node,)) if isinstance(n, Fed)), None)
            if fed is None or not isinstance(fed.source, Feed):
                raise ParameterError(
                    f"{data_node} is no external source that is fed by hand", source="feed_input"
                )
            if fed.source not in executor.sources:
                return  # nothing depends on it
            fed.source.feed(data)
            return
        if name in self._names and self._names[name] not in executor.sources:
            return
        try:
            feed = feed_of(executor.sources, name)
        except ParameterError as error:
            raise UnknownSourceError(error.fact, source="feed_input", allowed=error.allowed) from None
        del layout
        feed.feed(data)

    # ------------------------------------------------------------------ epochs and states

    def reader(self, name: str | None) -> Indexed:
        """A reader by its name; the only one if there is no name.

        Raises:
            KeyError: there is none.
        """
        found = {key: source for key, source in self._names.items() if isinstance(source, Indexed)}
        if name is None and len(found) == 1:
            return next(iter(found.values()))
        if name not in found:
            raise UnknownSourceError(
                f"there is no reader {name!r}",
                source="Pipeline",
                allowed=", ".join(map(repr, found)) or "none: no reader was given a name=",
            )
        return found[name]

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """What is known of a reader, or of all of them by their names."""
        if name is None:
            return {key: reader_facts(one) for key, one in self._names.items() if isinstance(one, Indexed)}
        return reader_facts(self.reader(name))

    def epoch_size(self, name: str | None = None) -> Any:
        """Samples of an epoch of all shards: of a reader, or of all of them by their names."""
        if name is None:
            return {key: epoch_samples(one) for key, one in self._names.items() if isinstance(one, Indexed)}
        return epoch_samples(self.reader(name))

    @property
    def restarts(self) -> bool:
        """Whether a source begins anew at each epoch, wherever the one before has been left."""
        return any(getattr(source, "restarts", False) for source in self.executor.sources)

    def reset(self) -> None:
        """Begin the next epoch of sources that have ended, and of readers that an iterator goes through."""
        executor = self.executor
        places = executor.places()
        executor.go_to(
            [
                (epoch, position, None)
                if isinstance(source, Indexed) and source.endless
                else (epoch + 1, 0, None)
                for source, (epoch, position, _) in zip(executor.sources, places, strict=True)
            ]
        )

    def empty(self) -> bool:
        """Whether nothing is under way."""
        return self._executor is None or not self._executor.under_way

    @property
    def fingerprint(self) -> str:
        """What decides the samples and what is made of them."""
        assert self._graph is not None
        return f"{graph_fingerprint(self._graph, self.executor.sources)} batch={self.batch_size}"

    def state_dict(self) -> Mapping[str, Any]:
        """Where it stands, as plain values."""
        self.build()
        return state_of(self.executor, self.fingerprint)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with exactly the batches that would have come.

        Raises:
            StateError: it is of another pipeline, or a source cannot go on from it.
        """
        self.build()
        load_state(self.executor, state, self.fingerprint)

    def checkpoint(self, filename: str | None = None) -> str:
        """The state as text, for ``Pipeline(checkpoint=…)``; also written to a file.

        Raises:
            StateError: the own state of a source cannot be written as JSON.
        """
        try:
            text = json.dumps(self.state_dict())
        except TypeError as error:
            raise StateError(
                f"the state of a source is no plain value: {error}", source="checkpoint"
            ) from error
        if filename is not None:
            Path(filename).write_text(text, encoding="utf-8")
        return text

    def executor_statistics(self) -> Mapping[str, Any]:
        """How the stages spent their time; see :meth:`seqpipe.pipeline.Pipeline.stats`."""
        return self.executor.statistics()

    def stats(self) -> Mapping[str, Any]:
        """The same."""
        return self.executor_statistics()

    def save_graph_to_dot_file(self, filename: str, **_: Any) -> None:
        """Write the graph as text for Graphviz."""
        self.build()
        Path(filename).write_text(dot_text(self._outputs, self._gathered), encoding="utf-8")

    def start_py_workers(self) -> None:
        """Nothing has to be done: workers are threads, that start when they are needed."""

    def serialize(self, *_: Any, **__: Any) -> str:
        """Not available.

        Raises:
            ParameterError: always, with what to do instead.
        """
        raise ParameterError(
            "a pipeline is not written to a file",
            source="serialize",
            advice="Keep the function that makes it",
        )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[TensorListCPU | TensorListGPU, ...]:
        return self.run()

    def close(self) -> None:
        """Stop what is under way, the threads and the readers."""
        if self._executor is not None:
            self._executor.close()


class UnknownSourceError(ParameterError, KeyError):
    """There is no reader or source of a name."""
