"""The session's own logic, on a library that takes the driver's place."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from seqpipe.errors import BackendError
from seqpipe.video.bitstream.elementary import ElementaryStream
from seqpipe.video.decode.packets import DecodeError, FedPacket
from seqpipe.video.nvdec.session import NvdecDecoder, Session

START = "S 128x96 "
PLAIN = ElementaryStream("vp8", b"")


def feed(session, number, text, *, wanted=True):
    return list(session.feed([fed(number, text.encode(), wanted)], PLAIN, first=not number))


def fed(number, data, wanted=True):
    return FedPacket(number, data, key=not number, wanted=wanted)


def run(session, packets, wanted=None, at_once=32):
    """(packets whose picture came, in order; packets that were found damaged; packets that were found sound)."""
    came, damaged, sound = [], [], []
    coded = [
        fed(number, text.encode(), wanted is None or number in wanted) for number, text in enumerate(packets)
    ]

    def take(result):
        came.extend(picture.packet for picture in result.frames)
        damaged.extend(result.damaged)
        sound.extend(packet for packet in result.decoded if packet not in result.damaged)

    # nothing of a step may be held while the next one is done: pictures in use are few
    for begin in range(0, len(coded), at_once):
        for result in map(take, session.feed(coded[begin : begin + at_once], PLAIN, first=not begin)):
            assert result is None
    for result in map(take, session.finish()):
        assert result is None
    return came, damaged, sound


@pytest.mark.parametrize("at_once", [1, 3, 32])
def test_pictures_come_in_the_order_of_presentation_under_their_packets_numbers(cuvid, at_once):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    packets = [START + "I 0", "P 3", "B 1", "B 2", "P 6", "B 4", "B 5"]
    came, damaged, sound = run(session, packets, at_once=at_once)
    assert came == [0, 2, 3, 1, 5, 6, 4]
    assert damaged == []
    assert sound == list(range(7))


def test_a_picture_is_called_sound_no_later_than_it_is_handed_over(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    known = set()
    for number, text in enumerate([START + "I 0", "P 3", "B 1", "B 2", "P 6", "B 4"]):
        for result in feed(session, number, text):
            known.update(result.decoded)
            for picture in result.frames:
                assert set(range(picture.packet + 1)) <= known


def test_only_what_is_wanted_is_mapped(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    assert run(session, [START + "I 0", *(f"P {i}" for i in range(1, 40))], wanted={17, 30})[0] == [17, 30]
    assert len(cuvid.mapped) <= 2


def test_errors_of_the_gpu_and_dropped_packets_are_damage(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    came, damaged, _ = run(session, [START + "I 0", "X 1", "- 2", "P 3"])
    assert came == [0, 1, 3]
    assert damaged == [2, 1]


def test_a_session_takes_stream_after_stream_with_one_decoder(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    for _ in range(5):
        run(session, [START + "I 0", "P 1", "P 2"])
    assert cuvid.created == [(128, 96)]


ONE, OTHER = (b"sets", ()), (b"others", ())
CHANGING = (b"sets", ((0, b"a"), (8, b"b")))


@pytest.mark.parametrize(
    ("codec", "streams", "parsers"),
    [
        ("h264", [ONE, ONE, OTHER, OTHER, ONE], 3),
        ("h264", [CHANGING, CHANGING], 2),
        ("h264", [(b"", ()), (b"", ())], 2),
        ("vp9", [(b"", ()), (b"", ())], 1),
    ],
)
def test_no_parameter_set_of_another_stream_stays_in_the_parser(cuvid, codec, streams, parsers):
    """Where a stream's own one is destroyed, the other one of its number would be used without a report."""
    session = Session(4, 0, in_use=4, released=cuvid.released)
    used = []
    for extradata, set_ups in streams:
        index = SimpleNamespace(info=SimpleNamespace(codec=codec), extradata=extradata, set_ups=set_ups)
        decoder = NvdecDecoder(session, index, deque())
        for result in decoder.feed([fed(0, (START + "I 0").encode()), fed(1, b"P 1")]):
            assert not result.damaged
        assert sum(len(result.frames) for result in decoder.flush()) == 2
        used += [parser for parser in cuvid.parsers if parser not in used]
    assert len(used) == parsers
    assert len(cuvid.parsers) == 1
    assert cuvid.created == [(128, 96)]
    session.close()
    assert cuvid.parsers == []


def test_the_next_run_of_a_stream_needs_no_new_decoder_while_pictures_of_the_last_are_in_use(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    kept = [*feed(session, 0, START + "I 0"), *session.finish()]
    run(session, [START + "I 0", "P 1", "P 2"])
    assert any(result.frames for result in kept)
    assert cuvid.created == [(128, 96)]


@pytest.mark.parametrize("asked_for", [1, 2, 4])
def test_the_parser_uses_no_surface_that_the_decoder_does_not_have(cuvid, asked_for):
    """An H200 refused pictures of a stream of key frames only, for which the parser asks for one."""
    cuvid.min_surfaces = asked_for
    run(Session(4, 0, in_use=4, released=cuvid.released), [START + "I 0", "I 1"])
    assert asked_for <= cuvid.decode_surfaces
    assert cuvid.surfaces == cuvid.decode_surfaces


def test_pictures_in_use_outlive_a_change_of_size(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    kept = feed(session, 0, START + "I 0")
    kept.extend(session.finish())
    assert any(result.frames for result in kept)
    run(session, ["S 96x64 I 0", "P 1"])
    assert cuvid.created == [(128, 96), (96, 64)]
    assert cuvid.decoders == 2
    kept.clear()
    cuvid.released.destroy()
    assert cuvid.decoders == 1


def test_a_stream_of_another_size_gets_another_decoder_in_place_of_the_first(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    _, damaged, sound = run(session, [START + "I 0", "X 1", "S 96x64 I 2", "P 3"])
    assert damaged == [1]
    assert sound == [0, 2, 3]
    assert cuvid.created == [(128, 96), (96, 64)]
    cuvid.released.destroy()  # its last pictures were inside when the other came
    assert cuvid.decoders == 1


def test_too_many_pictures_in_use_are_an_error_and_not_a_hang(cuvid):
    session = Session(4, 0, in_use=1, released=cuvid.released)
    kept = [feed(session, 0, START + "P 0")]

    def hold(count):
        for number in range(1, count):
            kept.append(feed(session, number, f"P {number}"))

    with pytest.raises(BackendError, match=r"could not map a frame of 128×96 pixels.*CUDA error 205"):
        hold(100)


def prefixed(*units):
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


# profile and lengths of 4 bytes, one set of each kind of parameters
AVCC = (
    b"\x01\x64\0\x1e\xff\xe1"
    + (14).to_bytes(2, "big")
    + b"S 128x96      "
    + b"\x01"
    + (1).to_bytes(2, "big")
    + b" "
)


@pytest.mark.parametrize("step", [1, 8])
@pytest.mark.parametrize("at_once", [1, 2, 32])
def test_lengths_become_start_codes_and_parameter_sets_come_first(cuvid, at_once, step):
    stream = ElementaryStream("h264", AVCC)
    assert stream.lengths == 4
    units = [(b"I 0",), (b"P", b"1"), (b"P ", b"", b"2"), (b"P 3",), (b"P", b" ", b"4" + b" " * 5000)]
    packets = [prefixed(*some) for some in units] + [b"\0\0\0\1P 5"]
    session = Session(4, 0, in_use=8, step=step, released=cuvid.released)
    numbers = []
    for begin in range(0, len(packets), at_once):
        part = [fed(begin + place, data) for place, data in enumerate(packets[begin : begin + at_once])]
        for result in session.feed(part, stream, first=not begin):
            numbers += [picture.packet for picture in result.frames]
    numbers += [picture.packet for result in session.finish() for picture in result.frames]
    assert numbers == list(range(6))
    assert cuvid.payloads == [stream.packet(data, first=not number) for number, data in enumerate(packets)]
    assert cuvid.payloads[0].startswith(b"\0\0\0\1S 128x96")


@pytest.mark.parametrize("step", [1, 8])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_unit_longer_than_its_packet_is_an_error_of_that_packet_after_news_of_those_before(cuvid, at, step):
    stream = ElementaryStream("h264", AVCC)
    packets = [prefixed(b"I 0"), *(prefixed(b"P %d" % number) for number in range(1, 5))]
    packets[at] = packets[at][:-1]
    session = Session(4, 0, in_use=8, step=step, released=cuvid.released)
    decoded = []
    steps = session.feed(list(map(fed, range(5), packets)), stream, first=True)
    with pytest.raises(DecodeError, match="a NAL unit is longer than its packet") as caught:
        decoded.extend(packet for result in steps for packet in result.decoded)
    assert caught.value.packet == at
    assert len(cuvid.payloads) == at
    assert decoded == list(range(len(decoded)))
    session.close()


def test_closing_gives_everything_back(cuvid):
    session = Session(4, 0, in_use=4, released=cuvid.released)
    run(session, [START + "I 0", "P 1"])
    session.close()
    assert cuvid.decoders == 0
    assert not cuvid.mapped
