"""What a packet shows is what libavcodec gives for it."""

from __future__ import annotations

import av
import pytest

from seqpipe.video.bitstream.elementary import AT_KEY, SHOWS_EARLIER, SHOWS_LAST, display_roles
from tests.support.deep import deep
from tests.support.encodings import encoding

KEY, HIDDEN, SHOWN = b"\x82\x49\x83\x42" + bytes(12), b"\x84" + bytes(15), b"\x86" + bytes(15)
AGAIN = b"\x8a"
# temporal delimiter; sequence header; frame headers: a coded one, and one that shows slot 2 again
AV1_HEADER, AV1_FRAME, AV1_AGAIN = b"\x12\x00\x0a\x01\x00", b"\x32\x02\x10\x00", b"\x1a\x01\xa0"


def superframe(*frames):
    marker = bytes([0xC0 | len(frames) - 1])
    return b"".join(frames) + marker + bytes(map(len, frames)) + marker


@pytest.mark.parametrize(
    ("codec", "packet", "role"),
    [
        ("vp9", KEY, SHOWS_LAST | AT_KEY),
        ("vp9", SHOWN, SHOWS_LAST),
        ("vp9", HIDDEN, 0),
        ("vp9", AGAIN, SHOWS_EARLIER),
        ("vp9", superframe(HIDDEN, SHOWN), SHOWS_LAST),
        ("vp9", superframe(HIDDEN, AGAIN), SHOWS_EARLIER),
        ("vp9", superframe(HIDDEN, HIDDEN), 0),
        ("vp9", bytes(40), SHOWS_LAST),
        ("vp9", b"", SHOWS_LAST),
        ("av1", AV1_HEADER + AV1_FRAME, SHOWS_LAST | AT_KEY),
        ("av1", AV1_FRAME, SHOWS_LAST),
        ("av1", AV1_AGAIN, SHOWS_EARLIER),
        ("av1", AV1_FRAME + AV1_AGAIN, SHOWS_EARLIER),
        ("av1", b"\x32\x7f", SHOWS_LAST),
    ],
)
def test_roles(codec, packet, role):
    assert display_roles(codec)(packet) == role


@pytest.mark.parametrize(
    "name", ["vp9_hidden_shown", *map(deep, ["vp9_pyramid_split", "vp9_hidden_10_split"])]
)
def test_roles_of_real_packets(name):
    with av.open(str(encoding(name))) as container:
        stream = container.streams.video[0]
        role, context = display_roles("vp9"), av.CodecContext.create("vp9", "r")
        context.thread_count = 1
        for packet in container.demux(stream):
            if packet.size:
                found, key = role(bytes(packet)), packet.is_keyframe
                shown = [frame.key_frame for frame in context.decode(packet)]
                assert bool(found & (SHOWS_LAST | SHOWS_EARLIER)) == bool(shown)
                assert bool(found & AT_KEY) == key or not shown


def test_pictures_of_other_codecs_are_shown_once():
    assert display_roles("h264") is None
