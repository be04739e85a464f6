"""PublishedFile: the rows of a published list of videos, and lookup of the files that it names."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from ..core.json_text import parse_json
from ..core.param import check_path, choice
from ..errors import ManifestError, ParameterError, SourceNotFoundError, warn_caller
from ..video.source.names import is_video
from .entry import Entry, Listing, Range
from .labels import LabelParser
from .manifest import bad_line, text_of

__all__ = ["Missing", "PublishedFile", "listing_of_files"]

Missing: TypeAlias = Literal["raise", "skip"]

_MISSING: Final = choice("missing", "Policy for listed videos that do not exist", get_args(Missing))


class PublishedFile:
    """A list of videos in its published format.

    Args:
        path: path of the file.
        root: folder or URL that names of videos are relative to; by default the folder of the file.
        missing: policy for missing videos: "raise" or "skip".

    Attributes:
        path: path of the file.
        folder: folder of the file.
        lost: names of missing videos.

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
        """Yield the lines that are not blank, stripped, with their numbers."""
        for line, text in enumerate(self._text().splitlines(), 1):
            if text.strip():
                yield line, text.strip()

    def rows(self, *counts: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a CSV file without a header, with the numbers of their lines."""
        for line, row in self._csv():
            if len(row) not in counts:
                allowed = " or ".join(map(str, counts))
                raise self.bad(line, f"the line has {len(row)} fields", allowed=allowed)
            yield line, row

    def table(self, needed: Seq[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows of a CSV file by the names of its header, with the numbers of their lines."""
        rows = self._csv()
        _, names = next(rows, (1, []))
        if lacking := [name for name in needed if name not in names]:
            raise self.bad(1, f"there is no column {lacking[0]!r}", allowed=", ".join(needed))
        for line, row in rows:
            if len(row) != len(names):
                raise self.bad(line, f"the line has {len(row)} fields, but the header names {len(names)}")
            yield line, dict(zip(names, row, strict=True))

    def _text(self) -> str:
        """Return the text of the file."""
        return text_of(self.path, Path(self.path))

    def _csv(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that are not empty, with stripped fields."""
        reader = csv.reader(io.StringIO(self._text(), newline=""))
        try:
            for row in reader:
                if row:
                    yield reader.line_num, [field.strip() for field in row]
        except csv.Error as error:
            raise self.bad(reader.line_num, f"the line cannot be read ({error})") from error

    def json(self) -> Any:
        """Return the file's content, parsed as JSON."""
        try:
            return parse_json(self._text())
        except ValueError as error:
            raise ManifestError(f"the file is not JSON ({error})", source=self.path) from error

    def find(self, line: int, names: Seq[str], *, exact: bool = False) -> str | None:
        """Return the path or URL of a video; None if it is missing and ``missing`` is "skip"."""
        if "://" in self._root:  # URLs are not looked up
            return f"{self._root}/{names[0]}" + ("" if exact else ".mp4")
        for name in names:
            folder, _, last = os.path.join(self._root, name).rpartition("/")  # noqa: PTH118  absolute names replace it
            file = self._files_of(folder).get(f"={last}" if exact else last)
            if file is not None:
                return f"{folder}/{file}"
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
        hint: str = "",
    ) -> Entry:
        """Return the entry of a video."""
        key = name.removeprefix(f"{self._root}/")
        return Entry(name, key, label, part, f"It is named in line {line} of {self.path}{hint}", fields or {})

    def float(self, line: int, text: str) -> float:
        """Return a field as a number."""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.bad(line, f"{text!r} is not a number")
        return number

    def bad(
        self, line: int, fact: str, *, allowed: str | None = None, advice: str | None = None
    ) -> ManifestError:
        """Return the error for a line."""
        return bad_line(self.path, line, fact, allowed=allowed, advice=advice)

    @contextmanager
    def naming(self, line: int) -> Iterator[None]:
        """Return a context that turns a ParameterError about a label or range into the error for a line."""
        try:
            yield
        except ParameterError as error:
            raise self.bad(line, error.fact, allowed=error.allowed, advice=error.advice) from error

    def _files_of(self, folder: str) -> dict[str, str]:
        """Return the file names of a folder, keyed by "=" + name, and for videos also by the name without extension."""
        if folder not in self._folders:
            try:
                with os.scandir(folder or "/") as entries:
                    names = sorted(item.name for item in entries)
            except OSError:  # find() reports videos of a missing folder as missing
                names = []
            self._folders[folder] = {os.path.splitext(name)[0]: name for name in names if is_video(name)}  # noqa: PTH122  very many
            self._folders[folder] |= {f"={name}": name for name in names}
        return self._folders[folder]


def listing_of_files(files: Seq[PublishedFile], entries: Seq[Entry], labels: LabelParser) -> Listing:
    """Return a listing of the entries, and warn of missing videos."""
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
