"""Bytes from files, memory, file objects and object stores."""

from __future__ import annotations

import io
import mmap
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from seqpipe.errors import (
    BackendError,
    ParameterError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from seqpipe.video.index.open import open_index
from seqpipe.video.reader import VideoReader
from seqpipe.video.source.source import open_source
from tests.support.media import made

ODD_NAMES = [
    "with space.mp4",
    "a:b.mp4",
    "http:x.mp4",
    "100%d.mp4",
    "new\nline.mp4",
    "Größe-日本.mp4",
    "-dash.mp4",
]

CLOSED = io.BytesIO(b"video")
CLOSED.close()


@pytest.fixture(scope="module")
def video():
    return made("h264")


@pytest.fixture(scope="module")
def expected(video):
    return VideoReader(video)[5:40:7]


@pytest.mark.parametrize(
    "kind", ["str", "path", "bytes", "bytearray", "memoryview", "file", "BytesIO", "file URL"]
)
def test_every_kind_of_origin_gives_the_same_frames(kind, video, expected):
    data = video.read_bytes()
    origins = {
        "str": str(video),
        "path": video,
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "BytesIO": io.BytesIO(data),
        "file URL": f"file://{video}",
    }
    if kind == "file":
        with video.open("rb") as file:
            file.seek(100)
            found = VideoReader(file)[5:40:7]
            assert not file.closed
    else:
        found = VideoReader(origins[kind])[5:40:7]
    assert (found.numpy() == expected.numpy()).all()
    assert found.frames.tolist() == [5, 12, 19, 26, 33]


class _Plain:
    """A file object with the least that reading at random takes, without a word on whether it can seek."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


class _InPieces(io.RawIOBase):
    """One that gives less than it is asked for, as those without a buffer may."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(memoryview(buffer)[:100])


@pytest.mark.parametrize("kind", [_Plain, _InPieces, "mmap"])
def test_file_objects_need_no_more_than_to_read_and_to_seek(kind, video, expected):
    """``seekable`` is new in Python 3.13 for mmap, in 3.11 for spooled files: they were an AttributeError before."""
    data = video.read_bytes()
    if kind == "mmap":
        with video.open("rb") as file:
            origin = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    else:
        origin = kind(data)
    with VideoReader(origin) as reader:
        assert reader.index.by_offset
        assert (reader[5:40:7].numpy() == expected.numpy()).all()


def test_a_file_object_that_is_closed_meanwhile_is_named(video):
    file = io.BytesIO(video.read_bytes())
    with VideoReader(file) as reader:
        file.close()
        with pytest.raises(
            SourceError, match=r"<BytesIO>: the file object cannot be read \(I/O operation on clo"
        ):
            reader[3]


def test_urls_may_be_chained(video, expected):
    """As fsspec does it: what is read is kept on disk."""
    with VideoReader(f"simplecache::file://{video}") as reader:
        assert (reader[5:40:7].numpy() == expected.numpy()).all()
    with pytest.raises(BackendError, match=r"no package for nosuch:// is installed"):
        open_source("simplecache::nosuch://a/b.mp4")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_files(name, video, tmp_path, monkeypatch):
    (tmp_path / name).write_bytes(video.read_bytes())
    monkeypatch.chdir(tmp_path)
    for origin in (name, str(tmp_path / name), tmp_path / name):
        with VideoReader(origin) as reader:
            assert reader[3].source == os.fspath(origin)


def test_the_error_for_a_relative_path_says_where_the_file_was_looked_for(tmp_path, monkeypatch):
    """After a change of the working folder, nothing said so."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceNotFoundError) as raised:
        open_source("clip.mp4")
    assert raised.value.source == "clip.mp4"
    assert f"Check the path, now {tmp_path}/clip.mp4; a URL" in str(raised.value)
    with pytest.raises(SourceNotFoundError, match="Check the path; a URL needs its scheme"):
        open_source(f"{tmp_path}/clip.mp4")


@pytest.mark.parametrize("name", ["two words.mp4", "50% käse.mp4", "a%20b.mp4"])
def test_a_file_url_may_be_escaped_or_not(name, video, tmp_path):
    path = tmp_path / name
    path.write_bytes(video.read_bytes())
    for url in (path.as_uri(), f"file://{path}", path.as_uri().replace("file://", "file://localhost")):
        with VideoReader(url) as reader:
            assert reader[3].source == str(path)
    with pytest.raises(SourceNotFoundError, match=r"not here\.mp4"):
        open_source((tmp_path / "not here.mp4").as_uri())


def test_threads_read_one_file_without_disturbing_each_other(video):
    data = video.read_bytes()
    for source in (open_source(video), open_source(data), open_source(io.BytesIO(data))):
        ranges = [(i * 37 % len(data), 50 + i % 100) for i in range(400)]
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda r, s=source: s.read([r])[0], ranges))
        assert parts == [data[o : o + n] for o, n in ranges]
        assert source.size() == len(data)


@pytest.mark.parametrize(
    ("origin", "error", "match"),
    [
        ("", SourceNotFoundError, r"^the path '' is empty; allowed: a path or a URL\.$"),
        ("/no/such/file.mp4", SourceNotFoundError, r"/no/such/file\.mp4: no such file .*Check the path"),
        (b"", UnreadableSourceError, r"empty \(0 bytes\)"),
        (os.sep, UnreadableSourceError, r"this is a folder.*seqpipe\.videos"),
        (3, ParameterError, r"an object of type int cannot be opened; allowed: a path, a URL, bytes"),
        ("nosuchscheme://a/b.mp4", BackendError, r"no package for nosuchscheme://"),
        ("memory://none/such.mp4", SourceNotFoundError, r"memory://none/such\.mp4: no such object"),
        (
            io.StringIO("text"),
            ParameterError,
            r"<StringIO>: the file object returns text\. Open it with mode 'rb'",
        ),
        (
            CLOSED,
            ParameterError,
            r"<BytesIO>: the file object cannot be read \(I/O operation on closed file\.\)",
        ),
    ],
)
def test_what_cannot_be_opened_says_why(origin, error, match):
    with pytest.raises(error, match=match):
        open_source(origin)


def test_links_that_lead_nowhere_are_named_as_links(tmp_path):
    (tmp_path / "gone.mp4").symlink_to("elsewhere.mp4")
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    with pytest.raises(SourceNotFoundError, match=r"no such file .* It is a link: restore the file"):
        open_source(tmp_path / "gone.mp4").stamp()
    with pytest.raises(
        SourceError, match=r"loop.mp4: cannot be opened \(Too many levels of symbolic links\)"
    ):
        open_source(tmp_path / "loop.mp4").stamp()


def test_a_host_that_does_not_answer_is_not_a_missing_object():
    pytest.importorskip("aiohttp", reason="https:// needs the extra http")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and never listens: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/clip.mp4"
        with pytest.raises(SourceError, match=r"clip\.mp4: cannot be reached \(.*Cannot connect") as refused:
            open_source(url).stamp()
    assert not isinstance(refused.value, SourceNotFoundError)


def test_a_pipe_is_refused():
    read_end, write_end = os.pipe()
    with (
        os.fdopen(read_end, "rb") as pipe,
        os.fdopen(write_end, "wb"),
        pytest.raises(ParameterError, match="cannot seek"),
    ):
        open_source(pipe)


def test_a_named_pipe_and_a_device_are_refused_as_such(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    for path in (tmp_path / "pipe.mp4", os.devnull):
        with pytest.raises(UnreadableSourceError, match=r"a pipe or a device.*to a file first"):
            open_source(path)


def test_a_source_that_another_thread_closes_during_a_read_is_read_to_the_end(video, monkeypatch):
    """The descriptor was closed at once: the read failed, or read another file that had got its number."""
    source, pread = open_source(str(video)), os.pread

    def closing_first(*arguments: int) -> bytes:
        source.close()
        return pread(*arguments)

    monkeypatch.setattr(os, "pread", closing_first)
    assert source.read([(0, 64)]) == [video.read_bytes()[:64]]


def test_a_file_object_whose_size_cannot_be_found_is_named():
    class Stream(io.BytesIO):
        def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
            if whence == os.SEEK_END:
                raise OSError("its end is unknown")
            return super().seek(offset, whence)

    with pytest.raises(
        SourceError, match=r"^<Stream>: the file object cannot be read \(its end is unknown\)"
    ):
        open_source(Stream(b"video"))


def test_a_file_that_shrank_after_indexing_is_an_error(video, tmp_path):
    copy = tmp_path / "shrinking.mp4"
    copy.write_bytes(video.read_bytes())
    with VideoReader(copy) as reader:
        os.truncate(copy, 2000)
        with pytest.raises(SourceError, match=r"packet \d+ differs from the file.s index.*open it again"):
            reader[40]


def test_fsspec_urls_are_cached_by_their_tag(video, tmp_path):
    import fsspec

    with fsspec.open("memory://folder/video.mp4", "wb") as target:
        target.write(video.read_bytes())
    index = open_index("memory://folder/video.mp4", cache_dir=tmp_path)
    assert index.by_offset
    assert len(index) == len(open_index(video, cache_dir=tmp_path))
    assert (VideoReader("memory://folder/video.mp4")[7].numpy() == VideoReader(video)[7].numpy()).all()


def test_objects_of_other_stores_are_looked_at_again(video, monkeypatch):
    import fsspec

    url = "memory://folder/replaced.mp4"
    with fsspec.open(url, "wb") as target:
        target.write(video.read_bytes())
    source = open_source(url)
    assert source.read([(5000, 64)]) == [video.read_bytes()[5000:5064]]
    with fsspec.open(url, "wb") as target:
        target.write(bytes(video.stat().st_size))
    monkeypatch.setattr("seqpipe.video.source.remote_object._RECHECK_S", 0.0)
    with pytest.raises(SourceError, match="it was replaced while it was open"):
        source.read([(5000, 64)])


@pytest.mark.parametrize("words", ["The provided token has expired.", "Forbidden"])
def test_credentials_that_expire_are_named(video, monkeypatch, words):
    import fsspec

    url = "memory://folder/expired.mp4"
    with fsspec.open(url, "wb") as target:
        target.write(video.read_bytes())
    source = open_source(url)

    def refuse(*_, **__):
        raise PermissionError(words)

    monkeypatch.setattr(type(source._fs), "cat_ranges", refuse)
    with pytest.raises(SourceError, match=f"cannot be read \\({words}\\).*may have expired: renew them"):
        source.read([(5000, 64)])
