"""Volume: a dataset of patches cut from many volumes, or of whole volumes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, Literal, TypeAlias

import numpy as np

from ...core.keywords import refuses_unknown
from ...core.padding import PadMode
from ...core.param import Param, check_list, choice
from ...errors import ParameterError, SeqpipeError, UnreadableSourceError
from ...parts import Labels
from ...sampling import EpochOrder
from ...sampling.blocks import BlockOrder
from ...sampling.params import ON_ERROR, LastBatch, OnError
from ...sequence import Batch, Sequence
from ...video.device import THREADS, Device, parse_device
from ...volume.disk import CACHE_COMPRESSION, CacheCompression, DiskCache
from ...volume.info import VolumeInfo
from ...volume.patches.cutting import PATCH_PAD, check_patch_size
from ...volume.resampling.regrid import INTERP, RegridInterpolation, spacing_of_three
from ...volume.space import check_orientation
from ..epochs import EpochDataset
from ..fetch import FetchedSamples
from ..loader import BatchPass, PassContext, Singles
from ..params import PREFETCH, PREFETCH_GIB, bytes_ahead
from ..report import ReportBook
from .case import (
    ALIGN,
    CROP_ABOVE,
    DTYPE,
    FOREGROUND,
    PATCHES_PER_VOLUME,
    SAMPLER,
    PatchRule,
    PatchSampling,
    Preparation,
    read_info,
)
from .fetch import PatchSample, PatchSelection, VolumeFetcher
from .listing import LABEL, Case, in_fold, list_cases

__all__ = ["Volume", "VolumeBatches", "VolumeSamples", "as_parts"]

CacheDevice: TypeAlias = Literal["cpu", "cuda"]
_Path = str | os.PathLike[str]

_OPEN = Param(
    name="open_volumes", doc="Volumes in memory whose patches are shuffled", lo=1, hi=4096, unit="volumes"
)
_CACHE_DEVICE = choice("cache_device", "Memory that holds volumes", ("cpu", "cuda"))
_CACHE = Param(
    name="cache_gib",
    doc="Memory for volumes that are cached between epochs",
    kind=float,
    lo=0,
    unit="GiB",
)

_DISK = Param(
    name="cache_dir_gib", doc="Largest size of the folder of cached volumes", kind=float, lo=0, unit="GiB"
)


class Volume(EpochDataset[PatchSample]):
    """A dataset of patches cut from many volumes; the images and labels of one subject are cut at the same position.

    A sample is a dictionary of names to sequences ``DHWC`` with their affine: ``sample["image"]``, ``sample["label"]``.
    A patch depends on (seed, epoch, sample index) only: not on threads, batch size, rank, device, or interrupted
    iterations. The constructor reads headers and no voxels. Each epoch reads each volume once: the patches of
    ``open_volumes`` volumes in memory are mixed while the next volumes are read.

    Exactly one of ``files``, ``file_root`` and ``manifest`` selects the volumes. ``sampler`` selects the positions of
    patches:

    =============== ========================================================================================
    ``sampler``     positions
    =============== ========================================================================================
    ``"uniform"``   anywhere
    ``"balanced"``  a share ``foreground`` of the patches around labeled voxels, with the classes of the volume
                    equally often; the rest anywhere. Labels of 0 and below, such as -1 for "ignore", are not
                    classes
    ``"classes"``   around a voxel of a class, drawn by ``class_weights`` from the classes of the volume
    ``"weighted"``  around a voxel drawn by the map in the part ``weights``
    =============== ========================================================================================

    Args:
        files: paths and URLs of images; or mappings of names to these, such as ``{"t1": …, "t2": …, "label": …}``.
        file_root: a folder with the subfolders ``images`` and ``labels`` (or ``imagesTr`` and ``labelsTr``), in which
            files of the same name belong together, or, as in nnU-Net's folders, ``case_0000`` and the label ``case``;
            if there is a ``case_0001``, the parts are ``image_0000`` and ``image_0001``. Or a folder of images.
        manifest: a CSV or TSV file; its columns are the parts, such as ``image`` and ``label``, and ``subject``.
        labels: for ``files``: one path for each image, or None.
        label_names: names of the parts that hold labels: whole numbers, resampled by vote, padded with 0, and marked
            as labels (:attr:`seqpipe.Sequence.kind`), so that no operator computes new classes. Floats within 0.01, or
            half a step of the file's slope, of a whole number are rounded, and reported. The name ``"label"`` may be
            absent from the parts, others may not.
        subjects: for ``files``: subject of each file, for folds; by default the file's name.
        fold: ``(number, count)``: leave out the subjects of this fold, for training.
        validation: keep only the subjects of the fold, for validation.
        patch_size: (slices, rows, columns), or one number for all three; ``(5, 256, 256)`` makes stacks of 5 slices.
            None makes samples of whole volumes.
        patches_per_volume: patches from each volume in every epoch.
        sampler: rule for the positions of patches.
        foreground: for ``"balanced"``: share of patches around labeled voxels.
        class_weights: for ``"classes"``: relative frequency of each class; by default the classes of a volume are
            equally frequent.
        weights: for ``"weighted"``: name of the part that holds the map of weights.
        pad_mode: padding of volumes smaller than a patch, on both sides: "constant", "edge", "reflect", "symmetric" or
            "wrap"; "none" refuses them. See :mod:`seqpipe.core.padding`.
        fill_value: pad value of images for "constant"; labels are padded with 0.
        orientation: orientation to bring volumes to first, such as ``"RAS"``.
        spacing_mm: voxel spacing to resample volumes to: one number, or (slice, row, column) spacing.
        align: parts on different grids: ``"none"`` refuses them, ``"first"`` resamples them to the grid of the first
            part.
        interp: interpolation of images on another grid: "linear", "bspline" or "nearest"; labels by vote.
        antialias: whether images are smoothed by a Gaussian first, along the axes that get coarser.
        crop_above: crop each volume first to the box around the voxels of its first part above this value, such as -500
            for the body in CT or 0 for a brain; the box is widened to ``patch_size`` where the volume allows it, and is
            the whole volume where no voxel is above it. None disables it.
        dtype: dtype of images; by default that of the values after slope and intercept. A batch has one dtype, the
            smallest for all its samples; integers beside float32 become float32.
        series_as_channels: whether the volumes of a 4-D file, such as the modalities of a brain, become the channels of
            one volume ``DHWC``; else they are a series ``FDHWC``.
        open_volumes: volumes in memory whose patches are mixed; up to twice as many while the next ones are read.
        cache_gib: memory, in GiB, for volumes that are cached between epochs.
        cache_device: memory that holds volumes: "cpu", or "cuda" for that of ``device``, which then cuts the patches.
            Volumes that are resampled stay in main memory.
        cache_dir: folder for decompressed and oriented volumes, keyed by the size and modification time of their
            files. None disables it.
        cache_dir_gib: largest size of that folder in GiB; the least recently used volumes are deleted first.
        cache_compression: "none": plain arrays, from which patches are read directly; "lz4": about a third of the
            bytes, but whole volumes are decompressed; requires the extra ``blosc2``.
        shuffle: whether each epoch has a new random order of volumes, and of patches among the open volumes.
        seed: seed of the order and of the patches.
        shard: ``(rank, world_size)``: this process reads one of ``world_size`` disjoint parts of every epoch.
        stick_to_shard: whether the rank reads the same volumes in every epoch.
        even_shards: whether all ranks get equally many patches.
        device: "cpu", "cuda", "cuda:N", or "auto".
        threads: threads that read and cut; by default one for each core.
        prefetch: number of batches to read ahead.
        prefetch_gib: memory of the device, in GiB, for batches that are being read; by default a quarter of its memory.
        on_error: policy for unreadable sources: "raise", "skip" (leave out), or "substitute" (leave out volumes that
            cannot be opened, and replace other samples by the next one of another volume). :meth:`report` lists every
            case.

    Raises:
        ParameterError: an argument is out of bounds, or a patch is larger than a volume.
        ManifestError: a line of the manifest is not valid.
        SourceError: a volume cannot be opened and ``on_error`` is "raise"; or no volume can be opened.
        BackendError: the device or a package is not available.
    """

    _selection: PatchSelection

    @refuses_unknown("readers.Volume")
    def __init__(
        self,
        *,
        cases: Seq[Case] | None = None,
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
        pad_mode: PadMode = "none",
        fill_value: float = 0,
        orientation: str | None = None,
        spacing_mm: float | Seq[float] | None = None,
        align: str = "none",
        interp: RegridInterpolation = "linear",
        antialias: bool = True,
        crop_above: float | None = None,
        dtype: str | None = None,
        series_as_channels: bool = False,
        open_volumes: int = 4,
        cache_gib: float = 0,
        cache_device: CacheDevice = "cpu",
        cache_dir: _Path | None = None,
        cache_dir_gib: float = 100,
        cache_compression: CacheCompression = "none",
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
        self._device = parse_device(device)
        self._on_error: OnError = ON_ERROR.check(on_error)
        self._prefetch = PREFETCH.check(prefetch)
        threads, ahead = THREADS.check(threads), PREFETCH_GIB.check(prefetch_gib)
        many, block = PATCHES_PER_VOLUME.check(patches_per_volume), _OPEN.check(open_volumes)
        order: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "shard": shard}
        order["stick_to_shard"] = stick_to_shard
        EpochOrder(size=0, **order)  # checks the arguments before any file is read
        cases = _of_fold(
            list(cases or list_cases(files, file_root, manifest, labels, subjects)),
            fold,
            validation=validation,
        )
        names = _label_parts(label_names, cases[0])
        rule = PatchRule(
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
            interp=INTERP.check(interp),
            antialias=bool(antialias),
            crop_above=CROP_ABOVE.check(crop_above),
            dtype=DTYPE.check(dtype),
            series_as_channels=bool(series_as_channels),
        )
        self._book = ReportBook(unit="volumes")
        used, infos = self._survey(cases, preparation, rule)
        selection = PatchSelection(
            tuple(used),
            tuple(info.shape for info in infos),
            many,
            block,
            seed,
            preparation,
            rule,
        )
        volumes = EpochOrder(size=len(used), even=even_shards, **order)
        blocks = BlockOrder(volumes=volumes, per_volume=many, block=block)
        self._book.finished(listed=len(cases), used=len(used), samples=selection.total)
        cache_bytes, on_gpu = _memory(cache_gib, cache_device, self._device)
        disk_bytes = int(_DISK.check(cache_dir_gib) * 2**30)
        compression = CACHE_COMPRESSION.check(cache_compression)
        disk = None if cache_dir is None else DiskCache(cache_dir, disk_bytes, compression)
        self._selection, self._infos = selection, tuple(infos)
        self._fetcher = VolumeFetcher.of(
            selection, threads, self._device, self._on_error, self._book, cache_bytes, disk, on_gpu=on_gpu
        )
        fetcher: Any = self._fetcher  # it has the methods of Fetcher that PassContext calls
        self._feed = PassContext(fetcher, blocks, bytes_ahead(ahead, self._device))

    @property
    def fetcher(self) -> VolumeFetcher:
        """The fetcher of samples by index."""
        return self._fetcher

    @property
    def infos(self) -> tuple[VolumeInfo, ...]:
        """Header facts of each volume's first part, as stored in its file."""
        return self._infos

    @property
    def cases(self) -> tuple[Case, ...]:
        """The files of each volume."""
        return self._selection.cases

    def __repr__(self) -> str:
        rule, order = self._selection.rule, self._feed.order.volumes  # type: ignore[attr-defined]  # blocks
        size = (
            "whole" if rule.patch is None else f"patches of {'×'.join(map(str, rule.patch))}, {rule.sampler}"
        )
        parts = [f"{len(self.cases)} volumes", f"{self.total} samples", ", ".join(self.cases[0].parts), size]
        return f"Volume({'; '.join(parts + order.clauses())})"

    def sample(self, index: int, epoch: int | None = None, *, parts: bool = False) -> dict[str, Any]:
        """Read one sample by its index within the dataset, which does not depend on rank and order.

        Args:
            index: 0 to ``total - 1``.
            epoch: selects the patch's position; by default the current epoch.
            parts: whether labels are :class:`seqpipe.parts.Labels`; see :meth:`samples`.

        Raises:
            ParameterError: ``index`` is out of range.
            SourceError: the sample cannot be read.
        """
        sample = self._fetcher.single(self._request(index, self._epoch_or_current(epoch)))
        return as_parts(sample, self._selection.preparation.labels if parts else frozenset())

    @refuses_unknown()
    def batches(self, batch_size: int, *, last_batch: LastBatch = "partial") -> VolumeBatches:
        """Iterate over the current epoch in batches: dictionaries of names to :class:`seqpipe.Batch`, ``NDHWC``.

        Args:
            batch_size: samples in a batch.
            last_batch: policy for an incomplete last batch: "partial" returns it short, "drop" leaves it out, "fill"
                completes it with the first samples of the epoch.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        return VolumeBatches(
            self._feed, batch_size=batch_size, last_batch=last_batch, prefetch=self._prefetch
        )

    def samples(self, *, parts: bool = False) -> VolumeSamples:
        """Iterate over the current epoch sample by sample; the iterator has ``state_dict``.

        Args:
            parts: whether labels are :class:`seqpipe.parts.Labels`, which operators resample as classes; otherwise they
                are plain sequences, which operators treat as images.
        """
        labels = self._selection.preparation.labels if parts else frozenset[str]()
        return VolumeSamples(self._feed, group=self._feed.group(4), labels=labels)

    def __iter__(self) -> VolumeSamples:
        return self.samples()

    def stats(self) -> dict[str, int]:
        """Return counts: ``volumes`` is the number of volumes read so far."""
        return dict(self._fetcher.cache.counts)

    def close(self) -> None:
        """Stop the threads and release the volumes; the next read starts them again."""
        self._fetcher.engine.close()
        self._fetcher.cache.clear()

    def _survey(
        self, cases: list[Case], preparation: Preparation, rule: PatchRule
    ) -> tuple[list[Case], list[VolumeInfo]]:
        """Return the usable volumes and the facts of their headers."""
        used, infos = [], []
        for case in cases:
            try:
                info = read_info(case, preparation)
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
                f"none of {len(cases)} volumes can be opened; the first one: {first.reason}",
                source=first.source,
            )
        return used, infos


def _label_parts(label_names: Iterable[str], case: Case) -> frozenset[str]:
    """Return the parts that hold labels.

    Raises:
        ParameterError: ``label_names`` is not a list, or names a part that does not exist.
    """
    names = check_list("label_names", label_names, "a list of names")
    if unknown := [name for name in names if name not in case.parts and name != LABEL]:
        raise ParameterError(
            f"label_names has {unknown[0]!r}, which is not a part", allowed=", ".join(case.parts)
        )
    return frozenset(names) & set(case.parts)


def _memory(cache_gib: Any, cache_device: Any, device: Device) -> tuple[int, bool]:
    """Return the memory limit in bytes of cached volumes, and whether it is GPU memory."""
    on_gpu = _CACHE_DEVICE.check(cache_device) == "cuda"
    if on_gpu and device.kind == "cpu":
        raise ParameterError(
            "cache_device='cuda' and device='cpu' exclude one another", allowed="device='cuda'"
        )
    return int(_CACHE.check(cache_gib) * 2**30), on_gpu


def _of_fold(cases: list[Case], fold: tuple[int, int] | None, *, validation: bool) -> list[Case]:
    if fold is None:
        if validation:
            raise ParameterError("validation needs a fold", allowed="fold=(number, count)")
        return cases
    is_pair = (
        isinstance(fold, tuple) and len(fold) == 2 and all(isinstance(n, (int, np.integer)) for n in fold)
    )
    if not is_pair or not 0 <= fold[0] < fold[1]:
        raise ParameterError(f"fold={fold!r} is not valid", allowed="(number, count) with 0 ≤ number < count")
    chosen = [case for case in cases if in_fold(case.subject, fold) == validation]
    if not chosen:
        raise ParameterError(
            f"fold={fold!r} leaves no volume of {len(cases)}", advice="Use fewer folds, or more subjects"
        )
    return chosen


def _class_weights(weights: Mapping[int, float] | None) -> tuple[tuple[int, float], ...]:
    pairs = () if weights is None else tuple(sorted((int(n), float(w)) for n, w in dict(weights).items()))
    if weights is not None and (
        not pairs or any(not w >= 0 for _, w in pairs) or not any(w for _, w in pairs)
    ):
        raise ParameterError(
            f"class_weights={weights!r} is not valid",
            allowed="classes → weights of at least 0, one of them above 0",
        )
    return pairs


def _check_rule(rule: PatchRule, case: Case, per_volume: int) -> None:
    if rule.patch is None and (rule.sampler != "uniform" or per_volume != 1):
        raise ParameterError(
            "patches_per_volume needs patch_size: without it, samples are whole volumes",
            allowed="one sample of each volume",
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


def _check_fits(case: Case, info: VolumeInfo, rule: PatchRule) -> None:
    small = rule.patch is not None and any(p > n for p, n in zip(rule.patch, info.grid, strict=True))
    if small and rule.pad == "none":
        raise ParameterError(
            f"patch_size={rule.patch} is larger than the volume of {'×'.join(map(str, info.grid))} voxels",
            source=case.key,
            advice="Choose a pad_mode such as 'constant' or 'edge', or a smaller patch",
        )


class VolumeBatches(BatchPass[dict[str, Batch]]):
    """Iterator over batches of a dataset of volumes; see :meth:`seqpipe.readers.Volume.batches`."""

    def __init__(self, feed: PassContext, *, batch_size: int, last_batch: LastBatch, prefetch: int) -> None:
        super().__init__(feed, batch_size, last_batch, prefetch, None)

    def _collate(self, fetched: FetchedSamples) -> dict[str, Batch]:
        """Return a batch of each part; the batch is a list of sequences if volumes differ in shape."""
        indices = [sample.index for sample, _ in fetched.pairs]
        parts: list[dict[str, Sequence]] = [sample for _, sample in fetched.pairs]  # type: ignore[misc]
        return {name: _batch_of([part[name] for part in parts], indices) for name in parts[0]}


def _batch_of(sequences: list[Sequence], indices: list[int]) -> Batch:
    """Return a batch of one dtype, which holds the values of all sequences.

    Raises:
        UnreadableSourceError: no dtype holds the values of all.
    """
    dtypes = list(dict.fromkeys(one.dtype for one in sequences))
    if len(dtypes) > 1:
        common = _common_dtype(dtypes)
        if common is None:
            raise UnreadableSourceError(
                f"volumes of one batch are of {' and '.join(str(one) for one in dtypes)}, which no type holds",
                source=sequences[0].source,
                advice="Choose a dtype, such as dtype='float32', or convert the files",
            )
        sequences = [one.with_pixels(one.data.astype(common, copy=False), one.layout) for one in sequences]
    return Batch.of(sequences, indices=indices)


def _common_dtype(dtypes: Seq[np.dtype[Any]]) -> np.dtype[Any] | None:
    """Return the smallest dtype of integers or floats that holds several; None if there is none."""
    common = np.result_type(*dtypes)
    if all(one.kind in "biu" for one in dtypes):
        return common if common.kind in "biu" else None  # uint64 and int64 would become floats
    # int32 and float32 would become float64, but scaled values are float32 in all formats
    wide = any(one.kind == "c" or one == np.float64 for one in dtypes)
    return common if wide or common.itemsize <= 4 else np.dtype(np.float32)


class VolumeSamples(Singles[dict[str, Any]]):
    """Iterator over the samples of a dataset of volumes; see :meth:`seqpipe.readers.Volume.samples`."""

    def __init__(self, feed: PassContext, *, group: int, labels: frozenset[str]) -> None:
        self._labels = labels
        super().__init__(feed, group=group)

    def __next__(self) -> dict[str, Any]:
        return as_parts(super().__next__(), self._labels)


def as_parts(sample: dict[str, Sequence], labels: frozenset[str]) -> dict[str, Any]:
    """Wrap the labels of a sample in :class:`seqpipe.parts.Labels`, so that operators never blend classes.

    Args:
        sample: sequences by name.
        labels: names of the parts that hold labels; empty to return the sample unchanged.
    """
    return {name: Labels(part) if name in labels else part for name, part in sample.items()}
