"""Traits: implementation properties that an operator class states, separate from its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from .body import Body
from .parameters import KEY
from .spec import COMPUTED_DTYPES

__all__ = ["Arguments", "Takes", "Traits", "collected"]

Arguments: TypeAlias = Mapping[str, Any]
Takes: TypeAlias = Literal["images", "batches", "boxes", "points", "arrays", "volumes", "nothing"]

_STATED: Final = "_stated_traits"
_NEVER_INHERITED: Final = ("converted",)
# a class that overrides the method without stating the trait gets the default of the trait again
_STATED_WITH: Final = {
    "sample": "samples_together",
    "derive": "derived_from",
    "order": "rows_together",
    "mapping": "maps_rows",
}
# these traits describe one reference: a subclass that replaces the reference does not inherit them
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
    """Implementation properties of an operator.

    In the body of an operator's class, an attribute with one of these names that is not declared by ``param`` is a
    trait, such as ``pointwise = True``. It is read as ``op.traits.pointwise``; the class itself keeps no attribute of
    that name, so parameters may have any of these names. A subclass inherits the traits that it does not state.

    Attributes:
        dtypes: accepted dtypes.
        channels: accepted numbers of channels; empty for any number.
        channels_from: name of the parameter whose length determines the channels, for messages; "" if none does.
        values: ``"computed"`` if the reference gets float32 and its result is rounded once, at the end, to the dtype of
            the result; ``"moved"`` if it gets the values unchanged.
        pointwise: whether a value of the result depends on the same value of the input and the parameters alone.
        takes_raw: whether ``cpu`` gets the values in their dtype although they are computed; it may return floats, or
            values of the dtype of the result.
        threads_within: whether most of ``cpu`` runs in a library with its own threads, so that processing several
            frames concurrently would be slower.
        is_builtin: whether the class is part of seqpipe; its implementations keep no state between calls and do not
            write to their input. Follows from the module.
        keeps_size: whether results have the height and width of the input.
        keeps_frames: whether each frame of a result depends on the same frame of the input alone; otherwise the
            operator gets whole sequences, defines ``frame_order``, and itself checks whether it acts.
        takes: kind of input; an operator that does not take images has its own call.
        by_frame: whether parameters may differ between the frames of a sequence.
        samples_together: whether ``sample`` also accepts ``BatchGenerator`` for samples of one spec, and returns values
            for all.
        keyed: whether ``sample`` also draws a key for random numbers beyond the parameters, which ``p.key`` is: two
            integers of 24 bits.
        luma_only: whether it uses only the luma of colors, so that gray images suffice; its parameter ``image_type``
            then states the color space.
        derived_from: the parameters that ``derive`` uses; None for any.
        rows_together: whether ``kernel_rows`` accepts rows of several samples of one spec although it moves frames.
        frames_alike: whether equal frames with equal parameters have equal results; otherwise each frame has its own
            row of parameters.
        body: the GPU implementation; None runs the reference on CuPy arrays.
        composed: whether it runs other operators on a GPU; it then defines ``compose``.
        derived: names of the float32 values derived from parameters and dtype; ``(name, length)`` is a vector.
        tolerance: greatest difference of other backends from the reference, in integer steps or float32 rounding
            steps, and the greatest share of values that differ.
        cpu_tolerance: tolerance of the CPU implementation, where it differs.
        examples: arguments that tests and documentation use.
        errors: invalid arguments, each with a regular expression that matches the message.
        converted: steps of a reader's conversion that can replace the operator; never inherited, because a subclass may
            do something else.
    """

    dtypes: tuple[str, ...] = COMPUTED_DTYPES
    channels: tuple[int, ...] = ()
    channels_from: str = ""
    values: Literal["computed", "moved"] = "computed"
    pointwise: bool = False
    takes_raw: bool = False
    threads_within: bool = False
    is_builtin: bool = True
    keeps_size: bool = True
    keeps_frames: bool = True
    takes: Takes = "images"
    by_frame: bool = True
    samples_together: bool = False
    keyed: bool = False
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
    converted: tuple[Literal["scaling", "moving", "values"], ...] = ()


def collected(cls: Any, *, new_reference: bool) -> Any:
    """Return the traits of a class: those of its body, which are removed from it, and those of its bases.

    Args:
        cls: the class, before it becomes a dataclass.
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
    setattr(cls, _STATED, {**stated, **own, "is_builtin": cls.__module__.startswith("seqpipe.")})
    result: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        result.update(base.__dict__.get(_STATED, {}))
    return kind(**result)


def _is_parameter(value: Any) -> bool:
    return isinstance(value, dataclasses.Field) and KEY in value.metadata
