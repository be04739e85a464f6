"""Pictures that are hidden, or shown once more, under the numbers of the packets that show them."""

from __future__ import annotations

import pytest

from seqpipe.errors import BackendError
from seqpipe.video.bitstream.elementary import AT_KEY, SHOWS_EARLIER, SHOWS_LAST, ElementaryStream
from seqpipe.video.decode.packets import FedPacket
from seqpipe.video.nvdec.cuvid import CODECS
from seqpipe.video.nvdec.session import Session

START = "S 128x96 "
ROLES = {"I": SHOWS_LAST | AT_KEY, "H": 0, "E": SHOWS_EARLIER}


class Stream(ElementaryStream):
    """Of the texts that :mod:`fake_cuvid` takes for packets."""

    def __init__(self) -> None:
        super().__init__("vp9", b"")

    def roles(self, packets):
        words = [packet.decode().split()[-2] for packet in packets]
        return bytes(ROLES.get(word, SHOWS_LAST) for word in words)


def run(cuvid, packets, at_once=32):
    """(packet, place of the picture) of all that came; packets that are damaged; packets of which nothing is known."""
    session = Session(CODECS["vp9"], 0, in_use=4, released=cuvid.released)
    fed = [
        FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in enumerate(packets)
    ]
    came, damaged, known = [], [], set()

    def take(result):
        for picture in result.frames:
            came.append((picture.packet, cuvid.mapped[picture.surface(0).owner.pointer][1]))
        damaged.extend(result.damaged)
        known.update(result.decoded)

    for begin in range(0, len(fed), at_once):
        for result in map(take, session.feed(fed[begin : begin + at_once], Stream(), first=not begin)):
            assert result is None
    for result in map(take, session.finish()):
        assert result is None
    return came, damaged, sorted(set(range(len(packets))) - known)


@pytest.mark.parametrize("at_once", [1, 3, 32])
@pytest.mark.parametrize("delay", [0, 1, 2, 4])
def test_pictures_have_the_numbers_of_the_packets_that_show_them(cuvid, at_once, delay):
    cuvid.delay = delay
    packets = [START + "I 0", "H 9", "P 2", "P 3", "E 4=9", "E 5=3", "P 6", "H 8", "E 8=8", "P 10", "E 11=9"]
    found = run(cuvid, packets, at_once)
    assert found == (
        [(0, 0), (2, 2), (3, 3), (4, 9), (5, 3), (6, 6), (8, 8), (9, 10), (10, 9)],
        [],
        [],
    )


@pytest.mark.parametrize("delay", [0, 2])
def test_a_dropped_packet_moves_no_other_ones_number(cuvid, delay):
    cuvid.delay = delay
    packets = [START + "I 0", "P 1", "- 2", "P 3", "H 9", "- 5", "E 6=9", "P 7"]
    came, damaged, unknown = run(cuvid, packets)
    assert came == [(0, 0), (1, 1), (3, 3), (6, 9), (7, 7)]
    assert sorted(damaged) == [2, 5]
    assert unknown == []


@pytest.mark.parametrize("delay", [0, 2])
def test_what_should_have_been_shown_again_and_was_not_is_damage(cuvid, delay, monkeypatch):
    cuvid.delay = delay
    monkeypatch.setitem(ROLES, "-", SHOWS_EARLIER)
    session = Session(CODECS["vp9"], 0, in_use=4, released=cuvid.released)
    packets = [START + "I 0", "P 1", "- 2", "P 3", "P 4"]
    fed = [
        FedPacket(number, text.encode(), key=not number, wanted=True) for number, text in enumerate(packets)
    ]
    result = [*session.feed(fed, Stream(), first=True), *session.finish()]
    assert [picture.packet for step in result for picture in step.frames] == [0, 1, 3, 4]
    assert [packet for step in result for packet in step.damaged] == [2]


def test_another_size_is_taken_at_a_key_picture_alone(cuvid):
    assert [packet for packet, _ in run(cuvid, [START + "I 0", "P 1", "S 64x64 I 2", "P 3"])[0]] == [
        0,
        1,
        2,
        3,
    ]
    with pytest.raises(BackendError, match="predicted from frames of another size"):
        run(cuvid, [START + "I 0", "P 1", "S 64x64 P 2", "P 3"])
