"""Volumetric: what all operators on volumes have in common, and the two kinds: geometry, and intensities."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ...errors import ParameterError
from ...philox import random_bits
from ..core.call_options import CallOptions
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.distributions import PerFrame
from ..core.parameters import ANY, param
from ..core.spec import MOVED_DTYPES, Spec
from ..core.traits import Traits
from .drawn import Drawn
from .gather import Interpolation, reference_gather
from .held import Grid
from .mapping import Extent, Mapping3
from .run import run
from .stages import Call, Stage

__all__ = [
    "Exact",
    "Intensity",
    "Spatial",
    "VolumeTraits",
    "Volumetric",
    "bits",
    "for_each_axis",
    "generator",
    "spacing_of",
]

X = TypeVar("X")
_KEY_BITS = 24  # whole numbers that float32 holds, of each of the two words of a key


@dataclass(frozen=True, kw_only=True)
class VolumeTraits(Traits):
    """Traits of operators on volumes.

    Attributes:
        geometric: whether the operator moves voxels, and therefore every part of a sample.
        on_labels: whether the operator changes labels instead of images.
        keyed: whether the operator draws random numbers beyond its parameters, from a key for each sample.
        for_each_axis: parameters with one value for each axis, for which a single number or range stands for all axes.
    """

    geometric: bool = False
    on_labels: bool = False
    keyed: bool = False
    for_each_axis: tuple[str, ...] = ()


class Volumetric(Declaration, register=False):
    """An operator on volumes."""

    traits: ClassVar[VolumeTraits] = VolumeTraits()

    takes: ClassVar[Takes] = "volumes"
    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES
    by_frame: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in self.traits.for_each_axis:
            object.__setattr__(self, name, for_each_axis(getattr(self, name), self._size_of(name)))
        super().__post_init__()

    @classmethod
    def _size_of(cls, name: str) -> int:
        (size,) = (q.size for q in cls.parameters if q.name == name)
        return size

    @or_node
    def __call__(self, x: X, *, layout: str | None = None, epoch: int = 0, index: Any = None) -> X:
        """The result for a volume, a sample of several parts, or a batch.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence with an affine, a dictionary of parts (see
                :mod:`seqpipe.parts`; arrays in it are images), a Batch, or a list of such. Arrays with N hold several
                samples, and so does a dictionary of such arrays or of batches.
            layout: of arrays: DHW, DHWC, CDHW, or one of these behind N; by default DHW, DHWC or NDHWC, by the number
                of axes.
            epoch: the epoch that random parameters are drawn for.
            index: the index of the first sample within its dataset, or of each one; draws depend on it.

        Returns:
            What came in, of the same type and on the same device; for a dictionary a :class:`seqpipe.parts.Sample`,
            whose ``history`` says what was drawn; that of several samples is empty, of a list each sample has its own.

        Raises:
            ParameterError: these are no volumes, or their parts do not lie on one grid.
        """
        result: X = run((self,), x, CallOptions(layout=layout, epoch=epoch, index=index))
        return result

    @property
    def _overrides_sample(self) -> bool:
        return self.traits.keyed or type(self).sample is not Volumetric.sample

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """What is drawn for one sample: its parameters, and the key of all else that is random."""
        found = super().sample(rng, spec)
        if self.traits.keyed:
            # one by one: an array of two takes twice as long
            found["key"] = rng.integers(1 << _KEY_BITS), rng.integers(1 << _KEY_BITS)
        return found


def for_each_axis(value: Any, size: int) -> Any:
    """Repeat a number or a range for each of several axes; other values are returned unchanged."""
    if isinstance(value, (bool, PerFrame)) or value is None:
        return value
    if isinstance(value, (int, float, np.integer, np.floating)):
        return (value,) * size
    pair = isinstance(value, tuple) and len(value) == 2
    if pair and all(isinstance(end, (int, float, np.integer, np.floating)) for end in value):
        return (value,) * size
    return value


def generator(key: Any, *place: int) -> np.random.Generator:
    """Random numbers that depend on an operator's key and a place of up to two numbers alone."""
    words = [int(word) for word in key]
    return np.random.Generator(np.random.Philox(key=words, counter=[0, 0, *(*place, 0, 0)[:2]]))


def bits(key: Any, place: int, count: int) -> npt.NDArray[np.uint32]:
    """Random bits that depend on an operator's key and a place alone, as kernels have them, too."""
    return random_bits([int(word) for word in key], place, range(count))


# ------------------------------------------------------------------------------------------ geometry


class Exact(Volumetric, register=False):
    """An operator that states where voxels come from, by whole voxels: nothing is interpolated for it."""

    geometric = True
    warps: ClassVar[bool] = False

    @abstractmethod
    def moved(self, mapping: Mapping3, p: Any, grid: Grid) -> Mapping3:
        """A mapping, and this operator behind it.

        Args:
            mapping: what was done before.
            p: the parameters.
            grid: of what this operator is given.

        Raises:
            ParameterError: the grid does not allow it.
        """

    def smoothing(self, p: Any, grid: Grid) -> tuple[Intensity, Drawn] | None:  # noqa: ARG002  for those that smooth
        """What images are smoothed by before they are read, and its parameters; None where they are read as they are.

        Args:
            p: the parameters.
            grid: of what this operator is given.
        """
        return None

    @property
    def smooths(self) -> bool:
        """Whether it may smooth images, for which it begins a pass of its own."""
        return False

    @property
    def how(self) -> dict[str, Any]:
        """What has to be the same for operators that are done together."""
        return {
            name: getattr(self, name)
            for name in ("interp", "fill_value", "label_fill")
            if hasattr(self, name)
        }

    def reference(self, x: Array, p: Any) -> Array:
        """The volume ``(D, H, W, C)``, read by the mapping in NumPy."""
        size: Extent = x.shape[:3]
        if before := self.smoothing(p, Grid(size)):
            x = before[0].done_to(x, before[1], 0, {"spacing": None})
        how: Interpolation = getattr(self, "interp", "nearest")
        return reference_gather(
            x, self.moved(Mapping3(size), p, Grid(size)), how, self.how.get("fill_value", 0.0)
        )


class Spatial(Exact, register=False):
    """An operator that interpolates."""

    interp: str = param(
        "linear",
        "interpolation of images: bspline is the cubic spline through all voxels, as SciPy's order 3; cubic is a"
        " shorter kernel, which takes less time",
        choices=("linear", "cubic", "bspline", "nearest"),
    )
    fill_value: float | None = param(
        0.0,
        "value outside of the volume, interpolated with edge voxels; None repeats edge voxels, also of labels",
        kind=float,
        drawn=False,
        optional=True,
    )
    label_fill: int = param(0, "label outside of the volume", drawn=False)


def spacing_of(op: Volumetric, grid: Grid, what: str) -> FloatArray:
    """Slices', rows' and columns' distances in mm.

    Args:
        op: who needs them.
        grid: where they are.
        what: for: the parameter in mm.

    Raises:
        ParameterError: they are not known.
    """
    spacing = grid.spacing_mm
    if spacing is None:
        raise ParameterError(
            f"{what} is in mm, and this volume has no spacing",
            source=op.name,
            advice="Give it as Sequence(array, 'DHWC', affine=…), whose affine says where its voxels are",
        )
    return spacing


# ------------------------------------------------------------------------------------------ intensities


class Intensity(Volumetric, register=False):
    """An operator that changes images, and leaves labels, points and boxes as they are."""

    only: tuple[str, ...] | None = param(
        None,
        "names of the images to act on; None for all",
        kind=str,
        size=ANY,
        optional=True,
    )
    per_channel: bool = param(
        False, "whether parameters are sampled for each channel instead of once for all", drawn=False
    )
    p_channel: float = param(
        1.0,
        "probability of applying the operator to a channel, with per_channel",
        lo=0,
        hi=1,
        drawn=False,
    )

    keyed = True
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = (("key", 2),)

    def __post_init__(self) -> None:
        only: Any = self.only
        if isinstance(only, str):
            object.__setattr__(self, "only", (only,))
        super().__post_init__()

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """One channel of one image.

        Args:
            x: ``(D, H, W)``, float32.
            p: the parameters; ``p.key`` and ``p.channel`` are what all else that is random depends on, ``p.spacing``
                the distances of voxels in mm or None, ``p.mask`` the voxels that labels mark or None, ``p.dtype`` the
                name of the image's type, ``p.extent`` its slices, rows and columns.
        """

    def stages(self, p: Any) -> list[Stage]:
        """The same as kernels do it, stage after stage; by default :meth:`reference` with CuPy.

        Args:
            p: as :meth:`reference` is given it.
        """
        return [Call(lambda x: self.reference(x, p))]

    @property
    def asks_mask(self) -> bool:
        """Whether it looks at ``p.mask``, which takes time to find."""
        return False

    def for_channel(self, p: Drawn, channel: int, about: dict[str, Any]) -> SimpleNamespace | None:
        """What :meth:`reference` and :meth:`stages` are told of a channel; None if it stays as it is.

        Args:
            p: what was drawn for the sample.
            channel: its number among those of all images of the sample.
            about: what is told besides.
        """
        own = self.of_channel(p, channel)
        return None if own is None else SimpleNamespace(**vars(own), **about)

    def done_to(self, values: Array, p: Drawn, place: int, about: dict[str, Any]) -> Array:
        """An image with its channels changed.

        Args:
            values: ``(D, H, W, C)``.
            p: what was drawn for the sample.
            place: the number of the first channel among those of all images of the sample.
            about: what :meth:`reference` is told besides.
        """
        xp = namespace(values)
        out = values.astype(np.float32)
        for channel in range(values.shape[3]):
            own = self.for_channel(p, place + channel, about)
            if own is not None:
                out[..., channel] = self.reference(out[..., channel], own)
        if values.dtype.kind in "iu":
            info = np.iinfo(values.dtype)
            out = xp.rint(out).clip(info.min, info.max)
        return out.astype(values.dtype, copy=False)

    def of_channel(self, p: Drawn, channel: int) -> Drawn | None:
        """The parameters of a channel; None if it stays as it is."""
        values = {**vars(p), "channel": channel}
        if self.per_channel:
            rng = generator(p.key, channel, 1)
            values |= {q.name: _plain(q.draw(value, rng, None), q.size) for q, value, _ in self.distributions}
            if rng.random() >= self.p_channel:
                return None
        return Drawn(**values)


def _plain(value: Any, size: int) -> Any:
    return np.asarray(value, np.float32) if size else np.float32(value)
