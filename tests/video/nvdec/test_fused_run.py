"""Whole runs in C: what is wanted is painted once, at its own address, and what is wrong is noticed."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, c_int, c_uint, c_void_p

import numpy as np
import pytest

from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.decode.packet_decoder import FedPacket
from seqpipe.video.nvdec.arrays import PacketArrays, PendingFrames
from seqpipe.video.nvdec.cuvid import CODECS
from seqpipe.video.nvdec.painting import PaintParams
from seqpipe.video.nvdec.session import Session

PLAIN = ElementaryStream("vp8", b"")
START = "S 128x96 "
AT_ONCE, FRAMES, FRAME_BYTES, PITCH = 2, 8, 40, 512
CHROMA_AT = 96 * PITCH
BEYOND = bytes(range(256)) * 16
AGAIN = 1 << 16  # from there to where it is painted a second time
OUT = 1 << 32  # where the picture of packet 0 is painted; those of the others follow, a byte apart

pytestmark = pytest.mark.parametrize("cuvid", ["native"], indirect=True)


class Painted:
    """Stands where the driver's functions for launch_functions and :class:`DevicePainting` do.

    Attributes:
        pictures: (packet, place of what was in its surface) of all that was converted, in order.
        counts: how many by each launch.
        code: what the driver answers to a launch.
        params: what C is params.
        announced: how often it was made ready for a stream.
    """

    def __init__(self, cuvid):
        self.cuvid, self.pictures, self.counts, self.code, self.announced = cuvid, [], [], 0, 0
        self._argument = (ctypes.c_uint8 * (FRAMES * FRAME_BYTES + 4 + len(BEYOND)))()
        self._argument[-len(BEYOND) :] = list(BEYOND)
        record, wait = CFUNCTYPE(c_int, c_void_p, c_void_p), CFUNCTYPE(c_int, c_void_p)
        launch = CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p)
        self._kept = launch(self._launch), record(lambda *_: 0), wait(lambda _: 0)
        addresses = [ctypes.cast(function, c_void_p).value for function in self._kept]
        self.params = PaintParams(*addresses, addresses[-1], sequence=-1)
        self.params.argument, self.params.count_at = ctypes.addressof(self._argument), FRAMES * FRAME_BYTES
        self.params.frames_per_launch, self.params.planes = AT_ONCE, 2
        self.params.offsets[:2] = 0, CHROMA_AT

    @property
    def beyond(self):
        """What lies behind the kernel's argument."""
        return bytes(self._argument[-len(BEYOND) :])

    def fit(self, _shape, pitch, sequence):
        self.announced += 1
        self.params.pitch = pitch
        self.params.sequence = -1 if self.params.begun or not pitch else sequence

    def _launch(self, *_):
        (count,) = np.frombuffer(self._argument, np.int32, 1, FRAMES * FRAME_BYTES)
        self.counts.append(int(count))
        for frame in range(count):
            luma, chroma, _, out = np.frombuffer(self._argument, np.uint64, 4, frame * FRAME_BYTES).tolist()
            pitches = np.frombuffer(self._argument, np.int32, 2, frame * FRAME_BYTES + 32).tolist()
            assert (chroma - luma, pitches) == (CHROMA_AT, [PITCH, PITCH])
            self.pictures.append((out - OUT, self.cuvid.mapped[luma][1]))  # it is mapped still
        return self.code


@pytest.fixture
def session(cuvid):
    """One that has decoded such a stream before, step by step."""
    found = Session(CODECS["h264"], 0, in_use=2 * AT_ONCE - 1, step=AT_ONCE, released=cuvid.released)
    before = [FedPacket(0, (START + "I 0").encode(), key=True, wanted=True)]
    assert [len(result.frames) for result in (*found.feed(before, PLAIN, first=True), *found.finish())].count(
        1
    ) == 1
    found._decoder.unmap_returned()
    assert found.can_fuse
    yield found
    assert not cuvid.faults


def whole(session, painted, packets, *, wanted=None, undecodable=(), outs=1):
    numbers = np.arange(len(packets))
    wanted = numbers if wanted is None else np.array(wanted)
    unsound = np.isin(numbers, undecodable)
    addresses = [[OUT + packet + n * AGAIN for n in range(outs)] for packet in wanted.tolist()]
    pending = PendingFrames(wanted, addresses, ~unsound, unsound)
    arrays = PacketArrays(numbers.tolist(), [text.encode() for text in packets], pending.wanted, PLAIN)
    return session.fused_run(arrays, pending, painted)


PACKETS = [START + "I 0", "P 3", "B 1", "B 2", "P 6", "B 4", "B 5"]


@pytest.mark.parametrize("wanted", [range(7), [0], [1, 4, 6], [2, 3]])
def test_what_is_wanted_is_painted_once_and_given_back(cuvid, session, wanted):
    for _ in range(3):
        painted = Painted(cuvid)
        assert whole(session, painted, PACKETS, wanted=wanted) == (True, True)
        places = [int(text.split()[-1]) for text in PACKETS]
        assert sorted(painted.pictures) == [(packet, places[packet]) for packet in wanted]
        assert max(painted.counts) <= AT_ONCE
        assert painted.announced == 1, "nobody asks Python about the stream that went before"
        assert not cuvid.mapped
    assert cuvid.created == [(128, 96)]


@pytest.mark.parametrize("outs", [2, 3, 5])
def test_a_picture_goes_wherever_it_is_wanted(cuvid, session, outs):
    """One of several requests, or of one that wants it more than once."""
    painted = Painted(cuvid)
    assert whole(session, painted, PACKETS, wanted=[1, 2, 4], outs=outs) == (True, True)
    expected = {
        (packet + n * AGAIN, place) for packet, place in ((1, 3), (2, 1), (4, 6)) for n in range(outs)
    }
    assert set(painted.pictures) == expected
    assert len(painted.pictures) == len(expected)
    assert max(painted.counts) <= AT_ONCE
    assert not cuvid.mapped


def test_a_job_of_several_runs_is_painted_in_one_way(cuvid, session):
    painted = Painted(cuvid)
    for _ in range(2):
        assert whole(session, painted, PACKETS, wanted=[1, 4]) == (True, True)
    assert painted.pictures == [(1, 3), (4, 6)] * 2


@pytest.mark.parametrize(
    ("packets", "why"),
    [
        ([START + "I 0", "X 3", "B 1", "B 2"], "a picture ended in an error"),
        ([START + "I 0", "- 3", "B 1", "B 2"], "the parser dropped a packet"),
        ([START + "I 0", "B 1", "~ 3"], "the parser dropped a packet without a sign"),
        ([START + "I 0", "P 1", "S 64x48 I 2", "P 3", "P 4"], "another size"),
        ([START + "I 0", "P 1", "S 128x96+8 I 2", "P 3", "P 4"], "another part of the coded picture"),
    ],
)
@pytest.mark.parametrize("delay", [0, 2])
def test_what_is_wrong_is_noticed_and_nothing_stays_mapped(cuvid, session, packets, why, delay):
    cuvid.delay = delay
    wanted = [packet for packet, text in enumerate(packets) if text[0] != "~"]
    clean, ended = whole(session, Painted(cuvid), packets, wanted=wanted)
    assert not clean, why
    assert not cuvid.mapped
    if ended:
        assert whole(session, Painted(cuvid), [packets[0], "P 1"]) == (True, True)
    session.close()
    assert cuvid.decoders == 0


def test_damage_of_what_is_fed_for_its_place_only_is_none(cuvid, session):
    packets = [START + "I 2", "X 0", "B 1"]
    assert whole(session, Painted(cuvid), packets, wanted=[0, 2], undecodable=[1]) == (True, True)
    assert whole(session, Painted(cuvid), packets, wanted=[0, 2]) == (False, True)


@pytest.mark.parametrize("outs", [1, 2, 3, 50])
def test_a_launch_that_the_driver_refuses_is_noticed(cuvid, session, outs):
    painted = Painted(cuvid)
    painted.code = 700
    assert whole(session, painted, PACKETS, outs=outs) == (False, False)
    assert painted.counts == [AT_ONCE], "no other one follows"
    assert painted.beyond == BEYOND
    assert not cuvid.mapped


def test_a_picture_that_comes_twice_is_noticed(cuvid, session):
    cuvid.shows = 2
    found = whole(session, Painted(cuvid), [START + "I 0", "P 1"], wanted=[0])
    assert found == (False, True)


def test_pictures_that_lie_otherwise_are_not_painted(cuvid, session):
    painted = Painted(cuvid)
    fit = painted.fit
    painted.fit = lambda shape, pitch, sequence: fit(shape, pitch + 256, sequence)
    clean, _ = whole(session, painted, PACKETS)
    assert (clean, painted.pictures) == (False, [])
    assert not cuvid.mapped


def test_the_first_run_of_a_session_is_step_by_step(cuvid):
    session = Session(CODECS["h264"], 0, in_use=3, step=AT_ONCE, released=cuvid.released)
    assert not session.can_fuse
    painted = Painted(cuvid)
    assert whole(session, painted, PACKETS)[0] is False
    assert painted.pictures == []


def test_an_error_while_it_is_made_ready_is_raised(cuvid, session):
    painted = Painted(cuvid)

    def fit(*_):
        raise ValueError("no such color")

    painted.fit = fit
    with pytest.raises(ValueError, match="no such color"):
        whole(session, painted, ["S 128x96+8 I 0", "P 1"])
    assert not cuvid.mapped
