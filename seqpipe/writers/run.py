"""Writing of samples: encoded on several threads, as files in folders or in shards, unit by unit."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, TypeVar, cast

from ..core.param import Param, choice
from .encoders import Content
from .job import WriteJob
from .members import MemberEncoder, SampleFiles, SampleMember
from .names import SampleNames
from .parallel import grouped, mapped
from .shards import ParquetShard, Shard, TarShard

__all__ = [
    "IMAGE_FORMAT",
    "SAMPLES_PER_SHARD",
    "SHARD_FORMATS",
    "SHARD_MIB",
    "UNIT",
    "WRITE_FORMAT",
    "KeyNames",
    "SampleWriter",
    "WriteReport",
]

ResultT = TypeVar("ResultT")

_FILES: Final = ("jpg", "png", "webp", "tiff", "npy", "nii.gz")
_SHARDS: Final[Mapping[str, Callable[[BinaryIO], Shard]]] = {"webdataset": TarShard, "parquet": ParquetShard}
_ENDINGS: Final = {"webdataset": "tar", "parquet": "parquet"}
SHARD_FORMATS: Final = tuple(_SHARDS)
UNIT: Final = 256
"""Samples of a unit where files are not in shards."""

WRITE_FORMAT: Final = choice("format", "Format of the files, or of shards", (*_FILES, *_SHARDS))
IMAGE_FORMAT: Final = choice("image_format", "Format of images within shards", _FILES)
SAMPLES_PER_SHARD: Final = Param(
    name="samples_per_shard", doc="Samples in a shard", lo=1, hi=100_000_000, unit="samples"
)
SHARD_MIB: Final = Param(
    name="shard_mib",
    doc="Size from which on a shard is divided into several files",
    kind=float,
    lo=0.001,
    unit="MiB",
    optional=True,
)


@dataclass(frozen=True, kw_only=True)
class WriteReport:
    """What a run has written.

    Attributes:
        folder: path or URL of the folder.
        samples: samples of the data set, over all runs.
        written: samples that this run has written.
        kept: samples of this run that were finished before.
        lost: samples of this run that could not be read and are left out.
        files: files that this run has written; shards count as one.
        bytes: their size.
        complete: whether the samples of all runs are written; the manifest is then, too.
    """

    folder: str
    samples: int
    written: int
    kept: int
    lost: int
    files: int
    bytes: int
    complete: bool


class KeyNames(Protocol):
    """Names samples in shards."""

    def key(self, sample: SampleFiles) -> str:
        """Return the name of a sample."""


class SampleWriter:
    """Writes the samples of a job's units.

    Args:
        job: the folder and its units.
        kind: one of :data:`WRITE_FORMAT`.
        encoder: divides samples into files and encodes them.
        names: names of the files, or of samples in shards.
        shard_bytes: size from which on a shard is divided; None for no limit.

    Attributes:
        written: samples written so far.
        lost: samples left out so far.
        files: files written so far.
        bytes: their size.
    """

    def __init__(
        self,
        job: WriteJob,
        kind: str,
        encoder: MemberEncoder,
        names: KeyNames,
        shard_bytes: float | None = None,
    ) -> None:
        self._job, self._encoder, self._names = job, encoder, names
        self._kind, self._shard, self._shard_bytes = kind, _SHARDS.get(kind), shard_bytes
        self.written = self.lost = self.files = self.bytes = 0

    def write(self, units: Seq[int], samples: Iterable[SampleFiles]) -> None:
        """Write all samples of some units."""
        deliver: Any = self._store if self._shard is None else _encode
        source = _UntilError(samples)
        groups = grouped(source, self._encoder.together, lambda sample: max(1, len(sample.members)))
        encoded = mapped(lambda group: self._encoder.encoded(group, deliver), groups, self._encoder.threads)
        for unit in units:
            part = source.first(encoded, len(self._job.samples(unit)))
            rows = list(self._file_rows(part) if self._shard is None else self._shard_rows(unit, part))
            self._job.finish_unit(unit, rows)

    def write_shard(self, unit: int, samples: Iterable[SampleFiles]) -> list[dict[str, Any]]:
        """Write a unit whose number of samples is not known before into shards, and return its rows."""
        groups = grouped(samples, self._encoder.together, lambda sample: max(1, len(sample.members)))
        encoded = mapped(lambda group: self._encoder.encoded(group, _encode), groups, self._encoder.threads)
        rows = list(self._shard_rows(unit, encoded))
        self._job.finish_unit(unit, rows)
        return rows

    def _store(self, sample: SampleFiles, member: SampleMember, content: Content) -> tuple[str, int]:
        """Write a file of a sample; return its name and size."""
        assert isinstance(self._names, SampleNames)
        name = self._names.file(sample, member)
        return name, self._job.store.write(name, content)

    def _file_rows(self, samples: Iterator[tuple[SampleFiles, list[Any]]]) -> Iterator[dict[str, Any]]:
        """Yield the rows of samples whose files are written one by one."""
        for sample, files in samples:
            self._count(sample)
            self.files += len(files)
            self.bytes += (size := sum(size for _, size in files))
            yield _row(sample, [name for name, _ in files], size)

    def _shard_rows(
        self, unit: int, samples: Iterator[tuple[SampleFiles, list[bytes]]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of the samples of a shard."""
        assert self._shard is not None
        left = next(samples, None)
        number = 0
        while left is not None:
            suffix = f"-{number:02d}" if number else ""
            name = f"shard-{unit:06d}{suffix}.{_ENDINGS[self._kind]}"
            with ExitStack() as stack:
                file = stack.enter_context(self._job.store.writing(name))
                shard = self._shard(file)
                while left is not None:
                    sample, contents = left
                    self._count(sample)
                    row = _row(sample, [] if sample.error else [name], sum(map(len, contents)))
                    if not sample.error:
                        shard.add(self._names.key(sample), sample, contents, row)
                    yield row
                    left = next(samples, None)
                    if self._shard_bytes is not None and shard.size >= self._shard_bytes:
                        break
                shard.finish()
                self.bytes += file.tell()
            self.files += 1
            number += 1

    def _count(self, sample: SampleFiles) -> None:
        """Count a sample in the report."""
        self.lost += bool(sample.error)
        self.written += not sample.error


class _UntilError:
    """Items up to the first error, which is raised once all results of earlier items have been taken."""

    def __init__(self, items: Iterable[SampleFiles]) -> None:
        self._items, self._error = items, cast("Exception | None", None)

    def __iter__(self) -> Iterator[SampleFiles]:
        try:
            yield from self._items
        except Exception as error:
            self._error = error

    def first(self, results: Iterator[ResultT], count: int) -> Iterator[ResultT]:
        """Yield the next results; raise the error of the items if there are fewer."""
        for _ in range(count):
            if (result := next(results, None)) is None:
                assert self._error is not None
                raise self._error
            yield result


def _encode(sample: SampleFiles, member: SampleMember, content: Content) -> bytes:  # noqa: ARG001  as _store
    """Return the bytes of a file of a sample."""
    buffer = io.BytesIO()
    content(buffer)
    return buffer.getvalue()


def _row(sample: SampleFiles, files: Seq[str], size: int) -> dict[str, Any]:
    """Return the row of a sample in the manifest."""
    row: dict[str, Any] = {} if sample.index < 0 else {"sample": sample.index}
    row["source"] = sample.source
    if sample.error:
        return {**row, "error": sample.error}
    row |= {"files": list(files), "bytes": size}
    return row | {f"column_{name}" if name in row else name: value for name, value in sample.values.items()}
