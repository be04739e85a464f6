"""Iteration state: epoch, position and fingerprint, which determine all further samples and random numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from reprlib import repr as short
from typing import Any, Final, TypedDict

from ..errors import ParameterError, StateError, described_type

__all__ = ["IteratorState", "check_count", "check_state", "fingerprint"]

_MAX_INTEGER: Final = 2**53
"""Bound of epochs and positions, which JSON keeps exactly everywhere."""


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
    state: Mapping[str, object],
    fingerprint: str,
    *,
    what: str = "this dataset",
    length: Callable[[int], int] | None = None,
) -> IteratorState:
    """Check that a state belongs to an iteration, and return it.

    Args:
        state: the result of ``state_dict()``.
        fingerprint: fingerprint of the iteration that loads the state.
        what: description of the iteration that loads the state, for the message.
        length: returns the largest position of an epoch; None for no bound.

    Raises:
        StateError: ``state`` is not a state, or belongs to another iteration; the message names the field that is not
            valid, or the parts that differ.
    """
    wanted = "a dictionary with epoch >= 0, position >= 0 and fingerprint, as state_dict() returns it"
    if not isinstance(state, Mapping):
        raise StateError(f"{described_type(state)} is not a state", allowed=wanted)
    missing = [name for name in ("epoch", "position", "fingerprint") if name not in state]
    if missing:
        raise StateError(f"the state has no {' and no '.join(missing)}", allowed=wanted)
    epoch, position = (check_count(name, state[name]) for name in ("epoch", "position"))
    if not isinstance(stored := state["fingerprint"], str):
        raise StateError(f"fingerprint={short(stored)} is not valid in a state", allowed=wanted)
    if stored != fingerprint:
        differing = _differing(stored, fingerprint)
        verb = "differs" if len(differing) == 1 else "differ"
        raise StateError(
            f"the state does not belong to {what}: {', '.join(differing)} {verb}",
            advice="Load it with the files and parameters it was saved with, or start anew",
        )
    if length is not None and position > (most := length(epoch)):
        raise StateError(f"position={position} is past the end of epoch {epoch}", allowed=f"0 to {most}")
    return IteratorState(epoch=epoch, position=position, fingerprint=stored)


def check_count(name: str, value: object, most: int = _MAX_INTEGER, *, source: str | None = None) -> int:
    """Return a field of a state that counts something.

    Args:
        name: name of the field, for the message.
        value: its value.
        most: largest value.
        source: what the state belongs to, for the message.

    Raises:
        StateError: the value is not an integer from 0 to ``most``.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    raise StateError(
        f"{name}={short(value)} is not valid in a state",
        source=source,
        allowed="an integer of at least 0" if most == _MAX_INTEGER else f"an integer from 0 to {most}",
    )


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
