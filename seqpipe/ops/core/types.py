"""Static types of the values in a graph."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ...array import LAYOUTS
from .spec import Spec

__all__ = ["Type", "ValueKind", "types_after"]

ValueKind: TypeAlias = Literal["images", "labels", "boxes", "points", "flow", "numbers", "unknown"]


@dataclass(frozen=True)
class Type:
    """Type of a value of a batch; None stands for unknown.

    Attributes:
        kind: kind of the value.
        layout: layout of a sample; empty for numbers.
        dtype: name of the NumPy dtype.
        device: "cpu" or "cuda:N".
        shape: shape of a sample; None, also for single axes, if samples differ or it is unknown.
    """

    kind: ValueKind = "unknown"
    layout: str | None = None
    dtype: str | None = None
    device: str | None = None
    shape: tuple[int | None, ...] | None = None

    def __str__(self) -> str:
        shape = (
            None
            if self.shape is None
            else "×".join("?" if side is None else f"{side}" for side in self.shape)
        )
        words = [
            self.kind,
            self.layout,
            self.dtype,
            shape and f"({shape})",
            self.device and f"on {self.device}",
        ]
        return " ".join(word for word in words if word)

    def side(self, letter: str) -> int | None:
        """Return the length of an axis of a sample; None if it is unknown."""
        if self.layout is None or self.shape is None or letter not in self.layout:
            return None
        return self.shape[self.layout.index(letter)]

    def resized(self, layout: str | None, sides: dict[str, int | None]) -> Type:
        """Return the type with another layout, and other lengths of some axes."""
        if layout is None or self.shape is None:
            return replace(self, layout=layout, shape=None)
        return replace(
            self, layout=layout, shape=tuple(sides.get(letter, self.side(letter)) for letter in layout)
        )

    @property
    def spec(self) -> Spec | None:
        """Spec of a sample; None if a part of it is unknown."""
        if self.layout not in LAYOUTS or self.shape is None or None in self.shape or self.dtype is None:
            return None
        sides = {letter: self.side(letter) or 1 for letter in "FDHWC"}
        return Spec(
            sides["F"] * sides["D"],
            sides["H"],
            sides["W"],
            sides["C"],
            self.dtype,
            "D" in (self.layout or ""),
        )


def types_after(target: Any, inputs: Seq[Type], layout: str | None = None) -> tuple[Type, ...]:
    """Return the types of the results of an operator, a chain or a choice; see :meth:`Deferrable.result_types`."""
    if not inputs:
        return (Type(),)
    first, *others = inputs
    if layout is not None:
        first = replace(first, layout=layout.removeprefix("N"))
    result: tuple[Type, ...] = target.result_types((first, *others))
    return result
