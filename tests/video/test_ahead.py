"""Packets of jobs that wait are read meanwhile, where reading takes long: as many as there is room for, and once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest

from data_scripts.frame_code import read
from seqpipe.errors import SourceError
from seqpipe.video.decode.packets import OffsetPackets
from seqpipe.video.engine import engine as engine_module
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.packet_index import PacketIndex
from seqpipe.video.plan import Request
from seqpipe.video.source.source import Source, open_source
from tests.support.media import ROOT, entry, made

NAME = "h264_short_gops"


class Distant(Source):
    """Answers late, and notes what it is asked for.

    It may be told to fail the first requests, and to answer none until there are several.
    """

    slow = True

    def __init__(self, name=NAME, *, delay_s=0.05, failing=0, together=1):
        self._file = open_source(made(name))
        self.name = self._file.name
        self.delay_s, self.failing, self.together = delay_s, failing, together
        self.asked, self.now, self.most = [], 0, 0
        self._lock = threading.Condition()

    def stamp(self):
        return None

    def size(self):
        return self._file.size()

    def for_demuxer(self, read=None):
        return self._file.for_demuxer(read)

    def read(self, ranges):
        with self._lock:
            self.asked += ranges
            self.now += 1
            self.most = max(self.most, self.now)
            failing, self.failing = self.failing, max(0, self.failing - 1)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self.most >= self.together, timeout=30)
        time.sleep(self.delay_s)
        with self._lock:
            self.now -= 1
        if failing:
            raise SourceError("cannot be read (no answer)", source=self.name)
        return self._file.read(ranges)


@pytest.fixture(scope="module")
def index() -> PacketIndex:
    return open_index(made(NAME))


@pytest.fixture
def distant(index, monkeypatch):
    """Opens distant sources without reading through them for an index."""
    monkeypatch.setattr("seqpipe.video.index.open.open_index", lambda *_, **__: index)
    return Distant


def firsts(index, count):
    """Frames of as many runs that share nothing."""
    return [[int(frame)] for frame in index.key_frames[:count]]


def check(results, wanted):
    numbers = entry(NAME).numbers
    assert [[read(picture) for picture in found.numpy()] for found in results] == [
        [numbers[frame] for frame in frames] for frames in wanted
    ]


def test_while_one_is_decoded_the_others_are_read(distant, index):
    source, wanted = distant(together=8), firsts(index, 8)
    with Engine(1) as engine:
        check(engine.read([Request(source, np.array(frames)) for frames in wanted]), wanted)
        assert engine._ahead._buffered == 0
    assert source.most == 8
    assert len(source.asked) == len(set(source.asked)), "a packet was fetched twice"


def test_what_finds_no_room_is_read_by_whoever_decodes_it(distant, index, monkeypatch):
    source, wanted = distant(delay_s=0.01), firsts(index, 6)
    monkeypatch.setattr(engine_module, "_MOST_READ_AHEAD_BYTES", 0)
    with Engine(1) as engine:
        check(engine.read([Request(source, np.array(frames)) for frames in wanted]), wanted)
    assert source.most == 1


def test_room_is_given_back_before_a_job_is_known_to_have_ended(distant, index, monkeypatch):
    """A future wakes those who wait for it before its last callback runs, which may be much later."""
    source, wanted = distant(delay_s=0.01), firsts(index, 1)
    add = Future.add_done_callback

    def add_late(future, call):
        add(future, lambda done: (time.sleep(0.1), call(done)))

    monkeypatch.setattr(Future, "add_done_callback", add_late)
    monkeypatch.setattr(
        engine_module,
        "_MOST_READ_AHEAD_BYTES",
        int(index.packets.size[index.packets.frame_packet[wanted[0][0]]]),
    )
    with Engine(1) as engine:
        for _ in range(3):
            reading = engine.submit([Request(source, np.array(wanted[0]))])
            check(reading.result(), wanted)
            assert engine._ahead._buffered == 0


def test_a_request_that_fails_once_is_made_once_more(distant, index):
    source, wanted = distant(failing=2), firsts(index, 4)
    with Engine(2) as engine:
        check(engine.read([Request(source, np.array(frames)) for frames in wanted]), wanted)


def test_a_source_that_stays_silent_is_an_error_of_its_samples(distant, index):
    source, wanted = distant(failing=100), firsts(index, 3)
    with Engine(2) as engine:
        results = engine.read([Request(source, np.array(frames)) for frames in wanted])
    assert [str(error) for error in results] == [f"{source.name}: cannot be read (no answer)."] * 3


def test_closing_does_not_wait_for_what_has_not_begun(distant, index, monkeypatch):
    monkeypatch.setattr(engine_module, "_READING_THREADS", 1)
    source = distant(delay_s=0.3)
    engine = Engine(1)
    reading = engine.submit([Request(source, np.array(frames)) for frames in firsts(index, 8)])
    while not source.now:
        time.sleep(0.01)
    engine.close()
    reading.cancel()
    assert len(source.asked) < 4, "of 8"
    assert engine._ahead._buffered == 0


ENDING = """
import time
import numpy as np
from seqpipe.video.engine import engine as engine_module
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.plan import Request
from tests.video.test_ahead import NAME, Distant, made
engine_module._READING_THREADS = 1
index = open_index(made(NAME))
source = Distant(delay_s=0.3)
import seqpipe.video.index.open as library
library.open_index = lambda *_, **__: index
engine = Engine(2)
reading = engine.submit([Request(source, np.array([int(frame)])) for frame in index.key_frames])
while not source.asked:
    time.sleep(0.001)
print("begun")
"""


def test_a_program_ends_while_packets_are_read_ahead():
    """Whoever waits for packets gets them before those who read them are told to end."""
    words = [sys.executable, "-c", ENDING]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\n", "")


def test_near_sources_are_read_by_whoever_decodes(monkeypatch):
    begun = []
    monkeypatch.setattr(engine_module, "_read_packets", lambda job: begun.append(job) or {})
    with Engine(1) as engine:
        (found,) = engine.read([Request(str(made(NAME)), np.arange(3))])
    assert len(found) == 3
    assert not begun


@pytest.mark.parametrize("most", [1, 2000, 1 << 30])
def test_packets_come_whole_however_they_are_fetched(index, monkeypatch, most):
    """In pieces of a few bytes, of some packets, or all at once."""
    monkeypatch.setattr("seqpipe.video.decode.packets._READ_BYTES", most)
    source, numbers = Distant(delay_s=0), np.arange(len(index.packets))
    whole = made(NAME).read_bytes()
    found = list(OffsetPackets(source, index).read(numbers))
    ranges = zip(index.packets.offset.tolist(), index.packets.size.tolist(), strict=True)
    assert found == [whole[offset : offset + size] for offset, size in ranges]
    assert not list(OffsetPackets(source, index).read(numbers[:0]))
