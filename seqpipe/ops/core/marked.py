"""Check that operators compute no new values from parts that may be labels, and whose type is not stated."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from ...parts import unmarked_error
from .declaration import Declaration

__all__ = ["check_marked"]


def check_marked(op: Any, unmarked: Seq[str]) -> None:
    """Check that an operator computes no new values from parts that may be labels.

    Args:
        op: an operator, a choice or a chain.
        unmarked: names of the parts; see :func:`seqpipe.parts.unmarked_labels`.

    Raises:
        ParameterError: it does; the message tells how to mark the part.
    """
    names = [name for name in unmarked if name in getattr(op, "images", unmarked)]
    for one in op.operators if names else ():
        chosen = names if getattr(one, "only", None) is None else [name for name in names if name in one.only]
        if chosen and isinstance(one, Declaration) and _computes(one):
            raise unmarked_error(chosen[0], one.name)


def _computes(op: Any) -> bool:
    """Return whether values of a result may differ from all values of the input."""
    traits = op.traits
    if traits.takes == "volumes":
        by_gather = getattr(op, "interp", "nearest") != "nearest"
        return by_gather if traits.geometric else not traits.on_labels
    nearest = getattr(op, "interp_type", None) == "nearest"
    return traits.values == "computed" and not getattr(traits, "whole_pixels", False) and not nearest
