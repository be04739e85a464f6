"""Input files and atomic output files: videos and volumes behind paths; only complete files become visible."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from ...content import HEAD, kind_of_head
from ...errors import OutputError, SeqpipeError, SourceError, UnreadableSourceError, printable
from ...video.source.extensions import VIDEO_ENDINGS, PassedOver, is_video
from ...whole_file import open_new, replacing
from ..terminal.progress import say

__all__ = ["InputFile", "find_inputs", "temporary_path", "told", "write_whole"]

_PIECE = 1 << 20
_VOLUME_ENDINGS = (".nii", ".nii.gz", ".nrrd", ".nhdr", ".mha", ".mhd")
_DICOM_ENDINGS = ("", ".dcm", ".ima")


@dataclass(frozen=True)
class InputFile:
    """One video to work on.

    Attributes:
        path: the path or URL to open it by.
        stem: its name without the ending.
        parent: its folder: below the input folder it was found in, else its folder's name.
    """

    path: str
    stem: str
    parent: str


def find_inputs(paths: Iterable[str]) -> Iterator[InputFile | SeqpipeError]:
    """The videos that files, folders (searched through) and URLs stand for, each once, in the given order.

    Yields:
        An input, or the error of a folder that cannot be used. Whether a file exists is seen when it is
        opened.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _expand(path):
            if isinstance(found, SeqpipeError):
                yield found
                continue
            identity = found.path if "://" in found.path else os.path.abspath(found.path)  # noqa: PTH100  text, no lookup
            if identity not in seen:
                seen.add(identity)
                yield found


def _expand(path: str) -> Iterator[InputFile | SeqpipeError]:
    if path == "-":
        try:
            yield InputFile(_standard_input(), "stdin", "_")
        except OSError as error:
            reason = error.strerror or str(error)
            yield SourceError(f"it cannot be kept in a temporary file ({reason})", source="standard input")
    elif "://" in path:
        name = PurePosixPath(unquote(urlsplit(path).path))
        yield InputFile(path, _stem(name.name) or "video", name.parent.name or "_")
    elif os.path.isdir(path):  # noqa: PTH112  Path.is_dir raises for what may not be looked at, before Python 3.14
        yield from _search(Path(path))
    else:
        yield InputFile(path, _stem(Path(path).name), Path(path).absolute().parent.name or "_")


@functools.cache
def _standard_input() -> str:
    """Standard input as a file: what comes is kept on disk until the program ends, for frames are sought in it."""
    import atexit
    import shutil
    import sys
    import tempfile

    file = tempfile.NamedTemporaryFile(prefix="seqpipe-stdin-")  # noqa: SIM115  open until the program ends
    atexit.register(file.close)
    shutil.copyfileobj(sys.stdin.buffer, file, _PIECE)
    file.flush()
    return file.name


def _search(folder: Path) -> Iterator[InputFile | SeqpipeError]:
    failures: list[OSError] = []
    found, passed = False, PassedOver()
    for root, folders, names in os.walk(folder, onerror=failures.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(root)
        if _is_series(here, names):
            found = True
            folders.clear()
            above = here.parent.relative_to(folder).as_posix() if here != folder else "."
            yield InputFile(root, _stem(here.absolute().name), above)
            continue
        for name in sorted(name for name in names if not name.startswith(".")):
            if is_video(name) or name.lower().endswith(_VOLUME_ENDINGS):
                found, path = True, Path(root, name)
                yield InputFile(str(path), _stem(name), path.parent.relative_to(folder).as_posix())
            else:
                passed.note(name)
    for failure in failures:
        yield SourceError(f"the folder cannot be read ({failure.strerror})", source=failure.filename)
    if found and passed:
        say(f"{printable(str(folder))}: {passed} passed over: their names do not end as those of videos do.")
    if not found and not failures:
        yield UnreadableSourceError(
            f"there is no video in this folder{f', only {passed}' if passed else ''}",
            source=str(folder),
            allowed=f"files that end in {', '.join(VIDEO_ENDINGS)}",
            advice="Name the files themselves if they end differently",
        )


def _is_series(folder: Path, names: Iterable[str]) -> bool:
    """Whether a folder is one volume: of DICOM files, or a Zarr array."""
    if folder.name.endswith(".zarr"):
        return True
    likely = sorted(n for n in names if not n.startswith(".") and Path(n).suffix.lower() in _DICOM_ENDINGS)
    if not likely:
        return False
    try:
        with (folder / likely[0]).open("rb") as file:
            return kind_of_head(file.read(HEAD)) == "dicom"
    except OSError:
        return False


def _stem(name: str) -> str:
    """A file's name without its ending, or both endings of ``.nii.gz``."""
    return Path(name.removesuffix(".gz") if name.lower().endswith(".nii.gz") else name).stem


def temporary_path(path: Path, ending: str) -> Path:
    """A hidden file beside a place, the same every time. The place's name may be as long as names can be."""
    digest = hashlib.sha1(os.fsencode(path.name), usedforsecurity=False).hexdigest()
    return path.with_name(f".{digest}.{ending}")


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Name the file that cannot be written.

    Raises:
        OutputError: as the block does, or for what the file system says in it.
    """
    try:
        yield
    except SeqpipeError:
        raise
    except OSError as error:
        advice = "Free space or choose a folder that you may write to; --resume then goes on from here"
        if error.errno == errno.ENAMETOOLONG:
            advice = "Give shorter names, by --out or --pattern"
        raise OutputError(
            f"cannot write {printable(str(path))} ({error.strerror or error})", advice=advice
        ) from error


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Write a file beside its place and move it there once it is whole.

    Args:
        path: the file's place; its folder is made if need be, and a file that is there is replaced.
        write: writes the content into a binary file.

    Returns:
        The file's size in bytes.

    Raises:
        OutputError: the folder is no folder, is not writable, or the disk is full. Nothing is left behind.
    """
    partial = temporary_path(path, "part")  # which --resume replaces where a killed run has left it
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, beside=partial), open_new(partial) as file:
            write(file)
            return file.tell()
