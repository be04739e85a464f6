"""Decoding in children gives what decoding in threads gives, damage and all; and nothing of them is left."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from data_scripts.frame_code import find, read
from seqpipe.errors import BackendError, ParameterError, SeqpipeError, SourceError
from seqpipe.video.convert.converter import HostPainter
from seqpipe.video.convert.surface import Surface, surface_format
from seqpipe.video.decode.cpu import DecoderPool
from seqpipe.video.decode.packets import open_packets
from seqpipe.video.decode.run import Decoding, Lost
from seqpipe.video.engine import child as child_module
from seqpipe.video.engine import children
from seqpipe.video.engine.backend import PROCESSES, DecodeBackend, processes
from seqpipe.video.engine.child import BufferAllocator, FrameMemory
from seqpipe.video.engine.children import Children
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.plan import PlannedVideo, Request
from seqpipe.video.source.source import open_source
from tests.support.deep import deep_but
from tests.support.media import ROOT, made, names

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")


class NoOwn(DecoderPool):
    """No decoders, so that whatever is decoded is decoded by children."""

    def take(self, *_):
        raise AssertionError("this process decodes")


EVERY = [*names("sound")[::5], *names("mixed"), *names("damaged")]


@pytest.fixture(scope="module")
def helpers():
    found = Children(2, pixels=float("inf"))
    found.wait()
    yield found
    assert len(found._idle) == 2, "a child was lost"
    found.close()


def engine(helpers, threads=2):
    return Engine(threads, backends=[DecodeBackend("cpu", NoOwn(), HostPainter, Kept(helpers))])


class Kept:
    """Helpers that are not let go when an engine is closed."""

    def __init__(self, helpers):
        self.decode = helpers.decode

    def close(self):
        pass


def video(name):
    source = open_source(str(made(name)))
    return PlannedVideo(source, open_index(source))


def decoded(helpers, name):
    of = video(name)
    with closing(helpers.decode(of, np.arange(len(of.index)))) as found:
        yield from found


def request(name, frames):
    return Request(str(made(name)), np.array(frames, dtype=np.int64))


def every_frame(name):
    return request(name, range(len(open_index(str(made(name))))))


def outcome(found):
    """What a request ended in, comparable."""
    if isinstance(found, SeqpipeError):
        return type(found), str(found), getattr(found, "lost", ())
    return found.numpy().tobytes(), found.frames.tolist()


@pytest.mark.parametrize("name", deep_but(EVERY[::3], EVERY))
def test_children_give_what_threads_give(helpers, name):
    asked = [every_frame(name)]
    with Engine(1, processes=0) as own, engine(helpers) as other:
        wanted = [outcome(found) for found in own.read(asked)]
        for _ in range(2):  # the second time a child knows it
            assert [outcome(found) for found in other.read(asked)] == wanted


def test_many_requests_at_once(helpers):
    random = np.random.default_rng(0)
    asked = [
        request(name, np.sort(random.integers(0, 40, 6)))
        for name in ("h264", "vp9", "hevc", "h264_long_gop", "h264_high10")
        for _ in range(8)
    ]
    with engine(helpers) as other:
        for one, found in zip(asked, other.read(asked), strict=True):
            assert [find(picture)[0] for picture in found.numpy()] == one.frames.tolist()


def test_pictures_stay_as_they_are_for_as_long_as_someone_has_them(helpers):
    kept, again = list(decoded(helpers, "h264")), list(decoded(helpers, "h264"))
    assert [read(surface.planes[0]) for surface in kept] == [read(surface.planes[0]) for surface in again]
    assert [read(surface.planes[0]) for surface in kept] == list(range(len(video("h264").index)))
    with pytest.raises(ValueError, match="read-only"):
        kept[0].planes[0][0, 0] = 1


def test_rooms_are_used_again_and_pictures_without_one_are_sent_whole(monkeypatch):
    form = surface_format("yuv420p")
    planes = [np.full(shape, value, np.uint8) for shape, value in (((8, 10), 1), ((4, 5), 2), ((4, 5), 3))]
    monkeypatch.setattr(child_module, "_MEMORY_BYTES", 4096)
    memory = FrameMemory.__new__(FrameMemory)
    kept = os.memfd_create("a test")
    monkeypatch.setattr(os, "memfd_create", lambda _: kept)
    memory.__init__()
    allocator = BufferAllocator(mmap.mmap(kept, 0))
    surface = Surface(-1, tuple(planes), form)
    lent = [allocator.put(surface) for _ in range(20)]
    assert lent.index(None) == 4096 // 256
    borrowed = [memory.borrow(one) for one in lent if one is not None]
    for found in borrowed:
        for plane, wanted in zip(found, planes, strict=True):
            assert np.array_equal(plane, wanted)
    assert memory.released() == []
    last = borrowed.pop()[0]
    assert memory.released() == [], "one of its planes is still there"
    del last, found, plane
    gc.collect()
    (buffer,) = memory.released()
    assert allocator.put(surface) is None
    allocator.release([buffer])
    assert allocator.put(surface).buffer == buffer
    allocator.release([one.buffer for one in lent if one is not None])
    larger = Surface(-1, tuple(np.repeat(plane, 8, axis=1) for plane in planes), form)
    assert allocator.put(larger) is not None, "what all frames have left is for those of any size"
    memory.close()


@pytest.mark.parametrize("nice", [0, 10])
def test_children_stand_back_as_far_as_they_are_told(nice):
    spare = Children(1, nice=nice)
    spare.wait()
    (child,) = spare._living
    found = os.getpriority(os.PRIO_PROCESS, child._process.pid)
    spare.close()
    assert found == min(19, os.getpriority(os.PRIO_PROCESS, 0) + nice)


def test_a_full_memory_changes_nothing(monkeypatch):
    monkeypatch.setattr(child_module, "_MEMORY_BYTES", 4096)
    helpers = Children(1)
    helpers.wait()
    with Engine(
        1, backends=[DecodeBackend("cpu", NoOwn(), HostPainter, helpers, close=helpers.close)]
    ) as other:
        (found,) = other.read([request("h264", range(40))])
        assert [read(picture) for picture in found.numpy()] == list(range(40))


def test_a_child_is_no_more_than_two_messages_ahead():
    spare = Children(1)
    spare.wait()
    going = decoded(spare, "h264_long_gop")
    assert len(video("h264_long_gop").index) > 4 * 8, "else it could not be further ahead"
    next(going)
    (child,) = spare._living
    before, now = -1, touched(child)
    until = time.monotonic() + 60
    while (before != now or now <= 8) and time.monotonic() < until:
        time.sleep(0.3)
        before, now = now, touched(child)
    assert 8 < now <= 16
    going.close()
    spare.close()


def touched(child):
    """How many rooms a child has ever used: pictures are not black, so none is all zeros."""
    info = video("h264_long_gop").index.info
    size = 1 << (info.width * info.height * 3 // 2 - 1).bit_length()
    some = child._memory._bytes[: 64 * size].reshape(64, size)
    return int(np.count_nonzero(some[:, : info.width].any(axis=1)))


def test_a_child_that_has_forgotten_a_file_is_told_of_it_again():
    spare = Children(1)
    spare.wait()
    asked = [request(name, [0, 2]) for name in names("sound")[:20]]
    with Engine(1, processes=0) as own:
        wanted = [outcome(found) for found in own.read(asked)]
    with Engine(1, backends=[DecodeBackend("cpu", NoOwn(), HostPainter, spare, close=spare.close)]) as other:
        for _ in range(2):
            assert [outcome(found) for found in other.read(asked)] == wanted


def test_a_source_that_cannot_be_read_is_named_and_the_child_stays(helpers, tmp_path):
    path = tmp_path / "gone.mp4"
    path.write_bytes(made("h264").read_bytes())
    source = open_source(str(path))
    gone = PlannedVideo(source, open_index(source, cache_dir=tmp_path / "cache"))
    path.write_bytes(path.read_bytes()[:5000])
    with (
        closing(helpers.decode(gone, np.arange(len(gone.index)))) as found,
        pytest.raises(SourceError, match="The file has changed since it was opened"),
    ):
        list(found)
    assert len(helpers._idle) == 2
    assert len(list(decoded(helpers, "h264"))) == len(video("h264").index)


def test_lost_frames_are_named_as_a_thread_names_them(helpers):
    name = names("damaged")[0]
    of = video(name)
    with closing(open_packets(of.source, of.index)) as packets:
        own = list(Decoding(of.index, packets, DecoderPool(), np.arange(len(of.index))))
    assert [item for item in own if isinstance(item, Lost)] == [
        item for item in decoded(helpers, name) if isinstance(item, Lost)
    ]


def test_this_process_decodes_until_a_child_is_ready_what_is_large_and_what_is_no_file():
    of = video("h264")
    frames = np.arange(3)
    helpers = Children(1)
    assert helpers.decode(of, frames) is None
    helpers.wait()
    with closing(helpers.decode(of, frames)) as first:
        assert len(list(first)) == 3
    assert helpers.fit(of)
    assert not helpers.fit(PlannedVideo(open_source(made("h264").read_bytes()), of.index))
    helpers._pixels = 100
    assert not helpers.fit(of)
    assert helpers.decode(of, frames) is None
    helpers.close()


def test_a_child_that_ends_is_told_of_and_another_takes_its_place():
    helpers = Children(1)
    helpers.wait()
    going = decoded(helpers, "h264_long_gop")
    next(going)
    (child,) = helpers._living
    child._process.kill()
    with pytest.raises(BackendError, match=f"has ended with exit code {-signal.SIGKILL}.*{PROCESSES.name}=0"):
        list(going)
    helpers.wait()
    assert child not in helpers._living
    count = len(video("h264_long_gop").index)
    assert len(list(decoded(helpers, "h264_long_gop"))) == count
    (child,) = helpers._idle
    child._process.kill()
    child._process.wait()
    assert helpers.decode(video("h264"), np.arange(3)) is None, "whoever finds it dead decodes without it"
    assert helpers._living == set()
    helpers.close()


def test_who_finds_all_children_busy_waits_for_the_first_that_is_free():
    helpers = Children(1)
    helpers.wait()
    of = video("h264_long_gop")
    going = decoded(helpers, "h264_long_gop")
    next(going)
    waiting = Thread(target=lambda: helpers.decode(of, np.arange(1)).close())
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    rest = list(going)
    waiting.join(60)
    assert not waiting.is_alive()
    assert [surface.number for surface in rest] == list(range(1, len(of.index)))
    helpers.close()


def test_a_child_is_free_before_its_last_pictures_are_painted():
    helpers = Children(1)
    helpers.wait()
    with closing(helpers.decode(video("h264"), np.arange(4))) as first:
        items = iter(first)
        next(items)
        with closing(helpers.decode(video("h264"), np.arange(4, 8))) as second:
            numbers = [surface.number for surface in second]
        assert numbers == [4, 5, 6, 7]
        assert [read(surface.planes[0]) for surface in items] == [1, 2, 3]
    assert len(helpers._idle) == 1
    helpers.close()


def test_who_breaks_off_at_the_last_pictures_gives_all_their_memory_back():
    helpers = Children(1)
    helpers.wait()
    going = decoded(helpers, "h264")
    count = len(video("h264").index)
    for _ in range(count - 3):
        next(going)
    (child,) = helpers._idle
    child._memory.released()
    going.close()
    del going
    gc.collect()
    assert len(child._memory.released()) == 3
    helpers.close()


def test_who_breaks_off_in_the_middle_leaves_no_one_waiting():
    spare = Children(1)
    spare.wait()
    going = decoded(spare, "h264_long_gop")
    next(going)
    going.close()
    spare.wait()
    found = [surface.number for surface in decoded(spare, "h264_long_gop")]
    assert found == list(range(len(video("h264_long_gop").index)))
    spare.close()
    assert spare._living == set()


def test_nothing_is_left(monkeypatch):
    before = set(Path("/proc/self/fd").iterdir())
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        children.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    with Engine(2, processes=2) as made_engine:
        asked = [request("h264", [k]) for k in range(0, 40, 10)]
        made_engine.read(asked)
        assert len(started) == 0, "as long as little was read, threads do it"
        for _ in range(20):
            made_engine.read(asked)
    assert len(started) == 2
    assert [process.poll() is not None for process in started] == [True, True]
    gc.collect()
    assert set(Path("/proc/self/fd").iterdir()) <= before


ORPHANS = """
import sys
from seqpipe.video.engine.children import Children
helpers = Children(2)
helpers.wait()
print(*(child._process.pid for child in helpers._living), flush=True)
sys.stdin.readline()
"""


STARTING = """
import signal
signal.signal(signal.SIGINT, lambda *_: None)
from seqpipe.video.engine.children import ChildProcess
children = [ChildProcess() for _ in range(2)]
print("begun", flush=True)
for child in children:
    child.is_ready(None)
print("ready")
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_children_end_with_their_parent(end):
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHANS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    pids = list(map(int, process.stdout.readline().split()))
    assert len(pids) == 2
    os.killpg(process.pid, end) if end == signal.SIGINT else process.kill()
    process.communicate()
    until = time.monotonic() + 60
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(alive, pids))


def test_children_that_are_starting_say_nothing_of_an_interrupt():
    """A terminal sends Ctrl-C to them as well: each showed a traceback, from whatever it was importing."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTING],
        cwd=ROOT,
        bufsize=0,  # communicate() knows nothing of what readline() has read too much
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"begun\n"
    for _ in range(10):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.communicate() == (b"ready\n", b"")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_variable_says_how_many(monkeypatch):
    monkeypatch.setenv(PROCESSES.name, "3")
    assert processes(1) == 3
    monkeypatch.setenv(PROCESSES.name, "0")
    assert processes(16) == 0
    for wrong in ("-1", "many", "1.5", ""):
        monkeypatch.setenv(PROCESSES.name, wrong)
        with pytest.raises(ParameterError, match=r"SEQPIPE_PROCESSES.*allowed: a whole number of at least 0"):
            processes(1)


@pytest.mark.parametrize(("threads", "count"), [(1, 0), (2, 0), (7, 0), (8, 8), (16, 16), (64, 16)])
def test_by_default_many_threads_are_worth_them(monkeypatch, threads, count):
    monkeypatch.delenv(PROCESSES.name, raising=False)
    assert processes(threads) == count
    with monkeypatch.context() as free_threaded:
        free_threaded.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        assert processes(threads) == 0
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the program that has started this worker")
    assert processes(threads) == 0


def test_where_processes_cannot_be_started_threads_decode(monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with Engine(1, processes=2) as made_engine:
        for _ in range(10):
            (found,) = made_engine.read([request("h264", [4])])
            assert [read(picture) for picture in found.numpy()] == [4]
    assert caplog.text.count("worker processes cannot be started") == 1
