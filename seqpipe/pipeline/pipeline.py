"""Pipeline: sources and a graph of operators as one iteration, read ahead, with a state that can be saved.

clip = read(seqpipe.readers.Video(file_root="videos", sequence_length=16, shuffle=True), batch_size=8)
mirror = fn.random.coin_flip(seed=1)
pipe = Pipeline(fn.flip(clip.pixels, horizontal=mirror), clip.label)
for pixels, labels in pipe:
    ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict

import numpy as np

from ..errors import ParameterError, StateError, warn_caller
from ..ops import DataNode, Type
from ..readers import Video
from ..sampling import check_state, fingerprint
from ..sampling.params import EPOCH
from ..whole_file import replacing
from .datasets import Clips
from .executor import Executor
from .external import External, ExternalSpec, Feed
from .graph import Graph
from .nodes import Fed, nodes_of
from .source import BatchSource, DatasetProtocol, Indexed, PipelineLastBatch

__all__ = [
    "Clip",
    "Pipeline",
    "PipelineState",
    "check_names",
    "external_source",
    "fed_nodes",
    "feed_of",
    "form_of",
    "graph_fingerprint",
    "load_state",
    "read",
    "read_items",
    "sources_of",
    "state_of",
]


@dataclass(frozen=True, eq=False)
class Clip:
    """What a reader of videos gives, as nodes.

    Attributes:
        pixels: a Batch ``NFHWC``.
        label: int64 ``(N,)``.
        timestamps: float64 seconds ``(N, F)``.
        frames: int64 ``(N, F)``, the numbers of the frames in their videos; -1 for padding.
        index: int64 ``(N,)``, the samples' indices within the dataset.
        luma: of the pixels, a Batch of uint8 with one channel, full range, straight from the decoded surface: what
            optical flow looks at. Where ``pixels`` are not used, no colors are made; where both are, frames are decoded
            once.
    """

    pixels: DataNode
    label: DataNode
    timestamps: DataNode
    frames: DataNode
    index: DataNode
    luma: DataNode


class PipelineState(TypedDict):
    """Where a pipeline stands, as plain values.

    Attributes:
        epoch: the epoch.
        position: samples of it that were given out.
        fingerprint: what the state is of.
        sources: for each source its epoch, its position, and its own state if it has one.
    """

    epoch: int
    position: int
    fingerprint: str
    sources: list[Any]


def read(reader: Video, batch_size: int, *, last_batch: PipelineLastBatch = "partial") -> Clip:
    """The samples of a reader as nodes.

    Args:
        reader: a :class:`seqpipe.readers.Video`; the pipeline closes it.
        batch_size: samples in a batch.
        last_batch: what becomes of a rest that fills no batch: given short ("partial"), left out ("drop"), filled up
            from the start of the epoch ("fill") or with the last sample ("pad").

    Raises:
        ParameterError: an argument is not valid.
    """
    if not isinstance(reader, Video):
        raise ParameterError(
            f"reader is a {type(reader).__name__}", source="read", allowed="a seqpipe.readers.Video"
        )
    clips = Clips(reader, (*Clips.parts, "luma"))
    return Clip(*nodes_of(Indexed(clips, batch_size, last_batch)))


def read_items(
    dataset: DatasetProtocol, batch_size: int, *, last_batch: PipelineLastBatch = "partial"
) -> tuple[DataNode, ...]:
    """The parts of any dataset as nodes; see :class:`seqpipe.pipeline.DatasetProtocol`."""
    return nodes_of(Indexed(dataset, batch_size, last_batch))


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
) -> Any:
    """Batches that the user's own code makes, as a node, or as a tuple of nodes.

    Args:
        source: a callable of nothing, of the number of the batch or a BatchInfo, or of a SampleInfo (``batch=False``);
            an iterable; a function that makes a generator; None for what :meth:`Pipeline.feed` is called with.
        batch_size: samples in a batch.
        num_outputs: how many values it gives, in a tuple; None for one value, and no tuple.
        batch: whether it gives whole batches; otherwise it gives samples.
        cycle: what becomes of an iterable that has ended: nothing more (None, "no"), it begins anew unnoticed (True,
            "quiet"), or at the next epoch ("raise").
        batch_info: whether a callable is given a BatchInfo rather than the number of the batch.
        dtype: the type that values must have; one, or one for each.
        layout: likewise the letters of a sample's axes, such as "HWC"; values with a layout of images are a Batch.
            Where none is said, operators on images take samples of two axes for HW, of three for HWC, of four for FHWC.
        name: for messages, and for :meth:`Pipeline.feed`.

    Raises:
        ParameterError: an argument is not valid.
    """
    form = form_of(name, num_outputs, dtype, layout, None)
    if source is None:
        made: BatchSource = Feed(form, batch_size, name=name)
    else:
        made = External(source, form, batch_size, batch=batch, cycle=cycle, batch_info=batch_info, name=name)
    nodes = nodes_of(made)
    return nodes if form.several else nodes[0]


def form_of(name: str, num_outputs: int | None, dtype: Any, layout: Any, ndim: Any) -> ExternalSpec:
    """What the values of an external source have to be, of what it was declared with.

    Raises:
        ParameterError: there are not as many types or layouts as values.
    """
    count = 1 if num_outputs is None else num_outputs
    if not isinstance(count, int) or count < 1:
        raise ParameterError(
            f"num_outputs={num_outputs!r} is not valid", source=name, allowed="1 or more, or None"
        )

    def each(what: str, given: Any) -> tuple[Any, ...]:
        values = tuple(given) if isinstance(given, (list, tuple)) else (given,) * count
        if len(values) != count:
            raise ParameterError(
                f"{what} has {len(values)} entries", source=name, allowed=f"{count}, one for each value"
            )
        return values

    dtypes = tuple(None if one is None else _dtype(one) for one in each("dtype", dtype))
    names = tuple(f"{n}" for n in range(count))
    layouts = tuple(one or "" for one in each("layout", layout))
    return ExternalSpec(names, layouts, dtypes, each("ndim", ndim), num_outputs is not None)


def _dtype(given: Any) -> str:
    return str(np.dtype(given).name)


class Pipeline:
    """Sources and what is made of them, batch by batch.

    - ``iter()`` goes on from where it stands: after a ``break``, after an error, after loading a state. It begins the
      current epoch anew if that was gone through to its end, or if ``set_epoch`` has chosen another one. The epoch
      never advances by itself.
    - An error is raised in its turn, with its traceback and notes that name the node, the source and the samples; the
      next call gives the batch behind it.
    - What is read ahead does not count for a state.

    Args:
        *outputs: the nodes whose values are wanted.
        names: a name for each; batches are then dictionaries.
        prefetch: batches that are made ahead; with 0 everything is done in the thread that iterates.

    Raises:
        ParameterError: there are no outputs, something else is among them, or they have an input that no source fills.
    """

    def __init__(self, *outputs: DataNode, names: Seq[str] | None = None, prefetch: int = 2) -> None:
        self._graph = Graph(*outputs)
        self._names = check_names(names, len(outputs))
        self._nodes = fed_nodes(self._graph)
        self._sources = sources_of(self._nodes)
        for source in self._sources:
            source.use([node.part for node in self._nodes if node.source is source])
        for line in self._graph.waits:
            warn_caller(line)
        self._executor = Executor(
            self._sources,
            self._nodes,
            self._graph,
            prefetch,
            settle=self._graph.settle,
            images=self._graph.images,
        )
        self._epoch, self._at, self._done = 0, 0, False

    def build(self) -> Pipeline:
        """Nothing has to be done: what can be known of values is checked as soon as a pipeline is made of nodes."""
        return self

    @property
    def types(self) -> tuple[Type, ...]:
        """What is known of each output; all of it from the first batch on."""
        return self._graph.types

    def dot(self) -> str:
        """The graph as text for Graphviz, with the types of its nodes."""
        return self._graph.dot()

    def save_graph(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as text for Graphviz, whole or not at all; see :meth:`dot`.

        Raises:
            OSError: the file cannot be written.
        """
        with replacing(Path(path)) as beside:
            beside.write_text(self.dot(), encoding="utf-8")

    def named(self, names: Seq[str] | None) -> tuple[str, ...]:
        """A name for each output: those that are given, or else the pipeline's own.

        Raises:
            ParameterError: there is not one of its own for each.
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
        """Choose the epoch that the next ``iter()`` goes through."""
        self._epoch = EPOCH.check(epoch)

    def __len__(self) -> int:
        """Batches of the current epoch.

        Raises:
            TypeError: that is not known of an external source.
        """
        count = self._sources[0].batches(self._epoch)
        if count is None:
            raise TypeError(f"nobody knows how many batches {self._sources[0].name} gives")
        return count

    def __iter__(self) -> Iterator[Any]:
        if self._done or self._at != self._epoch:
            self._executor.go_to([(self._epoch, 0, None)] * len(self._sources))
            self._at, self._done = self._epoch, False
        return self

    def __next__(self) -> Any:
        made = self._executor.next()
        if made is None:
            self._done = True
            raise StopIteration
        values = made.values
        return dict(zip(self._names, values, strict=True)) if self._names else values

    def feed(self, name: str, batch: Any) -> None:
        """Give a batch to an external source that has no source of its own.

        Args:
            name: of the source.
            batch: an array ``(N, …)``, or a list of arrays; a tuple of such where it has several values.

        Raises:
            ParameterError: there is no such source, or the batch is not what it was declared to have.
        """
        feed_of(self._sources, name).feed(batch)

    @property
    def fingerprint(self) -> str:
        """What decides the samples and what is made of them, in a short text."""
        return graph_fingerprint(self._graph, self._sources)

    def state_dict(self) -> PipelineState:
        """Where it stands: loaded by a pipeline like this one, that goes on with exactly the batches that come next."""
        return state_of(self._executor, self.fingerprint)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; its epoch becomes the current one.

        Raises:
            StateError: it is of another pipeline, or a source cannot go on from it.
        """
        load_state(self._executor, state, self.fingerprint)
        self._epoch = self._at = int(state["epoch"])
        self._done = False

    def stats(self) -> Mapping[str, Any]:
        """How the stages spent their time since the start.

        Returns:
            ``stages``: for each its ``batches``, ``busy_s`` and ``starved_s``; ``waited_s``: seconds that the consumer
            waited; ``ready``: batches that were ready on average; ``bottleneck``: what is slowest.
        """
        return self._executor.statistics()

    def explain(self) -> str:
        """What is done and what is known of values, line by line; see :meth:`seqpipe.pipeline.Graph.explain`."""
        return self._graph.explain()

    def __repr__(self) -> str:
        return f"Pipeline of {', '.join(source.name for source in self._sources)}\n{self._graph!r}"

    def close(self) -> None:
        """Stop what is under way, the threads and the sources."""
        self._executor.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_names(names: Seq[str] | None, count: int) -> tuple[str, ...]:
    """The names of outputs; none if none are given.

    Raises:
        ParameterError: there is not one of its own for each output.
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


def fed_nodes(graph: Graph) -> list[Fed]:
    """The inputs of a graph, each a value of a source, in the order in which they were made.

    Raises:
        ParameterError: an input is not that of a source, or there is none.
    """
    nodes = graph.input_nodes
    for node in nodes:
        if not isinstance(node, Fed):
            raise ParameterError(
                f"nothing gives the input {node.name!r} its values",
                source="Pipeline",
                allowed="values of read() and external_source()",
                advice="A Graph is called with values of its inputs",
            )
    if not nodes:
        raise ParameterError(
            "outputs that depend on no source", source="Pipeline", allowed="at least one source"
        )
    return sorted((node for node in nodes if isinstance(node, Fed)), key=lambda node: node.order)


def sources_of(nodes: Seq[Fed]) -> list[BatchSource]:
    """The sources of nodes, each once."""
    found: list[BatchSource] = []
    for node in nodes:
        if not any(node.source is one for one in found):
            found.append(node.source)
    return found


def feed_of(sources: Seq[BatchSource], name: str) -> Feed:
    """The source that is fed by a name.

    Raises:
        ParameterError: there is none.
    """
    known = [source for source in sources if isinstance(source, Feed)]
    for source in known:
        if source.name == name:
            return source
    raise ParameterError(
        f"there is no source {name!r} that is fed by hand",
        source="Pipeline",
        allowed=", ".join(repr(source.name) for source in known) or "none: all sources have their own data",
    )


def graph_fingerprint(graph: Graph, sources: Seq[BatchSource]) -> str:
    """What decides the samples of a pipeline and what is made of them."""
    return fingerprint(graph=repr(graph), sources=[dict(source.fingerprint) for source in sources])


def state_of(executor: Executor, mark: str) -> PipelineState:
    """Where an executor stands."""
    places = executor.places()
    return PipelineState(
        epoch=places[0][0], position=places[0][1], fingerprint=mark, sources=[list(place) for place in places]
    )


def load_state(executor: Executor, state: Mapping[str, Any], mark: str) -> None:
    """Put an executor where a state says.

    Raises:
        StateError: it is of another pipeline, or a source cannot go on from it.
    """
    check_state(state, mark, what="this pipeline")
    places = state.get("sources")
    if not isinstance(places, list) or len(places) != len(executor.sources):
        raise StateError(
            "the state has no place for each source", allowed="what state_dict() of a pipeline gives"
        )
    executor.go_to([(int(epoch), int(position), own) for epoch, position, own in places])
