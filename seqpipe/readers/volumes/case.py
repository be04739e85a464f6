"""Loading of one case: open and check its parts, align them to one grid, choose and cut patches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from ...array import FloatArray, overlap, to_cupy
from ...core.limits import main_memory_bytes
from ...errors import SourceError, UnreadableSourceError
from ...sequence import Sequence
from ...volume.disk import DiskCache
from ...volume.info import VolumeInfo
from ...volume.patches.cutting import ClassIndex, WeightIndex, centered, cut_patch, uniform_start
from ...volume.reader import VolumeReader
from ...volume.regrid import TargetGrid, window_of
from ...volume.source import AnyArray, Box
from ...volume.space import moved
from .listing import Case
from .options import Patch, Prepare, VolumeTake

__all__ = ["LoadedCase", "VolumeRules", "cut_at", "load_case", "patch_start", "read_info"]

_EDGE: Final = 1e-6
_CLOSE: Final = 0.01  # distance from whole numbers at which floats are rounded to classes
_FARTHEST: Final = 0.25  # the same for files that quantize floats by a slope
_INTEGERS: Final = (np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64)


@dataclass(frozen=True)
class VolumeRules:
    """What is made of every case.

    Attributes:
        take: positions and padding of patches.
        prepare: orientation, spacing, alignment and dtype.
        labels: names of the parts that hold labels; the classes of patches are those of the first.
    """

    take: VolumeTake
    prepare: Prepare
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LoadedCase:
    """A case in memory.

    Attributes:
        parts: volumes by name, as stored, in the requested orientation; scaling, casts and interpolation apply to
            patches, not to whole volumes.
        grids: target grids of parts that are resampled.
        dtypes: dtypes that patches of a part are cast to.
        region: box of the grid that patches are cut from.
        classes: index of the stored label voxels by class, if the sampler needs it.
        weights: index of the stored map of weights, if the sampler needs it.
        begin: the stored voxel at which ``classes`` or ``weights`` begins.
        notes: files and what was changed in their values.
        voxels: number of voxels that were read from files.
    """

    parts: Mapping[str, Sequence]
    grids: Mapping[str, TargetGrid]
    dtypes: Mapping[str, str]
    region: Box
    classes: ClassIndex | None = None
    weights: WeightIndex | None = None
    begin: tuple[int, int, int] = (0, 0, 0)
    notes: tuple[tuple[str, str], ...] = ()
    voxels: int = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        total = sum(int(part.data.nbytes) for part in self.parts.values())
        return total + (0 if self.classes is None else self.classes.counts.nbytes)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Slices, rows and columns that patches are cut from."""
        return self.region.shape

    def on_gpu(self, number: int) -> LoadedCase:
        """Return the case with its volumes on a GPU; volumes that are resampled stay in main memory."""
        parts = {
            name: part
            if name in self.grids
            else part.with_pixels(to_cupy(np.ascontiguousarray(part.data), number), part.layout)
            for name, part in self.parts.items()
        }
        return replace(self, parts=parts)

    def on_grid(self, name: str, voxel: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the voxel of the region that is nearest to a voxel of a part's index."""
        index = np.add(voxel, self.begin)
        if name in self.grids:
            matrix = np.linalg.inv(self.grids[name].affine) @ np.asarray(self.parts[name].affine)
            index = np.rint(matrix @ [*index, 1.0])[:3].astype(np.int64)
        inner = index - self.region.start
        depth, height, width = np.clip(inner, 0, np.array(self.grid) - 1).tolist()
        return depth, height, width

    def window(self, name: str, box: Box) -> Sequence:
        """Return a window of a part, within the region, on its target grid."""
        part, grid = self.parts[name], self.grids.get(name)
        box = box.shifted(self.region.start)

        def read(stored: Box) -> AnyArray:
            data = part.data[(..., *stored.slices, slice(None))]
            scaled = replace(part, data=data).scaled().data
            cast: AnyArray = _cast(scaled, self.dtypes[name]) if name in self.dtypes else scaled
            return cast

        affine = np.asarray(part.affine)
        if grid is None:
            data = read(box)
        else:
            data = window_of(grid, box, _grid_of(part), affine, read)
            affine = grid.affine
        return replace(part, data=data, affine=moved(affine, box.start), scale=None)


def read_info(case: Case, rules: VolumeRules) -> VolumeInfo:
    """Read the headers of all parts, check that their grids match, and return the first part's info."""
    with _readers(case, rules) as readers:
        return next(iter(readers.values())).info


def load_case(
    case: Case, rules: VolumeRules, disk: DiskCache | None = None, box: Box | None = None
) -> LoadedCase:
    """Read a case into memory."""
    prepare = rules.prepare
    parts: dict[str, Sequence] = {}
    grids: dict[str, TargetGrid] = {}
    notes: list[tuple[str, str]] = []
    sizes: list[int] = []
    with _readers(case, rules) as readers:
        if box is None:
            _check_memory(case, readers)
        for name, reader in readers.items():
            if reader.grid is not None:
                grids[name] = reader.grid
            is_label = name in rules.labels
            read = partial(
                _read_part,
                reader.on_own_grid(),
                notes,
                sizes,
                is_label=is_label,
                as_channels=prepare.series_as_channels,
                box=box,
            )
            part = read() if disk is None else disk.get(_cache_key(reader, prepare, is_label=is_label), read)
            parts[name] = part.of_kind("labels") if is_label else part
    dtype = prepare.dtype
    dtypes = {} if dtype is None else {name: dtype for name in parts if name not in rules.labels}
    first = next(iter(parts))
    size = grids[first].shape if first in grids else _grid_of(parts[first])
    loaded = LoadedCase(parts, grids, dtypes, Box.whole(size), notes=tuple(notes), voxels=sum(sizes))
    if prepare.crop_above is not None:
        loaded = replace(loaded, region=_region(loaded, first, prepare.crop_above, rules.take.patch))
    return _with_index(loaded, rules)


def _check_memory(case: Case, readers: Mapping[str, VolumeReader]) -> None:
    """Refuse a case whose voxels, as they are stored, are more than the main memory holds."""
    needed, most = sum(reader.on_own_grid().info.nbytes for reader in readers.values()), main_memory_bytes()
    if needed > most:
        raise UnreadableSourceError(
            f"the case takes {needed / 2**30:.3g} GiB",
            source=case.key,
            allowed=f"up to the main memory of {most / 2**30:.3g} GiB",
            advice="Cut it into smaller files, or write it at a coarser spacing: seqpipe resample IN OUT --spacing MM",
        )


def _with_index(case: LoadedCase, rules: VolumeRules) -> LoadedCase:
    """Return the case with the index of classes or weights that the positions of patches need."""
    take = rules.take
    if take.around in ("balanced", "classes"):
        labels = case.parts[rules.labels[0]]
        if labels.layout != "DHWC":
            labels = _single(labels, "labels")
        inside = _stored_region(case, rules.labels[0])
        return replace(
            case, classes=ClassIndex.of(labels.data[inside.slices], labels.source), begin=inside.start
        )
    if isinstance(take, Patch) and take.weights is not None:
        weights = _single(case.parts[take.weights], "weights")
        inside = _stored_region(case, take.weights)
        values = replace(weights, data=weights.data[inside.slices]).scaled().data
        return replace(case, weights=WeightIndex.of(values, weights.source), begin=inside.start)
    return case


def _single(part: Sequence, what: str) -> Sequence:
    """Return labels or weights, if they have one value for each voxel."""
    if part.layout != "DHWC" or part.shape[-1] != 1:
        raise UnreadableSourceError(
            f"{what} {part.shape} {part.layout} are not a single volume",
            source=part.source,
            allowed="DHWC, one channel",
        )
    return part


def _grid_of(part: Sequence) -> tuple[int, int, int]:
    """Return slices, rows and columns of a part."""
    depth, height, width = part.shape[-4:-1]
    return depth, height, width


def _region(case: LoadedCase, name: str, above: float, patch: tuple[int, int, int] | None) -> Box:
    """Return the box of the grid around the voxels of a part above a value, at least as large as a patch if it fits.

    The box is the whole grid if no voxel is above the value.
    """
    part = case.parts[name]
    sizes = _grid_of(part)
    planes = part.data if part.layout == "FDHWC" else part.data[None]
    hits = [np.zeros(size, bool) for size in sizes]
    for depth in range(sizes[0]):
        mask = (replace(part, data=planes[:, depth : depth + 1], layout="FDHWC").scaled().data > above).any(
            axis=(0, 1, 4)
        )
        rows = mask.any(axis=1)
        hits[0][depth] = rows.any()
        hits[1] |= rows
        hits[2] |= mask.any(axis=0)
    if not hits[0].any():
        return case.region
    spans = [(int(indices[0]), int(indices[-1]) + 1) for indices in map(np.flatnonzero, hits)]
    box = Box(spans[0], spans[1], spans[2])
    whole = case.grid
    if name in case.grids:
        box = _covered(np.linalg.inv(case.grids[name].affine) @ np.asarray(part.affine), box, whole)
    wanted = (1, 1, 1) if patch is None else patch
    spans = [_widened(span, want, size) for span, want, size in zip(box.ranges, wanted, whole, strict=True)]
    return Box(spans[0], spans[1], spans[2])


def _stored_region(case: LoadedCase, name: str) -> Box:
    """Return the box of a part's stored voxels that the region covers."""
    if name not in case.grids:
        return case.region
    part = case.parts[name]
    matrix = np.linalg.inv(np.asarray(part.affine)) @ case.grids[name].affine
    return _covered(matrix, case.region, _grid_of(part))


def _covered(matrix: FloatArray, box: Box, grid: tuple[int, int, int]) -> Box:
    """Return the voxels of a grid that a box of another grid touches, at least one; ``matrix`` maps to its indices."""
    ends = [(start - 0.5, stop - 0.5) for start, stop in box.ranges]
    corners = np.array([[*corner, 1.0] for corner in product(*ends)])
    mapped = (corners @ matrix.T)[:, :3] + 0.5  # shifted by half a voxel, so that voxel borders are integers
    low = np.clip(np.floor(mapped.min(axis=0) + _EDGE).astype(int), 0, np.array(grid) - 1)
    high = np.clip(np.ceil(mapped.max(axis=0) - _EDGE).astype(int), low + 1, grid)
    spans = list(zip(low.tolist(), high.tolist(), strict=True))
    return Box(spans[0], spans[1], spans[2])


def _widened(span: tuple[int, int], wanted: int, size: int) -> tuple[int, int]:
    """Widen a range around its middle to ``wanted`` indices, or to all ``size`` indices if there are fewer."""
    start, stop = span
    wanted = min(max(wanted, stop - start), size)
    start = min(max(start - (wanted - (stop - start)) // 2, 0), size - wanted)
    return start, start + wanted


def _read_part(
    reader: VolumeReader,
    notes: list[tuple[str, str]],
    sizes: list[int],
    *,
    is_label: bool,
    as_channels: bool,
    box: Box | None,
) -> Sequence:
    """Read a part on its own grid, as stored; labels as integers, a series as one volume if requested."""
    info = reader.info
    needs_all = is_label and (
        info.scale is not None or info.dtype.kind not in "biu" or info.dtype.itemsize > 2
    )
    part = reader.sequence(None if needs_all else box, stored=True)
    sizes.append(int(part.data.size))
    if as_channels and part.layout == "FDHWC":
        data = np.moveaxis(part.data, 0, 3)
        channels = data.reshape(*data.shape[:3], -1)
        part = replace(part, data=channels, layout="DHWC", frames=None, timestamps=None)
    if not is_label:
        return part
    labels, note = _as_labels(part)
    if note:
        notes.append((part.source, note))
    if box is None or not needs_all:
        return labels
    data = labels.data[(..., *box.slices, slice(None))]
    return replace(labels, data=data, affine=moved(labels.affine, box.start))


def _cache_key(reader: VolumeReader, prepare: Prepare, *, is_label: bool) -> list[Any] | None:
    """Return everything that a loaded part depends on; None for files without a stamp, which are not cached."""
    stamp = reader.stamp()
    if stamp is None:
        return None
    more = ["channels"] if prepare.series_as_channels else []
    return [stamp, is_label, prepare.orientation, *more]


def cut_at(case: LoadedCase, start: Seq[int], patch: Seq[int], rules: VolumeRules) -> dict[str, Sequence]:
    """Cut the patch that begins at a voxel of every part; it shares no memory with the case."""
    spans = [(max(0, s), min(n, s + p)) for s, p, n in zip(start, patch, case.grid, strict=True)]
    box = Box(spans[0], spans[1], spans[2])
    windows = {name: case.window(name, box) for name in case.parts}
    if rules.take.patch is not None:
        windows = {n: replace(window, frames=None, timestamps=None) for n, window in windows.items()}
    if box.start == tuple(start) and box.shape == tuple(patch):
        return {name: _own(window, case.parts[name]) for name, window in windows.items()}
    inner = [s - b for s, b in zip(start, box.start, strict=True)]
    fills = {name: 0.0 if name in rules.labels else rules.take.fill for name in case.parts}
    return {n: cut_patch(window, inner, patch, rules.take.pad, fills[n]) for n, window in windows.items()}


def _own(window: Sequence, part: Sequence) -> Sequence:
    """Return a window in memory of its own."""
    if window.data.flags.c_contiguous and not overlap(window.data, part.data):
        return window
    return replace(window, data=window.data.copy())


def patch_start(case: LoadedCase, rules: VolumeRules, draws: FloatArray) -> tuple[tuple[int, int, int], str]:
    """Return the first voxel of a patch, and why it lies anywhere if its rule could not be applied, else ""."""
    take = rules.take
    numbers = draws.tolist()
    if not isinstance(take, Patch):
        return (0, 0, 0), ""
    patch = take.patch
    uniform = uniform_start(numbers[3:6], case.grid, patch)
    if case.weights is not None:
        voxel = case.weights.voxel(numbers[2])
        if voxel is None:
            return uniform, "all weights are 0: patches are cut anywhere"
        return centered(case.on_grid(take.weights or "", voxel), case.grid, patch), ""
    at_rest = take.around == "balanced" and numbers[0] >= take.foreground
    if case.classes is None or (at_rest and take.ignore is None):
        return uniform, ""
    present = {number: count for number, count in case.classes.present.items() if number != take.ignore}
    if at_rest:
        wanted = {number: float(count) for number, count in present.items() if number >= 0}
    elif take.around == "balanced":
        wanted = {number: 1.0 for number in present if number > 0}
    elif take.class_weights:
        wanted = {number: w for number, w in take.class_weights.items() if w > 0 and number in present}
    else:
        wanted = dict.fromkeys(present, 1.0)
    if not wanted:
        fact = "no voxel is labeled" if take.around == "balanced" else "no voxel has one of the classes"
        return uniform, f"{fact}: patches are cut anywhere"
    classes = sorted(wanted)
    shares = np.cumsum([wanted[number] for number in classes])
    chosen = min(int(np.searchsorted(shares, numbers[1] * shares[-1], side="right")), len(classes) - 1)
    voxel = case.on_grid(rules.labels[0], case.classes.voxel(classes[chosen], numbers[2]))
    return centered(voxel, case.grid, patch), ""


@contextmanager
def _readers(case: Case, rules: VolumeRules) -> Iterator[dict[str, VolumeReader]]:
    """Open the case's volumes on one common grid; only headers are read."""
    prepare = rules.prepare
    with ExitStack() as stack:
        readers: dict[str, VolumeReader] = {}
        for name, path in case.parts.items():
            reader = stack.enter_context(VolumeReader(path))
            readers[name] = reader if prepare.orientation is None else reader.reorient(prepare.orientation)
        names = iter(readers)
        first = next(names)
        if prepare.spacing_mm is not None:
            readers[first] = _resampled(first, readers[first], rules, spacing_mm=prepare.spacing_mm)
        for name in names:
            reader = readers[name]
            if prepare.spacing_mm is not None and prepare.align == "none":
                reader = _resampled(name, reader, rules, spacing_mm=prepare.spacing_mm)
            if not reader.info.same_grid(readers[first].info):
                if prepare.align == "none":
                    raise _different_grids(case, first, name, readers[first].info, reader.info)
                reader = _resampled(name, readers[name], rules, like=readers[first])
            readers[name] = reader
        yield readers


def _resampled(name: str, reader: VolumeReader, rules: VolumeRules, **grid: Any) -> VolumeReader:
    """Return a reader on another grid, by the rules of images or of labels."""
    is_label = name in rules.labels
    return reader.resample(
        interp="vote" if is_label else rules.prepare.interp,
        antialias=rules.prepare.antialias,
        fill_value=0 if is_label else None,
        **grid,
    )


def _different_grids(case: Case, first: str, other: str, one: VolumeInfo, two: VolumeInfo) -> SourceError:
    """Return the error for two parts on different grids."""
    return UnreadableSourceError(
        f"{first} and {other} are on different grids: {one.where()}; {two.where()}",
        source=str(case.parts[other]),
        advice=f"align='first' brings all parts to the grid of {first}; or resample the file",
    )


def _as_labels(part: Sequence) -> tuple[Sequence, str]:
    """Return labels in the smallest integer dtype that holds them, and a note if they were rounded."""
    data, note = part.scaled().data, ""
    if data.dtype.kind not in "biuf":
        raise UnreadableSourceError(
            f"labels are of {data.dtype}",
            source=part.source,
            allowed="integers, and floats that are whole numbers",
        )
    if data.dtype.kind == "f":
        rounded = np.rint(data)
        if not np.array_equal(rounded, data):
            note = _rounding_note(part, data, rounded)
        data = rounded
    if data.dtype.kind == "f" or data.dtype.itemsize > 2:
        low, high = data.min(initial=0), data.max(initial=0)
        kind = next((k for k in _INTEGERS if np.iinfo(k).min <= low and high <= np.iinfo(k).max), None)
        if kind is None:
            raise UnreadableSourceError(
                f"labels go from {low} to {high}", source=part.source, allowed="64 bits"
            )
        data = data.astype(kind)
    return replace(part, data=data, scale=None), note


def _rounding_note(part: Sequence, data: AnyArray, rounded: AnyArray) -> str:
    """Return the note on labels that were rounded."""
    step = 0.0 if part.scale is None else abs(part.scale[0])
    allowed = max(_CLOSE, min(step / 2, _FARTHEST))
    apart = np.abs(data - rounded)
    if not (worst := float(apart.max())) <= allowed:  # NaN is refused, too
        bad = data[~(apart <= allowed)].flat[0]
        raise UnreadableSourceError(
            f"the label {bad} is not a whole number",
            source=part.source,
            allowed=f"whole numbers, to {allowed:.3g}",
            advice="Name it as an image, not as a label",
        )
    return f"labels are up to {worst:.2g} from whole numbers, such as {data[apart > 0].flat[0]}: they are rounded"


def _cast(data: Any, dtype: str) -> Any:
    """Return values in a dtype; integers are rounded and saturate."""
    kind = np.dtype(dtype)
    if kind.kind == "i" and data.dtype != kind:
        limits = np.iinfo(kind)
        data = np.clip(np.rint(data) if data.dtype.kind == "f" else data, limits.min, limits.max)
    return data.astype(kind, copy=False)
