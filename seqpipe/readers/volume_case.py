"""From a case's files to patches: opened, checked, brought to one grid, placed and cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..array import FloatArray
from ..errors import SourceError, UnreadableSourceError
from ..param import Param, choice
from ..sequence import Sequence
from ..volume.disk import DiskCache
from ..volume.info import VolumeInfo
from ..volume.patches.cutting import ClassIndex, PatchPad, WeightIndex, centered, cut_patch, uniform_start
from ..volume.reader import VolumeReader
from ..volume.resampling.regrid import TargetGrid, window_of
from ..volume.source import Box
from ..volume.space import moved
from .volume_list import Case

__all__ = [
    "ALIGN",
    "DTYPE",
    "FOREGROUND",
    "PATCHES_PER_VOLUME",
    "SAMPLER",
    "Opened",
    "PatchSampling",
    "Preparation",
    "Rule",
    "cut",
    "facts_of",
    "opened",
]

PatchSampling: TypeAlias = Literal["uniform", "balanced", "classes", "weighted"]

SAMPLER: Final = choice(
    "sampler",
    "Where patches are cut: anywhere, around foreground, around voxels of classes, or by a map of weights",
    ("uniform", "balanced", "classes", "weighted"),
)
FOREGROUND: Final = Param(
    name="foreground", doc="The share of patches around a labeled voxel", kind=float, lo=0, hi=1
)
PATCHES_PER_VOLUME: Final = Param(
    name="patches_per_volume", doc="Patches of each volume in an epoch", lo=1, hi=1_000_000
)
ALIGN: Final = choice(
    "align",
    "What becomes of parts on different grids: refused, or brought to the first one's",
    ("none", "first"),
)
DTYPE: Final = choice("dtype", "The type of images", ("int16", "float16", "float32"), optional=True)

_INTEGERS: Final = (np.uint8, np.int16, np.uint16, np.int32)


@dataclass(frozen=True)
class Preparation:
    """What is made of a case's volumes before patches are cut; the same for all.

    Attributes:
        labels: names of the parts that hold labels.
        orientation: such as ``"RAS"``, or None for the files' own.
        spacing_mm: or None for the files' own.
        align: what becomes of parts on different grids.
        dtype: of images, None for that of the scaled values.
    """

    labels: frozenset[str]
    orientation: str | None
    spacing_mm: tuple[float, ...] | None
    align: str
    dtype: str | None


@dataclass(frozen=True)
class Rule:
    """How patches are placed.

    Attributes:
        patch: slices, rows and columns; None for whole volumes.
        sampler: which rule.
        foreground: for ``"balanced"``: the share of patches around a labeled voxel.
        class_weights: for ``"classes"``: class → how often it is chosen, among those that are there.
        weights: for ``"weighted"``: the part that is the map.
        label: the part that holds the classes.
        pad: what becomes of volumes that are smaller than a patch.
        fill: the value around images.
    """

    patch: tuple[int, int, int] | None
    sampler: PatchSampling
    foreground: float
    class_weights: tuple[tuple[int, float], ...]
    weights: str | None
    label: str | None
    pad: PatchPad
    fill: float


@dataclass(frozen=True, eq=False)
class Opened:
    """A case in memory.

    Attributes:
        parts: name → volume as it is stored, in the orientation that is asked for.
        grids: name → the grid that a part is brought to, where that is another one than its own. Patches alone are
            interpolated, not the whole.
        classes: where the rule needs it, of the labels as they are stored.
        weights: the same of the map.
    """

    parts: Mapping[str, Sequence]
    grids: Mapping[str, TargetGrid]
    classes: ClassIndex | None
    weights: WeightIndex | None

    @property
    def nbytes(self) -> int:
        """The bytes that it holds."""
        held = sum(int(part.data.nbytes) for part in self.parts.values())
        return held + (0 if self.classes is None else self.classes.counts.nbytes)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Slices, rows and columns."""
        name, first = next(iter(self.parts.items()))
        depth, height, width = self.grids[name].shape if name in self.grids else first.shape[-4:-1]
        return depth, height, width

    def on_grid(self, name: str, voxel: tuple[int, int, int]) -> tuple[int, int, int]:
        """The voxel of the grid that is nearest to a stored voxel of a part."""
        if name not in self.grids:
            return voxel
        matrix = np.linalg.inv(self.grids[name].affine) @ np.asarray(self.parts[name].affine)
        place = np.rint(matrix @ [*voxel, 1.0])[:3].astype(np.int64)
        depth, height, width = np.clip(place, 0, np.array(self.grid) - 1).tolist()
        return depth, height, width

    def window(self, name: str, box: Box) -> Sequence:
        """A window of a part on its grid."""
        part = self.parts[name]
        grid = self.grids.get(name)
        if grid is None:
            data = part.data[(..., *box.slices, slice(None))]
            return replace(part, data=data, affine=moved(np.asarray(part.affine), box.start))
        depth, height, width = part.shape[-4:-1]
        data = window_of(
            grid,
            box,
            (depth, height, width),
            np.asarray(part.affine),
            lambda b: part.data[(..., *b.slices, slice(None))],
        )
        return replace(part, data=data, affine=moved(grid.affine, box.start))


def facts_of(case: Case, preparation: Preparation) -> VolumeInfo:
    """The facts of the first part as it is given, once all headers were read and fit together; no voxel is read.

    Raises:
        SourceError: a file cannot be opened, or parts are on different grids and are not to be aligned.
    """
    with _readers(case, preparation) as readers:
        return next(iter(readers.values())).info


def opened(case: Case, preparation: Preparation, rule: Rule, disk: DiskCache | None = None) -> Opened:
    """Read a case.

    Args:
        case: its files.
        preparation: what is made of them.
        rule: how patches are placed.
        disk: where volumes are kept, or None.

    Raises:
        SourceError: a file cannot be read, or labels are not whole numbers.
    """
    parts: dict[str, Sequence] = {}
    grids: dict[str, TargetGrid] = {}
    with _readers(case, preparation) as readers:
        for name, reader in readers.items():
            if reader.grid is not None:
                grids[name] = reader.grid
            make = partial(_prepared, reader.on_own_grid(), preparation, is_label=name in preparation.labels)
            parts[name] = make() if disk is None else disk.get(_stamp(reader, name, preparation), make)
    classes = weights = None
    if rule.sampler in ("balanced", "classes") and rule.label is not None:
        labels = parts[rule.label]
        if labels.layout != "DHWC" or labels.shape[-1] != 1:
            raise UnreadableSourceError(
                f"labels {labels.shape} {labels.layout} are no single volume",
                source=labels.source,
                allowed="DHWC, one channel",
            )
        classes = ClassIndex.of(labels.data)
    if rule.sampler == "weighted" and rule.weights is not None:
        weights = WeightIndex.of(parts[rule.weights].data, parts[rule.weights].source)
    return Opened(parts, grids, classes, weights)


def _prepared(reader: VolumeReader, preparation: Preparation, *, is_label: bool) -> Sequence:
    """A whole part on its own grid: scaled, of the type that is asked for."""
    found = reader.sequence().scaled()
    if is_label:
        return _as_labels(found)
    if preparation.dtype is not None:
        return replace(found, data=_cast(found.data, preparation.dtype))
    return found


def _stamp(reader: VolumeReader, name: str, preparation: Preparation) -> list[Any] | None:
    """What a prepared part depends on; None where its files have no identity."""
    stamp = reader.stamp()
    if stamp is None:
        return None
    return [stamp, name in preparation.labels, preparation.orientation, preparation.dtype]


def cut(
    case: Opened, rule: Rule, labels: frozenset[str], draws: FloatArray
) -> tuple[dict[str, Sequence], str]:
    """The patch that some draws place, of every part at the same place; and a note where the rule could not be kept.

    Args:
        case: in memory.
        rule: how patches are placed.
        labels: names of the parts that hold labels, which are filled up by 0.
        draws: numbers from 0 to below 1; see :func:`seqpipe.sampling.blocks.patch_draws`.
    """
    if rule.patch is None:
        return {name: case.window(name, Box.whole(case.grid)) for name in case.parts}, ""
    start, note = _start(case, rule, draws.tolist())
    spans = [(max(0, s), min(n, s + p)) for s, p, n in zip(start, rule.patch, case.grid, strict=True)]
    box = Box(spans[0], spans[1], spans[2])
    inner = [s - b for s, b in zip(start, box.start, strict=True)]
    fills = {name: 0.0 if name in labels else rule.fill for name in case.parts}
    made = {n: cut_patch(case.window(n, box), inner, rule.patch, rule.pad, fills[n]) for n in case.parts}
    return made, note


def _start(case: Opened, rule: Rule, draws: Seq[float]) -> tuple[tuple[int, int, int], str]:
    patch = rule.patch or case.grid
    uniform = uniform_start(draws[3:6], case.grid, patch)
    if case.weights is not None:
        voxel = case.weights.voxel(draws[2])
        if voxel is None:
            return uniform, "all weights are 0: patches are cut anywhere"
        return centered(case.on_grid(rule.weights or "", voxel), case.grid, patch), ""
    if case.classes is None or (rule.sampler == "balanced" and draws[0] >= rule.foreground):
        return uniform, ""
    present = case.classes.present
    if rule.sampler == "balanced":
        wanted = {number: 1.0 for number in present if number}
    elif rule.class_weights:
        wanted = {number: weight for number, weight in rule.class_weights if weight > 0 and number in present}
    else:
        wanted = dict.fromkeys(present, 1.0)
    if not wanted:
        what = "no voxel is labeled" if rule.sampler == "balanced" else "none of the classes is there"
        return uniform, f"{what}: patches are cut anywhere"
    numbers = sorted(wanted)
    shares = np.cumsum([wanted[number] for number in numbers])
    chosen = min(int(np.searchsorted(shares, draws[1] * shares[-1], side="right")), len(numbers) - 1)
    voxel = case.on_grid(rule.label or "", case.classes.voxel(numbers[chosen], draws[2]))
    return centered(voxel, case.grid, patch), ""


@contextmanager
def _readers(case: Case, preparation: Preparation) -> Iterator[dict[str, VolumeReader]]:
    """The case's volumes, all on one grid, headers read."""
    with ExitStack() as stack:
        readers: dict[str, VolumeReader] = {}
        for name, path in case.parts.items():
            reader = stack.enter_context(VolumeReader(path))
            readers[name] = (
                reader if preparation.orientation is None else reader.reorient(preparation.orientation)
            )
        names = iter(readers)
        first = next(names)
        if preparation.spacing_mm is not None:
            readers[first] = _resampled(first, readers[first], preparation, spacing_mm=preparation.spacing_mm)
        for name in names:
            reader = readers[name]
            if preparation.spacing_mm is not None and preparation.align == "none":
                reader = _resampled(name, reader, preparation, spacing_mm=preparation.spacing_mm)
            if not reader.info.same_grid(readers[first].info):
                if preparation.align == "none":
                    raise _apart(case, first, name, readers[first].info, reader.info)
                reader = _resampled(name, readers[name], preparation, like=readers[first])
            readers[name] = reader
        yield readers


def _resampled(name: str, reader: VolumeReader, preparation: Preparation, **grid: Any) -> VolumeReader:
    is_label = name in preparation.labels
    return reader.resample(
        interp="vote" if is_label else "linear", fill_value=0 if is_label else None, **grid
    )


def _apart(case: Case, first: str, other: str, one: VolumeInfo, two: VolumeInfo) -> SourceError:
    return UnreadableSourceError(
        f"{first} and {other} are on different grids: {one.where()}; {two.where()}",
        source=case.parts[other],
        advice=f"align='first' brings all parts to the grid of {first}; or resample the file",
    )


def _as_labels(found: Sequence) -> Sequence:
    """Labels as the smallest type of whole numbers that holds them."""
    data = found.data
    if data.dtype.kind == "f":
        whole = np.rint(data)
        if not np.array_equal(whole, data):
            bad = data[whole != data].flat[0]
            raise UnreadableSourceError(
                f"the label {bad} is not a whole number",
                source=found.source,
                advice="Name it as an image, not as a label",
            )
        data = whole
    if data.dtype.kind == "f" or data.dtype.itemsize > 2:
        low, high = data.min(initial=0), data.max(initial=0)
        kind = next((k for k in _INTEGERS if np.iinfo(k).min <= low and high <= np.iinfo(k).max), None)
        if kind is None:
            raise UnreadableSourceError(
                f"labels go from {low} to {high}", source=found.source, allowed="32 bits"
            )
        data = data.astype(kind)
    return replace(found, data=data)


def _cast(data: Any, dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "i" and data.dtype != kind:
        limits = np.iinfo(kind)
        data = np.clip(np.rint(data) if data.dtype.kind == "f" else data, limits.min, limits.max)
    return data.astype(kind, copy=False)
