"""Shards: many samples in one file, WebDataset's tar archives and Parquet.

The bytes of a shard depend on its samples alone: members have a fixed order, and no time or owner.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, BinaryIO, Final, Protocol

from ..errors import BackendError, OutputError
from .members import SampleFiles

__all__ = ["ParquetShard", "Shard", "TarShard", "load_pyarrow"]

_GROUP_BYTES: Final = 64 << 20
"""Size of encoded files from which on a row group of Parquet is complete."""
_OF_FOLDERS: Final = ("files", "bytes")
"""Values of a manifest's row that have no meaning within a shard."""


class Shard(Protocol):
    """A shard that is being written."""

    @property
    def size(self) -> int:
        """Bytes of the samples so far."""

    def add(self, key: str, sample: SampleFiles, contents: Seq[bytes], row: Mapping[str, Any]) -> None:
        """Add a sample."""

    def finish(self) -> None:
        """Write what remains; the file is then complete."""


class TarShard:
    """A tar archive of WebDataset: the files of a sample follow one another and share their name up to the first dot.

    Frames are ``KEY.000.jpg``, single images ``KEY.jpg``, other parts ``KEY.mask.png``; a class is ``KEY.cls``, and all
    values are in ``KEY.json``.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115  closed by finish
        self.size = 0

    def add(self, key: str, sample: SampleFiles, contents: Seq[bytes], row: Mapping[str, Any]) -> None:
        """See :class:`Shard`."""
        if "." in key.rpartition("/")[2]:
            raise OutputError(
                f"the key {key!r} of sample {sample.index} has a dot, at which WebDataset ends it",
                source=sample.source or None,
                advice="Give a pattern without {name} and {stem}, such as '{sample:08d}'",
            )
        for member, content in zip(sample.members, contents, strict=True):
            self._add(
                f"{key}.{_member_suffix(member.part, member.position, member.ending, sample.lead)}", content
            )
        label = sample.values.get("label")
        if isinstance(label, int) and not isinstance(label, bool):
            self._add(f"{key}.cls", str(label).encode())
        values = {name: value for name, value in row.items() if name not in _OF_FOLDERS}
        self._add(f"{key}.json", json.dumps(values, allow_nan=False).encode())

    def _add(self, name: str, content: bytes) -> None:
        """Add a file to the archive."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o644
        self._tar.addfile(info, io.BytesIO(content))
        self.size += len(content)

    def finish(self) -> None:
        """See :class:`Shard`."""
        self._tar.close()


class ParquetShard:
    """A Parquet file with a row for each sample.

    Columns are ``sample``, ``key``, ``source``, the values by name, and for each part with files its encoded frames, a
    list of binary. The file's metadata ``seqpipe`` is JSON: the encoding and the number of axes of each part.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._parquet, self._file = load_pyarrow(), file
        self._rows, self._waiting = list[dict[str, Any]](), 0
        self._writer: Any = None
        self._parts: dict[str, dict[str, Any]] = {}
        self.size = 0

    def add(self, key: str, sample: SampleFiles, contents: Seq[bytes], row: Mapping[str, Any]) -> None:
        """See :class:`Shard`."""
        values = {name: _in_utf8(value) for name, value in row.items() if name not in _OF_FOLDERS}
        result: dict[str, Any] = {**values, "key": _in_utf8(key)}
        for member, content in zip(sample.members, contents, strict=True):
            if member.part in values:
                raise OutputError(
                    f"the part {member.part!r} has the name of a column",
                    allowed="other names than sample, key, source and error",
                )
            result.setdefault(member.part, []).append(content)
            self._parts.setdefault(
                member.part, {"encoding": member.ending, "frames": member.position is not None}
            )
            self._waiting += len(content)
            self.size += len(content)
        self._rows.append(result)
        if self._waiting >= _GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the rows that wait as a group."""
        import pyarrow

        if not self._rows:
            return
        schema = None if self._writer is None else self._writer.schema
        try:
            if schema is None:
                names = list(dict.fromkeys(name for row in self._rows for name in row))
                columns = {name: [row.get(name) for row in self._rows] for name in names}
                table = pyarrow.table(columns)
                known = {b"seqpipe": json.dumps({"parts": self._parts}, sort_keys=True).encode()}
                table = table.replace_schema_metadata(known)
                self._writer = self._parquet.ParquetWriter(self._file, table.schema)
            else:
                table = pyarrow.Table.from_pylist(self._rows, schema=schema)
        except pyarrow.ArrowException as error:
            raise OutputError(
                f"the samples from {self._rows[0]['sample']} on have values of other types than those before ({error})",
                advice="Leave the value out with parts=…",
            ) from error
        self._writer.write_table(table)
        self._rows, self._waiting = [], 0

    def finish(self) -> None:
        """See :class:`Shard`."""
        import pyarrow

        self._write()
        if self._writer is None:  # every sample was left out
            self._writer = self._parquet.ParquetWriter(
                self._file, pyarrow.schema({"sample": pyarrow.int64(), "key": pyarrow.string()})
            )
        self._writer.close()


def _in_utf8(value: Any) -> Any:
    """Return a text with bytes that are not UTF-8 escaped, as in names of files; other values as they are."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def _member_suffix(part: str, position: int | None, ending: str, lead: str) -> str:
    """Return the end of a member's name, after the key and a dot: the first part's files have no name of the part."""
    names = [] if part == lead else [part.replace(".", "_")]
    names += [] if position is None else [f"{position:03d}"]
    return ".".join([*names, ending])


def load_pyarrow() -> Any:
    """Return ``pyarrow.parquet``."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise BackendError(
            "parquet needs pyarrow, which is not installed",
            advice="Install it: pip install 'seqpipe[parquet]', or choose another format",
        ) from error
    return pyarrow.parquet
