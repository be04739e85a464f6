"""Iteration state: three plain values, which determine every sample and random number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypedDict

from ..errors import ParameterError, StateError

__all__ = ["IteratorState", "check_state", "fingerprint"]


class IteratorState(TypedDict):
    """Where an iteration stands; plain values, so that it can be stored as JSON.

    Attributes:
        epoch: the epoch, from 0 on.
        position: how many samples of the rank's epoch were given out.
        fingerprint: what the iteration is over; see :func:`fingerprint`.
    """

    epoch: int
    position: int
    fingerprint: str


def fingerprint(**parts: object) -> str:
    """A short text that is the same wherever all the named parts are, and tells which part differs if not.

    Args:
        parts: whatever decides which samples come: plain values (None, bool, int, finite float, str) and
            lists, tuples and dictionaries with text keys of them.

    Returns:
        ``name=digest`` for each part, sorted by name, joined by blanks; 64 bits of BLAKE2b of the part as
        JSON.

    Raises:
        ParameterError: a part is not made of plain values.
    """
    return " ".join(f"{name}={_digest(name, value)}" for name, value in sorted(parts.items()))


def check_state(
    state: Mapping[str, object], fingerprint: str, *, what: str = "this dataset"
) -> IteratorState:
    """The state, if it belongs to an iteration with this fingerprint.

    Args:
        state: what ``state_dict()`` gave, perhaps by way of a file.
        fingerprint: of the iteration that is to continue.
        what: what the state is loaded into, for the message.

    Raises:
        StateError: it is not a state, or it was taken of something else; the message names the parts that
            differ.
    """
    wanted = "a dictionary with epoch >= 0, position >= 0 and fingerprint, as state_dict() gives it"
    if not isinstance(state, Mapping):
        raise StateError(f"a {type(state).__name__} is not a state", allowed=wanted)
    missing = [name for name in ("epoch", "position", "fingerprint") if name not in state]
    if missing:
        raise StateError(f"the state has no {' and no '.join(missing)}", allowed=wanted)
    epoch, position, found = state["epoch"], state["position"], state["fingerprint"]
    if not (_counts(epoch) and _counts(position) and isinstance(found, str)):
        raise StateError(f"epoch={epoch!r}, position={position!r} is no state", allowed=wanted)
    if found != fingerprint:
        differing = _differing(found, fingerprint)
        verb = "differs" if len(differing) == 1 else "differ"
        raise StateError(
            f"the state does not belong to {what}: {', '.join(differing)} {verb}",
            advice="Load it with the files and parameters it was saved with, or start anew",
        )
    return IteratorState(epoch=int(epoch), position=int(position), fingerprint=found)  # type: ignore[call-overload]


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _digest(name: str, value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name}={value!r} cannot be part of a fingerprint",
            allowed="plain values, lists and dictionaries",
        ) from error
    return hashlib.blake2b(text.encode("ascii"), digest_size=8).hexdigest()


def _differing(found: str, wanted: str) -> list[str]:
    """The names of the parts that are not in both."""
    one, other = set(found.split()), set(wanted.split())
    return sorted({part.partition("=")[0] for part in one ^ other})
