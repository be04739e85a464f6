"""Static types of values in a graph, and the types that operators return for them."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ...array import device_of
from ...errors import ParameterError
from ...layout import LAYOUTS
from ...parts import Boxes, Flow, Labels, Metadata, Part, Points
from ...sequence import Batch, Sequence
from ..arrays.base import Arrays, Shaping
from ..batch.base import Mixing
from ..call.inputs import check, check_type
from ..core.blocks import constant_of
from ..core.declaration import Declaration
from ..core.spec import Spec
from ..temporal.frames import ElementExtract
from ..volume.base import Volumetric
from .chain import Chain
from .choice import SomeOf
from .only import Only
from .parts import Sampled

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
            found.pop() if len(found := set(sides)) == 1 else None for sides in zip(*shapes, strict=True)
        )
    first = samples[0].data if isinstance(samples[0], Sequence) else samples[0]
    device = "cpu" if isinstance(first, np.generic) else device_of(first)
    return Type(kind, layout, np.dtype(first.dtype).name, device, agreed)


# ---------------------------------------------------------------------- results of operators


def types_after(target: Any, given: Seq[Type], layout: str | None = None) -> tuple[Type, ...]:
    """Return the types of the results of an operator, a chain or a choice.

    Args:
        target: what is called.
        given: types of the positional arguments.
        layout: layout of arrays, an argument of the call.

    Raises:
        ParameterError: the target does not accept such values.
    """
    if isinstance(target, Sampled):
        return (Type(),) * len(target.parts)
    if not given:
        return (Type(),)
    first, *others = given
    if layout is not None:
        first = replace(first, layout=layout.removeprefix("N"))
    if isinstance(target, Chain):
        found: tuple[Type, ...] = (first,)
        for member in target.ops:
            found = types_after(member, (found[0], *(others if isinstance(member, Mixing) else ())))[:1]
        return (*found, *(replace(one, kind="labels", dtype="float32", shape=None) for one in others))
    if isinstance(target, Only):
        raise target.sample_error(f"{first}")
    if isinstance(target, SomeOf):
        return (_of_choice(target, first),)
    if isinstance(target, Mixing):
        _check_images(target, first)
        return first, Type("labels", "", "float32", first.device)
    if isinstance(target, ElementExtract):
        _check_images(target, first)
        layout = None if first.layout is None else first.layout.replace("F", "")
        return (first.resized(layout, {}),) * len(target.element_map)
    if isinstance(target, (Arrays, Volumetric)) or target.traits.takes != "images":
        return (_of_arrays(target, first),)
    return (_of_images(target, first),)


def _of_images(op: Declaration, given: Type) -> Type:
    _check_images(op, given)
    sides: dict[str, int | None] = {}
    if (count := given.side("C")) is not None:
        sides["C"] = op.result_channels(count)
    if not (op.traits.keeps_size and op.traits.keeps_frames):
        frames, rows, columns = _extent_of(op, given)
        sides |= {} if op.traits.keeps_frames else {"D" if "D" in (given.layout or "") else "F": frames}
        sides |= {} if op.traits.keeps_size else {"H": rows, "W": columns}
    dtype = None if given.dtype is None else op.result_dtype(given.dtype)
    layout = None if given.layout is None else op.result_layout(given.layout)
    return replace(given.resized(layout, sides), kind="images", dtype=dtype)


def _extent_of(op: Declaration, given: Type) -> tuple[int | None, int | None, int | None]:
    """Return frames, rows and columns of the results; None if they are sampled or unknown."""
    if op.nodes:
        return None, None, None
    if given.spec is not None and op.is_constant and not op.looks_at_values:
        return constant_of(op, given.spec).extent
    return (None, *(op.fixed_size or (None, None)))


def _check_images(op: Declaration, given: Type) -> None:
    """Check that an operator on images accepts such values, as far as their type is known."""
    if given.kind not in ("images", "unknown", "flow", "labels"):
        raise ParameterError(f"{given}", source=op.name, allowed=f"{op.traits.takes}")
    letters = given.layout
    if letters is not None and not ("H" in letters and "W" in letters):
        raise ParameterError(
            f"{given}, without rows and columns", source=op.name, allowed="layouts with H and W, such as FHWC"
        )
    if letters is not None and not op.traits.keeps_frames and not set(letters) & {"F", "D"}:
        raise ParameterError(f"{given}, without frames", source=op.name, allowed="layouts with F or D")
    if given.dtype is not None:
        check_type(op, given.dtype)
    if given.spec is not None and not op.looks_at_values:
        check(op, given.spec)
        if op.is_constant and not op.nodes:
            constant_of(op, given.spec)


def _of_arrays(op: Declaration, given: Type) -> Type:
    if (
        given.dtype is not None
        and given.dtype not in op.traits.dtypes
        and isinstance(op, (Arrays, Volumetric))
    ):
        check_type(op, given.dtype)
    if isinstance(op, Volumetric):
        return replace(given, shape=None, kind="images")
    if isinstance(op, Shaping) and given.layout and given.shape and None not in given.shape:
        letters = f"N{given.layout}"
        if letters in LAYOUTS:
            shadow = np.broadcast_to(np.zeros((), given.dtype or "uint8"), (1, *given.shape))  # type: ignore[arg-type]  # None is not among them
            made, after = op.shaped(op.held(shadow, letters))
            return replace(given, layout=after.removeprefix("N") or None, shape=tuple(made.shape[1:]))
    kind: ValueKind = "numbers" if op.name.startswith("reductions.") else "unknown"
    return Type(kind, device=given.device)


def _of_choice(choice: SomeOf, given: Type) -> Type:
    """Return the common type of the results of all parts.

    Raises:
        ParameterError: parts return different layouts or dtypes.
    """
    found = [given if line is None else types_after(line, (given,))[0] for line in choice.parts]
    if choice.p < 1 or choice.n[0] == 0:
        found.append(given)
    for what in ("layout", "dtype"):
        several = {value for one in found if (value := getattr(one, what)) is not None}
        if len(several) > 1:
            raise ParameterError(
                f"parts return different {what}s, {', '.join(sorted(several))}",
                source=choice.name,
                allowed=f"one {what} for all",
                advice="Put the operator that changes it after the choice",
            )
    shapes = {one.shape for one in found}
    return replace(found[0], shape=shapes.pop() if len(shapes) == 1 else None)
