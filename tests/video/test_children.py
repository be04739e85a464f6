"""Decoding in children gives what decoding in threads gives, damage and all; and nothing of them is left."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from data_scripts.frame_code import find, read
from seqpipe.errors import BackendError, ParameterError, SeqpipeError
from seqpipe.video import child_memory, children
from seqpipe.video.child_memory import SharedPictures, Slots
from seqpipe.video.children import PROCESSES, ChildDecoder, ChildDecoders
from seqpipe.video.cpu import CpuDecoder
from seqpipe.video.decode import Decoding
from seqpipe.video.engine import Engine
from seqpipe.video.open import open_index
from seqpipe.video.packets import open_packets
from seqpipe.video.paint import HostPainter
from seqpipe.video.pool import DecoderPool
from seqpipe.video.request import Request
from seqpipe.video.source import open_source
from seqpipe.video.surface import Surface, surface_format
from seqpipe.video.way import Way
from tests.support.media import ROOT, made, names

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")


def no_own(*_):
    raise AssertionError("this process decodes")


class NoOwn(DecoderPool):
    """No decoders, so that whatever is decoded is decoded by children."""

    take = no_own


@pytest.fixture(scope="module")
def decoders():
    found = ChildDecoders(2, NoOwn(), pixels=float("inf"))
    found.wait()
    yield found
    assert len(found._idle) == 2, "a child was lost"
    found.clear()


def engine(decoders):
    return Engine(2, ways=[Way("cpu", decoders, HostPainter)])


def request(name, frames):
    return Request(str(made(name)), np.array(frames, dtype=np.int64))


def every_frame(name):
    return request(name, range(len(open_index(str(made(name))))))


def outcome(found):
    """What a request ended in, comparable."""
    if isinstance(found, SeqpipeError):
        return type(found), str(found), getattr(found, "lost", ())
    return found.numpy().tobytes(), found.frames.tolist()


@pytest.mark.parametrize("name", [*names("sound")[::5], *names("mixed"), *names("damaged")])
def test_children_give_what_threads_give(decoders, name):
    asked = [every_frame(name)]
    with Engine(1, processes=0) as own, engine(decoders) as other:
        wanted = [outcome(found) for found in own.read(asked)]
        for _ in range(2):  # the second time with a decoder that was flushed
            assert [outcome(found) for found in other.read(asked)] == wanted


def test_many_requests_at_once(decoders):
    random = np.random.default_rng(0)
    asked = [
        request(name, np.sort(random.integers(0, 40, 6)))
        for name in ("h264", "vp9", "hevc", "h264_long_gop", "h264_high10")
        for _ in range(8)
    ]
    with engine(decoders) as other:
        for one, found in zip(asked, other.read(asked), strict=True):
            assert [find(picture)[0] for picture in found.numpy()] == one.frames.tolist()


def test_pictures_stay_as_they_are_for_as_long_as_someone_has_them(decoders):
    index = open_index(str(made("h264")))
    kept = list(decoded(decoders, index))
    again = list(decoded(decoders, index))
    assert [read(surface.planes[0]) for surface in kept] == [read(surface.planes[0]) for surface in again]
    assert [read(surface.planes[0]) for surface in kept] == list(range(len(index)))
    with pytest.raises(ValueError, match="read-only"):
        kept[0].planes[0][0, 0] = 1


def decoded(decoders, index):
    with closing(open_source(index.info.source)) as source:
        yield from Decoding(index, open_packets(source, index), decoders, np.arange(len(index)))


def test_rooms_are_used_again_and_pictures_without_one_are_sent_whole(monkeypatch):
    form = surface_format("yuv420p")
    planes = [np.full(shape, value, np.uint8) for shape, value in (((8, 10), 1), ((4, 5), 2), ((4, 5), 3))]
    monkeypatch.setattr(child_memory, "_BYTES", 4096)
    pictures = SharedPictures.__new__(SharedPictures)
    kept = os.memfd_create("a test")
    monkeypatch.setattr(os, "memfd_create", lambda _: kept)
    pictures.__init__()
    slots = Slots(mmap.mmap(kept, 0))
    surface = Surface(-1, tuple(planes), form)
    lent = [slots.put(surface) for _ in range(20)]
    assert lent.index(None) == 4096 // 256
    borrowed = [pictures.borrow(one) for one in lent if one is not None]
    for found in borrowed:
        for plane, wanted in zip(found, planes, strict=True):
            assert np.array_equal(plane, wanted)
    assert pictures.used() == []
    last = borrowed.pop()[0]
    assert pictures.used() == [], "one of its planes is still there"
    del last, found, plane
    gc.collect()
    (room,) = pictures.used()
    assert slots.put(surface) is None
    slots.take_back([room])
    assert slots.put(surface).room == room
    pictures.close()


def test_a_full_memory_changes_nothing(monkeypatch):
    monkeypatch.setattr(child_memory, "_BYTES", 4096)
    decoders = ChildDecoders(1, NoOwn())
    decoders.wait()
    with Engine(1, ways=[Way("cpu", decoders, HostPainter, close=decoders.clear)]) as other:
        (found,) = other.read([request("h264", [3, 5, 9])])
        assert [read(picture) for picture in found.numpy()] == [3, 5, 9]


def test_this_process_decodes_until_a_child_is_ready_and_what_is_large():
    asked = []

    def make(index, threads):
        asked.append(index.info.codec)
        return CpuDecoder(index, threads)

    index = open_index(str(made("h264")))
    decoders = ChildDecoders(1, DecoderPool(make=make))
    first = decoders.take(index, 1)
    assert isinstance(first, CpuDecoder)
    decoders.discard(first)
    decoders.wait()
    decoder = decoders.take(index, 1)
    assert isinstance(decoder, ChildDecoder)
    assert isinstance(decoders.take(index, 1), CpuDecoder), "there is one child"
    decoders.give_back(index, 1, decoder)
    decoders._pixels = 100
    assert isinstance(decoders.take(index, 1), CpuDecoder)
    assert asked == ["h264"] * 3
    decoders.clear()


def test_a_child_that_ends_is_told_of_and_another_takes_its_place():
    index = open_index(str(made("h264_long_gop")))
    decoders = ChildDecoders(1, DecoderPool())
    decoders.wait()
    going = decoded(decoders, index)
    next(going)
    (child,) = decoders._living
    child._process.kill()
    with pytest.raises(BackendError, match=f"has ended with {-signal.SIGKILL}.*{PROCESSES.name}=0"):
        list(going)
    decoders.wait()
    assert child not in decoders._living
    assert len(list(decoded(decoders, index))) == len(index)
    (child,) = decoders._idle
    child._process.kill()
    child._process.wait()
    assert len(list(decoded(decoders, index))) == len(index), (
        "whoever finds it dead takes a decoder of its own"
    )
    assert decoders._living == set()
    decoders.clear()


def test_who_breaks_off_in_the_middle_leaves_no_one_waiting(decoders):
    index = open_index(str(made("h264_long_gop")))
    spare = ChildDecoders(1, NoOwn())
    spare.wait()
    going = decoded(spare, index)
    next(going)
    going.close()
    spare.wait()
    assert [surface.number for surface in decoded(spare, index)] == list(range(len(index)))
    spare.clear()
    assert spare._living == set()


def test_nothing_is_left(monkeypatch):
    before = set(Path("/proc/self/fd").iterdir())
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        children.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    with Engine(2, processes=2) as made_engine:
        for _ in range(2):
            made_engine.read([request("h264", [k]) for k in range(0, 40, 10)])
    assert len(started) == 2
    assert [process.poll() is not None for process in started] == [True, True]
    gc.collect()
    assert set(Path("/proc/self/fd").iterdir()) <= before


ORPHANS = """
import sys
from seqpipe.video.children import ChildDecoders
from seqpipe.video.pool import DecoderPool
decoders = ChildDecoders(2, DecoderPool())
decoders.wait()
print(*(child._process.pid for child in decoders._living), flush=True)
sys.stdin.readline()
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
    until = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(alive, pids))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_variable_says_how_many(monkeypatch):
    monkeypatch.delenv(PROCESSES.name, raising=False)
    assert children.processes() == 0
    monkeypatch.setenv(PROCESSES.name, "3")
    assert children.processes() == 3
    for wrong in ("-1", "many", "1.5", ""):
        monkeypatch.setenv(PROCESSES.name, wrong)
        with pytest.raises(ParameterError, match=r"SEQPIPE_PROCESSES.*allowed: a whole number of at least 0"):
            children.processes()


def test_where_processes_cannot_be_started_threads_decode(monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with Engine(1, processes=2) as made_engine:
        for _ in range(2):
            (found,) = made_engine.read([request("h264", [4])])
            assert [read(picture) for picture in found.numpy()] == [4]
    assert caplog.text.count("no process can be started to decode in") == 1
