"""Plans: the steps of a sample, determined before any voxel is read; neighboring geometry becomes one mapping."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...parts import Boxes, Labels
from ...resampling.gather import gather
from ...resampling.mapping import Mapping3
from ..call.inputs import check, check_memory, error_source, history_entry, images_of
from ..core.blocks import resolve, values_of, values_of_each, with_acts
from ..core.declaration import Declaration
from ..core.spec import Spec
from ..geometry.mapping import spacing_of
from .state import PartState, SampleState, VoxelGrid, name_of

__all__ = [
    "Change",
    "Move",
    "Plan",
    "PlanStep",
    "Rename",
    "SampledParameters",
    "Smooth",
    "plans_of",
    "sampled_parameters",
    "settings_agree",
]


class SampledParameters(SimpleNamespace):
    """An operator's parameters for one sample, as attributes; ``acts`` is whether it changes the sample."""

    @classmethod
    def of(cls, op: Declaration, values: dict[str, Any], *, acts: bool) -> SampledParameters:
        """Return the result of :meth:`Declaration.sample` with the constant parameters, in the dtypes of a block.

        Args:
            op: the operator.
            values: by name.
            acts: whether it acts on the sample; overridden if the values are such that it changes nothing.
        """
        rows = op.template.copy()
        for name, value in values.items():
            rows[name] = value
        return cls(**vars(values_of(with_acts(op, rows, np.array([acts]))[0])))

    @classmethod
    def from_json(cls, op: Declaration, values: dict[str, Any]) -> SampledParameters:
        """Restore the parameters from the result of :meth:`to_json`, bit for bit."""
        rows = np.zeros(1, op.block_dtype())
        for name, value in values.items():
            rows[name] = np.nan if value is None else value
        return cls(**vars(values_of(rows[0])))

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON values; missing ones are None."""
        result = {}
        for name, value in vars(self).items():
            plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            several = plain if isinstance(plain, list) else [plain]
            result[name] = None if any(number != number for number in several) else plain
        return result


def sampled_parameters(
    op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]
) -> list[SampledParameters]:
    """Return the parameters of an operator for some samples; those of a constant operator are shared."""
    block = resolve(op, specs, epoch, indices)
    if block.constants:
        shared = {id(constant): SampledParameters(**vars(constant.p)) for constant in block.constants}
        return [shared[id(constant)] for constant in block.constants]
    return values_of_each(block.rows, SampledParameters)


_CHECKED_FROM_VOXELS: Final = 1 << 26  # smaller results are not compared with the memory of the device


def settings_agree(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether settings that both dictionaries have are equal."""
    return first | second == second | first


@dataclass(eq=False)
class Move:
    """Geometry of one or more operators, applied in one pass.

    Attributes:
        before: grid of the input.
        mapping: mapping from the result to the input.
        grid: grid of the result.
        gather_settings: common settings of the operators: interpolation and fill values.
        names: names of the operators.
    """

    before: VoxelGrid
    mapping: Mapping3
    grid: VoxelGrid
    gather_settings: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def can_fuse(self, op: Any) -> bool:
        """Return whether an operator can be fused with the others."""
        warped_twice = op.warps and self.mapping.lattice is not None
        return not warped_twice and settings_agree(self.gather_settings, op.gather_settings)

    def add(self, op: Any, p: SampledParameters) -> None:
        """Append an operator that :meth:`can_fuse` accepts."""
        self.mapping = op.moved(self.mapping, p, self.grid)
        self.grid = self.before.moved(self.mapping.matrix, self.mapping.size)
        self.gather_settings |= op.gather_settings
        self.names.append(op.name)

    @property
    def summary(self) -> str:
        """Description of the step."""
        return f"one gather, {self.mapping.summary}"

    def outside(self, item: PartState) -> Any:
        """Return the value outside of a part; None if its border is repeated; a name for another way to pad."""
        fill: float | str | None = self.gather_settings.get("fill_value")
        by_value = fill is not None and not isinstance(fill, str)
        return (
            self.gather_settings.get("label_fill", 0) if by_value and isinstance(item.part, Labels) else fill
        )

    def interpolation(self, item: PartState) -> Any:
        """Return the interpolation of a part."""
        return (
            item.part.interp
            if isinstance(item.part, Labels)
            else self.gather_settings.get("interp", "nearest")
        )

    def moved_points(self, item: PartState) -> Any:
        """Return points or boxes after the mapping."""
        move = self.mapping.boxes if isinstance(item.part, Boxes) else self.mapping.points
        return move(item.values) if len(item.values) else item.values

    def source_values(self, item: PartState) -> Array:
        """Return the values to gather: those of labels in a dtype that also holds the value outside."""
        values, fill = item.values, self.outside(item)
        of_integers = values.dtype.kind in "iub" and values.dtype != bool
        if isinstance(item.part, Labels) and isinstance(fill, (int, float)) and of_integers:
            info = np.iinfo(values.dtype)
            if not info.min <= fill <= info.max:
                return values.astype(
                    np.int16 if info.bits <= 8 else np.int32 if info.bits <= 16 else np.int64
                )
        return values

    def run(self, state: SampleState, *, reference: bool) -> SampleState:
        """Return the sample with all parts moved, by the CPU."""
        parts = {}
        for name, item in state.parts.items():
            values = (
                gather(
                    self.source_values(item),
                    self.mapping,
                    self.interpolation(item),
                    self.outside(item),
                    reference=reference,
                )
                if item.layout
                else self.moved_points(item)
            )
            parts[name] = replace(item, values=values, affine=self.grid.affine)
        return replace(state, parts=parts, grid=self.grid)


@dataclass(eq=False)
class Change:
    """Intensities changed by an operator.

    Attributes:
        op: the operator.
        p: its sampled parameters; where it does not act, only the dtype of images changes.
        spacing: between voxels, in mm, or None.
    """

    op: Any
    p: SampledParameters
    spacing: Any

    @property
    def summary(self) -> str:
        """Description of the step."""
        return "intensities" if self.p.acts else "conversion to float32"

    @property
    def names(self) -> list[str]:
        """Names of the operators."""
        return [self.op.name]

    def first_channels(self, state: SampleState) -> dict[str, int]:
        """Return the images of a sample that it changes, and the number of the first channel of each."""
        channels, channel, chosen = {}, 0, images_of(self.op, state.images)
        for name, item in state.images.items():
            if name in chosen:
                channels[name] = channel
            channel += item.values.shape[3]
        return channels

    def image_context(self, state: SampleState, item: PartState) -> dict[str, Any]:
        """Return the facts about an image that an operator gets besides its parameters."""
        chosen = getattr(self.op, "part", None)
        every = (
            other.values
            for name, other in state.parts.items()
            if isinstance(other.part, Labels) and chosen in (None, name)
        )
        labels = next((values[..., 0] for values in every), None)
        values = item.values
        return {
            "spacing": self.spacing,
            "labels": labels,
            "mask": labels > 0 if self.op.asks_mask and labels is not None else None,
            "dtype": name_of(values.dtype),
            "extent": values.shape[:3],
        }

    def run(self, state: SampleState, *, reference: bool) -> SampleState:  # noqa: ARG002  as steps that have several
        """Return the sample with its images changed, by the CPU."""
        parts = dict(state.parts)
        for name, first_channel in self.first_channels(state).items():
            item = parts[name]
            context = self.image_context(state, item)
            parts[name] = replace(
                item, values=self.op.apply_to_image(item.values, self.p, first_channel, context)
            )
        return replace(state, parts=parts)


@dataclass(eq=False)
class Smooth(Change):
    """Images smoothed before geometry makes them coarser.

    Attributes:
        operator_name: name of the geometric operator.
    """

    operator_name: str = ""

    @property
    def summary(self) -> str:
        """Description of the step."""
        return "smoothed, since voxels become coarser"

    @property
    def names(self) -> list[str]:
        """Names of the operators."""
        return [self.operator_name]


@dataclass(eq=False)
class Rename:
    """Labels changed by an operator.

    Attributes:
        op: the operator.
    """

    op: Any

    summary = "labels"

    @property
    def names(self) -> list[str]:
        """Names of the operators."""
        return [self.op.name]

    def run(self, state: SampleState, *, reference: bool = True) -> SampleState:  # noqa: ARG002  as other steps
        """Return the sample with its labels changed."""
        parts = {
            name: replace(item, values=self.op.reference(item.values, None))
            if isinstance(item.part, Labels)
            else item
            for name, item in state.parts.items()
        }
        return replace(state, parts=parts)


PlanStep: TypeAlias = Move | Change | Rename


class Plan:
    """The steps of a sample.

    Args:
        state: the sample.

    Attributes:
        grid: grid of the result.
        steps: the steps, in order.
        drawn: each operator, with its sampled parameters and the grid of its input.
    """

    def __init__(self, state: SampleState) -> None:
        self._state = state
        self._pending: Move | None = None
        self.grid = state.grid
        self._converted: set[str] = set()  # images of integers that are float32 after the steps
        self.steps: list[PlanStep] = []
        self.drawn: list[tuple[Any, SampledParameters, VoxelGrid]] = []

    def spec_for(self, op: Any) -> Spec:
        """Return the properties of the sample for which an operator's parameters are sampled."""
        frames, height, width = self.grid.size
        spec = self._state.spec._replace(frames=frames, height=height, width=width)
        if op.traits.takes == "volumes":
            return spec
        spec = spec._replace(volume=True)
        check(op, spec)
        with error_source(op):
            return spec if self.grid.affine is None else spec._replace(spacing=spacing_of(self.grid.affine))

    def add(self, op: Any, p: Any) -> None:
        """Append an operator."""
        self.drawn.append((op, p, self.grid))
        if op.traits.geometric:
            if p.acts:
                self._add_move(op, p)
        elif op.traits.on_labels:
            if p.acts:
                self._pending = None
                self.steps.append(Rename(op))
        elif (converted := self._images_to_convert(op)) or p.acts:
            if not self._state.images:
                raise ParameterError(
                    f"a sample of {', '.join(self._state.parts)}, none of which is an image",
                    source=op.name,
                    allowed="images",
                )
            self._converted.update(converted)
            self._pending = None
            self.steps.append(Change(op, p, self.grid.spacing_mm))

    def _add_move(self, op: Any, p: Any) -> None:
        """Add a geometric operator to the plan."""
        before = op.smoothing(p, self.grid) if op.smooths and self._state.images else None
        if before is not None:
            blur, sigma = before
            self.steps.append(Smooth(blur, sigma, self.grid.spacing_mm, operator_name=op.name))
            self._pending = None
        if self._pending is None or not self._pending.can_fuse(op):
            self._pending = Move(self.grid, Mapping3(self.grid.size), self.grid)
            self.steps.append(self._pending)
        self._pending.add(op, p)
        self.grid = self._pending.grid
        if math.prod(self.grid.size) >= _CHECKED_FROM_VOXELS:
            self._check_size(op)

    def history(self, epoch: int, index: int) -> Callable[[], list[dict[str, Any]]]:
        """Return a function that builds the history as JSON values: as expensive as sampling, so it is deferred."""
        drawn = self.drawn  # not the plan, which has the voxels

        def entries() -> list[dict[str, Any]]:
            return [
                {
                    **history_entry(op, epoch, index, p.to_json()),
                    "size": [int(n) for n in grid.size],
                    "affine": None if grid.affine is None else grid.affine.tolist(),
                }
                for op, p, grid in drawn
            ]

        return entries

    def _images_to_convert(self, op: Any) -> list[str]:
        """Return the images of integers that an operator converts to float32, whether it acts or not."""
        images = self._state.images
        chosen = images_of(op, images)
        if not op.traits.to_float:
            return []
        dtypes = {name: name_of(images[name].values.dtype) for name in chosen if name not in self._converted}
        return [name for name, dtype in dtypes.items() if op.result_dtype(dtype) != dtype]

    def _check_size(self, op: Any) -> None:
        """Raise an error if the parts, with the size after an operator, exceed the memory of their device."""
        voxels = [item.values for item in self._state.parts.values() if item.layout]
        size = math.prod(self.grid.size) * sum(values.shape[3] * values.dtype.itemsize for values in voxels)
        what = f"a result of {' × '.join(map(str, self.grid.size))} voxels"
        advice = "Choose a smaller size or factor, or a larger distance of voxels"
        check_memory(op, what, size, namespace(voxels[0]), advice)


def plans_of(
    ops: Seq[Any],
    states: Seq[SampleState],
    epoch: int,
    indices: Seq[int],
    drawn: Seq[Seq[SampledParameters]] | None = None,
) -> list[Plan]:
    """Plan the steps of operators for samples."""
    plans = [Plan(state) for state in states]
    for number, op in enumerate(ops):
        parameters = (
            drawn[number]
            if drawn
            else sampled_parameters(op, [plan.spec_for(op) for plan in plans], epoch, indices)
        )
        for plan, p in zip(plans, parameters, strict=True):
            plan.add(op, p)
    return plans
