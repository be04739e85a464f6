"""Policy: an operator that draws for each sample which other operators act on it, and how much."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from collections.abc import Mapping as Named
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ..array import Array, namespace
from ..kernel import KernelDevice
from ._apply import indices_of
from ._beside import RUN, Turn, beside, changes_levels
from ._declaration import Declaration
from ._draw import Block, constant_of, derives_anew, resolve
from ._geometry import Geometry
from ._interpolate import KINDS, Kind
from ._kernel import Item
from ._mapping import Mapping
from ._param import at_most_one, param
from ._published import Range
from ._run import cuda_device_of, run
from ._spec import RANGES, Backend, Spec
from ._steps import STEPS
from ._warped import Warped

__all__ = ["Drawn", "Policy", "fields"]

_SAMPLE: Final = Spec(1, 1, 1, 3, "uint8")  # draws do not depend on what a sample is
_TRANSLATIONS: Final = ("translate_x", "translate_y")

Values: TypeAlias = dict[str, Any]


class Drawn(NamedTuple):
    """A step that was drawn.

    Attributes:
        name: of the step.
        magnitude: as papers have it: degrees, bits, factors less 1; translations in pixels or in parts of the image,
            thresholds in parts of the range. 0 where there is none.
    """

    name: str
    magnitude: float


def fields(most: int) -> tuple[tuple[str, int], ...]:
    """The derived fields of a policy of so many steps: which they are, -1 for none, their bins, signs, magnitudes."""
    return ("steps", most), ("bins", most), ("signs", most), ("magnitudes", most)


class Policy(Geometry, register=False):
    """An operator made of steps that are drawn for each sample, once for all of its frames.

    Steps act one after the other, and what each makes is rounded to a level. On a GPU, a launch does a step of every
    sample.

    Attributes:
        ranges: the magnitudes that were published, by the names of steps.
        relative: whether translations among them are parts of the image's size; otherwise they are pixels.
    """

    max_translate_abs: float | None = param(
        None,
        "greatest translation; None for what was published",
        kind=float,
        unit="pixels",
        lo=0,
        drawn=False,
    )
    max_translate_rel: float | None = param(
        None,
        "greatest translation, in place of max_translate_abs",
        kind=float,
        unit="of the width or the height",
        lo=0,
        drawn=False,
    )
    fill_value: float | None = param(
        128.0,
        "level outside of the images; None repeats the pixels at their border",
        kind=float,
        drawn=False,
        optional=True,
    )
    interp_type: Kind = param(
        "linear", "between which pixels: none, two by two, or four by four", choices=KINDS
    )

    dtypes = tuple(RANGES)
    channels = (3, 1)
    by_frame = False
    body = None
    composed = True
    # of OpenCV's interpolation alone: a level more may be on the other side of a threshold
    cpu_tolerance = (255.0, 0.02)
    ranges: ClassVar[Named[str, Range]] = {}
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_most_one(self, "max_translate_abs", "max_translate_rel")

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The steps, in the order of their numbers."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many magnitudes a step has."""

    @cached_property
    def magnitudes(self) -> npt.NDArray[np.float64]:
        """The magnitude of each step and bin, without a sign."""
        most = self.max_translate_abs if self.max_translate_rel is None else self.max_translate_rel
        own = {} if most is None else dict.fromkeys(_TRANSLATIONS, Range(0.0, most, signed=True))
        ranges = [{**self.ranges, **own}[name] for name in self.names]
        return np.stack([np.linspace(one.first, one.last, self.count) for one in ranges])

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> Values:  # noqa: ARG002  magnitudes do not depend on it
        """The magnitudes of the steps that were drawn."""
        steps, bins = rows["steps"].astype(np.int64), rows["bins"].astype(np.int64)
        return {"magnitudes": self.magnitudes[steps, bins] * np.where(self._signed[steps], rows["signs"], 1)}

    @cached_property
    def _signed(self) -> npt.NDArray[np.bool_]:
        """Whether the magnitude of each step may be negative."""
        return np.array([self.ranges[name].signed for name in self.names])

    @overload
    def drawn(self, *, epoch: int = 0, index: int = 0) -> tuple[Drawn, ...]: ...
    @overload
    def drawn(self, *, epoch: int = 0, index: Seq[int]) -> list[tuple[Drawn, ...]]: ...
    def drawn(self, *, epoch: int = 0, index: Any = 0) -> Any:
        """What is drawn for a sample, or for several.

        Args:
            epoch: the epoch.
            index: the index of a sample within its dataset; or of several.

        Returns:
            A tuple of :class:`Drawn`, one for each step; a list of them for several samples.
        """
        one = np.ndim(index) == 0
        count = 1 if one else len(index)
        block = resolve(self, [_SAMPLE] * count, epoch, indices_of(self, index, count))
        found = [tuple(steps) for steps in self._drawn(block.rows)]
        return found[0] if one else found

    def reference(self, x: Array, p: Any) -> Array:
        """The references of the steps, one after the other."""
        return self._stepped(x, p, "reference")

    def cpu(self, x: Array, p: Any) -> Array:
        """Their fast forms."""
        return self._stepped(x, p, "cpu")

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Where the pixels of the result come from, by all of its steps."""
        whole = Mapping.identity(height, width)
        for op, values in self._steps_of(p, _SAMPLE._replace(height=height, width=width)):
            if isinstance(op, Geometry):
                whole = whole.then(op.mapping(SimpleNamespace(**values), height, width))
        return whole

    def compose(self, items: Seq[Item], specs: Seq[Spec], block: Block, device: KernelDevice | None) -> None:
        """Write the results on a GPU: launch by launch, each of which takes all samples a step further."""
        pairs = zip(self._drawn(block.rows), specs, strict=True)
        steps = _rows_of([list(self._steps(drawn, spec)) for drawn, spec in pairs], specs[0])
        samples = [
            _Sample(item.x[n : n + 1], item.out[n : n + 1], steps[item.sample + n])
            for item in items
            for n in range(len(item.x))
        ]
        for channels in sorted({spec.channels for spec in specs}):
            left = [sample for sample in samples if sample.x.shape[4] == channels]
            while left:
                _further(left, device or cuda_device_of(items[0].x))
                left = [sample for sample in left if sample.steps]

    @cached_property
    def _operators(self) -> dict[str, Declaration]:
        """The operator of each step; steps of one kind share it."""
        made: dict[type[Declaration], Declaration] = {}
        for name in self.names:
            if name in STEPS and (kind := STEPS[name].op) not in made:
                own: Values = {"fill_value": self.fill_value, "interp_type": self.interp_type}
                values = STEPS[name].values(1.0, _SAMPLE)
                made[kind] = kind(**values, **(own if issubclass(kind, Warped) else {}))
        return {name: made[STEPS[name].op] for name in self.names if name in STEPS}

    def _drawn(self, rows: npt.NDArray[Any] | Named[str, npt.NDArray[Any]]) -> list[list[Drawn]]:
        """The steps of each sample."""
        columns = (rows[name].tolist() for name in ("acts", "steps", "magnitudes"))
        return [
            [Drawn(self.names[int(n)], m) for n, m in zip(steps, magnitudes, strict=True) if acts and n >= 0]
            for acts, steps, magnitudes in zip(*columns, strict=True)
        ]

    def _steps_of(self, p: Any, spec: Spec) -> Iterator[tuple[Declaration, Values]]:
        """The operators that act on a sample with some parameters, and their own."""
        (drawn,) = self._drawn({name: np.asarray([value]) for name, value in vars(p).items()})
        return self._steps(drawn, spec)

    def _steps(self, drawn: Seq[Drawn], spec: Spec) -> Iterator[tuple[Declaration, Values]]:
        """The operators that act on a sample, and their parameters."""
        in_parts = self.max_translate_rel is not None or (self.relative and self.max_translate_abs is None)
        sizes = {"translate_x": spec.width, "translate_y": spec.height} if in_parts else {}
        for name, magnitude in drawn:
            # images of one channel have no colour to change
            if name in STEPS and not (name == "color" and spec.channels == 1):
                yield self._operators[name], STEPS[name].values(magnitude * sizes.get(name, 1), spec)

    def _stepped(self, x: Array, p: Any, backend: Backend) -> Array:
        """Images of one sample after all steps."""
        frames, height, width, channels = x.shape
        spec = Spec(frames, height, width, channels, x.dtype.name)
        for op, values in self._steps_of(p, spec):
            out = namespace(x).empty(x.shape, x.dtype)
            run(op, [Item(x[None], out[None], 0)], [spec], _block(op, [spec], [values]), backend)
            x = out
        return x


@dataclass
class _Sample:
    """A sample on its way.

    Attributes:
        x: its images as they are, ``(1, F, H, W, C)``.
        out: where they go in the end.
        steps: the operators that it still has before it, each with its row.
    """

    x: Array
    out: Array
    steps: list[tuple[type[Declaration], bytes]]

    def turn(self) -> Turn:
        """What the next launch does: the first step, or as many as it can of those on levels, or a copy."""
        runs = [changes_levels(op) for op, _ in self.steps[:RUN]]
        count = max(1, runs.index(False) if False in runs else len(runs))
        steps, self.steps = self.steps[:count], self.steps[count:]
        given, self.x = (
            self.x,
            namespace(self.x).empty(self.x.shape, self.x.dtype) if self.steps else self.out,
        )
        return Turn(given, self.x, steps)


def _further(samples: Seq[_Sample], device: KernelDevice) -> None:
    """Take samples of as many channels a step further, by one launch."""
    kinds = _kinds(samples[0].x.shape[4])
    beside(kinds).run([sample.turn() for sample in samples], device)


def _rows_of(
    steps: Seq[Seq[tuple[Declaration, Values]]], spec: Spec
) -> list[list[tuple[type[Declaration], bytes]]]:
    """The steps of some samples, each with what its kernel is given; for all of one kind at once.

    Args:
        steps: operators and their values, for each sample.
        spec: one of the samples, whose type matters.
    """
    alike: dict[type[Declaration], list[tuple[Declaration, Values]]] = {}  # one kind is one operator
    for step in chain.from_iterable(steps):
        alike.setdefault(type(step[0]), []).append(step)
    rows = {}
    for kind, found in alike.items():
        op = found[0][0]
        made = op.kernel_rows(_block(op, [spec] * len(found), [values for _, values in found]).rows, spec)
        rows[kind] = iter([made[n : n + 1].tobytes() for n in range(len(made))])
    return [[(type(op), next(rows[type(op)])) for op, _ in own] for own in steps]


@lru_cache(maxsize=8)
def _kinds(channels: int) -> tuple[type[Declaration], ...]:
    """The operators of all steps that take images of so many channels, so that all policies share one kernel."""
    kinds = dict.fromkeys(step.op for step in STEPS.values())
    return tuple(kind for kind in kinds if not kind.channels or channels in kind.channels)


def _block(op: Declaration, specs: Seq[Spec], values: Seq[Values]) -> Block:
    """The parameters of an operator with values for each sample; the others are those that it has."""
    # of what a sample is, its type alone matters to these operators
    constant = constant_of(op, Spec(1, 1, 1, specs[0].channels, specs[0].dtype))
    rows = constant.rows.repeat(len(specs))
    rows["acts"] = 1
    for name in values[0]:
        rows[name] = [given[name] for given in values]
    if op.derived and derives_anew(op, values[0].keys()):
        for name, value in op.derive(rows, specs[0]).items():
            rows[name] = value
    return Block(rows, tuple(range(len(rows))), 0)
