"""HTTP servers of every kind: with ranges, without, and with answers that are not what was asked for."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from seqpipe.core.limits import DOWNLOAD_GIB, REQUESTS
from seqpipe.errors import ParameterError, SourceError, SourceNotFoundError
from seqpipe.video.index.open import open_index
from seqpipe.video.reader import VideoReader
from seqpipe.video.source import remote
from seqpipe.video.source.source import open_source
from tests.support.media import MADE_DIR, made

pytest.importorskip("aiohttp")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Repeat failed requests at once."""
    monkeypatch.setattr(remote, "_WAIT_S", 0.0)


ITEMS = ("h264", "vp9")  # read by offsets, and through the demuxer


class _Handler(BaseHTTPRequestHandler):
    """A server of one file, whose behavior its class attribute decides."""

    data = b""
    mode = "ranges"
    asked: list[str | None] = []  # noqa: RUF012  of the server's class
    etag = ""
    stop = threading.Event()

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, *, body: bool) -> None:
        data, mode, span = self.data, self.mode, self.headers.get("Range")
        if body:
            self.asked.append(span)
        status, headers = 200, {"ETag": self.etag or f'"{id(data)}"'}
        if mode == "stall" and body:
            self.stop.wait(10)
            return
        if refused := self._refused(body=body):
            status, data = refused
        elif span and mode not in ("whole", "silent"):
            begin, end = map(int, re.findall(r"\d+", span))
            status, data = 206, data[begin : end + 1]
            stated = f"bytes {begin}-{begin + len(data) - 1}/{len(self.data)}"
            if mode == "other range":
                data, stated = self.data[: len(data)], f"bytes 0-{len(data) - 1}/{len(self.data)}"
            elif mode == "unnamed":
                stated = ""
            elif mode == "grown":
                stated = stated.replace(f"/{len(self.data)}", f"/{len(self.data) + 1}")
            if stated:
                headers["Content-Range"] = stated
        cut = mode == "cut" and body
        if mode != "silent":
            headers["Content-Length"] = str(len(data))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = True

    def _refused(self, *, body: bool) -> tuple[int, bytes] | None:
        """The status and text of an answer that is no file."""
        match = self.headers.get("If-Match")
        if self.mode == "If-Match" and match and match != self.etag:
            return 412, b""
        if body and self.mode in ("expired", "gone"):
            return (403, b"") if self.mode == "expired" else (503, b"busy")
        return None


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts servers, and gives their addresses."""
    servers: list[ThreadingHTTPServer] = []

    def start(handler: Any, name: str = "") -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/{name}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def one_file(name: str, mode: str) -> type[_Handler]:
    return type("_OneFile", (_Handler,), {"data": made(name).read_bytes(), "mode": mode, "asked": []})


@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize("mode", ["ranges", "whole", "silent", "http.server"])
def test_whatever_a_server_can_do_the_frames_are_the_files(serve, tmp_path, name, mode):
    """Python's own answers every range with the whole file: its first bytes were taken for those asked for."""
    path = made(name)
    if mode == "http.server":
        handler = partial(_Quiet, directory=str(MADE_DIR))
        url = serve(handler, path.relative_to(MADE_DIR).as_posix())
    else:
        url = serve(one_file(name, mode), path.name)
    with VideoReader(path) as here, VideoReader(url, cache_dir=tmp_path) as there:
        assert (there[3:30:7].numpy() == here[3:30:7].numpy()).all()
        assert there.index.packets.offset.tolist() == here.index.packets.offset.tolist()
    with VideoReader(path) as here, VideoReader(url, cache_dir=tmp_path) as again:
        assert (again[17].numpy() == here[17].numpy()).all()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_source_without_ranges_is_read_once(serve):
    handler = one_file("h264", "whole")
    source = open_source(serve(handler, "v.mp4"))
    for offset in (100, 7000, 50):
        assert source.read([(offset, 64), (offset + 2**20, 64)])[0] == handler.data[offset : offset + 64]
    assert handler.asked.count(None) == 1


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("other range", r"bytes 5000-5063/\d+ were requested, the server sends bytes 0-63/"),
        ("unnamed", "the server sends an unnamed range"),
        ("grown", r"the server sends bytes 5000-5063/"),
        ("cut", r"cannot be read \(the connection broke: .*; 4 attempts\)"),
        ("gone", "the server answers 503 Service Unavailable; 4 attempts"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_an_error(serve, mode, said):
    source = open_source(serve(one_file("h264", mode), "v.mp4"))
    with pytest.raises(SourceError, match=f"^{re.escape(source.name)}: .*{said}"):
        source.read([(5000, 64)])


def test_what_fails_for_the_moment_is_asked_for_again(serve, monkeypatch):
    handler = one_file("h264", "ranges")
    answers = iter(["gone", "cut", "ranges", "gone", "ranges"])
    answer = handler._answer

    def changing(self, *, body):
        type(self).mode = next(answers)
        answer(self, body=body)

    url = serve(handler, "v.mp4")
    source = open_source(url)
    monkeypatch.setattr(handler, "_answer", changing)
    assert source.read([(5000, 64)]) == [handler.data[5000:5064]]
    assert len(handler.asked) == 3
    assert open_source(url).size() == len(handler.data), "details, too"


@pytest.mark.parametrize("status", [503, 404])
def test_a_busy_server_is_not_taken_for_a_missing_file(serve, status):
    class Refusing(_Quiet):
        def do_HEAD(self):
            self.send_error(status)

        def do_GET(self):
            self.send_error(status)

    error, said = (
        (SourceError, "cannot be reached.*503") if status == 503 else (SourceNotFoundError, "no such object")
    )
    with pytest.raises(error, match=said):
        open_source(serve(Refusing, "v.mp4"))


def test_requests_under_way_are_limited(serve, monkeypatch):
    handler = type("_Large", (_Handler,), {"data": bytes(20 << 19), "asked": []})
    answer, lock, now, most = handler._answer, threading.Lock(), [0], [0]

    def counted(self, *, body):
        with lock:
            now[0] += body
            most[0] = max(most[0], now[0])
        time.sleep(0.005)
        with lock:  # before the answer, behind which the client may ask again
            now[0] -= body
        answer(self, body=body)

    monkeypatch.setattr(handler, "_answer", counted)
    monkeypatch.setattr(remote, "_under_way", WeakKeyDictionary())
    monkeypatch.setenv(REQUESTS.variable, "3")
    source = open_source(serve(handler, "large"))
    assert source.read([(at << 19, 8) for at in range(20)]) == [bytes(8)] * 20
    assert len(handler.asked) == 20
    assert 1 < most[0] <= 3


@pytest.mark.parametrize("mode", ["If-Match", "ranges", "whole"])
def test_a_file_that_is_replaced_while_it_is_open_is_an_error(serve, mode):
    """Parts of two files were put together: the index of one, and packets of the other."""
    handler = one_file("h264", mode)
    handler.etag = '"first"'
    source = open_source(serve(handler, "v.mp4"))
    if mode != "whole":
        assert source.read([(5000, 64)]) == [handler.data[5000:5064]]
    handler.etag = '"second"'
    with pytest.raises(SourceError, match=r'ETag was "first", and is ("second"|another one)'):
        source.read([(5000, 64)])


def test_a_weak_tag_is_compared_and_not_sent(serve):
    handler = one_file("h264", "If-Match")
    handler.etag = 'W/"first"'
    source = open_source(serve(handler, "v.mp4"))
    assert source.read([(5000, 64)]) == [handler.data[5000:5064]]
    handler.etag = 'W/"second"'
    with pytest.raises(SourceError, match=r"it was replaced while it was open.*Open it again"):
        source.read([(5000, 64)])


def test_credentials_that_expire_are_named(serve):
    handler = one_file("h264", "ranges")
    source = open_source(serve(handler, "v.mp4"))
    handler.mode = "expired"
    with pytest.raises(
        SourceError, match=r"the server answers 403.*credentials may have expired: renew them"
    ):
        source.read([(5000, 64)])


def test_a_server_that_falls_silent_is_given_up(serve, monkeypatch):
    handler = one_file("h264", "ranges")
    source = open_source(serve(handler, "v.mp4"))
    handler.mode, handler.stop = "stall", threading.Event()
    monkeypatch.setattr(remote, "_SILENCE_S", 0.3)
    try:
        with pytest.raises(SourceError, match=r"^http://.*the server sent nothing for 0\.3 s"):
            source.read([(5000, 64)])
    finally:
        handler.stop.set()


@pytest.mark.parametrize("mode", ["cut", "gone"])
def test_a_bad_answer_while_indexing_is_an_error_of_the_source(serve, mode):
    with pytest.raises(SourceError, match=r"^http://127"):
        open_index(serve(one_file("vp9", mode), "v.webm"))


def test_a_download_is_bounded(serve, monkeypatch):
    url = serve(one_file("h264", "whole"), "v.mp4")
    monkeypatch.setenv(DOWNLOAD_GIB.variable, "0.00001")
    with pytest.raises(
        SourceError, match=r"does not support byte ranges.*larger than 10737 bytes.*SEQPIPE_MAX_DOWNLOAD_GIB"
    ):
        open_source(url).read([(5000, 64)])
    monkeypatch.setenv(DOWNLOAD_GIB.variable, "much")
    with pytest.raises(
        ParameterError, match="SEQPIPE_MAX_DOWNLOAD_GIB='much' is not valid; allowed: a number above 0"
    ):
        open_source(url).read([(5000, 64)])


def test_a_part_that_an_object_store_leaves_short_is_an_error():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/short/v.mp4", made("h264").read_bytes())
    source = open_source("memory://short/v.mp4")
    memory.pipe("/short/v.mp4", made("h264").read_bytes()[:6000])
    with pytest.raises(SourceError, match="bytes 5000 to 7999 were requested, 1000 bytes were received"):
        source.read([(5000, 3000)])
