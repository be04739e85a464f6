"""PublishedFile: a published list of videos, its rows, and the files that it names."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ..errors import ManifestError, ParameterError, SourceNotFoundError, warn_caller
from ..param import check_path, choice
from ..video.source.extensions import is_video
from .entry import Entry, Listing
from .labels import LabelParser
from .manifest import bad_line, text_of
from .ranges import Range

__all__ = ["Missing", "PublishedFile", "listing_of_files"]

Missing: TypeAlias = Literal["raise", "skip"]

_MISSING: Final = choice("missing", "What becomes of videos that are listed but not there", ("raise", "skip"))


class PublishedFile:
    """A list of videos as it was published.

    Args:
        path: of the file.
        root: what the names of videos start at, a folder or a URL; by default the folder of the file.
        missing: what becomes of videos that are not there.

    Attributes:
        path: of the file.
        folder: that it is in.
        lost: the names of videos that are not there.

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(
        self, path: str | os.PathLike[str], root: str | os.PathLike[str] | None, missing: Missing
    ) -> None:
        self.path = check_path("path", path)
        self.folder = Path(self.path).parent
        self._root = str(self.folder) if root is None else check_path("root", root).rstrip("/")
        self._missing = _MISSING.check(missing)
        self._folders: dict[str, dict[str, str]] = {}
        self.lost: list[str] = []

    def lines(self) -> Iterator[tuple[int, str]]:
        """Its lines that hold something, stripped, with their numbers."""
        for line, text in enumerate(text_of(self.path, Path(self.path)).splitlines(), 1):
            if text.strip():
                yield line, text.strip()

    def rows(self, *counts: int) -> Iterator[tuple[int, list[str]]]:
        """The rows of a CSV file without a header; each has one of these numbers of fields.

        Raises:
            ManifestError: a row has another number.
        """
        reader = csv.reader(io.StringIO(text_of(self.path, Path(self.path)), newline=""))
        for row in reader:
            if row and len(row) not in counts:
                told = " or ".join(map(str, counts))
                raise self.bad(reader.line_num, f"the line has {len(row)} fields", allowed=told)
            if row:
                yield reader.line_num, [text.strip() for text in row]

    def table(self, needed: Seq[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows of a CSV file with a header.

        Args:
            needed: columns that have to be there.

        Raises:
            ManifestError: one is not, or a row has another number of fields than the header.
        """
        reader = csv.reader(io.StringIO(text_of(self.path, Path(self.path)), newline=""))
        names = [name.strip() for name in next(reader, [])]
        if lacking := [name for name in needed if name not in names]:
            raise self.bad(1, f"there is no column {lacking[0]!r}", allowed=", ".join(needed))
        for row in reader:
            if row and len(row) != len(names):
                raise self.bad(
                    reader.line_num, f"the line has {len(row)} fields, but the header names {len(names)}"
                )
            if row:
                yield reader.line_num, dict(zip(names, (text.strip() for text in row), strict=True))

    def json(self) -> Any:
        """What it holds as JSON.

        Raises:
            ManifestError: it is no JSON.
        """
        try:
            return json.loads(text_of(self.path, Path(self.path)))
        except ValueError as error:
            raise ManifestError(f"the file is not JSON ({error})", source=self.path) from error

    def find(self, line: int, names: Seq[str], *, exact: bool = False) -> str | None:
        """The path or URL of a video; None if it is missing and may be.

        Args:
            line: that names it.
            names: below the root; the first that is there is taken.
            exact: whether these have their endings; otherwise any ending of a video is taken.

        Raises:
            SourceNotFoundError: none of them is there, and may not be missing.
        """
        if "://" in self._root:  # what is there is not known
            return f"{self._root}/{names[0]}" + ("" if exact else ".mp4")
        for name in names:
            folder, _, last = os.path.join(self._root, name).rpartition("/")  # noqa: PTH118  absolute names replace it
            found = self._inside(folder).get(f"={last}" if exact else last)
            if found is not None:
                return f"{folder}/{found}"
        if self._missing == "raise":
            raise SourceNotFoundError(
                f"the video {names[0]!r} of line {line} is not there",
                source=f"{self._root}/{names[0]}",
                advice=f"It is named in {self.path}; give root=…, or missing='skip' to leave such videos out",
            )
        self.lost.append(names[0])
        return None

    def entry(
        self,
        line: int,
        name: str,
        label: Any,
        part: Range | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Entry:
        """A video of it.

        Args:
            line: that names it.
            name: its path or URL.
            label: as a :class:`LabelParser` made it.
            part: to use.
            fields: what else is said.
        """
        key = name.removeprefix(f"{self._root}/")
        return Entry(name, key, label, part, f"It is named in line {line} of {self.path}", fields or {})

    def float(self, line: int, text: str) -> float:
        """A field as a number.

        Raises:
            ManifestError: it is none.
        """
        try:
            return float(text)
        except ValueError as error:
            raise self.bad(line, f"{text!r} is not a number") from error

    def bad(
        self, line: int, fact: str, *, allowed: str | None = None, advice: str | None = None
    ) -> ManifestError:
        """The error that names a line."""
        return bad_line(self.path, line, fact, allowed=allowed, advice=advice)

    @contextmanager
    def naming(self, line: int) -> Iterator[None]:
        """A context whose errors about labels and ranges name a line."""
        try:
            yield
        except ParameterError as error:
            raise self.bad(line, error.fact, allowed=error.allowed, advice=error.advice) from error

    def _inside(self, folder: str) -> dict[str, str]:
        """The files of a folder: by "=" and their names, and videos by their names without endings."""
        if folder not in self._folders:
            try:
                with os.scandir(folder or "/") as found:
                    names = sorted(item.name for item in found)
            except OSError:  # a folder that is not there holds nothing
                names = []
            self._folders[folder] = {os.path.splitext(name)[0]: name for name in names if is_video(name)}  # noqa: PTH122  very many
            self._folders[folder] |= {f"={name}": name for name in names}
        return self._folders[folder]


def listing_of_files(files: Seq[PublishedFile], entries: Seq[Entry], labels: LabelParser) -> Listing:
    """The listing of what files name, with a warning that counts missing videos.

    Raises:
        SourceNotFoundError: none of the videos is there.
    """
    lost = [name for file in files for name in file.lost]
    if lost and not entries:
        raise SourceNotFoundError(
            f"none of the {len(lost)} videos is there, the first is {lost[0]!r}",
            source=files[0].path,
            advice="Give root=…, the folder of the videos",
        )
    if not entries:
        raise ManifestError(
            "the file names no video", source=files[0].path, allowed="one line for each video"
        )
    if lost:
        warn_caller(
            f"{len(lost)} of {len(lost) + len(entries)} videos of {files[0].path} are not there and left out, such as "
            f"{lost[0]!r}"
        )
    return Listing.of(entries, labels)
