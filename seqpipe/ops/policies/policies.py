"""Published augmentation policies: RandAugment, TrivialAugment, AutoAugment; sampled once for a sequence.

``policy.drawn(epoch=…, index=…)`` returns the steps of a sample.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping as Named
from collections.abc import Sequence as Seq
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.cached import cached_property
from ...core.kernel import KernelDevice
from ...random import Steps
from ..call.backends import apply_table, cuda_device_of, run_same_shape
from ..core.blocks import Block, constant_of, derived_values_vary, resolve, values_of_all, values_of_each
from ..core.declaration import Declaration
from ..core.distributions import Number, Table
from ..core.parameters import ANY, param
from ..core.sampling import BatchSampled, Outcome, indices_of
from ..core.spec import TABLE_DTYPES, Spec
from ..cuda.kernel import Item, run_kernel
from ..geometry.base import Geometry
from ..geometry.interpolate import KINDS, InterpolationKind
from ..geometry.mapping import Mapping
from ..geometry.warped import Warped
from .published import AUTO, AUTO_BINS, FOUND, NARROW, STEPS, WIDE, MagnitudeRange

__all__ = ["AutoAugment", "DrawnStep", "RandAugment", "TrivialAugmentWide"]

_SAMPLE: Final = Spec(1, 1, 1, 3, "uint8")  # sampled steps do not depend on the sample
_TRANSLATIONS: Final = ("translate_x", "translate_y")
_MAX_CACHED_STEPS: Final = 4096  # cached acts of a policy; the parameters of one take less than 1 KiB
Values: TypeAlias = dict[str, Any]


class _BoundStep:
    """An operator with its parameters for one sample.

    Attributes:
        op: the operator.
        values: parameters that differ from the operator's own.
    """

    def __init__(self, op: Declaration, values: dict[str, Any], spec: Spec) -> None:
        self.op = op
        self.values = values
        self._spec = spec

    @cached_property
    def rows(self) -> npt.NDArray[Any]:
        """All parameters, as a block of one row."""
        constant = constant_of(self.op, Spec(1, 1, 1, self._spec.channels, self._spec.dtype))
        rows = constant.rows.copy()
        rows["acts"] = 1
        for name, value in self.values.items():
            rows[name] = value
        if self.op.traits.derived and derived_values_vary(self.op, self.values.keys()):
            for name, value in self.op.derive(rows, self._spec).items():
                rows[name] = value
        return rows

    @cached_property
    def p(self) -> SimpleNamespace:
        """All parameters, as attributes."""
        return values_of_all(self.rows)

    @cached_property
    def table(self) -> npt.NDArray[np.uint8] | None:
        """Table of results for uint8, if the operator is pointwise and treats all channels alike."""
        if not self.op.traits.pointwise or self._spec.dtype != "uint8":
            return None
        values = np.arange(256, dtype=np.uint8).reshape(1, 1, 256, 1)
        result: npt.NDArray[np.uint8] = run_same_shape(
            self.op, self.op.cpu, values, self.p, fast=True
        ).reshape(256)
        return result

    @cached_property
    def row(self) -> bytes:
        """The row of parameters for the operator's kernel."""
        return self.op.kernel_rows(self.rows, self._spec).tobytes()


class DrawnStep(NamedTuple):
    """A sampled step.

    Attributes:
        name: name of the step.
        magnitude: magnitude in the units of the papers: degrees, bits, factors minus 1; translations in pixels or
            relative to the image, thresholds relative to the range. 0 for steps without a magnitude.
    """

    name: str
    magnitude: float


def _fields(most: int) -> tuple[tuple[str, int], ...]:
    """Return the derived _fields of a policy: indices of at most ``most`` steps, -1 for none, bins, and signs."""
    return ("steps", most), ("bins", most), ("signs", most)


class _Policy(BatchSampled, Geometry, register=False):
    """Base of operators that sample steps for each sample, the same for all of its frames.

    Steps run one after the other, and each rounds its result. On a GPU, one launch runs a step for all samples that
    have the same operator at that position.

    Attributes:
        ranges: published magnitudes by step.
        relative: whether translations are relative to the size of the image; otherwise they are pixels.
    """

    max_translate_abs: float | None = param(
        None,
        "maximum translation; None for the published one",
        kind=float,
        unit="pixels",
        lo=0,
        drawn=False,
    )
    max_translate_rel: float | None = param(
        None,
        "maximum translation as a share of the size, instead of max_translate_abs",
        kind=float,
        unit="of the width or the height",
        lo=0,
        drawn=False,
    )
    fill_value: float | None = param(
        128.0,
        "value of pixels outside of the images; None repeats edge pixels",
        kind=float,
        drawn=False,
        optional=True,
    )
    interp_type: InterpolationKind = param(
        "linear", "interpolation: nearest, linear (2×2 pixels) or cubic (4×4 pixels)", choices=KINDS
    )

    dtypes = TABLE_DTYPES
    channels = (3, 1)
    by_frame = False
    body = None
    composed = True
    exclusive = (("max_translate_abs", "max_translate_rel"),)
    # of OpenCV's interpolation: a difference of 1 may cross a threshold
    cpu_tolerance = (255.0, 0.02)
    ranges: ClassVar[Named[str, MagnitudeRange]] = {}
    relative: ClassVar[bool] = True

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The steps, in the order of their indices."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of magnitudes of a step."""

    @cached_property
    def magnitudes(self) -> npt.NDArray[np.float64]:
        """Magnitude of each step and bin, without sign."""
        most = self.max_translate_abs if self.max_translate_rel is None else self.max_translate_rel
        own = {} if most is None else dict.fromkeys(_TRANSLATIONS, MagnitudeRange(0.0, most, signed=True))
        ranges = [{**self.ranges, **own}[name] for name in self.names]
        return np.stack([np.linspace(interval.first, interval.last, self.count) for interval in ranges])

    @cached_property
    def _table(self) -> list[tuple[str, bool, list[float]]]:
        """Name, whether the magnitude may be negative, and magnitudes as float32, of each step."""
        columns = self.magnitudes.astype(np.float32).tolist()
        return [(name, self.ranges[name].signed, own) for name, own in zip(self.names, columns, strict=True)]

    @overload
    def drawn(self, *, epoch: int = 0, index: int = 0) -> tuple[DrawnStep, ...]: ...
    @overload
    def drawn(self, *, epoch: int = 0, index: Seq[int]) -> list[tuple[DrawnStep, ...]]: ...
    def drawn(self, *, epoch: int = 0, index: Any = 0) -> Any:
        """Sample the steps for one or several samples.

        Args:
            epoch: the epoch.
            index: index of a sample within its dataset, or several indices.

        Returns:
            A tuple of :class:`DrawnStep`, one for each step; a list of these for several samples.
        """
        single = np.ndim(index) == 0
        count = 1 if single else len(index)
        block = resolve(self, [_SAMPLE] * count, epoch, indices_of(self, index, count))
        found = [tuple(self._chosen(p)) for p in _values_of(block)]
        return found[0] if single else found

    def reference(self, x: Array, p: Any) -> Array:
        """Run the references of the steps."""
        return self._stepped(x, p, fast=False)

    def cpu(self, x: Array, p: Any) -> Array:
        """Run the CPU implementations of the steps."""
        return self._stepped(x, p, fast=True)

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`; the product of the mappings of all steps."""
        whole = Mapping.identity(height, width)
        for step in self._plan(p, _SAMPLE._replace(height=height, width=width)):
            if isinstance(step.op, Geometry):
                whole = whole.then(step.op.mapping(SimpleNamespace(**step.values), height, width))
        return whole

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Block) -> Array:
        """Move masks ``(N, F, H, W, C)`` step by step; pixels that leave the image do not return."""
        moved = []
        for n, spec in enumerate(specs):
            part = mask[n : n + 1]
            (p,) = values_of_each(block.of(n, 1))
            for step in self._plan(p, spec):
                if isinstance(step.op, Geometry):
                    part = step.op.moved_mask(part, (spec,), Block(step.rows, (0,), 0))
            moved.append(part)
        return namespace(mask).concatenate(moved)

    def compose(self, items: Seq[Item], specs: Seq[Spec], block: Block, device: KernelDevice | None) -> None:
        """Write the results on a GPU, step by step; samples with the same operator share a launch."""
        plans = [self._plan(p, spec) for p, spec in zip(_values_of(block), specs, strict=True)]
        device = device or cuda_device_of(items[0].x)
        sources, outs = _samples_of(items), _samples_of([item._replace(x=item.out) for item in items])
        between = _samples_of([item._replace(x=namespace(item.x).empty_like(item.x)) for item in items])
        for n, plan in enumerate(plans):
            if not plan:
                outs[n][...] = sources[n]
        for position in range(max(map(len, plans))):
            groups: dict[tuple[Declaration, int], list[int]] = {}
            for n, plan in enumerate(plans):
                if position < len(plan):
                    groups.setdefault((plan[position].op, specs[n].channels), []).append(n)
            for (op, _), members in groups.items():
                # results alternate between two arrays, so that the last one is written to `outs`
                targets = [(outs if (len(plans[n]) - position) % 2 else between)[n] for n in members]
                parts = [
                    Item(sources[n], target, row)
                    for row, (n, target) in enumerate(zip(members, targets, strict=True))
                ]
                rows = np.frombuffer(b"".join(plans[n][position].row for n in members), op.kernel_dtype())
                run_kernel(op, parts, Block(rows, tuple(range(len(rows))), 0), device)
                sources.update(zip(members, targets, strict=True))

    @cached_property
    def _operators(self) -> dict[str, Declaration]:
        """The operator of each step; steps of one kind share it."""
        result: dict[type[Declaration], Declaration] = {}
        for name in self.names:
            if name in STEPS and (kind := STEPS[name].op) not in result:
                own: Values = {"fill_value": self.fill_value, "interp_type": self.interp_type}
                values = STEPS[name].values(1.0, _SAMPLE)
                result[kind] = kind(**values, **(own if issubclass(kind, Warped) else {}))
        return {name: result[STEPS[name].op] for name in self.names if name in STEPS}

    def _plan(self, p: Any, spec: Spec) -> list[_BoundStep]:
        """Return the steps of a sample with some parameters; cached, as distinct parameters are mostly few."""
        key = spec[1:], *[v.tobytes() if type(v) is np.ndarray else v for v in vars(p).values()]
        plan = self._plans.get(key)
        if plan is None:
            plan = self._steps(self._chosen(p), spec)
            if len(self._plans) >= _MAX_CACHED_STEPS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _chosen(self, p: Any) -> list[DrawnStep]:
        """Return the steps for the parameters of a sample."""
        result = []
        for n, bin_index, sign in zip(p.steps.tolist(), self._bins(p), p.signs.tolist(), strict=False):
            if p.acts and n >= 0:
                name, signed, magnitudes = self._table[int(n)]
                magnitude = magnitudes[int(bin_index)]
                result.append(DrawnStep(name, magnitude * sign if signed else magnitude))
        return result

    def _bins(self, p: Any) -> list[float]:
        """Return the bin of each step of a sample; their number limits the steps."""
        result: list[float] = p.bins.tolist()
        return result

    def _steps(self, drawn: Seq[DrawnStep], spec: Spec) -> list[_BoundStep]:
        """Return the acts for the sampled steps of a sample; cached, because there are only as many as magnitudes."""
        result = []
        for chosen in drawn:
            step = STEPS.get(chosen.name)
            # images with one channel have no color
            if step is None or (chosen.name == "color" and spec.channels == 1):
                continue
            key = chosen, spec[1:] if step.sized else spec[3:]
            result.append(self._bound_steps.get(key) or self._create(key, spec))
        return result

    def _create(self, key: tuple[DrawnStep, Any], spec: Spec) -> _BoundStep:
        """Create and cache an act."""
        name, magnitude = key[0]
        values = STEPS[name].values(magnitude * self._size_of(name, spec), spec)
        result = _BoundStep(self._operators[name], values, spec)
        if len(self._bound_steps) >= _MAX_CACHED_STEPS:
            self._bound_steps.clear()
        self._bound_steps[key] = result
        return result

    @cached_property
    def _plans(self) -> dict[tuple[Any, ...], list[_BoundStep]]:
        return {}

    @cached_property
    def _bound_steps(self) -> dict[tuple[Any, ...], _BoundStep]:
        return {}

    def _size_of(self, name: str, spec: Spec) -> int:
        """Return the length that relative magnitudes of a step refer to, else 1."""
        in_parts = self.max_translate_rel is not None or (self.relative and self.max_translate_abs is None)
        return {"translate_x": spec.width, "translate_y": spec.height}.get(name, 1) if in_parts else 1

    def _stepped(self, x: Array, p: Any, *, fast: bool) -> Array:
        """Return images of one sample after all steps."""
        for step in self._plan(p, _spec_of(x.shape, x.dtype)):
            if fast and step.table is not None:
                x = apply_table(x, step.table)
            else:
                x = run_same_shape(step.op, step.op.cpu if fast else step.op.reference, x, step.p, fast=fast)
        return x


def _samples_of(items: Seq[Item]) -> dict[int, Array]:
    """Return the images of each sample, ``(1, F, H, W, C)``, by its index."""
    return {n: x for item in items for n, x in enumerate(item.x[:, None], item.sample)}


def _values_of(block: Block) -> list[SimpleNamespace]:
    """Return the parameters of each sample."""
    return [constant.p for constant in block.constants] or values_of_each(block.rows)


@lru_cache(maxsize=256)  # asking a dtype for its name takes as long as processing a tiny image
def _spec_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Spec:
    frames, height, width, channels = shape
    return Spec(frames, height, width, channels, dtype.name)


_MAX_STEPS: Final = 16  # steps of RandAugment
_PAIR: Final = 2  # steps of AutoAugment


class _Suite(_Policy, register=False):
    """Base of policies that sample from a set of steps, some of which may be excluded."""

    num_magnitude_bins: int = param(31, "number of magnitudes of a step", lo=2, hi=1000, drawn=False)
    excluded: tuple[str, ...] | None = param(
        None, "steps to leave out", kind=str, choices=tuple(NARROW), size=ANY
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names:
            raise self.refusal("all steps are excluded", allowed=f"up to {len(NARROW) - 1} of them")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The steps that are not excluded."""
        return tuple(name for name in self.ranges if name not in (self.excluded or ()))

    @property
    def count(self) -> int:
        """The parameter ``num_magnitude_bins``."""
        return self.num_magnitude_bins


class RandAugment(_Suite):
    """Apply ``n`` steps, each sampled from 14, of magnitude ``m``.

    The policy of E. D. Cubuk and others, 2020, with torchvision's ranges: steps are sampled with replacement, and
    translations, shears, rotations and changes of brightness, color, contrast and sharpness have a random sign.
    ``m`` may be a range.

    Steps are defined as in Pillow, which torchvision follows: contrast changes around the mean luma of a frame,
    sharpness blends with Pillow's ``SMOOTH`` filter, translations are by whole pixels. Results are rounded, where
    Pillow truncates. Two steps differ: color is ``fn.saturation``, whose grays differ by up to 0.7, and equalize is
    ``fn.equalize``, OpenCV's as in DALI; Pillow's rounds the number of pixels per value, so that small images become
    about 4 % brighter. ``interp_type="nearest", fill_value=0`` are torchvision's defaults.
    """

    n: int = param(2, "number of steps", lo=1, hi=_MAX_STEPS, drawn=False)
    m: Number = param(9, "magnitude of all steps, from 0 to num_magnitude_bins - 1", kind=int, lo=0)

    ranges = NARROW
    derived = (("steps", _MAX_STEPS), ("signs", _MAX_STEPS))
    examples = (
        {"n": 2, "m": 9, "seed": 1},
        {"n": 3, "m": (3, 12), "num_magnitude_bins": 13, "interp_type": "nearest", "fill_value": 0.0},
        {"excluded": ("equalize", "auto_contrast"), "max_translate_rel": 0.2, "p": 0.8, "seed": 7},
    )
    errors = (
        ({"m": 31}, "m=31 is not valid; allowed: a whole number from 0 to 30, less than num_magnitude_bins"),
        ({"m": (5, 40)}, "m=40 is not valid; allowed: a whole number from 0 to 30"),
        ({"excluded": tuple(NARROW)}, "rand_augment: all steps are excluded; allowed: up to 13 of them"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.num_magnitude_bins - 1
        if (greatest := _greatest(self.m)) > most:
            raise self.refusal(
                f"m={greatest:g} is not valid",
                allowed=f"a whole number from 0 to {most}, less than num_magnitude_bins",
            )

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the steps and signs, for the maximum of steps, so that they do not depend on ``n``."""
        some: Steps = (0,) * self.n
        some = some if self.n == _MAX_STEPS else (*some, self.n - _MAX_STEPS)
        return some * 2

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return steps and signs."""
        n, count = self.n, len(self.names)
        steps = [int(number * count) for number in numbers[:n]]
        return tuple(steps), tuple([-1 if number < 0.5 else 1 for number in numbers[n:]])

    def _bins(self, p: Any) -> list[float]:
        """Return the one bin of all steps."""
        return [min(p.m, self.num_magnitude_bins - 1)] * self.n


class TrivialAugmentWide(_Suite):
    """Apply one step, sampled from 14, of a sampled magnitude.

    The policy of S. G. Müller and F. Hutter, 2021, with the wide ranges, whose translations are up to 32 pixels
    whatever the size of the image. Steps are defined as for :class:`RandAugment`.
    """

    ranges = WIDE
    relative = False
    derived = _fields(1)
    examples = (
        {"seed": 3},
        {"num_magnitude_bins": 11, "max_translate_rel": 0.4, "fill_value": None, "seed": 5},
        {"excluded": ("solarize", "posterize"), "max_translate_abs": 3.0},
    )

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the step, its bin and its sign."""
        return len(self.names), self.num_magnitude_bins, 2

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return step, bin and sign."""
        step, bin_index, sign = numbers
        return (step,), (bin_index,), (1 - 2 * sign,)


class AutoAugment(_Policy):
    """Apply a pair of steps, sampled from 25 that were found by search, each with its probability and magnitude.

    The policies of E. D. Cubuk and others, 2019, for ImageNet, CIFAR-10 and SVHN, with torchvision's ranges of ten
    magnitudes; geometric steps and changes of brightness, color, contrast and sharpness have a random sign. Steps are
    defined as for :class:`RandAugment`.
    """

    policy: str = param("imagenet", "name of the published policy", choices=tuple(FOUND))

    ranges = AUTO
    derived = _fields(_PAIR)
    examples = (
        {"seed": 2},
        {"policy": "cifar10", "interp_type": "nearest", "seed": 4},
        {"policy": "svhn", "max_translate_abs": 2.0, "seed": 4},
    )
    names = tuple(ranges)
    count = AUTO_BINS

    @cached_property
    def steps(self) -> Steps:
        """Random numbers for the pair, whether each of its steps acts, and their signs."""
        return len(FOUND[self.policy]), *[0] * _PAIR, *[2] * _PAIR

    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return the steps of the pair that act, their bins, and their signs."""
        pair = self._pairs[int(numbers[0])]
        steps = [
            step if number < probability else -1
            for (step, probability, _), number in zip(pair, numbers[1:], strict=False)
        ]
        return (
            tuple(steps),
            tuple([bin_index for _, _, bin_index in pair]),
            tuple([1 - 2 * sign for sign in numbers[1 + _PAIR :]]),
        )

    @cached_property
    def _pairs(self) -> list[list[tuple[int, float, int]]]:
        """The published pairs: index, probability and bin of each step."""
        number = self.names.index
        return [
            [(number(name), share, bin_index) for name, share, bin_index in pair]
            for pair in FOUND[self.policy]
        ]


def _greatest(value: Any) -> float:
    """Return the greatest value of a parameter, as far as it is known."""
    if isinstance(value, Table):
        return float(value.values.max(initial=0))
    if isinstance(value, (int, float)):
        return value
    support = value.support()
    return 0 if support is None or support[1] is None else float(support[1])
