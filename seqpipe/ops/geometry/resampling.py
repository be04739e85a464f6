"""Resampling along rows and columns: where each pixel of a result lies in the source, and the filters' weights.

Places are fixed-point numbers with 32 bits of fraction, so that they are the same, to the last bit, wherever they are
computed; weights are float32 and made of nothing but sums, products and quotients, for the same reason.
``resample.cuh`` says the same in C++.

The video room has a table of its own, a triangle in float64 that is combined with the interpolation of chroma and
repeats the pixels at the border; sharing one would change its results.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray, namespace

__all__ = [
    "COMPAT",
    "FILTERS",
    "ONE",
    "Axes",
    "Compat",
    "FilterName",
    "Float32Array",
    "SampledAxis",
    "Taps",
    "cubic",
    "resampled",
    "taps_of",
    "weights_of",
]

FilterName: TypeAlias = Literal["nearest", "linear", "triangular", "cubic", "lanczos3", "gaussian", "area"]
FILTERS: Final = ("nearest", "linear", "cubic", "lanczos3", "triangular", "gaussian", "area")
"""The names of filters; triangular is linear, by another name."""

Compat: TypeAlias = Literal["pillow", "opencv", "tf1"]
COMPAT: Final[dict[Compat, tuple[FilterName, ...]]] = {
    "pillow": ("nearest", "linear", "triangular", "cubic", "lanczos3"),
    "opencv": ("nearest", "linear", "triangular", "cubic", "area"),
    "tf1": ("nearest", "linear", "triangular", "cubic", "area"),
}
"""Libraries whose conventions can be asked for, and the filters that they have."""

ONE: Final = 1 << 32
_NUMBERS: Final = {
    "nearest": 0,
    "linear": 1,
    "triangular": 1,
    "cubic": 2,
    "lanczos3": 3,
    "gaussian": 4,
    "area": 5,
}
_SHARP: Final = 6  # the number of the cubic that is not Keys's, but OpenCV's and TensorFlow's
# by their numbers, filters that are 0 at all other samples; Lanczos's sines not to the last bit, the gaussian nowhere
_ZERO_AT_OTHERS: Final = frozenset({1, 2, 5, _SHARP})
_SUPPORT: Final = (
    0.0,
    1.0,
    2.0,
    3.0,
    1.0,
    0.0,
    2.0,
)  # by the number of the filter, in pixels of the coarser grid
_NEAR: Final = 1 << 11  # a place that is so little before a pixel, which is less than a millionth, is in it

# sin(pi r) / r for |r| <= 1/2, and exp(-z) for 0 <= z <= 1/4: Taylor's series as float32, for powers of r² and z
_SINE: Final = tuple(
    np.float32((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(7)
)
_EXPONENTIAL: Final = tuple(np.float32((-1) ** k / math.factorial(k)) for k in range(7))
_SQUARE: Final = np.float32(3 / math.pi**2)

Float32Array: TypeAlias = npt.NDArray[Any]  # of float32


class SampledAxis(NamedTuple):
    """How one axis of a source becomes one of a result; all that a kernel has to know of it.

    Attributes:
        begin: the place where the result's first pixel begins, in units of 2⁻³² source pixels.
        step: how far it is from one pixel of the result to the next, likewise; negative if the axis is mirrored.
        reach: how far from its center a pixel may be made of, likewise.
        taps: how many source pixels lie within that.
        filter: its number.
        scale: 1 / the factor by which the filter is widened; for area, half of what a pixel of the result covers.
        cut: whether what lies outside of the source is left out; otherwise the pixels at its border are repeated.
    """

    begin: int
    step: int
    reach: int
    taps: int
    filter: int
    scale: np.float32
    cut: bool

    @classmethod
    def of(
        cls, begin: float, step: float, kind: FilterName, *, antialias: bool, compat: Compat | None = None
    ) -> SampledAxis:
        """The axis of a map ``source = begin + step * result``, in pixels.

        Args:
            begin: where the result's first pixel begins.
            step: source pixels for each pixel of the result.
            kind: the filter.
            antialias: whether the filter is widened to shrink; then the source ends at its border, as in Pillow.
            compat: whose conventions are taken; all but Pillow's are without antialias.
        """
        return _axis(begin, step, kind, antialias, compat)

    @property
    def picks(self) -> bool:
        """Whether each pixel is one of the source, as it is: of others that the filter reaches, the weight is 0."""
        apart = abs(self.step) == ONE and self.begin % ONE == 0
        return not self.filter or (apart and self.filter in _ZERO_AT_OTHERS)

    @property
    def means(self) -> bool:
        """Whether each pixel is the mean of what it covers."""
        return self.filter == _NUMBERS["area"]


class Axes(NamedTuple):
    """Several axes: each attribute of :class:`SampledAxis` as an array with a value for each, or one for all."""

    begin: IntArray
    step: IntArray
    reach: IntArray
    taps: IntArray
    filter: IntArray | int
    scale: Float32Array
    cut: npt.NDArray[np.bool_] | bool

    @classmethod
    def of(
        cls,
        begin: FloatArray,
        step: FloatArray,
        kind: FilterName,
        *,
        antialias: bool,
        compat: Compat | None = None,
    ) -> Axes:
        """The axes of maps ``source = begin + step * result``; the arguments are those of :meth:`Axis.of`."""
        number = _NUMBERS[kind]
        if compat in ("opencv", "tf1"):
            antialias, number = False, _SHARP if kind == "cubic" else number
        cut = antialias and number > 0
        covered = np.abs(step)
        # all at once, for of so few numbers each step takes as long as one does
        scaled = np.empty((3, *step.shape))
        if kind == "area":
            wide, scale = (covered + 1) / 2, covered / 2
        else:
            shrunk = np.maximum(covered, 1.0) if cut else np.ones_like(covered)
            wide, scale = _SUPPORT[number] * shrunk, 1 / shrunk
        scaled[0], scaled[1], scaled[2] = begin, step, wide
        scaled *= ONE
        first, way, places = np.rint(scaled, scaled).astype(np.int64)
        if not number:
            places[...] = ONE // 2 - _NEAR
        if compat is not None:
            first += _moved(kind, np.abs(way), compat)
        taps = -(-places >> 31)  # twice as many as places are whole, rounded up
        return cls(first, way, places, taps, number, scale.astype(np.float32), cut)

    def each(self) -> list[SampledAxis]:
        """One by one, as Python's numbers."""
        parts = np.broadcast_arrays(*self)
        columns = (list(part.flat) if part.dtype == np.float32 else part.ravel().tolist() for part in parts)
        return [SampledAxis(*values) for values in zip(*columns, strict=True)]

    def where(self, chosen: npt.NDArray[np.bool_], other: Axes) -> Axes:
        """These where they are chosen, and others elsewhere."""
        return Axes(*(np.where(chosen, *parts) for parts in zip(self, other, strict=True)))

    def moved(self, direction: IntArray, offset: IntArray) -> Axes:
        """The axes of results whose places ``x`` are those ``direction * x + offset`` of these ones' results.

        Pixels are the same to the last bit, for their centers are the same numbers.

        Args:
            direction: 1, or -1 if they are mirrored.
            offset: where the first one begins, in whole pixels.
        """
        return Axes(self.begin + self.step * offset, self.step * direction, *self[2:])


@lru_cache(maxsize=256)  # most operators have the same axes in every call
def _axis(begin: float, step: float, kind: FilterName, antialias: bool, compat: Compat | None) -> SampledAxis:
    made = Axes.of(np.array([begin]), np.array([step]), kind, antialias=antialias, compat=compat)
    return made.each()[0]


def _moved(kind: FilterName, step: IntArray, compat: Compat) -> IntArray | int:
    """How far the places of a library lie from ours, in units of 2⁻³².

    Pixel ``i`` of a result is at ``step * (i + 1/2)``, where source pixel ``k`` reaches from ``k`` to ``k + 1``.
    TensorFlow 1 takes ``step * i`` for the number of a source pixel, and its fraction for the way to the next one;
    nearest, there and with OpenCV, is the pixel of which that is the number, rounded down.
    """
    if kind == "area" or not (compat == "tf1" or (compat == "opencv" and kind == "nearest")):
        return 0
    return (0 if kind == "nearest" else ONE // 2) - (step >> 1)


class Taps(NamedTuple):
    """What the pixels of one axis are made of.

    Attributes:
        places: ``(taps, size)``, source pixels, within the source.
        weights: float32, likewise.
        total: float32 ``(size,)``, the sum of the weights of each pixel.
    """

    places: IntArray
    weights: Float32Array
    total: Float32Array


@lru_cache(maxsize=256)
def taps_of(axis: SampledAxis, size: int, length: int) -> Taps:
    """What each pixel of an axis is made of.

    Args:
        axis: how it is made.
        size: pixels of the result.
        length: pixels of the source.
    """
    center = axis.begin + axis.step * np.arange(size, dtype=np.int64) + (axis.step >> 1)
    first = (center - axis.reach + ONE // 2) >> 32
    nearest = ((first << 32) + ONE // 2 - center).astype(np.float32) * np.float32(1 / ONE)
    tap = np.arange(axis.taps)[:, None]
    places = first + tap
    inside = np.clip(places, 0, length - 1)
    weights = weights_of(axis, nearest + tap.astype(np.float32))
    if axis.cut:
        weights = np.where(places == inside, weights, np.float32(0))
    total = np.zeros(size, np.float32)
    for one in weights:
        total += one
    for part in (inside, weights, total):
        part.flags.writeable = False
    return Taps(inside, weights, total)


def weights_of(axis: SampledAxis, distance: Float32Array) -> Float32Array:
    """The weights of source pixels whose centers lie at some distances from that of a pixel.

    Args:
        axis: how it is made.
        distance: in source pixels.
    """
    one = np.float32(1)
    if axis.filter == 0:
        return np.ones_like(distance)
    if axis.filter == 5:
        half = np.float32(0.5)
        covered = _positive(axis.scale + half - np.abs(distance))
        return np.asarray(np.minimum(covered, min(one, axis.scale + axis.scale)))
    u = np.abs(distance) * axis.scale
    if axis.filter == 1:
        return _positive(one - u)
    if axis.filter == _SHARP:
        return cubic(u, -0.75)
    curves = (cubic, _lanczos, _gaussian)
    return curves[axis.filter - 2](u)


def _positive(values: Float32Array) -> Float32Array:
    return np.asarray(np.maximum(values, np.float32(0)))


def cubic(u: Float32Array, a: float = -0.5) -> Float32Array:
    """The cubic convolution of Keys 1981, at distances of at least 0."""
    k = np.float32(a)
    near = ((k + 2) * u - (k + 3)) * u * u + 1
    far = ((k * u - 5 * k) * u + 8 * k) * u - 4 * k
    return np.where(u < 1, near, np.where(u < 2, far, np.float32(0)))


def _lanczos(u: Float32Array) -> Float32Array:
    """sinc(u) sinc(u / 3) within 3: Duchon 1979."""
    f = np.float32
    safe = np.maximum(u, f(1e-4))
    value = _sine(safe) * _sine(safe / f(3)) * _SQUARE / (safe * safe)
    return np.where(u < f(1e-3), f(1), np.where(u < 3, value, f(0)))


def _sine(u: Float32Array) -> Float32Array:
    """sin(pi u) for 0 <= u <= 3, to 1e-7."""
    turns = np.floor(u + np.float32(0.5))
    r = u - turns
    value = _series(_SINE, r * r) * r
    signed: Float32Array = np.where((turns == 1) | (turns == 3), -value, value)
    return signed


def _gaussian(u: Float32Array) -> Float32Array:
    """exp(-4 u²) within 1, as DALI has it."""
    z = u * u * np.float32(0.25)
    power = _series(_EXPONENTIAL, z)
    for _ in range(4):
        power = power * power
    return np.where(u < 1, power, np.float32(0))


def _series(terms: tuple[np.float32, ...], x: Float32Array) -> Float32Array:
    value = np.full_like(x, terms[-1])
    for term in terms[-2::-1]:
        value = value * x + term
    return value


def resampled(x: Array, rows: Taps, columns: Taps) -> Array:
    """Images ``(F, H, W, C)`` in float32: columns of pixels are summed up first, then those sums along the row.

    Every tap counts, also one of weight 0: a value that is no number, or is infinite, spoils each pixel within whose
    reach it lies. What is beyond the border is the pixel at the border here, whatever its weight, and no other.

    Args:
        x: the images, in main memory or on a GPU.
        rows: what each row is made of.
        columns: what each column is made of.
    """
    library = namespace(x)
    there = library.asarray
    down: Any = 0
    for place, weight in zip(rows.places, rows.weights, strict=True):
        down = down + there(weight)[:, None, None] * x[:, there(place)]
    along: Any = 0
    for place, weight in zip(columns.places, columns.weights, strict=True):
        along = along + there(weight)[:, None] * down[:, :, there(place)]
    part = np.float32(1) / (rows.total[:, None, None] * columns.total[:, None])
    return along * there(part)
