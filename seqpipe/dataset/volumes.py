"""Volumes as a source of patches, whole volumes, or overlapping patches of a grid."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, described_type
from ..ops import Type
from ..readers.report import Report
from ..readers.volumes.dataset import Volume
from ..readers.volumes.fetch import GridSelection, PatchSelection, VolumeFetcher
from ..readers.volumes.listing import LABEL, Case, in_fold, list_cases
from ..sampling.params import OnError
from ..volume.info import VolumeInfo
from ..volume.patches.cutting import check_patch_size
from ..volume.patches.grid import starts_of
from .dataset import Dataset
from .options import Cache, Prepare
from .source import PLAIN, Heads, ReadPlan, ReadResult
from .takes import Grid, Patch, VolumeTake, Whole

__all__ = ["Cases", "PatchSource", "cases", "volumes"]

_Path: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True)
class Cases:
    """Volumes before they are read: images and labels of each case, with its subject.

    ``cases[10:]``, ``cases[rank::world]`` and :meth:`fold` are parts of it.

    Attributes:
        entries: the cases.
        label_names: names of the parts that hold labels.
    """

    entries: tuple[Case, ...]
    label_names: tuple[str, ...] = (LABEL,)

    def __len__(self) -> int:
        """The number of cases."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.entries)

    def __getitem__(self, part: slice) -> Cases:
        return replace(self, entries=self.entries[part])

    def fold(self, number: int, count: int, *, validation: bool = False) -> Cases:
        """Return the cases outside of a fold, or with ``validation`` those in it; a subject is in one fold.

        Args:
            number: number of the fold.
            count: number of folds.
            validation: whether to return the cases of the fold itself.

        Raises:
            ParameterError: the fold does not exist, or leaves no case.
        """
        if not 0 <= number < count:
            raise ParameterError(
                f"fold({number}, {count}) is not valid", source="cases", allowed="0 ≤ number < count"
            )
        chosen = tuple(one for one in self.entries if in_fold(one.subject, (number, count)) == validation)
        if not chosen:
            raise ParameterError(
                f"fold({number}, {count}) leaves no volume of {len(self)}",
                source="cases",
                advice="Use fewer folds, or more subjects",
            )
        return replace(self, entries=chosen)


def cases(
    source: Any = None,
    *,
    files: Iterable[Any] | None = None,
    file_root: _Path | None = None,
    manifest: _Path | None = None,
    labels: Iterable[_Path] | None = None,
    label_names: Iterable[str] = (LABEL,),
    subjects: Iterable[str] | None = None,
) -> Cases:
    """List volumes with their labels and subjects, before they are read.

    Args:
        source: a folder with ``images`` and ``labels`` (or nnU-Net's), a CSV or TSV manifest, one volume, or a list of
            paths or of mappings of names to paths; or one of the next three.
        files: a list of paths, or of mappings of names to paths.
        file_root: a folder.
        manifest: a CSV or TSV file with a column for each part and, optionally, ``subject``.
        labels: for a list of paths: the labels of each.
        label_names: names of the parts that hold labels.
        subjects: for a list: the subject of each; by default the name of its first file.

    Raises:
        ParameterError: not exactly one source is given, or lists have different lengths.
        ManifestError: a line of the manifest is not valid.
        SourceError: the folder does not exist or contains no volume.
    """
    named: dict[str, Any] = {"files": files, "file_root": file_root, "manifest": manifest}
    if source is not None:
        named = {**named, **_kind_of(source)}
    listed = list_cases(named["files"], named["file_root"], named["manifest"], labels, subjects)
    return Cases(tuple(listed), tuple(label_names))


def _kind_of(source: Any) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return {"files": [source]}
    if isinstance(source, (str, os.PathLike)):
        text = str(os.fspath(source))
        if text.lower().endswith((".csv", ".tsv")):
            return {"manifest": text}
        folder = Path(text)
        is_root = folder.is_dir() and not text.rstrip("/").lower().endswith(".zarr")
        return {"file_root": text} if is_root else {"files": [text]}
    if isinstance(source, Iterable):
        return {"files": source}
    raise ParameterError(
        f"source is {described_type(source)}",
        source="volumes",
        allowed="a folder, a manifest, a volume, a list of paths or of mappings, or seqpipe.cases(…)",
    )


@dataclass(frozen=True, eq=False)
class PatchSource:
    """Patches of volumes; the parts of a sample are those of the cases, labels marked as such.

    Attributes:
        reader: opens and prepares the volumes.
        fetcher: reads samples by their indices.
        shuffle: whether each epoch has a new order.
    """

    reader: Volume
    fetcher: VolumeFetcher
    shuffle: bool
    name: str = "volumes"
    fill: float = 0.0

    @property
    def _selection(self) -> PatchSelection:
        return self.fetcher.selection

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._selection.total

    @property
    def unit(self) -> int:
        """The patches of a volume stay together."""
        return 1 if isinstance(self._selection, GridSelection) else self._selection.per_volume

    @property
    def mix(self) -> int:
        """Number of volumes whose patches are shuffled among each other."""
        return self._selection.open_volumes if self.shuffle else 0

    @property
    def seed(self) -> int:
        """Seed of order and samples."""
        return self._selection.seed

    @property
    def device(self) -> str:
        """Device of the samples' arrays."""
        return str(self.fetcher.device)

    @property
    def infos(self) -> tuple[VolumeInfo, ...]:
        """Header facts of each volume's first part."""
        return self.reader.infos

    @property
    def cases(self) -> tuple[Case, ...]:
        """The files of each volume."""
        return self._selection.cases

    @property
    def paths(self) -> tuple[str, ...]:
        """Path or URL of the first part of each volume."""
        return tuple(next(iter(case.parts.values())) for case in self.cases)

    @property
    def labels(self) -> frozenset[str]:
        """Names of the parts that hold labels."""
        return self._selection.preparation.labels

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        patch = self._selection.rule.patch
        known: dict[str, Type] = {}
        for name in self.cases[0].parts:
            is_label = name in self.labels
            dtype = None if is_label else self._selection.preparation.dtype
            shape = None if patch is None else (*patch, None)
            known[name] = Type("labels" if is_label else "images", "DHWC", dtype, self.device, shape)
        return {
            **known,
            "volume": Type("numbers", "", "int64", "cpu"),
            "index": Type("numbers", "", "int64", "cpu"),
        }

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self._selection.facts

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del heads
        return ReadPlan(epoch, indices, self.fetcher.size(epoch, indices))

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self.fetcher.begin(plan.epoch, plan.indices, stack=stack)

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        if work.engine is not self.fetcher.engine.get():
            # the data set was closed, or this is a forked process: what was begun never finishes
            work = self.fetcher.begin(work.epoch, np.array([one.index for one in work.samples], np.int64))
        outcomes: list[Any] = []
        for outcome in self.fetcher.finish(work).outcomes:
            if isinstance(outcome, tuple):
                sample, found = outcome
                parts: Mapping[str, Any] = found  # type: ignore[assignment]  # of volumes
                outcomes.append((sample.index, dict(parts)))
            else:
                outcomes.append(outcome)
        return ReadResult(tuple(outcomes))

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        work.read.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The position of each sample's volume in the data set."""
        return {"volume": self._selection.volumes_of(indices)}

    def report(self) -> Report:
        """Return what was lost."""
        return self.reader.report()

    def stats(self) -> dict[str, Any]:
        """Return the number of volumes read so far."""
        return dict(self.fetcher.cache.counts)

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self.fetcher.engine.share_cores(processes)

    def close(self) -> None:
        """Stop the threads and release the volumes."""
        self.fetcher.engine.close()
        self.fetcher.cache.clear()

    def __repr__(self) -> str:
        rule = self._selection.rule
        size = "whole" if rule.patch is None else f"patches of {'×'.join(map(str, rule.patch))}"
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        parts = ", ".join(self.cases[0].parts)
        return f"volumes({len(self.cases)} volumes, {self.size} samples, {parts}, {size}{shuffled})"


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
    taken = _checked_take(take)
    listed = source if isinstance(source, Cases) else cases(source, label_names=(LABEL,))
    if not len(listed):
        raise ParameterError("there is no volume", source="volumes", allowed="one or more")
    how, kept = prepare or Prepare(), cache or Cache()
    arguments = {} if isinstance(taken, Grid) else taken.arguments()
    if isinstance(taken, Grid):
        if shuffle:
            raise ParameterError("shuffle=True and Grid exclude one another", source="volumes")
        arguments = {"open_volumes": 1, "pad_mode": taken.pad}
    reader = Volume(
        cases=listed.entries,
        label_names=[name for name in listed.label_names if name in listed.entries[0].parts],
        **arguments,
        **vars(how),
        cache_gib=kept.gib,
        cache_device=kept.device,
        cache_dir=kept.dir,
        cache_dir_gib=kept.dir_gib,
        cache_compression=kept.compression,
        threads=kept.threads,
        device=device,
        shuffle=shuffle,
        seed=seed,
        on_error=on_error,
    )
    fetcher = _on_grid(reader, taken) if isinstance(taken, Grid) else reader.fetcher
    return Dataset(PatchSource(reader, fetcher, bool(shuffle)))


def _on_grid(reader: Volume, grid: Grid) -> VolumeFetcher:
    """Return a fetcher of the patches that cover each volume of a reader."""
    patch, plain = check_patch_size(grid.size), reader.fetcher.selection
    starts = tuple(
        starts_of(info.grid, patch, grid.overlap, grid.pad, case.key)
        for info, case in zip(reader.infos, plain.cases, strict=True)
    )
    fields = {name: getattr(plain, name) for name in PatchSelection.__dataclass_fields__}
    fields["rule"] = replace(plain.rule, patch=patch)
    return reader.fetcher.of_selection(GridSelection(**fields, starts=starts))


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
    return take
