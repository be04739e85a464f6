"""Static types of the values in a graph."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ...array import device_of
from ...layout import LAYOUTS
from ...parts import Boxes, Flow, Labels, Metadata, Part, Points
from ...sequence import Batch, Sequence
from .spec import Spec

__all__ = ["Type", "ValueKind", "type_of_value", "types_after"]

ValueKind: TypeAlias = Literal["images", "labels", "boxes", "points", "flow", "numbers", "unknown"]
_KINDS: dict[type[Part], ValueKind] = {Labels: "labels", Boxes: "boxes", Points: "points", Flow: "flow"}


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
        return replace(self, layout=layout, shape=tuple(sides.get(one, self.side(one)) for one in layout))

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


def type_of_value(value: Any) -> Type:
    """Return the type of a batch: a Batch, an array ``(N, …)``, or a list of arrays."""
    if isinstance(value, Metadata):
        return Type()
    if isinstance(value, Part):
        return replace(type_of_value(value.data), kind=_KINDS.get(type(value), "images"))
    if isinstance(value, (Batch, Sequence)):
        samples = [value] if isinstance(value, Sequence) else list(value.sequences)
        return _of_samples("images", samples[0].layout, samples)
    letters = getattr(value, "layout", "") or None
    data = getattr(value, "data", value) if hasattr(value, "layout") else value
    if not isinstance(data, list) and not hasattr(data, "dtype"):
        return Type()
    if isinstance(data, list) and not all(hasattr(one, "dtype") for one in data):
        return Type()
    if len(data) == 0:
        return Type()
    kind: ValueKind = "images" if letters and "H" in letters else "unknown"
    return _of_samples(kind, letters, list(data) if isinstance(data, list) else [data[0]])


def _of_samples(kind: ValueKind, layout: str | None, samples: Seq[Any]) -> Type:
    shapes = [tuple(one.shape) for one in samples]
    agreed: tuple[int | None, ...] | None = None
    if len({len(shape) for shape in shapes}) == 1:
        agreed = tuple(
            unique.pop() if len(unique := set(sides)) == 1 else None for sides in zip(*shapes, strict=True)
        )
    first = samples[0].data if isinstance(samples[0], Sequence) else samples[0]
    device = "cpu" if isinstance(first, np.generic) else device_of(first)
    return Type(kind, layout, np.dtype(first.dtype).name, device, agreed)


def types_after(target: Any, inputs: Seq[Type], layout: str | None = None) -> tuple[Type, ...]:
    """Return the types of the results of an operator, a chain or a choice; see :meth:`Deferrable.result_types`."""
    if not inputs:
        return (Type(),)
    first, *others = inputs
    if layout is not None:
        first = replace(first, layout=layout.removeprefix("N"))
    result: tuple[Type, ...] = target.result_types((first, *others))
    return result
