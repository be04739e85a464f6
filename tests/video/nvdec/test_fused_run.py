"""Fused decode runs in C: each wanted frame is converted once for each target, and whatever is wrong is noticed."""

from __future__ import annotations

import ctypes
import struct
from ctypes import CFUNCTYPE, c_int, c_uint, c_void_p

import numpy as np
import pytest

from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.decode.packets import FedPacket
from seqpipe.video.nvdec.cuvid import CODECS
from seqpipe.video.nvdec.feeder import PacketArrays, PendingFrames
from seqpipe.video.nvdec.hardware import ConversionParams, PaintParams
from seqpipe.video.nvdec.session import Session

PLAIN = ElementaryStream("vp8", b"")
START = "S 128x96 "
AT_ONCE, FRAMES, PITCH = 2, 8, 512
FRAME = struct.Struct("4Q 2i")
FRAME_BYTES = FRAME.size
STREAM, EVENTS = 3, (1, 2)
CHROMA_AT = 96 * PITCH
COUNT_AT = FRAMES * FRAME_BYTES
BEYOND = bytes(range(256)) * 16
AGAIN = 1 << 16  # from there to where it is painted a second time
OUT = 1 << 32  # where the picture of packet 0 is painted; those of the others follow, a byte apart


class Painted:
    """Stands where :class:`seqpipe.video.cuda.painter.DevicePainting` and the driver's functions do.

    A launch reads its frames as late as a GPU may: when its event or stream is waited for.

    Args:
        cuvid: the fake driver.
        conversions: number of conversions.

    Attributes:
        pictures: for each conversion, (target, packet's place) of all that was converted, in order.
        counts: number of frames of each launch.
        code: the driver's answer to a launch.
        refused: number of the launch that is answered so; None for all of them.
        announced: how often the painting was configured for a stream.
        params: the structure that C reads.
    """

    def __init__(self, cuvid, conversions=1):
        self.cuvid, self.counts, self.code, self.refused, self.announced = cuvid, [], 0, None, 0
        self.pictures = [[] for _ in range(conversions)]
        self._queue = []
        self._arguments = [(ctypes.c_uint8 * (COUNT_AT + 4 + len(BEYOND)))() for _ in range(conversions)]
        launch = CFUNCTYPE(c_int, c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p)
        record, wait = CFUNCTYPE(c_int, c_void_p, c_void_p), CFUNCTYPE(c_int, c_void_p)
        functions = (launch, self._launch), (record, self._record), (wait, self._event), (wait, self._stream)
        self._kept = [kind(self._guarded(function)) for kind, function in functions]
        addresses = [ctypes.cast(function, c_void_p).value for function in self._kept]
        self._conversions = (ConversionParams * conversions)()
        for kernel, (params, argument) in enumerate(zip(self._conversions, self._arguments, strict=True), 1):
            argument[-len(BEYOND) :] = list(BEYOND)
            params.kernel, params.argument = kernel, ctypes.addressof(argument)
            params.depths[:] = range(len(params.depths))
        self.params = PaintParams(*addresses, STREAM, EVENTS, AT_ONCE, sequence=-1, count_at=COUNT_AT)
        self.params.count, self.params.conversions = conversions, ctypes.addressof(self._conversions)
        self.params.planes = 2
        self.params.offsets[:2] = 0, CHROMA_AT

    @property
    def beyond(self):
        """What lies behind the kernels' arguments."""
        return {bytes(argument[-len(BEYOND) :]) for argument in self._arguments}

    def fit(self, _shape, pitch, sequence):
        self.announced += 1
        self.params.pitch = pitch
        self.params.sequence = -1 if self.params.begun or not pitch else sequence

    def _guarded(self, function):
        """Note what is raised, which ctypes would print and forget."""

        def call(*given):
            try:
                return function(*given)
            except BaseException as error:
                self.cuvid.faults.append(error)
                return 999

        return call

    def _launch(self, kernel, _columns, _rows, depth, *rest):
        argument = self._arguments[kernel - 1]
        (count,) = np.frombuffer(argument, np.int32, 1, COUNT_AT).tolist()
        self.counts.append(count)
        assert depth == count
        assert ctypes.c_void_p.from_address(rest[-2]).value == ctypes.addressof(argument)
        if self.code and self.refused in (None, len(self.counts) - 1):
            return self.code
        self._queue.append((kernel - 1, bytes(argument[: count * FRAME_BYTES])))
        return 0

    def _record(self, event, stream):
        assert stream == STREAM
        self._queue.append(event)
        return 0

    def _event(self, event):
        while event in self._queue:
            self._complete()
        return 0

    def _stream(self, stream):
        assert stream == STREAM
        while self._queue:
            self._complete()
        return 0

    def _complete(self):
        queued = self._queue.pop(0)
        if queued in EVENTS:
            return
        conversion, frames = queued
        for begin in range(0, len(frames), FRAME_BYTES):
            luma, chroma, _, out, *pitches = FRAME.unpack_from(frames, begin)
            assert (chroma - luma, pitches) == (CHROMA_AT, [PITCH, PITCH])
            self.pictures[conversion].append((out - OUT, self.cuvid.mapped[luma][1]))  # it is mapped still


def decode_one(session):
    """Decode such a stream step by step, from which a session learns the pitch of its frames."""
    before = [FedPacket(0, (START + "I 0").encode(), key=True, wanted=True)]
    results = [*session.feed(before, PLAIN, first=True), *session.finish()]
    assert sorted(len(result.frames) for result in results)[-1] == 1
    del results
    session._decoder.unmap_returned()


@pytest.fixture
def session(cuvid):
    """One that has decoded such a stream before, step by step."""
    found = Session(CODECS["h264"], 0, in_use=2 * AT_ONCE - 1, step=AT_ONCE, released=cuvid.released)
    decode_one(found)
    assert found.can_fuse
    yield found
    assert not cuvid.faults


def whole(session, painted, packets, *, wanted=None, undecodable=(), outs=1, conversions=(0,)):
    """Decode and convert in one call; the targets of each packet take the conversions by turns."""
    numbers = np.arange(len(packets))
    wanted = numbers if wanted is None else np.array(wanted)
    unsound = np.isin(numbers, undecodable)
    targets = [
        [(OUT + packet + n * AGAIN, conversions[(at + n) % len(conversions)]) for n in range(outs)]
        for at, packet in enumerate(wanted.tolist())
    ]
    pending = PendingFrames(wanted, targets, ~unsound, unsound)
    arrays = PacketArrays(numbers.tolist(), [text.encode() for text in packets], pending.wanted, PLAIN)
    return session.fused_run(arrays, pending, painted)


PACKETS = [START + "I 0", "P 3", "B 1", "B 2", "P 6", "B 4", "B 5"]


@pytest.mark.parametrize("wanted", [range(7), [0], [1, 4, 6], [2, 3]])
def test_what_is_wanted_is_painted_once_and_given_back(cuvid, session, wanted):
    for _ in range(3):
        painted = Painted(cuvid)
        assert whole(session, painted, PACKETS, wanted=wanted) == (True, True)
        places = [int(text.split()[-1]) for text in PACKETS]
        assert sorted(painted.pictures[0]) == [(packet, places[packet]) for packet in wanted]
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
    assert set(painted.pictures[0]) == expected
    assert len(painted.pictures[0]) == len(expected)
    assert max(painted.counts) <= AT_ONCE
    assert not cuvid.mapped


def test_a_job_of_several_runs_is_painted_in_one_way(cuvid, session):
    painted = Painted(cuvid)
    for _ in range(2):
        assert whole(session, painted, PACKETS, wanted=[1, 4]) == (True, True)
    assert painted.pictures == [[(1, 3), (4, 6)] * 2]


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
    assert painted.beyond == {BEYOND}
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
    assert (clean, painted.pictures) == (False, [[]])
    assert not cuvid.mapped


def test_the_first_run_of_a_session_is_step_by_step(cuvid):
    session = Session(CODECS["h264"], 0, in_use=3, step=AT_ONCE, released=cuvid.released)
    assert not session.can_fuse
    painted = Painted(cuvid)
    assert whole(session, painted, PACKETS)[0] is False
    assert painted.pictures == [[]]


def test_an_error_while_it_is_made_ready_is_raised(cuvid, session):
    painted = Painted(cuvid)

    def fit(*_):
        raise ValueError("no such color")

    painted.fit = fit
    with pytest.raises(ValueError, match="no such color"):
        whole(session, painted, ["S 128x96+8 I 0", "P 1"])
    assert not cuvid.mapped


LONG = [START + "I 0", *(f"P {place}" for place in range(1, 24))]


@pytest.mark.parametrize("conversions", [2, 3, 5, 16])
@pytest.mark.parametrize("outs", [1, 2, 3, 7])
@pytest.mark.parametrize("at_once", [1, 2, 3, FRAMES])
def test_each_target_takes_its_own_conversion(cuvid, conversions, outs, at_once):
    """Also where one frame's targets fill a launch in their middle."""
    session = Session(CODECS["h264"], 0, in_use=2 * at_once - 1, step=at_once, released=cuvid.released)
    decode_one(session)
    for _ in range(2):
        painted = Painted(cuvid, conversions)
        painted.params.frames_per_launch = at_once
        assert whole(session, painted, LONG, outs=outs, conversions=range(conversions)) == (True, True)
        expected = [[] for _ in range(conversions)]
        for place in range(len(LONG)):
            for n in range(outs):
                expected[(place + n) % conversions].append((place + n * AGAIN, place))
        assert painted.pictures == expected
        assert painted.beyond == {BEYOND}
        assert max(painted.counts) <= at_once
        assert min(painted.counts) > 0, "a conversion without frames is not launched"
        assert not cuvid.mapped
    assert not cuvid.faults


def test_conversions_with_few_frames_are_launched_together(cuvid, session):
    """Each frame has its own conversion, so no launch is ever full, but few frames may stay mapped."""
    painted = Painted(cuvid, len(LONG))
    assert whole(session, painted, LONG, conversions=range(len(LONG))) == (True, True)
    assert painted.pictures == [[(place, place)] for place in range(len(LONG))]
    assert painted.counts == [1] * len(LONG)


@pytest.mark.parametrize("sign", "X-")
def test_damage_among_several_conversions_leaves_nothing_gathered(cuvid, session, sign):
    """What it leaves in the arguments must not be converted by the next run of the same painting."""
    packets = [*LONG[:-2], f"{sign} 22", LONG[-1]]
    painted = Painted(cuvid, 3)
    assert whole(session, painted, packets, outs=2, conversions=range(3)) == (False, True)
    assert not cuvid.mapped
    before = [len(pictures) for pictures in painted.pictures]
    assert whole(session, painted, LONG, wanted=[0, 5], conversions=[2]) == (True, True)
    after = [pictures[count:] for pictures, count in zip(painted.pictures, before, strict=True)]
    assert after == [[], [], [(0, 0), (5, 5)]]


@pytest.mark.parametrize("damaged", [1, 7, 15])
def test_early_damage_among_several_conversions_leaves_nothing_mapped(cuvid, session, damaged):
    packets = [f"X {at}" if at == damaged else text for at, text in enumerate(LONG)]
    painted = Painted(cuvid, 3)
    assert whole(session, painted, packets, outs=2, conversions=range(3)) == (False, False)
    assert not cuvid.mapped
    assert all(
        target % AGAIN == place < damaged for pictures in painted.pictures for target, place in pictures
    )


@pytest.mark.parametrize("refused", [0, 1, 3])
@pytest.mark.parametrize("outs", [1, 3, 50])
def test_a_refused_launch_among_several_is_the_last_one(cuvid, session, refused, outs):
    painted = Painted(cuvid, 3)
    painted.code, painted.refused = 700, refused
    assert whole(session, painted, LONG, outs=outs, conversions=range(3)) == (False, False)
    assert len(painted.counts) == refused + 1
    assert painted.beyond == {BEYOND}
    assert not cuvid.mapped
