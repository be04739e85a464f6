"""Absorption: the first operators of a data set, which its source applies while it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ..ops import Chain
from ..pipeline.fusion import Fuse, Head, Split, split
from ..video.convert.output import OutputSpec
from .source import PLAIN, Heads, SampleSource
from .stages import DatasetStage, GraphStage, OperatorStage

__all__ = ["Absorbed", "absorbed"]


class Absorbed(NamedTuple):
    """The stages of a data set in two parts.

    Attributes:
        heads: what the source applies while it reads.
        stages: the stages that remain.
        refusals: a sentence for each operator that ends a line of absorbed ones, with the reason.
    """

    heads: Heads
    stages: tuple[DatasetStage, ...]
    refusals: tuple[str, ...] = ()

    def explain(self) -> list[str]:
        """Describe what the source applies, a line for each array that it makes."""
        return [head.explain() for head in self.heads.values() if head is not None]


def absorbed(stages: tuple[DatasetStage, ...], source: SampleSource, fuse: Fuse) -> Absorbed:
    """Divide stages into what a source applies while it reads, and the rest.

    Of a chain these are its first operators: color conversion takes over what it can do, and of volumes the box of
    leading crops alone is read. Of a graph, also behind a chain that is applied completely, they are, for each use of
    the images, the first operators of which each is the only user of the result before it; frames are decoded once for
    all of these.
    """
    first = stages[0] if stages else None
    output: OutputSpec | None = getattr(source, "output", None)
    own: Any = getattr(source, "absorb", None)
    if isinstance(first, GraphStage) and output is not None:
        return _of_graph(first, stages[1:], output, fuse)
    if not isinstance(first, OperatorStage) or (own is None and output is None):
        return Absorbed(PLAIN, stages)
    parts: Split = split(first.chain, output, fuse) if output is not None else own(first.chain, fuse)
    second = stages[1] if len(stages) > 1 else None
    if parts.tail is None and isinstance(second, GraphStage) and output is not None:
        return _of_graph(second, stages[2:], output, fuse, parts.head)
    rest = () if parts.tail is None else (OperatorStage(parts.tail),)
    heads = PLAIN if parts.head is None else {"image": parts.head}
    return Absorbed(
        heads, (*rest, *stages[1:]), _refusals(parts, "the conversion" if own is None else "reading")
    )


def _of_graph(
    stage: GraphStage,
    later: tuple[DatasetStage, ...],
    output: OutputSpec,
    fuse: Fuse,
    before: Head | None = None,
) -> Absorbed:
    """Divide a graph, which acts on the result of another head, or on the source's output."""
    ops = () if before is None else before.ops
    own = next((name for name, part in stage.parts.items() if part == "image"), None)
    lines = [] if own is None else stage.graph.lines_on(own)
    whole = [Chain.part((*ops, *chain.ops), chain.fuse) for _, chain in lines]
    parts = [split(chain, output, fuse, stage.graph.numbers) for chain in whole]
    heads, taken = dict[str, Head | None](), {}
    for number, ((step, _), part) in enumerate(zip(lines, parts, strict=True)):
        if part.head is not None and (len(part.head.ops) > len(ops) or part.head.luma):
            heads[name := f"image_{number}_"] = part.head
            taken[name] = step, len(part.head.ops) - len(ops)
    refusals = tuple(line for part in parts for line in _refusals(part))
    if not heads:
        return Absorbed({"image": before}, (stage, *later), refusals)
    graph = stage.graph.after(taken)
    if own in graph.inputs or "image" not in stage.names:
        heads = {"image": before, **heads}
    inputs = {name: stage.parts.get(name, name) for name in graph.inputs}
    return Absorbed(
        heads, (replace(stage, graph=graph, parts=inputs, read=frozenset(taken)), *later), refusals
    )


def _refusals(parts: Split, work: str = "the conversion") -> tuple[str, ...]:
    if parts.tail is None or not parts.reason:
        return ()
    return (f"{parts.tail.ops[0].name} is not part of {work}: {parts.reason}.",)
