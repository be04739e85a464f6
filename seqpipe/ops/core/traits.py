"""Traits: what the class of an operator states about itself, apart from the parameters that users give."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from .body import Body
from .parameters import KEY
from .spec import COMPUTED

__all__ = ["Arguments", "Takes", "Traits", "collected"]

Arguments: TypeAlias = Mapping[str, Any]
Takes: TypeAlias = Literal["images", "batches", "boxes", "points", "arrays", "volumes", "nothing"]

_STATED: Final = "_stated_traits"
_NEVER_INHERITED: Final = ("converted",)
# a class with a method of its own that does not state the trait beside it has that trait's default again
_STATED_WITH: Final = {
    "sample": "samples_together",
    "derive": "derived_from",
    "order": "rows_together",
    "mapping": "maps_rows",
}
# what does the same as a reference does not do the same as another one in its place
_STATED_WITH_REFERENCE: Final = (
    "body",
    "composed",
    "cpu_tolerance",
    "pointwise",
    "takes_raw",
    "whole_pixels",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """What operators state about themselves.

    In the body of an operator's class, an attribute with one of these names that is not declared by ``param`` is a
    trait, ``pointwise = True``. It is read as ``op.traits.pointwise``; the class itself keeps no attribute of that
    name, so that parameters of users may have any of these names. A subclass inherits what it does not state.

    Attributes:
        dtypes: what it takes.
        channels: how many values its pixels may have; empty for any number.
        channels_from: the parameter whose length says so, for messages; empty where it is the operator itself.
        values: ``"computed"`` if its reference is given float32 and its result is rounded once, at the end, to the
            type of the result; ``"moved"`` if it is given the values as they are.
        pointwise: whether a value of the result depends on that one value and the parameters alone.
        takes_raw: whether ``cpu`` is given values as they are, though they are computed; it may return floats, or
            values of the type of the result.
        threads_within: whether most of ``cpu`` is done by a library that has threads of its own, so that several
            frames at a time would take longer.
        of_seqpipe: whether the class is one of seqpipe's own, whose forms keep nothing between calls, and leave images
            that they are given as they are; follows from its module.
        keeps_size: whether results have the size of what they are made of.
        keeps_frames: whether each frame of a result is made of that frame alone; otherwise the operator is given whole
            sequences, states ``frame_order``, and looks itself at whether it acts.
        takes: what it acts on; what does not act on images has a call of its own.
        by_frame: whether parameters may differ between the frames of a sequence.
        samples_together: whether ``sample`` also takes ``BatchGenerator`` of alike samples, and gives values of all.
        luma_only: whether it looks at nothing of colors but their luma, so that gray images do as well; what colors are
            is then its parameter ``image_type``.
        derived_from: the parameters in rows that ``derive`` looks at; None for any.
        rows_together: whether ``kernel_rows`` takes rows of several alike samples, though it moves frames.
        frames_alike: whether frames that are equal have equal results, if their parameters are; otherwise there is a
            row of parameters for each frame.
        body: how it is done on a GPU; None runs the reference on CuPy arrays.
        composed: whether other operators do it on a GPU: it then has a ``compose`` of its own.
        derived: names of what follows from the parameters and the type, float32; ``(name, length)`` is a vector.
        tolerance: how far other backends may be from the reference: by how much at most, in levels or in float32's
            own rounding steps, and in which share of the values.
        cpu_tolerance: the same for the fast form on the CPU, where it differs.
        examples: arguments that tests and documentation use.
        errors: arguments that are refused, each with a regular expression that the message matches.
        converted: what it does that a reader's conversion can do in its place; never inherited, for a subclass may do
            something else.
    """

    dtypes: tuple[str, ...] = COMPUTED
    channels: tuple[int, ...] = ()
    channels_from: str = ""
    values: Literal["computed", "moved"] = "computed"
    pointwise: bool = False
    takes_raw: bool = False
    threads_within: bool = False
    of_seqpipe: bool = True
    keeps_size: bool = True
    keeps_frames: bool = True
    takes: Takes = "images"
    by_frame: bool = True
    samples_together: bool = False
    luma_only: bool = False
    derived_from: tuple[str, ...] | None = None
    rows_together: bool = False
    frames_alike: bool = True
    body: Body | None = None
    composed: bool = False
    derived: tuple[str | tuple[str, int], ...] = ()
    tolerance: tuple[float, float] = (0.0, 0.0)
    cpu_tolerance: tuple[float, float] | None = None
    examples: tuple[Arguments, ...] = ()
    errors: tuple[tuple[Arguments, str], ...] = ()
    converted: tuple[Literal["scaling", "moving", "levels"], ...] = ()


def collected(cls: Any, *, new_reference: bool) -> Any:
    """The traits of a class: those of its body, which are taken out of it, and those of its bases.

    Args:
        cls: the class, before it is a dataclass.
        new_reference: whether it replaces the reference of a base.
    """
    kinds = [type(base.__dict__["traits"]) for base in cls.__mro__ if "traits" in base.__dict__]
    kind = max(kinds, key=lambda one: len(one.__mro__))
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    own = {name: value for name, value in vars(cls).items() if name in defaults and not _is_parameter(value)}
    for name in own:
        delattr(cls, name)
    anew = [*_NEVER_INHERITED, *(name for method, name in _STATED_WITH.items() if method in vars(cls))]
    anew += _STATED_WITH_REFERENCE if new_reference else ()
    stated = {name: defaults[name] for name in anew if name in defaults}
    setattr(cls, _STATED, {**stated, **own, "of_seqpipe": cls.__module__.startswith("seqpipe.")})
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found.update(base.__dict__.get(_STATED, {}))
    return kind(**found)


def _is_parameter(value: Any) -> bool:
    return isinstance(value, dataclasses.Field) and KEY in value.metadata
