"""Volume: a dataset of patches cut from many volumes, or of the volumes as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, SeqpipeError, UnreadableSourceError
from ..param import Param
from ..sampling.blocks import BlockOrder
from ..sampling.params import EPOCH, ON_ERROR, LastBatch, OnError
from ..video.device import THREADS, parse_device
from ..volume.disk import DiskCache
from ..volume.info import VolumeInfo
from ..volume.patches.cutting import PATCH_PAD, PatchPad, check_patch_size
from ..volume.resampling.regrid import spacing_of_three
from ..volume.space import check_orientation
from .epochs import EpochDataset
from .loader import PassContext
from .params import PREFETCH, PREFETCH_GIB, bytes_ahead, check_index
from .report import ReportBook
from .volume_case import (
    ALIGN,
    DTYPE,
    FOREGROUND,
    PATCHES_PER_VOLUME,
    SAMPLER,
    PatchSampling,
    Preparation,
    Rule,
    facts_of,
)
from .volume_fetch import PatchSample, PatchSelection, VolumeFetcher
from .volume_list import LABEL, Case, in_fold, list_cases
from .volume_pass import VolumeBatches, VolumeSamples, as_parts

__all__ = ["Volume"]

_Path = str | os.PathLike[str]

_OPEN = Param(name="open_volumes", doc="Volumes whose patches are mixed", lo=1, hi=4096, unit="volumes")
_CACHE = Param(
    name="cache_gib",
    doc="Main memory for volumes that are kept from one epoch to the next",
    kind=float,
    lo=0,
    unit="GiB",
)

_DISK = Param(
    name="cache_dir_gib", doc="What the folder of read volumes may hold", kind=float, lo=0, unit="GiB"
)


class Volume(EpochDataset):
    """A dataset of patches, cut from many volumes; images and labels that belong together are cut at the same place.

    A sample is a dictionary of names to sequences ``DHWC`` with their affine: ``sample["image"]``, ``sample["label"]``.
    A patch depends on (seed, epoch, its index) alone, not on threads, batch size, rank, device, or how often iteration
    was stopped. Making a dataset reads headers, no voxels. In an epoch each volume is read once: ``open_volumes``
    of them are in memory, their patches mixed, while the next ones are read.

    Exactly one of ``files``, ``file_root`` and ``manifest`` says which volumes. Where patches are cut:

    =============== ========================================================================================
    ``sampler``     patches
    =============== ========================================================================================
    ``"uniform"``   anywhere
    ``"balanced"``  the share ``foreground`` of them around a labeled voxel, each class that is there as often; the rest
                    anywhere
    ``"classes"``   around a voxel of a class, chosen by ``class_weights`` among those that are there
    ``"weighted"``  around a voxel chosen by the part ``weights``, a map
    =============== ========================================================================================

    Args:
        files: paths and URLs of images; or mappings of names to these, such as ``{"t1": …, "t2": …, "label": …}``.
        file_root: a folder with the folders ``images`` and ``labels`` (or ``imagesTr`` and ``labelsTr``), files of one
            name belonging together; or a folder of images.
        manifest: a CSV or TSV file; its columns are the parts, such as ``image`` and ``label``, and ``subject``.
        labels: for ``files``: a path for each, or None.
        label_names: which parts hold labels: whole numbers, resampled by vote, filled up by 0.
        subjects: for ``files``: whom each belongs to, for folds; by default the file's name.
        fold: ``(number, count)``: leave out the subjects of this fold, as in training.
        validation: take the subjects of the fold instead, and leave out the others.
        patch_size: slices, rows and columns, or one number for all; ``(5, 256, 256)`` gives stacks of 5 slices. None
            gives whole volumes.
        patches_per_volume: how many of each volume in an epoch.
        sampler: where patches are cut.
        foreground: for ``"balanced"``.
        class_weights: for ``"classes"``: class → how often; all that are there equally by default.
        weights: for ``"weighted"``: the name of the part that is the map.
        pad_mode: how a volume that is smaller than a patch is filled up: "constant", "edge", "reflect"; "none" refuses
            it.
        fill_value: of images by "constant"; labels are filled by 0.
        orientation: what volumes are brought to first, such as ``"RAS"``.
        spacing_mm: what volumes are resampled to: one number, or those between slices, rows and columns.
        align: what becomes of parts on different grids: ``"none"`` refuses them, ``"first"`` brings them to that of the
            first part.
        dtype: of images; by default that of the values, slope and intercept applied.
        open_volumes: volumes whose patches are mixed, and which are in memory at once; twice as many may be.
        cache_gib: main memory for volumes that are kept for the next epoch.
        cache_dir: a folder for volumes as they are once they are inflated, turned and cast, in which they are found by
            their files' size and time of change; needs the extra ``blosc2``. None for none.
        cache_dir_gib: what that folder may hold; volumes not used for longest go.
        shuffle: a new order in every epoch: of volumes, and of the patches of those that are open.
        seed: of the order and of the patches.
        shard: ``(rank, world)``: the rank gets its part of every epoch's volumes.
        stick_to_shard: the rank keeps the same volumes in every epoch.
        even_shards: all ranks get equally many patches.
        device: "cpu", "cuda", "cuda:N", or "auto".
        threads: that read and cut; by default one for each core.
        prefetch: batches that are read ahead.
        prefetch_gib: what these may hold; a quarter of the device's memory by default.
        on_error: what becomes of what cannot be read: "raise", "skip" (left out), or "substitute" (a volume that cannot
            be opened is left out, a sample is replaced by the next one of another volume). :meth:`report` names each.

    Raises:
        ParameterError: an argument is out of bounds, or a patch is larger than a volume.
        ManifestError: a line of the manifest cannot be used.
        SourceError: a volume cannot be opened and ``on_error`` is "raise"; or none can be.
        BackendError: the device or a package is not available.
    """

    def __init__(
        self,
        *,
        files: Iterable[_Path | Mapping[str, _Path]] | None = None,
        file_root: _Path | None = None,
        manifest: _Path | None = None,
        labels: Iterable[_Path] | None = None,
        label_names: Iterable[str] = (LABEL,),
        subjects: Iterable[str] | None = None,
        fold: tuple[int, int] | None = None,
        validation: bool = False,
        patch_size: int | Seq[int] | None = None,
        patches_per_volume: int = 1,
        sampler: PatchSampling = "uniform",
        foreground: float = 1 / 3,
        class_weights: Mapping[int, float] | None = None,
        weights: str | None = None,
        pad_mode: PatchPad = "none",
        fill_value: float = 0,
        orientation: str | None = None,
        spacing_mm: float | Seq[float] | None = None,
        align: str = "none",
        dtype: str | None = None,
        open_volumes: int = 4,
        cache_gib: float = 0,
        cache_dir: _Path | None = None,
        cache_dir_gib: float = 100,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        stick_to_shard: bool = False,
        even_shards: bool = False,
        device: str = "cpu",
        threads: int | None = None,
        prefetch: int = 2,
        prefetch_gib: float | None = None,
        on_error: OnError = "raise",
    ) -> None:
        place = self._place = parse_device(device)
        self._on_error: OnError = ON_ERROR.check(on_error)
        self._prefetch = PREFETCH.check(prefetch)
        threads, ahead = THREADS.check(threads), PREFETCH_GIB.check(prefetch_gib)
        many = PATCHES_PER_VOLUME.check(patches_per_volume)
        order: dict[str, Any] = {
            "per_volume": many,
            "block": _OPEN.check(open_volumes),
            "seed": seed,
            "shuffle": shuffle,
            "shard": shard,
            "stick_to_shard": stick_to_shard,
        }
        BlockOrder(volumes=0, **order)
        cases = list_cases(files, file_root, manifest, labels, subjects)
        cases = _of_fold(cases, fold, validation=validation)
        names = frozenset(label_names) & set(cases[0].parts)
        rule = Rule(
            patch=None if patch_size is None else check_patch_size(patch_size),
            sampler=SAMPLER.check(sampler),
            foreground=FOREGROUND.check(foreground),
            class_weights=_class_weights(class_weights),
            weights=weights,
            label=next((name for name in cases[0].parts if name in names), None),
            pad=PATCH_PAD.check(pad_mode),
            fill=float(fill_value),
        )
        _check_rule(rule, cases[0], many)
        preparation = Preparation(
            labels=names,
            orientation=None if orientation is None else check_orientation(orientation),
            spacing_mm=None if spacing_mm is None else spacing_of_three(spacing_mm),
            align=ALIGN.check(align),
            dtype=DTYPE.check(dtype),
        )
        self._book = ReportBook(unit="volumes")
        used, infos = self._survey(cases, preparation, rule)
        selection = PatchSelection(
            tuple(used),
            tuple(info.shape for info in infos),
            BlockOrder(volumes=len(used), even=even_shards, **order),
            preparation,
            rule,
        )
        self._book.finished(listed=len(cases), used=len(used), samples=selection.order.size)
        room = int(_CACHE.check(cache_gib) * 2**30)
        disk = None if cache_dir is None else DiskCache(cache_dir, int(_DISK.check(cache_dir_gib) * 2**30))
        self._selection, self._infos = selection, tuple(infos)
        self._fetcher = VolumeFetcher.of(selection, threads, place, self._on_error, self._book, room, disk)
        fetcher: Any = self._fetcher  # it does what Feed asks of a video's
        self._feed = PassContext(fetcher, bytes_ahead(ahead, place))

    @property
    def total(self) -> int:
        """Samples of an epoch, of all ranks together; indices go from 0 to before this."""
        return self._selection.order.size

    @property
    def infos(self) -> tuple[VolumeInfo, ...]:
        """The facts of each volume's first part, as it is given."""
        return self._infos

    @property
    def cases(self) -> tuple[Case, ...]:
        """The files of each volume."""
        return self._selection.cases

    def __repr__(self) -> str:
        order, rule = self._selection.order, self._selection.rule
        size = (
            "whole" if rule.patch is None else f"patches of {'×'.join(map(str, rule.patch))}, {rule.sampler}"
        )
        parts = [f"{len(self.cases)} volumes", f"{self.total} samples", ", ".join(self.cases[0].parts), size]
        parts += [f"shuffle seed {order.seed}"] if order.shuffle else []
        parts += [f"shard {order.shard[0]} of {order.shard[1]}"] if order.shard[1] > 1 else []
        return f"Volume({'; '.join(parts)})"

    def requests(self, epoch: int | None = None, positions: IntArray | None = None) -> list[PatchSample]:
        """What an epoch consists of, for this rank and in its order: volumes and draws; nothing is read.

        Args:
            epoch: by default the current one.
            positions: places within the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        return self._selection.at(self._feed.epoch if epoch is None else EPOCH.check(epoch), positions)

    def sample(self, index: int, epoch: int | None = None, *, parts: bool = False) -> dict[str, Any]:
        """One sample by its index within the dataset, whatever the rank and the order.

        Args:
            index: from 0 to ``total - 1``.
            epoch: decides its place; by default the current one.
            parts: whether labels come as :class:`seqpipe.parts.Labels`; see :meth:`samples`.

        Raises:
            ParameterError: there is no such sample.
            SourceError: it cannot be read.
        """
        index = check_index(index, self.total)
        chosen = self._feed.epoch if epoch is None else EPOCH.check(epoch)
        found = self._fetcher.single(self._selection.sample(index, chosen))
        return as_parts(found, self._selection.preparation.labels if parts else frozenset())

    def batches(self, batch_size: int, *, last_batch: LastBatch = "partial") -> VolumeBatches:
        """The current epoch in batches: dictionaries of names to :class:`seqpipe.Batch`, ``NDHWC``.

        Args:
            batch_size: samples in a batch.
            last_batch: what becomes of the rest that does not fill one: "partial" gives it short, "drop" leaves it out,
                "fill" completes it from the start of the epoch.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        return VolumeBatches(
            self._feed, batch_size=batch_size, last_batch=last_batch, prefetch=self._prefetch
        )

    def samples(self, *, parts: bool = False) -> VolumeSamples:
        """The current epoch sample by sample, as an iterator with ``state_dict``.

        Args:
            parts: whether labels come as :class:`seqpipe.parts.Labels`, as operators take them; otherwise everything is
                a sequence, which operators take for an image.
        """
        labels = self._selection.preparation.labels if parts else frozenset[str]()
        return VolumeSamples(self._feed, group=self._feed.group(4), labels=labels)

    def __iter__(self) -> VolumeSamples:
        return self.samples()

    def stats(self) -> dict[str, int]:
        """What was read so far: ``volumes``, how many volumes were read."""
        return dict(self._fetcher.open.counts)

    def close(self) -> None:
        """Stop the threads and forget the volumes; a later use starts them again."""
        self._fetcher.engine.close()
        self._fetcher.open.clear()

    def _survey(
        self, cases: list[Case], preparation: Preparation, rule: Rule
    ) -> tuple[list[Case], list[VolumeInfo]]:
        """The volumes that can be used, and their facts."""
        used, infos = [], []
        for case in cases:
            try:
                info = facts_of(case, preparation)
                _check_fits(case, info, rule)
            except SeqpipeError as error:
                if self._on_error == "raise":
                    raise
                self._book.note(error.source or case.key, "volume left out", error)
                continue
            used.append(case)
            infos.append(info)
        if not used:
            first = self._book.so_far().losses[0]
            raise UnreadableSourceError(
                f"none of {len(cases)} volumes can be used; the first one: {first.reason}",
                source=first.source,
            )
        return used, infos


def _of_fold(cases: list[Case], fold: tuple[int, int] | None, *, validation: bool) -> list[Case]:
    if fold is None:
        if validation:
            raise ParameterError("validation needs a fold", allowed="fold=(number, count)")
        return cases
    whole = isinstance(fold, tuple) and len(fold) == 2 and all(isinstance(n, (int, np.integer)) for n in fold)
    if not whole or not 0 <= fold[0] < fold[1]:
        raise ParameterError(f"fold={fold!r} is not valid", allowed="(number, count) with 0 ≤ number < count")
    chosen = [case for case in cases if in_fold(case.subject, fold) == validation]
    if not chosen:
        raise ParameterError(
            f"fold={fold!r} leaves no volume of {len(cases)}", advice="Use fewer folds, or more subjects"
        )
    return chosen


def _class_weights(given: Mapping[int, float] | None) -> tuple[tuple[int, float], ...]:
    pairs = () if given is None else tuple(sorted((int(n), float(w)) for n, w in dict(given).items()))
    if given is not None and (
        not pairs or any(not w >= 0 or n < 0 for n, w in pairs) or not any(w for _, w in pairs)
    ):
        raise ParameterError(
            f"class_weights={given!r} is not valid",
            allowed="classes of at least 0 → weights, one of them above 0",
        )
    return pairs


def _check_rule(rule: Rule, case: Case, many: int) -> None:
    if rule.patch is None and (rule.sampler != "uniform" or many != 1):
        raise ParameterError(
            "there is no patch_size: samples are whole volumes", allowed="one sample of each volume"
        )
    if rule.sampler in ("balanced", "classes") and rule.label is None:
        raise ParameterError(
            f"sampler={rule.sampler!r} needs labels, but the parts are {', '.join(case.parts)}",
            allowed="labels=[…], a part named label, or label_names=[…]",
        )
    if (rule.sampler == "weighted") != (rule.weights is not None) or (
        rule.weights or next(iter(case.parts))
    ) not in case.parts:
        raise ParameterError(
            f"sampler={rule.sampler!r} and weights={rule.weights!r} do not go together",
            allowed=f"sampler='weighted' with weights one of {', '.join(case.parts)}",
        )
    if rule.class_weights and rule.sampler != "classes":
        raise ParameterError(
            "class_weights are for sampler='classes'", advice=f"Here sampler is {rule.sampler!r}"
        )


def _check_fits(case: Case, info: VolumeInfo, rule: Rule) -> None:
    small = rule.patch is not None and any(p > n for p, n in zip(rule.patch, info.grid, strict=True))
    if small and rule.pad == "none":
        raise ParameterError(
            f"patch_size={rule.patch} is larger than the volume of {'×'.join(map(str, info.grid))} voxels",
            source=case.key,
            advice="Choose pad_mode='constant', 'edge' or 'reflect', or a smaller patch",
        )
