"""Base classes of operators on volumes (Volumetric, VolumeGeometry, Spatial, Intensity), and their chain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from math import isfinite
from types import SimpleNamespace
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ...core.cached import cached_property
from ...core.kernel import KernelDevice
from ...core.philox import random_bits
from ...errors import ParameterError
from ...random import generator_at
from ...resampling.gather import Interpolation
from ...resampling.mapping import Extent, Mapping3
from ...resampling.reference import reference_gather
from ..call.inputs import check_type
from ..call.op import Applied
from ..core.declaration import Takes
from ..core.deferred import Deferrable, or_node
from ..core.distributions import Percentiles, PerFrame
from ..core.parameters import param
from ..core.spec import MOVED_DTYPES, RANGES, Backend, CallOptions
from ..core.traits import Traits
from ..core.types import Type
from ..geometry.base import Geometry
from .channels import Call, Stage
from .percentiles import percentiles
from .plan import SampledParameters, plans_of, settings_agree
from .run import SINGLE, run
from .state import VoxelGrid, name_of, state_of

__all__ = [
    "RANDOM_PURPOSE",
    "Intensity",
    "Spatial",
    "VolumeChain",
    "VolumeGeometry",
    "VolumeTraits",
    "Volumetric",
    "bits",
    "composed_with_volumes",
    "extremes",
    "for_each_axis",
    "generator",
    "moments",
    "range_of",
    "spacing_of",
]

X = TypeVar("X")


@dataclass(frozen=True, kw_only=True)
class VolumeTraits(Traits):
    """Traits of operators on volumes.

    Attributes:
        on_labels: whether the operator changes labels instead of images.
        to_float: whether the operator maps values to a new scale, for which images of integers become float32.
        for_each_axis: parameters with one value for each axis, for which a single number or range stands for all axes.
        changes_channels: whether the operator computes an image from all its channels, and their number may change.
    """

    on_labels: bool = False
    to_float: bool = False
    for_each_axis: tuple[str, ...] = ()
    changes_channels: bool = False


class Volumetric(Applied, register=False):
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
        """Return the number of values of a parameter."""
        (size,) = (q.size for q in cls.parameters if q.name == name)
        return size

    def run_volumes(self, x: Any, options: CallOptions) -> Any:
        """Apply the operator; called for a sample of several parts or a volume."""
        return run((self,), x, options)

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        if inputs[0].dtype is not None:
            check_type(self, inputs[0].dtype)
        return (replace(inputs[0], shape=None, kind="images"),)


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


RANDOM_PURPOSE: Final = 2
"""Last word of the position for random numbers other than parameters."""


def generator(key: Any, *position: int) -> np.random.Generator:
    """Return random numbers that depend only on an operator's key and a position of up to two numbers."""
    words = [int(word) for word in key]
    return np.random.Generator(np.random.Philox(key=words, counter=[0, 0, *(*position, 0, 0)[:2]]))


def bits(key: Any, position: int, count: int) -> npt.NDArray[np.uint32]:
    """Return random bits that depend only on an operator's key and a position, equal to those of kernels."""
    return random_bits([int(word) for word in key], position, range(count))


# ------------------------------------------------------------------------------------------ geometry


class VolumeGeometry(Volumetric, register=False):
    """A geometric operator by whole voxels, without interpolation."""

    geometric = True
    warps: ClassVar[bool] = False

    @abstractmethod
    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """Append this operator to a mapping.

        Args:
            mapping: mapping of the operators before.
            p: the parameters.
            grid: grid of this operator's input.

        Raises:
            ParameterError: the grid does not allow it.
        """

    def smoothing(self, p: Any, grid: VoxelGrid) -> tuple[Intensity, SampledParameters] | None:  # noqa: ARG002  for those that smooth
        """Return the operator that smooths images before they are gathered, and its parameters; None without smoothing.

        Args:
            p: the parameters.
            grid: grid of this operator's input.
        """
        return None

    @property
    def smooths(self) -> bool:
        """Whether it may smooth images, which requires a separate pass."""
        return False

    @cached_property
    def gather_settings(self) -> dict[str, Any]:
        """Settings that must be equal for operators to be fused."""
        return self.settings_of_gather()

    def settings_of_gather(self) -> dict[str, Any]:
        """Return :attr:`gather_settings`, which calls this once."""
        return {
            name: getattr(self, name)
            for name in ("interp", "fill_value", "label_fill")
            if hasattr(self, name)
        }

    def reference(self, x: Array, p: Any) -> Array:
        """The volume ``(D, H, W, C)``, read by the mapping in NumPy."""
        size: Extent = x.shape[:3]
        if before := self.smoothing(p, VoxelGrid(size)):
            x = before[0].apply_to_image(x, before[1], 0, {"spacing": None})
        interpolation: Interpolation = getattr(self, "interp", "nearest")
        return reference_gather(
            x,
            self.moved(Mapping3(size), p, VoxelGrid(size)),
            interpolation,
            self.gather_settings.get("fill_value"),
        )


class Spatial(VolumeGeometry, register=False):
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


def spacing_of(op: Volumetric, grid: VoxelGrid, what: str) -> FloatArray:
    """Return the distance between slices, rows and columns in mm."""
    spacing = grid.spacing_mm
    if spacing is None:
        raise ParameterError(
            f"{what} is in mm, but the volume has no spacing",
            source=op.name,
            advice="Pass it as Sequence(array, 'DHWC', affine=…), whose affine has the spacing",
        )
    return spacing


# ------------------------------------------------------------------------------------------ intensities


class Intensity(Volumetric, register=False):
    """An operator that changes images, and leaves labels, points and boxes unchanged."""

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

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """One channel of one image.

        Args:
            x: ``(D, H, W)``, float32.
            p: the parameters; ``p.key`` and ``p.channel`` seed further random numbers, ``p.spacing`` is
                the distances of voxels in mm or None, ``p.labels`` the first labels of the sample or None, ``p.mask``
                the voxels that they mark, if :attr:`asks_mask`, ``p.dtype`` the name of the image's type, ``p.extent``
                its slices, rows and columns.
        """

    def stages(self, p: Any) -> list[Stage]:
        """Return the stages of the operator on a GPU; by default :meth:`reference` with CuPy.

        Args:
            p: the parameters of :meth:`reference`.
        """
        return [Call(lambda x: self.reference(x, p))]

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        (first,) = super().result_types(inputs)
        return (first if first.dtype is None else replace(first, dtype=self.result_dtype(first.dtype)),)

    @property
    def asks_mask(self) -> bool:
        """Whether it uses ``p.mask``, which is expensive to compute."""
        return False

    def for_channel(
        self, p: SampledParameters, channel: int, image_context: dict[str, Any]
    ) -> SimpleNamespace | None:
        """Return the parameters of :meth:`reference` and :meth:`stages` for a channel; None to leave it unchanged.

        Args:
            p: the sampled parameters.
            channel: number of the channel among those of all images of the sample.
            image_context: further facts about the image.
        """
        own = self.of_channel(p, channel) if p.acts else None
        return None if own is None else SimpleNamespace(**vars(own), **image_context)

    def apply_to_image(
        self, values: Array, p: SampledParameters, first_channel: int, image_context: dict[str, Any]
    ) -> Array:
        """Apply the operator to the channels of an image.

        Args:
            values: ``(D, H, W, C)``.
            p: the sampled parameters.
            first_channel: its number among those of all images of the sample.
            image_context: further facts about the image for :meth:`reference`.
        """
        xp = namespace(values)
        out = values.astype(np.float32)
        for channel in range(values.shape[3]):
            own = self.for_channel(p, first_channel + channel, image_context)
            if own is not None:
                out[..., channel] = self.reference(out[..., channel], own)
        dtype = np.dtype(self.result_dtype(name_of(values.dtype)))
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            out = xp.rint(out).clip(info.min, info.max)
        return out.astype(dtype, copy=False)

    def result_dtype(self, dtype: str) -> str:
        """Return the dtype of the result for images of a dtype: the same, or float32 for a new scale of integers.

        It does not depend on the draw: images of integers that the operator leaves unchanged are converted, too.
        """
        return "float32" if self.traits.to_float and not dtype.startswith("float") else dtype

    def of_channel(self, p: SampledParameters, channel: int) -> SampledParameters | None:
        """Return the parameters of a channel; None to leave it unchanged."""
        values = {**vars(p), "channel": channel}
        if self.per_channel:
            with generator_at([int(word) for word in p.key], (0, 0, channel, 1)) as rng:
                values |= {
                    q.name: _plain(q.draw(value, rng, None), q.size) for q, value, _ in self.distributions
                }
                if rng.random() >= self.p_channel:
                    return None
        return SampledParameters(**values)


def range_of(op: Any, x: Array, dtype: str) -> tuple[float, float]:
    """Return the least and the greatest intensity of a channel."""
    bounds: Any = op.range
    if bounds is None:
        raise ParameterError(
            "the range of intensities is required, and a volume does not define it",
            source=op.name,
            allowed="range=(least, greatest), 'minmax', 'percentiles' or 'dtype'",
            advice="In MR, 'minmax' or 'percentiles'; in CT the window, as (-1000, 1000)",
        )
    if bounds == "dtype":
        least, most = RANGES.get(dtype, (0, 1))
        return float(least), float(most)
    if isinstance(bounds, Percentiles):
        least, most = percentiles(x, (bounds.lo, bounds.hi))
        return float(least), float(most)
    if bounds == "minmax":
        return extremes(x) or (0.0, 1.0)
    return float(bounds[0]), float(bounds[1])


def extremes(x: Array) -> tuple[float, float] | None:
    """Return the least and the greatest finite value, or None if no value is finite."""
    lo, hi = float(x.min()), float(x.max())
    if not (isfinite(lo) and isfinite(hi)):
        finite = _finite(x)
        return (float(finite.min()), float(finite.max())) if finite.size else None
    return lo, hi


def moments(x: Array, where: Array | None = None) -> tuple[float, float]:
    """Return the mean and the standard deviation of values; 0 and 1 if there are none."""
    values = x if where is None else x[where]
    if not values.size:
        return 0.0, 1.0
    mean = float(values.mean(dtype=np.float64))
    if not np.isfinite(mean):
        finite = _finite(values)
        return moments(finite) if finite.size else (0.0, 1.0)
    return mean, float(values.std(dtype=np.float64))


def _finite(x: Array) -> Array:
    """Return the values that are finite."""
    return x[namespace(x).isfinite(x)]


def _plain(value: Any, size: int) -> Any:
    """Return a value as float32: a number, or an array if the parameter has several."""
    return np.asarray(value, np.float32) if size else np.float32(value)


def composed_with_volumes(members: Seq[Any]) -> set[int]:
    """Return the positions of operators on images that form one mapping with a neighbor that moves voxels."""
    result: set[int] = set()
    for position, op in enumerate(members):
        for step in (-1, 1) if isinstance(op, VolumeGeometry) else ():
            # what precedes smoothing cannot be part of the gather after it
            settings, at = op.gather_settings, position - 1 if step < 0 and not op.smooths else position + 1
            while 0 <= at < len(members) and isinstance(other := members[at], Geometry):
                if other.gather_settings is None or not settings_agree(settings, other.gather_settings):
                    break
                result.add(at)
                settings, at = settings | other.gather_settings, at + step
    return result


@dataclass(frozen=True)
class VolumeChain(Deferrable):
    """Consecutive operators on volumes in a chain; adjacent geometric ones are fused into one gather.

    Attributes:
        ops: the operators, in their order, with those of :func:`composed_with_volumes`; each draws as it does in the
            chain.
    """

    ops: tuple[Any, ...]

    @property
    def operators(self) -> tuple[Any, ...]:
        """The operators, of which parameters may be nodes."""
        return self.ops

    @property
    def title(self) -> str:
        """Their names."""
        return " → ".join(op.name for op in self.ops)

    def rebuilt(self, operators: Seq[Any]) -> VolumeChain:
        """Return a chain with other operators."""
        return VolumeChain(tuple(operators))

    @or_node
    def __call__(
        self,
        x: X,
        *,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> X:
        """Apply the operators to a volume, a sample of several parts, or a batch; see :meth:`seqpipe.ops.Op.__call__`.

        Args:
            x: the input.
            layout: of arrays.
            epoch: the epoch that parameters are sampled for.
            index: the samples' indices, or that of the first.
            backend: backend of geometric operators; None for the kernel on a GPU and C on the CPU.
            device: device of the kernel; None for the GPU of the volume.
        """
        result: X = self.run_volumes(
            x, CallOptions(layout=layout, epoch=epoch, index=index, backend=backend, device=device)
        )
        return result

    def run_volumes(self, x: Any, options: CallOptions) -> Any:
        """See :meth:`Volumetric.run_volumes`."""
        return run(self.ops, x, options)

    def explained(self) -> list[str]:
        """Return a line for each pass over the voxels, if all operators act."""
        lines = []
        for group in self.groups():
            traits = group[0].traits
            how = "one gather" if traits.geometric else "labels" if traits.on_labels else "intensities"
            lines.append(f"{' → '.join(op.name for op in group)}: {how}")
        return lines

    def explained_for(self, x: Any, layout: str | None, epoch: int, index: int) -> list[str]:
        """Return a line for each pass over the voxels of a sample."""
        sample = x if isinstance(x, Mapping) else {SINGLE: x}
        (plan,) = plans_of(self.ops, [state_of(self.ops[0].name, sample, layout)], epoch, [index])
        return [f"{' → '.join(step.names)}: {step.summary}" for step in plan.steps]

    def groups(self) -> list[tuple[Any, ...]]:
        """Return the operators of each pass, if all of them act."""
        groups: list[list[Any]] = []
        settings: dict[str, Any] = {}
        warped = moving = False
        for op in self.ops:
            if not op.traits.geometric:
                groups.append([op])
                moving = False
                continue
            apart = op.smooths or (op.warps and warped)
            if moving and not apart and settings_agree(settings, op.gather_settings):
                groups[-1].append(op)
                settings, warped = settings | op.gather_settings, warped or op.warps
            else:
                groups.append([op])
                settings, warped, moving = dict(op.gather_settings), op.warps, True
        return [tuple(group) for group in groups]
