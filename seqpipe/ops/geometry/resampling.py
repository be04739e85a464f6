"""Resampling along rows and columns: the source coordinate of each pixel of a result, and filter weights.

Coordinates are fixed-point numbers with 32 bits of fraction, so that all implementations agree to the last bit; weights
are float32 and computed by sums, products and quotients only, for the same reason. ``resample.cuh`` computes the same
in C++.

The conversion of videos uses a separate table, a triangle filter in float64 that is combined with the interpolation of
chroma and repeats edge pixels; sharing one would change its results.
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
"""Names of filters; triangular is a synonym of linear."""

Compat: TypeAlias = Literal["pillow", "opencv", "tf1", "dali"]
COMPAT: Final[dict[Compat, tuple[FilterName, ...]]] = {
    "pillow": ("nearest", "linear", "triangular", "cubic", "lanczos3"),
    "opencv": ("nearest", "linear", "triangular", "cubic", "area"),
    "tf1": ("nearest", "linear", "triangular", "cubic", "area"),
    "dali": ("nearest", "linear", "triangular", "cubic", "lanczos3", "gaussian"),
}
"""Supported conventions of other libraries, and the filters that these have."""

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
_SHARP: Final = 6  # number of the cubic of OpenCV and TensorFlow, which differs from Keys's
# numbers of the filters that are exactly 0 at all other samples; the others are so only approximately
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
_EDGE_TOLERANCE: Final = 1 << 11  # less than a millionth, by which a coordinate may precede its pixel

# sin(pi r) / r for |r| <= 1/2, and exp(-z) for 0 <= z <= 1/4: Taylor's series as float32, for powers of r² and z
_SINE: Final = tuple(
    np.float32((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(7)
)
_EXPONENTIAL: Final = tuple(np.float32((-1) ** k / math.factorial(k)) for k in range(7))
_SQUARE: Final = np.float32(3 / math.pi**2)

Float32Array: TypeAlias = npt.NDArray[Any]  # of float32


class SampledAxis(NamedTuple):
    """Resampling of one axis: all numbers that a kernel needs.

    Attributes:
        begin: source coordinate where the first pixel of the result begins, in units of 2⁻³² source pixels.
        step: distance between pixels of the result, likewise; negative if the axis is mirrored.
        reach: radius of the filter around the center of a pixel, likewise.
        taps: number of source pixels within that.
        filter: number of the filter.
        scale: 1 / the factor by which the filter is widened; for area, half of the length that a pixel covers.
        cut: whether pixels outside of the source are left out; otherwise edge pixels are repeated.
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
        """Return the axis of a map ``source = begin + step * result``, in pixels.

        Args:
            begin: source coordinate where the first pixel of the result begins.
            step: source pixels per pixel of the result.
            kind: filter.
            antialias: whether the filter is widened when shrinking; pixels outside of the source are then left out, as
                in Pillow, or edge pixels repeated, as in DALI.
            compat: library whose conventions are used; only those of Pillow and DALI have antialias.
        """
        return _axis(begin, step, kind, antialias, compat)

    @property
    def picks(self) -> bool:
        """Whether each pixel equals a source pixel, because all other weights are 0."""
        apart = abs(self.step) == ONE and self.begin % ONE == 0
        return not self.filter or (apart and self.filter in _ZERO_AT_OTHERS)

    @property
    def means(self) -> bool:
        """Whether each pixel is the mean of the area that it covers."""
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
        """Return the axes of maps ``source = begin + step * result``; see :meth:`SampledAxis.of`."""
        number = _NUMBERS[kind]
        if compat in ("opencv", "tf1"):
            antialias, number = False, _SHARP if kind == "cubic" else number
        widens = antialias and number > 0
        cut = widens and compat != "dali"
        covered = np.abs(step)
        # one array for all: with so few numbers, the overhead of each NumPy call dominates
        scaled = np.empty((3, *step.shape))
        if kind == "area":
            wide, scale = (covered + 1) / 2, covered / 2
        else:
            shrunk = np.maximum(covered, 1.0) if widens else np.ones_like(covered)
            wide, scale = _SUPPORT[number] * shrunk, 1 / shrunk
        scaled[0], scaled[1], scaled[2] = begin, step, wide
        scaled *= ONE
        first, width, reach = np.rint(scaled, scaled).astype(np.int64)
        if not number:
            reach[...] = ONE // 2 - _EDGE_TOLERANCE
        if compat is not None:
            first += _offset(kind, np.abs(width), compat)
        taps = -(-reach >> 31)  # twice the radius in pixels, rounded up
        return cls(first, width, reach, taps, number, scale.astype(np.float32), cut)

    def each(self) -> list[SampledAxis]:
        """Return the axes one by one, as Python numbers."""
        parts = np.broadcast_arrays(*self)
        columns = (list(part.flat) if part.dtype == np.float32 else part.ravel().tolist() for part in parts)
        return [SampledAxis(*values) for values in zip(*columns, strict=True)]

    def where(self, chosen: npt.NDArray[np.bool_], other: Axes) -> Axes:
        """Return these axes where chosen, and others elsewhere."""
        return Axes(*(np.where(chosen, *parts) for parts in zip(self, other, strict=True)))

    def moved(self, direction: IntArray, offset: IntArray) -> Axes:
        """Return the axes of results whose coordinate ``x`` is ``direction * x + offset`` in the results of these axes.

        Pixels are equal to the last bit, because their centers are the same numbers.
        """
        return Axes(self.begin + self.step * offset, self.step * direction, *self[2:])


@lru_cache(maxsize=256)  # most operators use the same axes in every call
def _axis(begin: float, step: float, kind: FilterName, antialias: bool, compat: Compat | None) -> SampledAxis:
    result = Axes.of(np.array([begin]), np.array([step]), kind, antialias=antialias, compat=compat)
    return result.each()[0]


def _offset(kind: FilterName, step: IntArray, compat: Compat) -> IntArray | int:
    """Return the offset of a library's coordinates from ours, in units of 2⁻³².

    Pixel ``i`` of a result is at ``step * (i + 1/2)``, where source pixel ``k`` extends from ``k`` to ``k + 1``.
    TensorFlow 1 uses ``step * i`` as the index of a source pixel, with its fraction as the weight of the next one; the
    nearest pixel, there and in OpenCV, is that index rounded down.
    """
    if kind == "area" or not (compat == "tf1" or (compat == "opencv" and kind == "nearest")):
        return 0
    return (0 if kind == "nearest" else ONE // 2) - (step >> 1)


class Taps(NamedTuple):
    """Source pixels and weights of the pixels of one axis.

    Attributes:
        indices: ``(taps, size)``, indices of source pixels, within the source.
        weights: float32, likewise.
        total: float32 ``(size,)``, the sum of the weights of each pixel.
    """

    indices: IntArray
    weights: Float32Array
    total: Float32Array


@lru_cache(maxsize=256)
def taps_of(axis: SampledAxis, size: int, length: int) -> Taps:
    """Return the source pixels and weights of an axis."""
    center = axis.begin + axis.step * np.arange(size, dtype=np.int64) + (axis.step >> 1)
    first = (center - axis.reach + ONE // 2) >> 32
    nearest = ((first << 32) + ONE // 2 - center).astype(np.float32) * np.float32(1 / ONE)
    tap = np.arange(axis.taps)[:, None]
    indices = first + tap
    inside = np.clip(indices, 0, length - 1)
    weights = weights_of(axis, nearest + tap.astype(np.float32))
    if axis.cut:
        weights = np.where(indices == inside, weights, np.float32(0))
    total = np.zeros(size, np.float32)
    for weight in weights:
        total += weight
    for part in (inside, weights, total):
        part.flags.writeable = False
    return Taps(inside, weights, total)


def weights_of(axis: SampledAxis, distance: Float32Array) -> Float32Array:
    """Return the weights of source pixels at some distances from the center of a pixel."""
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
    """Cubic convolution (Keys 1981) for distances of at least 0."""
    k = np.float32(a)
    near = ((k + 2) * u - (k + 3)) * u * u + 1
    far = ((k * u - 5 * k) * u + 8 * k) * u - 4 * k
    return np.where(u < 1, near, np.where(u < 2, far, np.float32(0)))


def _lanczos(u: Float32Array) -> Float32Array:
    """Lanczos filter sinc(u) sinc(u / 3) for u < 3 (Duchon 1979)."""
    f = np.float32
    safe = np.maximum(u, f(1e-4))
    value = _sine(safe) * _sine(safe / f(3)) * _SQUARE / (safe * safe)
    return np.where(u < f(1e-3), f(1), np.where(u < 3, value, f(0)))


def _sine(u: Float32Array) -> Float32Array:
    """sin(pi u) for 0 <= u <= 3, within 1e-7."""
    turns = np.floor(u + np.float32(0.5))
    r = u - turns
    value = _series(_SINE, r * r) * r
    signed: Float32Array = np.where((turns == 1) | (turns == 3), -value, value)
    return signed


def _gaussian(u: Float32Array) -> Float32Array:
    """exp(-4 u²) for u < 1, as in DALI."""
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
    """Resample images ``(F, H, W, C)`` in float32: weighted sums down the columns first, then along the rows.

    Taps of weight 0 count, too: NaN or infinity affects every pixel within whose radius it is. Outside of the source,
    the edge pixel counts whatever its weight.
    """
    library = namespace(x)
    on_device = library.asarray
    down: Any = 0
    for indices, weight in zip(rows.indices, rows.weights, strict=True):
        down = down + on_device(weight)[:, None, None] * x[:, on_device(indices)]
    along: Any = 0
    for indices, weight in zip(columns.indices, columns.weights, strict=True):
        along = along + on_device(weight)[:, None] * down[:, :, on_device(indices)]
    part = np.float32(1) / (rows.total[:, None, None] * columns.total[:, None])
    return along * on_device(part)
