"""Pipeline: iteration over the user's own batches and a graph of operators, with a state to resume from.

images, labels = external_source(batch_of, batch_size=8, num_outputs=2, layout=("HWC", ""))
pipe = Pipeline(fn.flip(images, horizontal=fn.random.coin_flip(seed=1)), labels)
for pixels, numbers in pipe:
    ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ..core.closing import Closing
from ..core.turns import TakesTurns
from ..core.whole_file import replacing
from ..errors import ParameterError, StateError, warn_caller
from ..ops import DataNode, Type
from ..sampling import check_count, check_state, fingerprint
from ..sampling.params import EPOCH
from .executor import Executor
from .external import External, ExternalSpec, FedSource, Feed
from .gathering import plan_gathering
from .graph import Graph
from .nodes import SourceNode, nodes_of
from .source import BatchSource

if TYPE_CHECKING:
    from .workers import StartMethod

__all__ = [
    "Pipeline",
    "PipelineState",
    "check_names",
    "external_source",
    "external_spec",
    "feed_of",
    "graph_fingerprint",
    "load_state",
    "source_nodes",
    "sources_of",
    "state_of",
]


class PipelineState(TypedDict):
    """Position of a pipeline, as plain values.

    Attributes:
        epoch: the epoch.
        position: number of samples of the epoch that were returned.
        fingerprint: digest of the pipeline that the state belongs to.
        sources: for each source its epoch, its position, and its own state if it has one.
    """

    epoch: int
    position: int
    fingerprint: str
    sources: list[Any]


def external_source(
    source: Any = None,
    *,
    batch_size: int,
    num_outputs: int | None = None,
    batch: bool = True,
    cycle: Any = None,
    batch_info: bool = False,
    dtype: Any = None,
    layout: Any = None,
    name: str = "external_source",
    parallel: bool = False,
    workers: int = 1,
    start_method: StartMethod | None = None,
) -> Any:
    """Use the user's own code as the source of a pipeline.

    What the source returns is copied, by several threads, so that it may use its memory again. If an operator that only
    crops or mirrors whole pixels is the one user of a value, only its window is copied; :meth:`Pipeline.explain` tells.

    Args:
        source: a callable without arguments, or that takes the number of the batch, a BatchInfo, or a SampleInfo
            (``batch=False``), also as a single argument with a default; an iterable; a generator function; or None for
            batches passed to :meth:`Pipeline.feed`.
        batch_size: samples in a batch.
        num_outputs: length of the tuple that the source returns; None for a single value without a tuple.
        batch: whether the source returns whole batches; otherwise it returns samples.
        cycle: behavior at the end of an iterable: stop (None, "no"), restart within the epoch (True, "quiet"), or
            restart at the next epoch ("raise").
        batch_info: whether a callable takes a BatchInfo instead of the number of the batch.
        dtype: required dtype of the values; one for all, or one for each.
        layout: axes of a sample, such as "HWC"; one for all, or one for each. Values with an image layout are a Batch.
            Without a layout, operators on images take samples of two axes for HW, three for HWC, four for FHWC.
        name: name for messages and for :meth:`Pipeline.feed`.
        parallel: whether the source runs in worker processes; a callable takes an argument then. A callable runs in all
            of them, an iterable in one.
        workers: number of processes, for ``parallel``.
        start_method: "fork", "spawn" or "forkserver", for ``parallel``; None for "fork". The other two need a source
            that can be pickled.

    Returns:
        A node, or a tuple of ``num_outputs`` nodes.

    Raises:
        ParameterError: an argument is not valid.
    """
    spec = external_spec(name, num_outputs, dtype, layout, None)
    options: dict[str, Any] = {"batch": batch, "cycle": cycle, "batch_info": batch_info, "name": name}
    if source is None:
        used: BatchSource = Feed(spec, batch_size, name=name)
    elif parallel:
        from .workers import ParallelExternal

        used = ParallelExternal(
            source, spec, batch_size, workers=workers, start_method=start_method, **options
        )
    else:
        used = External(source, spec, batch_size, **options)
    nodes = nodes_of(used)
    return nodes if spec.several else nodes[0]


def external_spec(name: str, num_outputs: int | None, dtype: Any, layout: Any, ndim: Any) -> ExternalSpec:
    """Return the specification of an external source's values.

    Raises:
        ParameterError: the number of dtypes or layouts differs from that of values.
    """
    count = 1 if num_outputs is None else num_outputs
    if not isinstance(count, int) or count < 1:
        raise ParameterError(
            f"num_outputs={num_outputs!r} is not valid", source=name, allowed="1 or more, or None"
        )

    def each(what: str, value: Any) -> tuple[Any, ...]:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
        if len(values) != count:
            raise ParameterError(
                f"{what} has {len(values)} entries", source=name, allowed=f"{count}, one for each value"
            )
        return values

    dtypes = tuple(None if one is None else _dtype(one) for one in each("dtype", dtype))
    names = tuple(f"{n}" for n in range(count))
    layouts = tuple(one or "" for one in each("layout", layout))
    return ExternalSpec(names, layouts, dtypes, each("ndim", ndim), num_outputs is not None)


def _dtype(value: Any) -> str:
    return str(np.dtype(value).name)


class Pipeline(TakesTurns, Closing):
    """A resumable iterator over the batches that a graph of operators makes from sources.

    - ``iter()`` continues from the current position: after a ``break``, an error, ``close``, or ``load_state_dict``. It
      starts the current epoch anew if the epoch was finished or ``set_epoch`` selected another one. The epoch never
      advances by itself.
    - An error is raised at its position in the order, with its traceback and notes that name the node, the source and
      the samples; the next call returns the next batch.
    - States do not count batches that are only read ahead.
    - Several threads may use one pipeline, and get each batch once.

    Args:
        *outputs: the nodes whose values a batch consists of.
        names: one name for each output; batches are then dictionaries.
        prefetch: number of batches to make ahead; with 0 everything runs in the thread that iterates.

    Raises:
        ParameterError: there are no outputs, an output is not a node, or an input of the graph has no source.
    """

    def __init__(self, *outputs: DataNode, names: Seq[str] | None = None, prefetch: int = 2) -> None:
        self._graph = Graph(*outputs)
        self._names = check_names(names, len(outputs))
        self._nodes = source_nodes(self._graph)
        self._sources = sources_of(self._nodes)
        for source in self._sources:
            source.use([node.part for node in self._nodes if node.source is source])
        for line in self._graph.waits:
            warn_caller(line)
        self._gathered = plan_gathering(self._graph, prefetch)
        self._executor = Executor(
            self._sources,
            self._nodes,
            self._graph,
            prefetch,
            on_first_batch=self._graph.infer_types,
            images=self._graph.images,
        )
        self._epoch, self._at, self._done = 0, 0, False

    def build(self) -> Pipeline:
        """Return the pipeline itself, for programs written for DALI: types are checked by the constructor."""
        return self

    @property
    def types(self) -> tuple[Type, ...]:
        """Type of each output as far as it is known; completely known after the first batch."""
        return self._graph.types

    def dot(self) -> str:
        """Return the graph in Graphviz's DOT language, with the types of its nodes."""
        return self._graph.dot()

    def save_graph(self, path: str | os.PathLike[str]) -> None:
        """Write the graph in Graphviz's DOT language, atomically; see :meth:`dot`.

        Raises:
            OSError: the file cannot be written.
        """
        with replacing(Path(path)) as part:
            part.write_text(self.dot(), encoding="utf-8")

    def named(self, names: Seq[str] | None) -> tuple[str, ...]:
        """Return one name for each output: ``names``, or else the pipeline's own.

        Raises:
            ParameterError: there are no names, or not one distinct name for each output.
        """
        if names is None and not self._names:
            count = len(self._graph.outputs)
            raise ParameterError(f"{count} outputs have no names", source="Pipeline", advice="Give names=(…)")
        return check_names(names, len(self._graph.outputs)) or self._names

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next ``iter()``."""
        self._epoch = EPOCH.check(epoch)

    def __len__(self) -> int:
        """Number of batches of the current epoch.

        Raises:
            TypeError: the pipeline has an external source, whose length is unknown.
        """
        count = self._sources[0].batches(self._epoch)
        if count is None:
            raise TypeError(f"the number of batches of {self._sources[0].name} is unknown")
        return count

    def __iter__(self) -> Iterator[Any]:
        if self._done or self._at != self._epoch:
            self._executor.go_to([(self._epoch, 0, None)] * len(self._sources))
            self._at, self._done = self._epoch, False
        return self

    def __next__(self) -> Any:
        result = self._executor.next()
        if result is None:
            self._done = True
            raise StopIteration
        values = result.values
        return dict(zip(self._names, values, strict=True)) if self._names else values

    def feed(self, name: str, batch: Any) -> None:
        """Pass a batch to an external source that was declared with ``source=None``; each batch is returned once.

        Args:
            name: name of the source.
            batch: an array ``(N, …)`` or a list of arrays; a tuple of these if the source has several values.

        Raises:
            ParameterError: there is no such source, or the batch does not match its declaration.
        """
        feed_of(self._sources, name).feed(batch)

    @property
    def fingerprint(self) -> str:
        """Short digest of everything that determines the batches."""
        return graph_fingerprint(self._graph, self._sources)

    def state_dict(self) -> PipelineState:
        """Return the position; an equal pipeline that loads it continues with exactly the batches that would follow."""
        return state_of(self._executor, self.fingerprint)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; its epoch becomes the current one.

        Raises:
            StateError: the state belongs to another pipeline, or a source cannot continue from it.
        """
        load_state(self._executor, state, self.fingerprint)
        self._epoch = self._at = int(state["epoch"])
        self._done = False

    def stats(self) -> Mapping[str, Any]:
        """Return how the stages spent their time since the start.

        Returns:
            ``stages``: ``batches``, ``busy_s`` and ``starved_s`` of each stage; ``waited_s``: seconds that the consumer
            waited; ``ready``: average number of finished batches; ``bottleneck``: the slowest stage.
        """
        return self._executor.statistics()

    def explain(self) -> str:
        """Describe the steps and the types of values, line by line; see :meth:`seqpipe.pipeline.Graph.explain`.

        Lines at the end tell which external sources' batches are cropped while they are copied.
        """
        return "\n".join([self._graph.explain(), *self._gathered])

    def __repr__(self) -> str:
        return f"Pipeline of {', '.join(source.name for source in self._sources)}\n{self._graph!r}"

    def close(self) -> None:
        """Cancel pending batches, stop the threads, and close the sources; the next batch opens them again."""
        self._executor.close()


def check_names(names: Seq[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of outputs as a tuple, empty for None.

    Raises:
        ParameterError: there is not one distinct name for each output.
    """
    if names is None:
        return ()
    if len(names) != count or len(set(names)) != count:
        raise ParameterError(
            f"names={list(names)!r} for {count} outputs",
            source="Pipeline",
            allowed=f"{count} different names",
        )
    return tuple(names)


def source_nodes(graph: Graph) -> list[SourceNode]:
    """Return the inputs of a graph, all of which belong to sources, in the order of their creation.

    Raises:
        ParameterError: an input belongs to no source, or the graph has no input.
    """
    nodes = graph.input_nodes
    for node in nodes:
        if not isinstance(node, SourceNode):
            raise ParameterError(
                f"the input {node.name!r} belongs to no source",
                source="Pipeline",
                allowed="values of external_source()",
                advice="A Graph is called with values of its inputs",
            )
    if not nodes:
        raise ParameterError(
            "outputs that depend on no source", source="Pipeline", allowed="at least one source"
        )
    return sorted((node for node in nodes if isinstance(node, SourceNode)), key=lambda node: node.order)


def sources_of(nodes: Seq[SourceNode]) -> list[BatchSource]:
    """Return the distinct sources of nodes."""
    sources: list[BatchSource] = []
    for node in nodes:
        if not any(node.source is one for one in sources):
            sources.append(node.source)
    return sources


def feed_of(sources: Seq[BatchSource], name: str) -> FedSource:
    """Return the source that :meth:`Pipeline.feed` calls by a name.

    Raises:
        ParameterError: there is no such source.
    """
    known = [source for source in sources if isinstance(source, FedSource)]
    for source in known:
        if source.name == name:
            return source
    raise ParameterError(
        f"there is no source {name!r} for feed()",
        source="Pipeline",
        allowed=", ".join(repr(source.name) for source in known) or "none: all sources have their own data",
    )


def graph_fingerprint(graph: Graph, sources: Seq[BatchSource]) -> str:
    """Return a digest of everything that determines a pipeline's batches."""
    return fingerprint(graph=repr(graph), sources=[dict(source.fingerprint) for source in sources])


def state_of(executor: Executor, mark: str) -> PipelineState:
    """Return the position of an executor."""
    positions = executor.positions()
    return PipelineState(
        epoch=positions[0][0],
        position=positions[0][1],
        fingerprint=mark,
        sources=[list(one) for one in positions],
    )


def load_state(executor: Executor, state: Mapping[str, Any], mark: str) -> None:
    """Move an executor to the position of a state.

    Raises:
        StateError: the state belongs to another pipeline, or a source cannot continue from it.
    """
    whole = check_state(state, mark, what="this pipeline")
    allowed = "what state_dict() of a pipeline returns"
    entries = state.get("sources")
    if not isinstance(entries, (list, tuple)) or len(entries) != len(executor.sources):
        raise StateError("the state has no position for each source", allowed=allowed)
    positions: list[tuple[int, int, Any]] = []
    for number, (entry, source) in enumerate(zip(entries, executor.sources, strict=True)):
        field = f"sources[{number}]"
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            raise StateError(
                f"{field}={short(entry)} is not valid in a state", allowed="[epoch, position, state]"
            )
        epoch = check_count(f"{field}[0], the epoch,", entry[0])
        position = check_count(f"{field}[1], the position,", entry[1])
        source.check_state(epoch, position, entry[2], f"{field}[2], the state of the source,")
        positions.append((epoch, position, entry[2]))
    together = not any(source.endless for source in executor.sources)
    if positions[0][:2] != (whole["epoch"], whole["position"]) or (
        together and len({epoch for epoch, _, _ in positions}) > 1
    ):
        raise StateError(
            f"epoch={whole['epoch']} and position={whole['position']} contradict sources={short(list(entries))}",
            allowed=allowed,
        )
    executor.go_to(positions)
