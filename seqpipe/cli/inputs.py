"""Input files of commands, found in folders: videos and volumes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import click

from ..core.files.content import HEAD, volume_kind
from ..errors import (
    SeqpipeError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
    printable,
)
from ..video.source.names import VIDEO_ENDINGS, SkippedFiles, is_video, leads_back
from .messages import say

__all__ = ["InputFile", "find_inputs", "refuse_mixture", "split"]

_VOLUME_ENDINGS = (
    ".nii",
    ".nii.gz",
    ".nrrd",
    ".nhdr",
    ".mha",
    ".mhd",
    ".mgh",
    ".mgz",
    ".mnc",
    ".gipl",
    ".b2nd",
)
_DICOM_ENDINGS = ("", ".dcm", ".ima")


@dataclass(frozen=True)
class InputFile:
    """One video to work on.

    Attributes:
        path: the path or URL to open it by.
        name: its name with the ending.
        parent: its folder relative to the input folder that was searched, else the name of its folder.
    """

    path: str
    name: str
    parent: str

    @property
    def stem(self) -> str:
        """Its name without the ending, or without both endings of ``.nii.gz``."""
        return Path(
            self.name.removesuffix(".gz") if self.name.lower().endswith(".nii.gz") else self.name
        ).stem


def find_inputs(paths: Iterable[str], *, streamed: bool = False) -> Iterator[InputFile | SeqpipeError]:
    """The videos named by files, folders (searched recursively) and URLs, each once, in the order of the arguments."""
    seen: set[str] = set()
    for path in paths:
        for item in _expand(path, streamed=streamed):
            if isinstance(item, SeqpipeError):
                yield item
                continue
            identity = item.path if item.path == "-" or "://" in item.path else os.path.abspath(item.path)  # noqa: PTH100  text, no lookup
            if identity not in seen:
                seen.add(identity)
                yield item


def split(
    items: Iterable[InputFile | SeqpipeError],
) -> tuple[list[InputFile], list[InputFile | SeqpipeError]]:
    """Split inputs into volumes and all others, by content; unreadable files are among the others."""
    from ..volume.formats.open import is_volume

    volumes: list[InputFile] = []
    others: list[InputFile | SeqpipeError] = []
    for item in items:
        try:
            volume = isinstance(item, InputFile) and is_volume(item.path)
        except SeqpipeError:
            volume = False
        if volume and isinstance(item, InputFile):
            volumes.append(item)
        else:
            others.append(item)
    return volumes, others


def refuse_mixture(video: InputFile, volume: InputFile) -> click.UsageError:
    """The error for an export of videos, such as ``video``, together with volumes."""
    return click.UsageError(
        f"The inputs are videos (such as {printable(video.path)}) and volumes (such as {printable(volume.path)}), "
        "which have different options: export them with two commands, for example with the paths 'DIR/**/*.mp4' and "
        "'DIR/**/*.nii.gz', in quotes.",
        click.get_current_context(),
    )


def _expand(path: str, *, streamed: bool) -> Iterator[InputFile | SeqpipeError]:
    """Yield the inputs that a path of the command line stands for."""
    if path == "-":
        yield from _standard_input(streamed=streamed)
    elif "://" in path:
        name = PurePosixPath(unquote(urlsplit(path).path))
        yield InputFile(path, name.name or "video", name.parent.name or "_")
    elif os.path.isdir(path):  # noqa: PTH112  Path.is_dir raises for what may not be looked at, before Python 3.14
        yield from _search(Path(path))
    elif glob.has_magic(path) and not os.path.lexists(path):
        yield from _matches(path)
    else:
        yield InputFile(path, Path(path).name, Path(path).absolute().parent.name or "_")


def _standard_input(*, streamed: bool) -> Iterator[InputFile | SeqpipeError]:
    """Yield standard input: the file behind it, or itself."""
    from .standard_input import NAME, file_behind, standard_input

    try:
        path = file_behind() or ("-" if streamed else standard_input().copied())
        yield InputFile(path, NAME, "_")
    except OSError as error:
        reason = error.strerror or str(error)
        yield SourceError(f"it cannot be copied to a temporary file ({reason})", source="standard input")


def _matches(pattern: str) -> Iterator[InputFile | SeqpipeError]:
    """The inputs that match a pattern: quoted, for more files than a command line holds, or left as it is by the shell.

    Yields:
        The inputs, or the error that there are none.
    """
    paths = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  keeps the text of the path
    for path in paths:
        yield from _expand(path, streamed=False)
    if not paths:
        yield SourceNotFoundError(
            "no file matches this pattern",
            source=pattern,
            advice="Check the path; ** stands for folders at any depth",
        )


def _search(folder: Path) -> Iterator[InputFile | SeqpipeError]:
    """Yield the videos and volumes of a folder and of all folders in it."""
    failures: list[OSError] = []
    any_file, skipped = False, SkippedFiles()
    for root, folders, names in os.walk(folder, onerror=failures.append, followlinks=True):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and not leads_back(f"{root}/{n}"))
        here = Path(root)
        if _is_series(here, names):
            any_file = True
            folders.clear()
            above = here.parent.relative_to(folder).as_posix() if here != folder else "."
            yield InputFile(root, here.absolute().name, above)
            continue
        for name in sorted(name for name in names if not name.startswith(".")):
            if is_video(name) or name.lower().endswith(_VOLUME_ENDINGS):
                any_file, path = True, Path(root, name)
                yield InputFile(str(path), name, path.parent.relative_to(folder).as_posix())
            else:
                skipped.note(name)
    for failure in failures:
        yield SourceError(f"the folder cannot be read ({failure.strerror})", source=failure.filename)
    if any_file and skipped:
        say(f"{printable(str(folder))}: {skipped} skipped: their names do not have an ending of a video.")
    if not any_file and not failures:
        yield UnreadableSourceError(
            f"there is no video in this folder{f', only {skipped}' if skipped else ''}",
            source=str(folder),
            allowed=f"files that end in {', '.join(VIDEO_ENDINGS)}",
            advice="Pass the files themselves if they have another ending",
        )


def _is_series(folder: Path, names: Iterable[str]) -> bool:
    """Whether a folder is one volume: a DICOM series, or a Zarr array."""
    if folder.name.endswith(".zarr"):
        return True
    likely = sorted(n for n in names if not n.startswith(".") and Path(n).suffix.lower() in _DICOM_ENDINGS)
    if not likely:
        return False
    try:
        with (folder / likely[0]).open("rb") as file:
            return volume_kind(file.read(HEAD)) == "dicom"
    except OSError:
        return False
