"""States of DALI programs: the position of an executor, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from reprlib import repr as short
from typing import Any

from ...errors import StateError
from ...pipeline.executor import Executor
from ...pipeline.graph import Graph
from ...pipeline.source import BatchSource
from ...sampling import check_count, check_state, fingerprint

__all__ = ["graph_fingerprint", "load_state", "state_of"]


def graph_fingerprint(graph: Graph, sources: Seq[BatchSource]) -> str:
    """Return a digest of everything that determines a pipeline's batches."""
    return fingerprint(graph=repr(graph), sources=[dict(source.fingerprint) for source in sources])


def state_of(executor: Executor, mark: str) -> dict[str, Any]:
    """Return the position of an executor."""
    positions = executor.positions()
    return {
        "epoch": positions[0][0],
        "position": positions[0][1],
        "fingerprint": mark,
        "sources": [list(position) for position in positions],
    }


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
