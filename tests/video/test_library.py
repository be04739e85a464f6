"""The videos that threads share: opened once, their indexes kept, nothing stale ever used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seqpipe.video.index import open as library
from seqpipe.video.index.open import IndexOptions, Library, open_index
from tests.support import media


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the sources whose index was taken from the disk, or built."""
    names: list[str] = []
    real = open_index

    def counted(source: object, **options: object) -> object:
        names.append(source.name)  # type: ignore[attr-defined]  # the library opens sources
        return real(source, **options)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(library, "open_index", counted)
    return names


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A few copies of a video."""
    paths = [tmp_path / f"{i}.mp4" for i in range(4)]
    for path in paths:
        shutil.copy(media.made("h264"), path)
    return [str(path) for path in paths]


def test_a_video_is_opened_once(files: list[str], opened: list[str], tmp_path: Path) -> None:
    """The same name gives the same video."""
    shelf = Library(IndexOptions(tmp_path))
    assert shelf.video(files[0]) is shelf.video(files[0])
    assert opened == files[:1]


def test_an_index_outlives_its_open_file(
    files: list[str], opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was put away is opened anew, with the index that is already there."""
    monkeypatch.setattr(library, "_OPEN_VIDEOS", 2)
    shelf = Library(IndexOptions(tmp_path))
    first = shelf.video(files[0])
    for path in files[1:]:
        shelf.video(path)
    again = shelf.video(files[0])
    assert again is not first
    assert again.index is first.index
    assert opened == files


def test_a_replaced_file_gets_an_index_of_its_own(
    files: list[str], opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of a file that has changed is not used."""
    monkeypatch.setattr(library, "_OPEN_VIDEOS", 1)
    shelf = Library(IndexOptions(tmp_path))
    before = shelf.video(files[0])
    shelf.video(files[1])
    shutil.copy(media.made("vfr"), files[0])
    after = shelf.video(files[0])
    assert after.index.end_s != before.index.end_s
    assert opened == [files[0], files[1], files[0]]


def test_indexes_are_bounded_in_bytes(
    files: list[str], opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used index goes first; the one that is asked for stays."""
    monkeypatch.setattr(library, "_OPEN_VIDEOS", 1)
    shelf = Library(IndexOptions(tmp_path))
    size = library._bytes(shelf.video(files[0]).index)
    monkeypatch.setattr(library, "_INDEX_BYTES", 2 * size)
    for path in (files[1], files[2], files[1], files[0]):
        shelf.video(path)
    assert opened == [files[0], files[1], files[2], files[0]]


def test_messages_keep_the_name_that_the_user_gave(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names of one file have an index each, since an index says what its source is called."""
    monkeypatch.chdir(tmp_path)
    shelf = Library(IndexOptions(tmp_path / "cache"))
    assert [shelf.video(name).index.info.source for name in (files[0], "0.mp4")] == [files[0], "0.mp4"]


def test_other_bytes_are_another_video(tmp_path: Path) -> None:
    """An object that is gone leaves its id to others, which must not be taken for it."""
    shelf = Library(IndexOptions(tmp_path))
    ends = [shelf.video(bytearray(media.made(name).read_bytes())).index.end_s for name in ("h264", "vfr") * 3]
    assert len(set(ends[::2])) == len(set(ends[1::2])) == 1
    assert ends[0] != ends[1]
