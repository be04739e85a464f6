"""Volumes as a source of patches, whole volumes, or overlapping patches of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..array import IntArray
from ..core.keywords import refuses_unknown
from ..dataset.dataset import Dataset
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult
from ..errors import ParameterError, SeqpipeError, UnreadableSourceError, described_type
from ..ops import Chain, Spec, Type
from ..ops.volume.base import VolumeChain, Volumetric
from ..ops.volume.plan import sampled_parameters
from ..ops.volume.spatial import Crop3d, Flip3d, Rot90
from ..ops.volume.state import VoxelGrid
from ..pipeline.fusion import Fuse, Split
from ..readers.report import Report, ReportBook
from ..readers.volumes.case import VolumeRules, read_info
from ..readers.volumes.fetch import PatchSelection, VolumeFetcher
from ..readers.volumes.listing import Case, Cases, cases
from ..readers.volumes.options import Cache, Grid, Patch, Prepare, VolumeTake, Whole
from ..resampling.mapping import Mapping3
from ..sampling.params import ON_ERROR, SEED, SHUFFLE, OnError
from ..video.device import Device, parse_device
from ..volume.info import VolumeInfo
from ..volume.source import Box

__all__ = ["Cases", "CropHead", "PatchSource", "cases", "volumes"]


@dataclass(frozen=True)
class CropHead:
    """Crops at the start of a chain, of which the result alone is read.

    Attributes:
        ops: the crops; none of them pads.
        how: what is read, for :meth:`explain`.
    """

    ops: tuple[Crop3d, ...]
    how: str

    @classmethod
    def split(cls, chain: Chain, how: str, reason: str) -> Split:
        """Divide a chain into its leading crops and the rest."""
        first = chain.composed_ops()[0]
        together = first.groups()[0] if isinstance(first, VolumeChain) else ()
        count = 0
        for op, member in zip(() if reason else together, chain.ops, strict=False):
            if reason := _refusal(op) if member is op else "it is in a chain of its own":
                break
            count += 1
        # one gather of several operators reads voxels outside of the crop, unless none of them needs any
        others = [op.name for op in together[count:] if not _stays_within(op)]
        if count and others:
            count, reason = 0, f"{others[0]} is composed with it into one gather"
        rest = chain.ops[count:]
        if not isinstance(chain.ops[0], Crop3d):
            reason = ""
        head = cls(tuple(chain.ops[:count]), how) if count else None
        return Split(head, Chain.part(rest, chain.fuse) if rest else None, reason)

    @property
    def size(self) -> tuple[int, int, int]:
        """Slices, rows and columns of the result."""
        return self.ops[-1].size

    def box(self, grid: tuple[int, int, int], epoch: int, index: int) -> Box:
        """See :class:`seqpipe.readers.volumes.fetch.CropOfPatches`."""
        mapping = Mapping3(grid)
        for op in self.ops:
            (drawn,) = sampled_parameters(op, [Spec(*mapping.size, 1, "uint8")], epoch, [index])
            mapping = op.moved(mapping, drawn, VoxelGrid(mapping.size))
        return Box.whole(self.size).shifted(mapping.matrix[:3, 3].astype(int).tolist())

    def explain(self) -> str:
        """Describe the crops in a line."""
        return f"{' → '.join(op.name for op in self.ops)}: by the reader, {self.how}"


def _stays_within(op: Volumetric) -> bool:
    """Return whether an operator only moves voxels that it gets."""
    return isinstance(op, (Flip3d, Rot90)) or (isinstance(op, Crop3d) and op.pad_mode == "none")


def _refusal(op: Volumetric) -> str:
    """Return why an operator is not a crop that can be part of reading, as a clause; "" if it is one."""
    if not isinstance(op, Crop3d):
        return "it is no crop"
    if op.pad_mode != "none":
        return f"pad_mode={op.pad_mode!r} may add voxels"
    if op.p != 1:
        return f"it applies to some samples only, with p={op.p:g}"
    return "its parameters have one value for each sample of a call" if op.tabled else ""


@dataclass(frozen=True, eq=False)
class PatchSource:
    """Patches of volumes; the parts of a sample are those of the cases, labels marked as such.

    Attributes:
        selection: what is cut of which volumes.
        fetcher: reads samples by their indices.
        shuffle: whether each epoch has a new order.
    """

    selection: PatchSelection
    fetcher: VolumeFetcher
    shuffle: bool
    name: str = "volumes"

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.selection.total

    @property
    def unit(self) -> int:
        """The patches of a volume stay together."""
        return self.selection.rules.take.per_volume

    @property
    def mix(self) -> int:
        """Number of volumes whose patches are shuffled among each other."""
        return self.selection.rules.take.mix if self.shuffle else 0

    @property
    def fill(self) -> float:
        """Value of voxels around volumes that ``batch(ragged="pad")`` pads to one size."""
        return self.selection.rules.take.fill

    @property
    def seed(self) -> int:
        """Seed of order and samples."""
        return self.selection.seed

    @property
    def device(self) -> str:
        """Device of the samples' arrays."""
        return str(self.fetcher.device)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path or URL of the first part of each volume."""
        return tuple(next(iter(case.parts.values())) for case in self.selection.cases)

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        rules, first = self.selection.rules, self.selection.cases[0]
        patch = rules.take.patch
        shape = None if patch is None else (*patch, None)
        known: dict[str, Type] = {}
        for name in first.parts:
            is_label = name in rules.labels
            dtype = None if is_label else rules.prepare.dtype
            known[name] = Type("labels" if is_label else "images", "DHWC", dtype, self.device, shape)
        number = Type("numbers", "", "int64", "cpu")
        return {**known, "volume": number, "index": number}

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self.selection.facts

    def absorb(self, chain: Chain, fuse: Fuse) -> Split:
        """Divide a chain into leading crops, whose voxels alone are read, and the rest."""
        take, prepare = self.selection.rules.take, self.selection.rules.prepare
        reason = "fuse='none'" if fuse == "none" else ""
        if prepare.spacing_mm is not None or prepare.align != "none":
            reason = reason or "volumes are resampled, and windows may differ from the whole by rounding"
        if take.pad != "none":
            reason = reason or "patches are padded"
        boxes = self.fetcher.cache.reads_boxes
        how = (
            "which reads its box of each volume alone" if boxes else "which cuts it out of volumes in memory"
        )
        return CropHead.split(chain, how, reason)

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        head = heads["image"]
        size = None if head is None else head.size
        return ReadPlan(epoch, indices, self.selection.nbytes(indices, size), head)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:  # noqa: ARG002  patches are stacked afterwards
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self.fetcher.begin(plan.epoch, plan.indices, plan.work)

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return ReadResult(tuple(self.fetcher.finish(work)))

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        work.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The position of each sample's volume in the data set."""
        return {"volume": self.selection.volumes_of(indices)}

    def report(self) -> Report:
        """Return what was lost."""
        return self.fetcher.book.so_far()

    def stats(self) -> dict[str, Any]:
        """Return the numbers of volumes and of voxels that were read so far."""
        return dict(self.fetcher.cache.counts)

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self.fetcher.engine.share_cores(processes)

    def close(self) -> None:
        """Stop the threads and release the volumes."""
        self.fetcher.engine.close()
        self.fetcher.cache.clear()

    def __repr__(self) -> str:
        rules, cases = self.selection.rules, self.selection.cases
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        prepared = "" if rules.prepare == Prepare() else f", {rules.prepare!r}"
        parts = ", ".join(cases[0].parts)
        return (
            f"volumes({len(cases)} volumes, {self.size} samples, {parts}, {rules.take!r}{prepared}{shuffled})"
        )


@refuses_unknown("seqpipe.volumes")
def volumes(
    source: Any,
    take: VolumeTake | int | Seq[int] | None = None,
    *,
    prepare: Prepare | None = None,
    cache: Cache | None = None,
    device: str = "cpu",
    shuffle: bool = False,
    seed: int = 0,
    on_error: OnError = "raise",
) -> Dataset:
    """Return a data set of volumes, or of patches of volumes, with their labels.

    ds = seqpipe.volumes("train", Patch(96, per_volume=4, around="balanced"), shuffle=True).map(augment).batch(2)

    Values are scaled: slope and intercept of a file are applied. Labels are marked as such, so operators
    never blend classes. Parts of a sample: those of the cases (``image``, ``label``, …; sequences ``DHWC``),
    ``volume`` (the position of the case) and ``index``.

    Args:
        source: a folder, a manifest, one volume, a list of paths or of mappings of names to paths, or :func:`cases`.
        take: what is taken of each volume: :class:`Whole`, :class:`Patch` or :class:`Grid`; a number, or three, are the
            size of patches.
        prepare: orientation, spacing and dtype.
        cache: caches of volumes between epochs.
        device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order and of patches.
        on_error: policy for unreadable volumes: "raise", "skip", or "substitute" by a random sample of the data set.

    Raises:
        ParameterError: an argument is out of bounds, or a patch is larger than a volume.
        ManifestError: a line of the manifest is not valid.
        SourceError: a volume cannot be opened and ``on_error`` is "raise"; or no volume can be opened.
        BackendError: the device or a package is not available.
    """
    taken, how, kept = _checked_take(take), prepare or Prepare(), cache or Cache()
    found, policy = parse_device(device), ON_ERROR.check(on_error)
    given = source if isinstance(source, Cases) else cases(source)
    if not len(given):
        raise ParameterError("there is no volume", source="volumes", allowed="one or more")
    rules = VolumeRules(taken, how, given.label_names)
    _check_options(rules, given, kept, found, shuffle=SHUFFLE.check(shuffle))
    book = ReportBook(unit="volumes")
    used, infos = _surveyed(given, rules, policy, book)
    selection = PatchSelection(used, infos, rules, SEED.check(seed))
    book.finished(listed=len(given), used=len(used), samples=selection.total)
    return Dataset(PatchSource(selection, VolumeFetcher(selection, kept, found, policy, book), shuffle))


def _check_options(rules: VolumeRules, given: Cases, cache: Cache, device: Device, *, shuffle: bool) -> None:
    """Raise if options exclude one another, or need a part that does not exist."""
    take, parts = rules.take, ", ".join(given.entries[0].parts)
    if isinstance(take, Grid) and shuffle:
        raise ParameterError("shuffle=True and Grid exclude one another", source="volumes")
    if isinstance(take, Grid) and rules.prepare.crop_above is not None:
        raise ParameterError(
            "crop_above and Grid exclude one another",
            source="volumes",
            advice="A grid covers the whole volume: its size is known before voxels are read",
        )
    if take.around in ("balanced", "classes") and not rules.labels:
        raise ParameterError(
            f"around={take.around!r} needs labels, but the parts are {parts}",
            source="volumes",
            allowed="a part named label, or cases(…, label_names=[…])",
        )
    if isinstance(take, Patch) and take.weights is not None and take.weights not in given.entries[0].parts:
        raise ParameterError(f"weights={take.weights!r} is not a part", source="volumes", allowed=parts)
    if cache.device == "cuda" and device.kind == "cpu":
        raise ParameterError(
            "Cache(device='cuda') and device='cpu' exclude one another",
            source="volumes",
            allowed="volumes(…, device='cuda')",
        )


def _surveyed(
    given: Cases, rules: VolumeRules, on_error: OnError, book: ReportBook
) -> tuple[tuple[Case, ...], tuple[VolumeInfo, ...]]:
    """Return the volumes that can be used, and the facts of their headers."""
    used: list[tuple[Case, VolumeInfo]] = []
    for case in given:
        try:
            info = read_info(case, rules)
            _check_fits(case, info, rules.take)
        except SeqpipeError as error:
            if on_error == "raise":
                raise
            book.note(error.source or case.key, "volume left out", error)
            continue
        used.append((case, info))
    if not used:
        first = book.so_far().losses[0]
        raise UnreadableSourceError(
            f"none of {len(given)} volumes can be opened; the first one: {first.reason}", source=first.source
        )
    return tuple(case for case, _ in used), tuple(info for _, info in used)


def _check_fits(case: Case, info: VolumeInfo, take: VolumeTake) -> None:
    if take.patch is None or take.pad != "none":
        return
    if any(p > n for p, n in zip(take.patch, info.grid, strict=True)):
        raise ParameterError(
            f"size={take.patch} is larger than the volume of {'×'.join(map(str, info.grid))} voxels",
            source=case.key,
            advice="Choose a pad such as 'constant' or 'edge', or a smaller patch",
        )


def _checked_take(take: Any) -> VolumeTake:
    if take is None:
        return Whole()
    if isinstance(take, (int, np.integer, list, tuple)) and not isinstance(take, bool):
        return Patch(take)  # type: ignore[arg-type]  # checked by Patch's reader
    if not isinstance(take, (Whole, Patch, Grid)):
        raise ParameterError(
            f"take is {described_type(take)}",
            source="volumes",
            allowed="Whole(), Patch(size, …), Grid(size, …), or a size",
        )
    if isinstance(take, Whole) and take != Whole():
        raise ParameterError(f"{take!r} has fields of videos", source="volumes", allowed="Whole()")
    return take
