"""Traits: implementation properties that an operator class states, separate from its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .parameters import KEY
from .spec import COMPUTED_DTYPES, KERNEL_DTYPES

__all__ = ["WORK", "Arguments", "Body", "KernelPass", "Takes", "Traits", "Work", "collected"]


@dataclass(frozen=True)
class Body:
    """The operator's part of a kernel.

    Attributes:
        kind: name of the skeleton, a file of ``ops/cuda`` without ``.cuh``. ``"value"``: statements that change
            ``Real value``, of channel ``int channel``; ``"pixel"``: statements that change ``Real pixel[CHANNELS]``;
            ``"gather"``: none, the mapping states where values are read. The other files document their requirements.
        text: the statements. ``row`` has the parameters and derived values. A ``Real`` is a float32 whose arithmetic is
            rounded after every operation, as NumPy's is.
        numbers: returns the integers that the skeleton includes as ``NUMBERS``; called at the first compilation.
    """

    kind: str
    text: str = ""
    numbers: Callable[[], Iterable[int]] = tuple


KernelPass: TypeAlias = tuple[str, int, int]
"""One launch of a kernel: its name, blocks for each image, and number of images."""


class Work(NamedTuple):
    """Division of a skeleton's work into launches and blocks.

    Attributes:
        tile: rows and columns of the pixels of a block, ``TALL`` and ``WIDE`` in the source; None for as many pixels as
            the block has threads, or a multiple, in memory order.
        kernels: the kernels; each processes all images before the next one starts.
        scratch: bytes of zeroed memory for each channel of each image, by dtype.
        pixels: most pixels of a thread, without tiles and with many blocks.
        tiles: most tiles of a block, with many blocks.
        fewer: factor of the number of blocks that count as many: greater if each block has a costly setup.
        choice: field of a row that holds the index of the kernel for an image; "" to run all kernels.
    """

    tile: tuple[int, int] | None = None
    kernels: tuple[str, ...] = ("each",)
    scratch: Mapping[str, int] = MappingProxyType({})
    pixels: int = 4
    tiles: int = 1
    fewer: int = 1
    choice: str = ""

    def launches(
        self, rows: npt.NDArray[Any], sizes: Collection[tuple[int, int]], images: int, threads: int
    ) -> list[KernelPass]:
        """Return the kernels that rows of parameters need, in order; each processes all images."""
        blocks, names = 1, self.kernels
        for height, width in sizes:
            blocks = max(blocks, self.blocks(height, width, threads, images))
        if self.choice:
            chosen = set(rows[self.choice].tolist())
            names = tuple(name for number, name in enumerate(names) if number in chosen)
        return [(name, blocks, images) for name in names]

    def blocks(self, height: int, width: int, threads: int, images: int) -> int:
        """Return the number of blocks for each of some images."""
        if self.tile is not None:
            tall, wide = self.tile
            blocks, most = -(-height // tall) * -(-width // wide), self.tiles
        else:
            blocks, most = -(-height * width // threads), self.pixels
        # finding the image is half of a thread's work, so a thread computes several pixels if there are many
        return -(-blocks // max(1, min(most, blocks * images * self.fewer // _FULL_GPU_BLOCKS)))


_FULL_GPU_BLOCKS: Final = 1024  # blocks that occupy any GPU
_FOURS: Final = Work(pixels=16)
_BY_REACH: Final = Work(tile=(64, 256), kernels=("few", "near", "far"), tiles=2, fewer=2, choice="reach")
_SURVEYS: Final = Work(pixels=64, fewer=2)
_HISTOGRAM_BYTES: Final = {"uint8": 4 * 256 + 8, "uint16": 4 * 65536 + 8, "int16": 4 * 65536 + 8}
_TWO_NUMBERS: Final = MappingProxyType(dict.fromkeys(KERNEL_DTYPES, 16))
WORK: Final = MappingProxyType(
    {
        "canvas": _FOURS,
        "chain": _FOURS,
        "difference": _FOURS,
        "equalize": _SURVEYS._replace(kernels=("count", "each"), scratch=MappingProxyType(_HISTOGRAM_BYTES)),
        "erased": _FOURS,
        "filter": _BY_REACH,
        "gather": _FOURS,
        "gaussian": _BY_REACH._replace(kernels=(*_BY_REACH.kernels, "banded"), tiles=1),
        "jpeg": Work(tile=(64, 64), tiles=3, fewer=2),
        "mean": _BY_REACH,
        "median": _BY_REACH._replace(kernels=("few", "far")),
        "mixed": _FOURS,
        "moments": Work(tile=(1, 1), kernels=("add", "finish")),
        "one_hot": Work(tile=(1, 16384)),
        "order": _FOURS,
        "noise": Work(pixels=32),
        "pixel": _FOURS,
        "resample": Work(tile=(16, 256)),
        "separable": _BY_REACH,
        "shot": Work(pixels=256, fewer=3),
        "smoothed": _FOURS,
        "space": _FOURS,
        "statistics": Work(tile=(32, 256), kernels=("add", "spread", "each"), scratch=_TWO_NUMBERS),
        "surveyed": _SURVEYS._replace(kernels=("survey", "each"), scratch=_TWO_NUMBERS),
        "value": Work(pixels=32),
        "warp": Work(tile=(64, 64)),
    }
)
"""Work of the skeletons that use tiles, several kernels or several pixels for each thread."""


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
        geometric: whether it moves pixels or voxels, and with them every part of a sample.
        body: the GPU implementation; None runs the reference on CuPy arrays.
        kernel_row: dtype of the rows that the body gets; None for that of the block.
        kernel_fields: fields that the rows of the body have besides.
        composed: whether it runs other operators on a GPU; it then defines ``compose``.
        derived: names of the float32 values derived from parameters and dtype; ``(name, length)`` is a vector.
        tolerance: greatest difference of other backends from the reference, in integer steps or float32 rounding
            steps, and the greatest share of values that differ.
        cpu_tolerance: tolerance of the CPU implementation, where it differs.
        exclusive: groups of parameters, of each of which one may be given; None and False are none.
        examples: arguments that tests and documentation use.
        errors: arguments that the class's own checks refuse, each with a regular expression that matches the message;
            what the declaration of one parameter refuses needs no example.
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
    geometric: bool = False
    body: Body | None = None
    kernel_row: np.dtype[Any] | None = None
    kernel_fields: tuple[tuple[Any, ...], ...] = ()
    composed: bool = False
    derived: tuple[str | tuple[str, int], ...] = ()
    tolerance: tuple[float, float] = (0.0, 0.0)
    cpu_tolerance: tuple[float, float] | None = None
    exclusive: tuple[tuple[str, ...], ...] = ()
    examples: tuple[Arguments, ...] = ()
    errors: tuple[tuple[Arguments, str], ...] = ()
    converted: tuple[Literal["scaling", "moving", "values"], ...] = ()


def collected(cls: Any, *, new_reference: bool) -> Any:
    """Return the traits of a class: those of its body, which are removed from it, and those of its bases."""
    kinds = [type(base.__dict__["traits"]) for base in cls.__mro__ if "traits" in base.__dict__]
    kind = max(kinds, key=lambda traits_class: len(traits_class.__mro__))
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
