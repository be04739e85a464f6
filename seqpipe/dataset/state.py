"""State of an iteration: what each number of ranks has read of an epoch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from reprlib import repr as short
from typing import Any, Final

from ..core.json_text import parse_json
from ..errors import StateError, described_type
from ..sampling.dealing import History, joined_history
from ..sampling.state import check_count

__all__ = ["VERSION", "as_text", "loaded", "state_of"]

VERSION: Final = 2
_ALLOWED: Final = "what batch.state or state_dict() of an epoch gives"


def state_of(epoch: int, history: History, fingerprint: str, sources: Any = None) -> dict[str, Any]:
    """Return a state as plain values that JSON can represent."""
    pairs = [list(pair) for pair in history]
    return {
        "version": VERSION,
        "epoch": epoch,
        "history": pairs,
        "sources": sources,
        "fingerprint": fingerprint,
    }


def loaded(state: Any, fingerprint: str, allow: Collection[str] = ()) -> tuple[int, History, Any]:
    """Return epoch, history and the source's own state of a checked state."""
    if isinstance(state, (str, bytes)):
        try:
            state = parse_json(state)
        except ValueError as error:
            raise StateError(f"the state is not JSON ({error})", allowed=_ALLOWED) from error
    if not isinstance(state, Mapping):
        raise StateError(f"{described_type(state)} is not a state", allowed=_ALLOWED)
    if missing := [n for n in ("version", "epoch", "history", "fingerprint") if n not in state]:
        raise StateError(f"the state has no {' and no '.join(missing)}", allowed=_ALLOWED)
    if check_count("version", state["version"]) != VERSION:
        raise StateError(
            f"the state has version {state['version']}",
            allowed=f"version {VERSION}",
            advice="Finish the epoch with the seqpipe that saved it, or start the epoch anew",
        )
    _check_fingerprint(state["fingerprint"], fingerprint, allow)
    return check_count("epoch", state["epoch"]), _history(state["history"]), state.get("sources")


def _history(pairs: object) -> History:
    if not isinstance(pairs, (list, tuple)):
        raise StateError(f"history={short(pairs)} is not valid in a state", allowed="a list of pairs")
    for number, pair in enumerate(pairs):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise StateError(
                f"history[{number}]={short(pair)} is not valid in a state",
                allowed="(world, samples of a rank)",
            )
        check_count(f"history[{number}][0]", pair[0])
        check_count(f"history[{number}][1]", pair[1])
        if not 0 < pair[0] <= 1 << 20:
            raise StateError(
                f"history[{number}][0]={pair[0]} is not valid in a state", allowed="1 to 1048576"
            )
    return joined_history(pairs)


def _check_fingerprint(stored: object, wanted: str, allow: Collection[str]) -> None:
    if not isinstance(stored, str):
        raise StateError(f"fingerprint={short(stored)} is not valid in a state", allowed=_ALLOWED)
    differing = {part.partition("=")[0] for part in set(stored.split()) ^ set(wanted.split())} - set(allow)
    if differing:
        verb = "differs" if len(differing) == 1 else "differ"
        raise StateError(
            f"the state does not belong to this data set: {', '.join(sorted(differing))} {verb}",
            advice="Load it with the files and parameters it was saved with; a changed augmentation is accepted by "
            "resume(state, allow={'chain'})",
        )


def as_text(state: Mapping[str, Any]) -> str:
    """Return a state as JSON text, which survives pinned memory and frameworks' moves between devices."""
    try:
        return json.dumps(state)
    except TypeError as error:
        raise StateError(
            f"the state of the source is no plain value: {error}",
            source="feed",
            allowed="dictionaries, lists, text and numbers, as JSON has them",
        ) from error
