"""Pictures whose turn comes together wait in their surfaces, and are handed over a step at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import chain

import pytest

from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.decode.packets import FedPacket
from seqpipe.video.nvdec.cuvid import CODECS
from seqpipe.video.nvdec.session import Session
from tests.video.nvdec.fake_cuvid import SURFACES

PLAIN = ElementaryStream("vp8", b"")
START = ("S 128x96 I 0", "P 1", "P 2", "P 3", "P 4")
# three pictures: one in use, one that is handed over, one that is early
OUTPUTS = 3


@dataclass
class Came:
    """A picture when it came.

    Attributes:
        packet: of which it is said to be.
        place: of what was in its surface, in the stream; the packets' numbers in these tests.
        decoder: the number of the one that it is from.
        width: of the picture.
        parsed: how many packets were parsed by then.
    """

    packet: int
    place: int
    decoder: int
    width: int
    parsed: int


@pytest.fixture
def session(cuvid):
    """Hands over one picture at a time, while one is in use, after five are inside."""
    cuvid.delay = len(START)
    return Session(CODECS["h264"], 0, in_use=1, step=1, released=cuvid.released)


def coded(packets):
    return [
        FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in enumerate(packets)
    ]


def come(cuvid, session, packets):
    """What comes of some packets, each in use until the next has come."""
    found, in_use = [], deque(maxlen=1)

    def look(result):
        assert len(result.frames) <= 1
        for picture in result.frames:
            in_use.append(picture.surface(picture.packet))
            shape, owner = in_use[-1].shape, in_use[-1].owner
            decoder, place = cuvid.mapped[owner.pointer]
            found.append(Came(picture.packet, place, decoder, shape.width, len(cuvid.payloads)))

    steps = chain(session.feed(coded(packets), PLAIN, first=True), session.finish())
    # nothing of a step may be held while the next one is done
    assert set(map(look, steps)) == {None}
    return found


def test_all_that_a_key_frame_finds_inside_comes_whole_though_one_surface_is_used_again(cuvid, session):
    found = come(cuvid, session, [*START, "K 5", "P 6", "P 7"])
    assert [(came.packet, came.place) for came in found] == [(number, number) for number in range(8)]
    assert cuvid.outputs == {1: OUTPUTS}
    assert [came.parsed for came in found] == [6] * 5 + [8] * 3, "nothing is fed while something waits"


def test_a_run_ends_step_by_step_and_the_next_one_begins_anew(cuvid, session):
    for _ in range(3):
        found = come(cuvid, session, START)
        assert [(came.packet, came.place) for came in found] == [(number, number) for number in range(5)]
    assert cuvid.outputs == {1: OUTPUTS}


def test_where_the_size_changes_those_that_wait_come_from_the_decoder_that_they_are_in(cuvid, session):
    found = come(cuvid, session, [*START, "S 96x64 I 5", "P 6"])
    assert [(came.packet, came.place) for came in found] == [(number, number) for number in range(7)]
    assert [(came.decoder, came.width) for came in found] == [(1, 128)] * 5 + [(2, 96)] * 2
    cuvid.released.destroy()
    assert cuvid.decoders == 1
    assert {decoder for decoder, _ in cuvid.mapped.values()} == {2}


def test_where_only_the_part_that_is_shown_changes_those_that_wait_are_shown_as_before(cuvid, session):
    found = come(cuvid, session, [*START, "S 128x96+8 I 5", "P 6"])
    assert [(came.decoder, came.width) for came in found] == [(1, 128)] * 5 + [(1, 120)] * 2


@pytest.mark.parametrize("steps", [1, 3])
def test_what_waits_when_a_session_is_closed_is_given_back(cuvid, session, steps):
    left = session.feed(coded([*START, "K 5", "P 6"]), PLAIN, first=True)
    for _ in range(steps):
        next(left)
    assert cuvid.mapped
    session.close()
    del left
    cuvid.released.destroy()
    assert not cuvid.mapped
    assert cuvid.decoders == 0


@pytest.mark.parametrize("codec", ["vp9", "av1", "mpeg4"])
def test_where_packets_hold_several_pictures_each_may_use_a_surface_again(cuvid, codec):
    session = Session(CODECS[codec], 0, in_use=1, step=1, released=cuvid.released)
    list(session.feed(coded(START[:1]), PLAIN, first=True))
    assert cuvid.outputs == {1: OUTPUTS - 1 + SURFACES}
