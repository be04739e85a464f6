"""Operators in k-space, the frequencies of a volume: artifacts of magnetic resonance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from ...array import Array, FloatArray, namespace
from ...resampling.gather import Gather, gather, gathers
from ...resampling.mapping import Extent, Mapping3, rotation_matrix
from ..call.backends import cuda_device_of
from ..core.distributions import Number
from ..core.parameters import param
from .base import RANDOM_PURPOSE, Intensity, generator, moments
from .channels import Call, Measurement, SavedValues, Stage, Statistics, Step

__all__ = ["Ghosting", "Gibbs", "Motion", "Spike"]

_RESTORED: Final = 0.02  # fraction of central k-space lines that ghosting does not weaken


class _Spectral(Intensity, register=False):
    """An operator on frequencies, in which one NaN would reach every voxel: voxels that are not finite are kept."""

    def reference(self, x: Array, p: Any) -> Array:
        """:meth:`spectral`, with the mean in place of voxels that are not finite."""
        xp = namespace(x)
        finite = xp.isfinite(x)
        known = x if bool(finite.all()) else xp.where(finite, x, np.float32(moments(x)[0]))
        # NumPy 1 computes frequencies in double
        return xp.where(finite, self.spectral(known, p).astype(np.float32, copy=False), x)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        saved, statistics = SavedValues(), Statistics()
        filled = Step("filled", before=statistics)
        return [saved, statistics, filled, *self.spectral_stages(p), Step("kept", other=saved)]

    def spectral_stages(self, p: Any) -> list[Stage]:
        """Return the stages of :meth:`spectral`."""
        return [Call(lambda x: self.spectral(x, p))]

    @abstractmethod
    def spectral(self, x: Array, p: Any) -> Array:
        """:meth:`reference` for a channel whose voxels are finite."""


def _filters(weights: FloatArray, n: int) -> npt.NDArray[np.float32]:
    """Return the matrices that multiply frequencies by weights; products take a third of the time of transforms.

    Args:
        weights: ``(filters, n // 2 + 1)``, those of the frequencies from 0 to the highest.
        n: number of voxels along the axis.
    """
    responses = np.fft.irfft(weights, n).astype(np.float32)
    # each row is the response to one voxel, which is symmetric and goes around
    return sliding_window_view(np.concatenate([responses, responses], axis=1), n, axis=1)[:, n:0:-1]


def _filtered(arrays: Seq[Array], filters: npt.NDArray[np.float32], axis: int) -> Array:
    """Filter arrays of one shape along an axis, each by a matrix of its own, and add the results."""
    xp = namespace(arrays[0])
    first, *others = (xp.moveaxis(array, axis, 0) for array in arrays)
    own, *matrices = xp.asarray(np.ascontiguousarray(filters))
    total = own @ first.reshape(len(own), -1)
    for matrix, other in zip(matrices, others, strict=True):
        total += matrix @ other.reshape(len(own), -1)
    return xp.moveaxis(total.reshape(first.shape), 0, axis)


class Ghosting(_Spectral):
    """Ghosting along an axis, as from periodic motion: every n-th frequency is weakened."""

    ghosts: Number = param((4, 10), "number of ghosts", kind=int, lo=2, hi=100)
    strength: Number = param((0.5, 1.0), "attenuation of the frequencies", lo=0, hi=1)
    axis: Number = param((0, 2), "axis: 0 for slices, 1 for rows, 2 for columns", kind=int, lo=0, hi=2)

    examples = ({"ghosts": 4, "strength": 0.8, "axis": 1}, {"ghosts": (3, 5), "p": 0.5, "seed": 1})

    def spectral(self, x: Array, p: Any) -> Array:
        """Frequencies along the axis, every n-th weakened, but those in the middle."""
        axis, n = int(p.axis), x.shape[int(p.axis)]
        scale = np.ones(n)
        scale[:: int(p.ghosts)] = 1 - float(p.strength)
        half = max(1, int(n * _RESTORED / 2))
        scale[n // 2 - half : n // 2 + half + 1] = 1
        # the real part of the result is that of weights which are the mean of each frequency and its negative
        weights = np.fft.ifftshift(scale)
        weights = ((weights + np.roll(weights[::-1], 1)) / 2)[: n // 2 + 1]
        return _filtered([x], _filters(weights[None], n), axis)


class Motion(_Spectral):
    """Motion while k-space is acquired, line by line along an axis: some lines are from other poses.

    The central lines are from the unmoved volume, so that labels still match it. Poses repeat the edge voxels, so that
    air of any intensity surrounds a head.
    """

    movements: Number = param(
        2, "number of movements, at uniformly distributed times", kind=int, lo=0, hi=100
    )
    rotate: Number = param(
        (0.0, 10.0), "maximum rotation of a pose about each axis", unit="degrees", lo=0, hi=180
    )
    translate_mm: Number = param(
        (0.0, 10.0),
        "maximum translation of a pose along each axis; without a spacing, voxels count as 1 mm",
        unit="mm",
        lo=0,
    )
    axis: Number = param((0, 2), "axis: 0 for slices, 1 for rows, 2 for columns", kind=int, lo=0, hi=2)

    examples = (
        {"movements": 3, "rotate": 5.0, "translate_mm": 2.0, "axis": 1},
        {"rotate": (0.0, 4.0), "p": 0.5, "seed": 1},
    )

    def spectral(self, x: Array, p: Any) -> Array:
        """Frequencies along the axis, in parts those of the volume in other poses."""
        poses, filters = _motion(
            tuple(int(word) for word in p.key),
            int(p.channel) if self.per_channel else 0,
            int(p.movements),
            float(p.rotate),
            float(p.translate_mm),
            int(p.axis),
            x.shape,
            None if p.spacing is None else tuple(p.spacing),
        )
        if not poses:
            return x
        voxels = x[..., None]
        if isinstance(x, np.ndarray):
            moved = [gather(voxels, pose, "linear", None) for pose in poses]
        else:
            moved = gathers([Gather(voxels, pose, "linear", None) for pose in poses], cuda_device_of(x))
        return _filtered([x, *(array[..., 0] for array in moved)], filters, int(p.axis))


@lru_cache(maxsize=4)
def _motion(
    key: tuple[int, ...],
    channel: int,
    movements: int,
    rotate: float,
    translate_mm: float,
    axis: int,
    size: Extent,
    spacing: tuple[float, float, float] | None,
) -> tuple[list[Mapping3], npt.NDArray[np.float32]]:
    """Return the poses that have lines, and the filters of the unmoved volume and of each of them.

    As volumes are real, and so is the result, a pose has a share in each pair of a positive and a negative frequency:
    how many of the two are its own, in halves. Channels that move together have the same poses, so these are kept.
    """
    n, rng = size[axis], generator(key, channel, RANDOM_PURPOSE)
    times = np.sort(rng.random(movements))
    ends = [0, *np.floor(times * n).astype(int).tolist(), n]
    poses, shares = [], [np.ones(n // 2 + 1)]
    for first, end in pairwise(ends):
        pose = _pose(rng, rotate, translate_mm, size, np.array(spacing or (1.0, 1.0, 1.0)))
        if first == end or first <= n // 2 < end:
            continue
        lines = (np.arange(first, end) - n // 2) % n
        share = np.bincount(np.minimum(lines, n - lines), minlength=n // 2 + 1) / 2
        share[[0, n // 2] if n % 2 == 0 else [0]] *= 2  # frequencies that are their own negatives
        poses.append(pose)
        shares[0] = shares[0] - share
        shares.append(share)
    return poses, _filters(np.stack(shares), n)


def _pose(
    rng: np.random.Generator, rotate: float, translate_mm: float, size: Extent, spacing: FloatArray
) -> Mapping3:
    """Return the mapping from the voxels of a random pose to the volume."""
    turn = np.array(rotation_matrix(rng.uniform(-1, 1, 3) * rotate)).T * spacing / spacing[:, None]
    shift = rng.uniform(-1, 1, 3) * translate_mm / spacing
    matrix, center = np.eye(4), (np.array(size) - 1) / 2
    matrix[:3, :3], matrix[:3, 3] = turn, center - turn @ (center + shift)
    return Mapping3(size, matrix)


class Spike(_Spectral):
    """Add stripes, as from one point of k-space that is far too strong."""

    strength: Number = param(
        (1.0, 3.0), "amplitude of the frequency, relative to the strongest one", lo=0, hi=100
    )

    examples = ({"strength": 0.5}, {"strength": (0.1, 0.5), "p": 0.5, "seed": 1})

    def spectral(self, x: Array, p: Any) -> Array:
        """``x + a · cos(2π k · r)``, with ``a`` that many times the amplitude of the strongest frequency."""
        xp = namespace(x)
        slices, rows, columns = (xp.asarray(wave) for wave in self._waves(p))
        return x + self._amplitude(x, p) * (slices[:, None, None] * (rows[:, None] * columns)).real

    def spectral_stages(self, p: Any) -> list[Stage]:
        """See :meth:`_Spectral.spectral_stages`."""
        amplitude = Measurement(lambda x, _: self._amplitude(x, p))
        return [amplitude, Step("wave", other=amplitude, table=np.concatenate(self._waves(p)))]

    def _amplitude(self, x: Array, p: Any) -> Array:
        """Return the amplitude of the added wave, an array without axes."""
        xp = namespace(x)
        return xp.abs(xp.fft.rfftn(x)).max() * np.float32(float(p.strength) / x.size)

    def _waves(self, p: Any) -> list[npt.NDArray[np.complex64]]:
        """Return the wave along each axis; the added wave is the real part of their product."""
        rng = generator(p.key, p.channel, RANDOM_PURPOSE)
        frequencies = [rng.integers(0, n) / n for n in p.extent]
        return [
            np.exp(2j * np.pi * frequency * np.arange(n)).astype(np.complex64)
            for n, frequency in zip(p.extent, frequencies, strict=True)
        ]


class Gibbs(_Spectral):
    """Ringing at edges, as in an acquisition without high frequencies."""

    alpha: Number = param(
        (0.0, 1.0),
        "removed share of the radius of k-space, from the highest frequencies on",
        lo=0,
        hi=1,
        identity=0.0,
    )

    examples = ({"alpha": 0.4}, {"alpha": (0.2, 0.6), "p": 0.5, "seed": 1})

    def spectral(self, x: Array, p: Any) -> Array:
        """Frequencies up to ``1 - alpha`` of the radius of the ball around all of them."""
        xp = namespace(x)
        radius = (1 - float(p.alpha)) * np.linalg.norm(x.shape) / 2
        squares = [(np.fft.fftfreq(n) * n) ** 2 for n in x.shape]
        squares[2] = squares[2][: x.shape[2] // 2 + 1]
        slices, rows, columns = (xp.asarray(values) for values in squares)
        near = slices[:, None, None] + (rows[:, None] + columns) <= radius * radius
        return xp.fft.irfftn(xp.fft.rfftn(x) * near, x.shape, axes=(0, 1, 2))
