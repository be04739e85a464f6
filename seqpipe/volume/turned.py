"""Orientation of sequences: axes permuted and reversed, as views, with their affine."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ParameterError
from ..sequence import Sequence
from .space import turn_to

__all__ = ["reorient", "to_canonical"]


def reorient(sequence: Sequence, orientation: str) -> Sequence:
    """The same volume with its axes permuted and reversed; exact, and a view of its array.

    Args:
        sequence: with D, H and W in its layout, and an affine.
        orientation: where columns, rows and slices are to go, such as ``"LPS"``.

    Raises:
        ParameterError: it is no orientation, or the sequence has no place in space.
    """
    place = sequence.layout.find("DHW")
    if sequence.affine is None or place < 0:
        raise ParameterError(
            f"a sequence {sequence.layout} cannot be reoriented"
            + (": it has no affine" if sequence.affine is None else ""),
            source=sequence.source,
            allowed="a volume, such as DHWC, with an affine",
        )
    turn = turn_to(sequence.affine, orientation)
    shape = sequence.shape[place : place + 3]
    data = turn.array(sequence.data, place)
    return replace(
        sequence, data=data, affine=turn.affine(sequence.affine, shape), frames=None, timestamps=None
    )


def to_canonical(sequence: Sequence) -> Sequence:
    """:func:`reorient` to ``"RAS"``: columns to the right, rows to the front, slices to the head."""
    return reorient(sequence, "RAS")
