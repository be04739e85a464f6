"""The test media: videos made here (data_scripts/make_videos.py) and the shared real ones."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import functools
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from data_scripts.make_videos import ITEMS, make, sample
from data_scripts.media_item import Entry, State

from .kept import kept_folder

__all__ = [
    "MADE_DIR",
    "ROOT",
    "entries",
    "entry",
    "made",
    "made_all",
    "names",
    "sampled",
    "shared_manifest",
    "shared_media",
    "shared_of",
]

ROOT = Path(__file__).resolve().parents[2]
_MAKERS = "av", "imageio-ffmpeg", "numpy", "opencv-python-headless", "nibabel", "SimpleITK", "zarr", "pydicom"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _made_dir() -> Path:
    """``.media``, where it was packed for a machine that makes none; else a folder that is kept between runs."""
    packed = ROOT / ".media"
    if packed.is_dir():
        return packed
    programs = [(path.name, path.read_text("utf-8")) for path in sorted((ROOT / "data_scripts").glob("*.py"))]
    return kept_folder("media", (programs, [(package, _version(package)) for package in _MAKERS]))


MADE_DIR = _made_dir()
"""What the programs in data_scripts make."""


def names(state: State | None = None) -> list[str]:
    """Declared items, or those of one state, for parametrising a test without making anything."""
    return [item.name for item in ITEMS.values() if state in (None, item.state)]


def made(name: str) -> Path:
    """The file of an item, made if it must be; skips the test, with the reason, where it cannot be made here.

    Raises:
        KeyError: no item of that name.
    """
    return MADE_DIR / entry(name).file


def entry(name: str) -> Entry:
    """What is known of a made item; skips as :func:`made`."""
    ITEMS[name]
    item = entries()[name]
    if item.state == "skipped":
        pytest.skip(f"the item {name} cannot be made here: {item.note}")
    return item


def made_all(state: State | None = None) -> list[Entry]:
    """All items that could be made, or those of one state."""
    return [item for item in entries().values() if item.state != "skipped" and state in (None, item.state)]


@functools.cache
def entries() -> dict[str, Entry]:
    """Every item of the table, made once; processes wait for each other."""
    with _lock(MADE_DIR / ".lock"):
        return {item.name: item for item in make(MADE_DIR)}


def sampled(size: tuple[int, int] = (640, 360)) -> Path:
    """The documentation's sample, (columns, rows) large."""
    path = MADE_DIR / f"sample_{size[0]}x{size[1]}.mp4"
    if not path.exists():
        sample(path, size=size)
    return path


def shared_media() -> Path:
    """Folder of the shared real media: SEQPIPE_MEDIA, or ../shared/media; skips where there is none."""
    folder = Path(os.environ.get("SEQPIPE_MEDIA", ROOT.parent / "shared" / "media"))
    if not (folder / "MANIFEST.tsv").is_file():
        pytest.skip(f"no shared media in {folder}; set SEQPIPE_MEDIA to the folder that holds MANIFEST.tsv")
    return folder


def shared_manifest(kind: str = "video") -> list[dict[str, str]]:
    """Lines of the shared media's MANIFEST.tsv, by column name, of one kind (``video`` or ``volume``)."""
    with (shared_media() / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row["kind"] == kind]


def shared_of(kind: str) -> list[Path]:
    """Paths of the shared media of one kind; empty, with a line that says why, where there are none."""
    try:
        return [shared_media() / row["file"] for row in shared_manifest(kind)]
    except pytest.skip.Exception as reason:
        print(reason, flush=True)  # noqa: T201  for programs; tests name what they miss
        return []


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One process at a time; the system frees the lock of a process that died."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
