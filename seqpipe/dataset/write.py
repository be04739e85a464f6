"""Writing a data set into files: its samples in order of their indices, read ahead as in an epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

import numpy as np

from ..array import IntArray
from ..core.param import check_list
from ..errors import ParameterError
from ..sampling.dealing import History
from ..sampling.params import EPOCH
from ..video.engine.engine import available_cores
from ..writers.encoders import QUALITY
from ..writers.job import WriteJob
from ..writers.members import MemberEncoder, SampleFiles
from ..writers.names import SampleNames
from ..writers.run import (
    IMAGE_FORMAT,
    SAMPLES_PER_SHARD,
    SHARD_FORMATS,
    SHARD_MIB,
    UNIT,
    WRITE_FORMAT,
    SampleWriter,
    WriteReport,
)
from ..writers.store import open_store
from .epoch import Epoch, EpochOwner
from .source import SampleSource

__all__ = [
    "WriteOptions",
    "check_by_sample",
    "owners",
    "sample_names",
    "write_dataset",
    "write_job",
    "write_units",
]


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Arguments of :meth:`seqpipe.dataset.Dataset.write`, checked.

    Attributes:
        format: format of the files, or of shards.
        pattern: names of the files, or keys of samples in shards; None for the default.
        parts: names of the parts to write; None for all.
        quality: of jpg and webp; None for 95.
        image_format: format of images within shards.
        samples_per_shard: samples in a shard.
        shard_mib: size from which on a shard is divided; None for no limit.
        epoch: selects random frames, patches and draws.
        threads: threads that encode; None for one for each core.
    """

    format: str = "jpg"
    pattern: str | None = None
    parts: tuple[str, ...] | None = None
    quality: int | None = None
    image_format: str = "jpg"
    samples_per_shard: int = 1000
    shard_mib: float | None = None
    epoch: int = 0
    threads: int | None = None

    def __post_init__(self) -> None:
        for param in (WRITE_FORMAT, QUALITY, IMAGE_FORMAT, SAMPLES_PER_SHARD, SHARD_MIB, EPOCH):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))
        if self.parts is not None:
            names = check_list("parts", self.parts, "names of parts")
            object.__setattr__(self, "parts", tuple(map(str, names)))

    @property
    def shards(self) -> bool:
        """Whether samples are written into shards."""
        return self.format in SHARD_FORMATS

    @property
    def facts(self) -> dict[str, Any]:
        """What determines the files, as plain values."""
        facts: dict[str, Any] = {
            "format": self.format,
            "parts": None if self.parts is None else sorted(self.parts),
            "quality": self.quality,
            "epoch": self.epoch,
        }
        if self.shards:
            facts |= {
                name: getattr(self, name) for name in ("image_format", "samples_per_shard", "shard_mib")
            }
        return facts


def write_dataset(
    dataset: Any, folder: str | os.PathLike[str], options: WriteOptions, *, resume: bool, overwrite: bool
) -> WriteReport:
    """Write the samples of a data set; see :meth:`seqpipe.dataset.Dataset.write`."""
    job = write_job(dataset, folder, options)
    with job.claimed():
        units = job.begin(resume=resume, overwrite=overwrite)
        mine = sum(len(job.samples(unit)) for unit in range(job.rank, job.units, job.world))
        todo = sum(len(job.samples(unit)) for unit in units)
        writer = write_units(dataset, job, sample_names(dataset.source, options), options, units)
        complete = job.finish()
    return WriteReport(
        folder=job.store.place,
        samples=job.size,
        written=writer.written,
        kept=mine - todo,
        lost=writer.lost,
        files=writer.files,
        bytes=writer.bytes,
        complete=complete,
    )


def write_job(dataset: Any, folder: str | os.PathLike[str], options: WriteOptions) -> WriteJob:
    """Return the job of writing a data set into a folder."""
    check_by_sample(dataset, "write()")
    source: SampleSource = dataset.source
    return WriteJob(
        open_store(folder),
        {
            "version": 1,
            "dataset": dataset.fingerprint,
            "samples": source.size,
            "pattern": sample_names(source, options).text,
            **options.facts,
        },
        source.size,
        options.samples_per_shard if options.shards else UNIT,
        dataset.rank,
        dataset.world,
    )


def write_units(
    dataset: Any, job: WriteJob, names: SampleNames, options: WriteOptions, units: Seq[int]
) -> SampleWriter:
    """Write the samples of some units, and return the writer, which has counted them."""
    encoder = MemberEncoder(
        options.image_format if options.shards else options.format,
        options.quality,
        options.parts,
        dataset.source.device,
        options.threads or available_cores(),
    )
    limit = None if options.shard_mib is None else options.shard_mib * 2**20
    writer = SampleWriter(job, options.format, encoder, names, limit)
    todo = list(chain.from_iterable(map(job.samples, units)))
    writer.write(units, _samples(dataset, np.array(todo, np.int64), options.epoch, encoder))
    return writer


def check_by_sample(dataset: Any, call: str) -> None:
    """Raise unless a data set gives single samples by their indices."""
    if dataset.batch_size is not None:
        raise ParameterError(
            f"{call} after batch()",
            source="Dataset",
            allowed=f"{call} before batch()",
            advice="It takes single samples",
        )
    if getattr(dataset.source, "dealt", None) is not None:
        raise ParameterError(
            f"{call} of a source that is read from front to back",
            source="Dataset",
            allowed="videos, volumes, items and what is made of them",
            advice="What was done could not be continued: its samples have no indices",
        )


def owners(source: SampleSource) -> tuple[Seq[str], IntArray]:
    """Return the files of a source and, for each sample, the position of its file; both empty if unknown."""
    paths: Seq[str] = getattr(source, "paths", ())
    if not paths:
        return (), np.empty(0, np.int64)
    known = source.metadata(np.arange(source.size, dtype=np.int64))
    (owner,) = (np.asarray(known[name], np.int64) for name in ("video", "volume") if name in known)
    return paths, owner


def sample_names(source: SampleSource, options: WriteOptions) -> SampleNames:
    """Return the names of a source's samples, by the files that these belong to."""
    return SampleNames(options.pattern, *owners(source), shards=options.shards)


def _samples(dataset: Any, indices: IntArray, number: int, encoder: MemberEncoder) -> Iterator[SampleFiles]:
    """Yield samples as files and values, in the order of the indices; those left out with the reason."""
    if not len(indices):
        return
    expected = iter(indices.tolist())
    with Epoch(cast("EpochOwner", _InOrder(dataset, _GivenOrder(indices))), number) as epoch:
        for sample in epoch:
            for index in expected:
                if index == sample.index:
                    break
                yield _lost(dataset, index)
            source = sample.sources[0] if sample.sources else ""
            yield encoder.divided(sample, int(sample.index), source)
        yield from (_lost(dataset, index) for index in expected)


def _lost(dataset: Any, index: int) -> SampleFiles:
    """Return a sample that could not be read; the reason is that of its source, as far as known."""
    source: Any = dataset.source
    known = source.metadata(np.array([index], np.int64))
    owner = next((int(known[name][0]) for name in ("video", "volume") if name in known), None)
    path = "" if owner is None else source.paths[owner]
    reasons = {loss.source: loss.reason for loss in dataset.report().losses}
    return SampleFiles(index, path, error=reasons.get(path, "it could not be read"))


@dataclass(frozen=True, eq=False)
class _GivenOrder:
    """Samples in a given order, as the share of a single rank."""

    given: IntArray

    def __len__(self) -> int:
        return len(self.given)

    @property
    def longest(self) -> int:
        """Number of samples."""
        return len(self.given)

    shortest = longest

    def share(self, *_: Any, **__: Any) -> _GivenOrder:
        """Return the samples, of any epoch."""
        return self

    def indices(self, positions: IntArray) -> IntArray:
        """Return the samples at some positions."""
        return self.given[positions]


@dataclass(frozen=True, eq=False)
class _InOrder:
    """A data set whose epochs have a given order; see :class:`seqpipe.dataset.epoch.EpochOwner`."""

    dataset: Any
    order: _GivenOrder
    rank: int = 0
    world: int = 1
    is_single: bool = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)

    def dealt(self, done: History = (), turn: tuple[int, int] = (0, 1)) -> Any:
        """Return the source of batches."""
        return replace(self.dataset.dealt(done, turn), order=self.order, rank=0, world=1)
