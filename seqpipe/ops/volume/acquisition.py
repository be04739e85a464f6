"""Operators that look at several voxels: blur, low resolution, artifacts of acquisition, and holes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ..core.distributions import Number
from ..core.parameters import param
from .base import RANDOM_PURPOSE, Intensity, generator, moments
from .channels import Blurred, Coarse, Median, SavedValues, Stage, Statistics, Step

__all__ = [
    "Anisotropy",
    "BiasField",
    "CoarseDropout3d",
    "CoarseShuffle3d",
    "GaussianBlur3d",
    "LowResolution",
    "MedianBlur3d",
    "Sharpen3d",
    "Swap3d",
]

_REACH: Final = 6.0  # standard deviations after which a Gaussian ends


class GaussianBlur3d(Intensity):
    """Blur by a Gaussian along each axis; borders are mirrored."""

    sigma: Number = param(
        (0.5, 1.0), "standard deviation along slices, rows and columns", lo=0, hi=100, size=3
    )
    unit: str = param("voxel", "unit of sigma", choices=("voxel", "mm"))

    for_each_axis = ("sigma",)
    examples = (
        {"sigma": 0.8},
        {"sigma": (0.5, 1.0), "per_channel": True, "p_channel": 0.5, "p": 0.5, "seed": 1},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Three sums of weighted neighbors, one for each axis."""
        for axis, weights in self._weights(p):
            x = _blurred(x, axis, weights)
        return x

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Blurred(axis, weights) for axis, weights in self._weights(p)]

    def _weights(self, p: Any) -> list[tuple[int, npt.NDArray[np.float32]]]:
        """Return the axes along which it blurs, and the weights of neighbors."""
        sigma = np.asarray(p.sigma, np.float64)
        if self.unit == "mm":
            if p.spacing is None:
                raise ParameterError(
                    "unit='mm', but the volume has no spacing",
                    source=self.name,
                    advice="Pass it as Sequence(array, 'DHWC', affine=…), or unit='voxel'",
                )
            sigma = sigma / p.spacing
        return [
            (axis, _gaussian(deviation)) for axis, deviation in enumerate(sigma.tolist()) if deviation > 0
        ]


def _gaussian(sigma: float) -> npt.NDArray[np.float32]:
    """Return the weights of a Gaussian filter, which sum to 1."""
    radius = int(_REACH * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    normalized: npt.NDArray[np.float32] = (weights / weights.sum()).astype(np.float32)
    return normalized


def _blurred(x: Array, axis: int, weights: npt.NDArray[np.float32]) -> Array:
    """Convolve values along an axis with weights; borders are mirrored."""
    radius = len(weights) // 2
    if isinstance(x, np.ndarray):
        import cv2

        # along slices, each slice becomes one row of a 2-D image
        pictures = x.reshape(1, x.shape[0], -1) if axis == 0 else x
        result = np.empty_like(pictures, order="C")
        unchanged = np.ones(1, np.float32)
        along, across = (weights, unchanged) if axis == 2 else (unchanged, weights)
        for picture, into in zip(pictures, result, strict=True):
            line = np.ascontiguousarray(picture)
            cv2.sepFilter2D(line, cv2.CV_32F, along, across, into, borderType=cv2.BORDER_REFLECT)
        return result.reshape(x.shape)
    xp, size = namespace(x), x.shape[axis]
    padded = xp.pad(x, [(radius, radius) if a == axis else (0, 0) for a in range(3)], mode="symmetric")
    total = xp.zeros_like(x)
    for number, weight in enumerate(weights):
        total += (
            weight
            * padded[tuple(slice(number, number + size) if a == axis else slice(None) for a in range(3))]
        )
    return total


def _coarse(x: Array, sizes: tuple[int, int, int]) -> Array:
    """Downsample to the nearest voxels, and upsample by linear interpolation."""
    xp, extents = namespace(x), x.shape
    for axis, (n, few) in enumerate(zip(extents, sizes, strict=True)):
        if few < n:
            x = x.take(xp.asarray(((np.arange(few) + 0.5) * n / few).astype(np.int64)), axis=axis)
    for axis, (n, few) in enumerate(zip(extents, sizes, strict=True)):
        if few < n:
            position = ((np.arange(n) + 0.5) * few / n - 0.5).clip(0, few - 1)
            first = np.minimum(position.astype(np.int64), max(few - 2, 0))
            share = (position - first).astype(np.float32).reshape([-1 if a == axis else 1 for a in range(3)])
            before = x.take(xp.asarray(first), axis=axis)
            behind = x.take(xp.asarray(np.minimum(first + 1, few - 1)), axis=axis)
            x = before + xp.asarray(share) * (behind - before)
    return x


class Sharpen3d(Intensity):
    """Amplify what a Gaussian blur removes (unsharp masking); borders are mirrored."""

    amount: Number = param(
        (0.0, 1.0),
        "factor of the difference from the blurred values, which is added",
        lo=0,
        hi=100,
        identity=0.0,
    )
    sigma: float = param(1.0, "standard deviation of the blur", unit="voxels", lo=0.1, hi=100, drawn=False)

    examples = (
        {"amount": 0.7},
        {"amount": (0.2, 2.0), "sigma": 0.6, "per_channel": True, "p": 0.5, "seed": 1},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """``x + amount · (x - blurred)``."""
        blurred, weights = x, _gaussian(self.sigma)
        for axis in range(3):
            blurred = _blurred(blurred, axis, weights)
        amount = np.float32(p.amount)
        return (1 + amount) * x - amount * blurred

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        saved, weights = SavedValues(), _gaussian(self.sigma)
        passes = [Blurred(axis, weights) for axis in range(3)]
        return [saved, *passes, Step("mixed", (-float(p.amount), 1 + float(p.amount)), other=saved)]


class MedianBlur3d(Intensity, stream="median3d"):
    """The median of each voxel and its 26 neighbors; the border is repeated."""

    examples = ({}, {"per_channel": True, "p_channel": 0.5, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The median of shifted arrays, for blocks of slices that fit into the cache of a CPU, or fill a GPU."""
        xp = namespace(x)
        padded = xp.pad(x, 1, mode="edge")
        result, (depth, height, width) = xp.empty_like(x), x.shape
        step = max(1, (1 << 14 if xp is np else 1 << 22) // (height * width))
        for d in range(0, depth, step):
            count = min(step, depth - d)
            result[d : d + count] = _median(
                padded[d + a : d + a + count, b : b + height, c : c + width]
                for a, b, c in product(range(3), repeat=3)
            )
        return result

    def stages(self, p: Any) -> list[Stage]:  # noqa: ARG002  nothing is drawn
        """See :meth:`Intensity.stages`."""
        return [Median()]


def _median(arrays: Iterable[Array]) -> Array:
    """The median of three or more arrays, of an odd number, value by value, by forgetful selection.

    Among one more than half of the values, neither the least nor the greatest is the median: both are dropped, the next
    value is added, and so on. NaN among the values gives NaN.
    """
    waiting = list(arrays)
    xp = namespace(waiting[0])
    kept = [waiting.pop().copy() for _ in range(len(waiting) // 2 + 2)]

    def order(low: int, high: int) -> None:
        least = xp.minimum(kept[low], kept[high])
        xp.maximum(kept[low], kept[high], out=kept[high])
        kept[low] = least

    while len(kept) > 1:
        last = len(kept) - 1
        for position in range(len(kept) // 2):
            order(position, last - position)
        for position in range(1, (len(kept) + 1) // 2):
            order(0, position)
        for position in range(len(kept) // 2, last):
            order(position, last)
        del kept[0], kept[-1]
        if waiting:
            kept.append(waiting.pop().copy())
    return kept[0]


class Anisotropy(Intensity):
    """Simulate a larger distance of slices along one axis: fewer of them, interpolated to the original number."""

    factor: Number = param((1.5, 5.0), "factor of the distance between slices", lo=1, hi=100, identity=1.0)
    axis: Number = param((0, 2), "axis: 0 for slices, 1 for rows, 2 for columns", kind=int, lo=0, hi=2)

    examples = ({"factor": 2.0, "axis": 1}, {"factor": (1.5, 5.0), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Nearest voxels along the axis, linearly interpolated to the original number."""
        return _coarse(x, self._sizes(p))

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Coarse(self._sizes(p))]

    def _sizes(self, p: Any) -> tuple[int, int, int]:
        """Return the numbers of slices, rows and columns that are kept."""
        d, h, w = (
            max(1, round(n / float(p.factor))) if axis == int(p.axis) else n
            for axis, n in enumerate(p.extent)
        )
        return d, h, w


class LowResolution(Intensity):
    """Simulate an acquisition with fewer voxels, interpolated to the original number."""

    factor: Number = param(
        (0.5, 1.0), "fraction of the voxels kept along slices, rows and columns", lo=0.01, hi=1, size=3
    )
    isotropic: bool = param(True, "whether the first factor applies to all axes", drawn=False)
    in_plane: bool = param(False, "whether to keep the number of slices", drawn=False)

    for_each_axis = ("factor",)
    examples = (
        {"factor": 0.5},
        {"factor": (0.5, 1.0), "in_plane": True, "isotropic": False, "p": 0.5, "seed": 1},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Nearest voxels, linearly interpolated to the original number."""
        return _coarse(x, self._sizes(p))

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Coarse(self._sizes(p))]

    def _sizes(self, p: Any) -> tuple[int, int, int]:
        """Return the numbers of slices, rows and columns that are kept."""
        first, *others = (float(factor) for factor in p.factor)
        factors = (1.0 if self.in_plane else first, *([first] * 2 if self.isotropic else others))
        d, h, w = (max(1, round(n * factor)) for n, factor in zip(p.extent, factors, strict=True))
        return d, h, w


class BiasField(Intensity):
    """Multiply by a smooth field, as the coils of magnetic resonance do: the exponential of a polynomial."""

    strength: Number = param(
        0.5, "maximum absolute value of the polynomial's coefficients", lo=0, hi=10, identity=0.0
    )
    order: int = param(3, "order of the polynomial", lo=1, hi=6, drawn=False)

    examples = ({"strength": 0.3}, {"strength": (0.0, 0.5), "order": 2, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x · exp(Σ c · d^i · h^j · w^k)`` with ``i + j + k`` up to the order, and axes from -1 to 1."""
        xp, field = namespace(x), self._coefficients(p)
        for n in x.shape:  # the first axis becomes the last, three times
            powers = np.linspace(-1, 1, n) ** np.arange(self.order + 1)[:, None]
            field = np.tensordot(field, powers, (0, 0))
        return x * xp.exp(xp.asarray(field.astype(np.float32)))

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Step("bias", table=self._coefficients(p).astype(np.float32), count=self.order)]

    def _coefficients(self, p: Any) -> Any:
        """Of the powers of slices, rows and columns."""
        terms = self.order + 1
        rng, coefficients = generator(p.key, p.channel, RANDOM_PURPOSE), np.zeros((terms,) * 3)
        for powers in product(range(terms), repeat=3):
            if sum(powers) <= self.order:
                coefficients[powers] = rng.uniform(-1, 1) * float(p.strength)
        return coefficients


class _Boxes(Intensity, register=False):
    """An operator on boxes at random positions."""

    holes: Number = param(6, "number of boxes", kind=int, lo=0, hi=1000)
    size: tuple[int, int, int] = param(
        (8, 8, 8), "slices, rows and columns of a box", lo=1, size=3, drawn=False
    )

    def boxes(self, p: Any) -> npt.NDArray[np.int64]:
        """Return the first voxel of each box and the one after its last, ``(holes, 2, 3)``; large boxes are cropped."""
        # one position for all channels, unless parameters are per channel
        rng = generator(p.key, p.channel if self.per_channel else 0, RANDOM_PURPOSE)
        room = np.maximum(1, np.array(p.extent) - self.size + 1)
        first = rng.integers(0, room, (int(p.holes), 3))
        return np.stack([first, first + self.size], axis=1)


class CoarseDropout3d(_Boxes):
    """Boxes of a volume are replaced by one value."""

    fill_value: float | None = param(
        0.0, "value in the boxes; None for the mean of the channel", kind=float, drawn=False, optional=True
    )

    examples = ({"holes": 2, "size": (2, 2, 2)}, {"holes": (1, 4), "fill_value": None, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """The value in the boxes, and the voxels of the input around them."""
        value = moments(x)[0] if self.fill_value is None else self.fill_value
        result = x.copy()
        for first, end in self.boxes(p):
            result[tuple(map(slice, first, end))] = value
        return result

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        boxes = self.boxes(p).astype(np.int32)
        if self.fill_value is not None:
            return [Step("holes", (self.fill_value,), table=boxes, count=len(boxes))]
        statistics = Statistics()
        return [statistics, Step("holes", before=statistics, table=boxes, count=len(boxes))]


class CoarseShuffle3d(_Boxes):
    """The voxels of each of some boxes change places at random."""

    examples = ({"holes": 2, "size": (2, 2, 2)}, {"holes": (1, 4), "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Each box with its voxels in another order, one box after the other; all channels in the same order."""
        result, order = x.copy(), generator(p.key, p.channel if self.per_channel else 0, RANDOM_PURPOSE + 1)
        for first, end in self.boxes(p):
            box = result[tuple(map(slice, first, end))]
            box[...] = box.ravel()[namespace(x).asarray(order.permutation(box.size))].reshape(box.shape)
        return result


class Swap3d(_Boxes):
    """Pairs of boxes of a volume change places, one pair after the other; for self-supervised learning."""

    examples = ({"holes": 2, "size": (2, 2, 2)}, {"holes": (1, 4), "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Each box with the values of the next one, and the reverse; pairs that overlap are left alone."""
        result = x.copy()
        places = self.boxes(SimpleNamespace(**{**vars(p), "holes": 2 * int(p.holes)})).reshape(-1, 2, 2, 3)
        for one, other in places:
            first, second = (tuple(map(slice, begin, end)) for begin, end in (one, other))
            apart = (np.abs(one[0] - other[0]) >= self.size).any()
            if apart and result[first].shape == result[second].shape:
                result[first], result[second] = result[second].copy(), result[first].copy()
        return result
