"""Iteration state: epoch, position and fingerprint, which determine all further samples and random numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypedDict

from ..errors import ParameterError, StateError, described_type

__all__ = ["IteratorState", "check_state", "fingerprint"]


class IteratorState(TypedDict):
    """Position of an iteration, as plain values that can be stored as JSON.

    Attributes:
        epoch: the epoch, counted from 0.
        position: number of samples of the rank's epoch that were returned.
        fingerprint: digest of the dataset and its parameters; see :func:`fingerprint`.
    """

    epoch: int
    position: int
    fingerprint: str


def fingerprint(**parts: object) -> str:
    """Return a digest for each of several named parts, so that an error can name the parts that differ.

    Args:
        parts: everything that determines the samples: plain values (None, bool, int, finite float, str), and
            lists, tuples and dictionaries with string keys of these.

    Returns:
        ``name=digest`` for each part, sorted by name and separated by spaces; a digest is 64 bits of BLAKE2b of the
        part as JSON.

    Raises:
        ParameterError: a part is not made of plain values.
    """
    return " ".join(f"{name}={_digest(name, value)}" for name, value in sorted(parts.items()))


def check_state(
    state: Mapping[str, object], fingerprint: str, *, what: str = "this dataset"
) -> IteratorState:
    """Check that a state belongs to an iteration, and return it.

    Args:
        state: the result of ``state_dict()``.
        fingerprint: fingerprint of the iteration that loads the state.
        what: description of the iteration that loads the state, for the message.

    Raises:
        StateError: ``state`` is not a state, or belongs to another iteration; the message names the parts that differ.
    """
    wanted = "a dictionary with epoch >= 0, position >= 0 and fingerprint, as state_dict() returns it"
    if not isinstance(state, Mapping):
        raise StateError(f"{described_type(state)} is not a state", allowed=wanted)
    missing = [name for name in ("epoch", "position", "fingerprint") if name not in state]
    if missing:
        raise StateError(f"the state has no {' and no '.join(missing)}", allowed=wanted)
    epoch, position, stored = state["epoch"], state["position"], state["fingerprint"]
    if not (_is_count(epoch) and _is_count(position) and isinstance(stored, str)):
        raise StateError(
            f"epoch={epoch!r}, position={position!r}, fingerprint={stored!r} is not a state", allowed=wanted
        )
    if stored != fingerprint:
        differing = _differing(stored, fingerprint)
        verb = "differs" if len(differing) == 1 else "differ"
        raise StateError(
            f"the state does not belong to {what}: {', '.join(differing)} {verb}",
            advice="Load it with the files and parameters it was saved with, or start anew",
        )
    return IteratorState(epoch=int(epoch), position=int(position), fingerprint=stored)  # type: ignore[call-overload]


def _is_count(value: object) -> bool:
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


def _differing(stored: str, wanted: str) -> list[str]:
    """Return the names of the parts that differ."""
    return sorted({part.partition("=")[0] for part in set(stored.split()) ^ set(wanted.split())})
