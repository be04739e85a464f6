"""Codecs that draw what has changed into the picture before: each frame alone is that of a straight read.

Whatever the container calls a key frame, and whatever a decoder has decoded before.
"""

from __future__ import annotations

import av
import numpy as np
import pytest

import seqpipe
from seqpipe.video.bitstream.kind import classifier
from seqpipe.video.probe.probe import av_packet
from tests.support import ffmpeg
from tests.support.deep import combined

MOVING = (
    "color=c=0x204060:s=96x64:r=10:d=2[a];color=c=red:s=20x20:r=10:d=2[b];[a][b]overlay=x='8+t*20':y='10+t*8'"
)
PALETTE = ",format=rgb24,split[c][d];[c]palettegen[p];[d][p]paletteuse"
# encoder: filters for the pixels that it takes, and the container
ENCODERS = {
    "rpza": (",format=rgb555le", "mov"),
    "smc": (PALETTE, "mov"),
    "qtrle": (",format=rgb24", "mov"),
    "qtrle gray": (",format=gray", "mov"),
    "qtrle argb": (",format=argb", "mov"),
    "qtrle 555": (",format=rgb555be", "mov"),
    "msrle": (PALETTE, "avi"),
    "msvideo1": (",format=rgb555le", "avi"),
    "cinepak": (",format=rgb24", "avi"),
    "zmbv": (",format=bgr0", "avi"),
    "svq1": (",format=yuv410p", "mov"),
    "flashsv": (",format=bgr24", "nut"),
    "flv": (",format=yuv420p", "nut"),
    "msmpeg4v2": (",format=yuv420p", "avi"),
    "msmpeg4": (",format=yuv420p", "avi"),
    "wmv1": (",format=yuv420p", "nut"),
    "wmv2": (",format=yuv420p", "nut"),
    "snow": (",format=yuv420p", "avi"),
}
# whose packets tell in their first bits that they draw all pixels
TOLD = ("flv", "msmpeg4", "msmpeg4v2", "svq1", "wmv1", "wmv2", "zmbv")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "cache"))


def encoded(folder, name, gop):
    filters, ending = ENCODERS[name]
    path = folder / f"true.{ending}"
    options = ["-c:v", name.split()[0], "-g", str(gop), "-strict", "-2"]
    ffmpeg.write(path, "-f", "lavfi", "-i", MOVING + filters, *options)
    return path


def copied(source, target, packets=None):
    """A copy in which every packet is called a key frame, with other bytes for some."""
    with av.open(str(source)) as before, av.open(str(target), "w") as after:
        stream = before.streams.video[0]
        new = after.add_stream_from_template(stream)
        for number, packet in enumerate(packet for packet in before.demux(stream) if packet.size):
            written = packet
            if packets and number in packets:
                written = av_packet(packets[number])
                written.pts, written.dts, written.time_base = packet.pts, packet.dts, packet.time_base
                written.duration = packet.duration
            written.is_keyframe, written.stream = True, new
            after.mux(written)
    return target


def straight(path):
    """What PyAV gives for the whole file in a row, in the decoder's own pixels."""
    with av.open(str(path)) as source:
        return [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]


@pytest.mark.parametrize(("name", "flags"), combined([*ENCODERS], ["true", "all"]))
def test_a_frame_alone_is_that_of_a_straight_read(tmp_path, name, flags):
    path = original = encoded(tmp_path, name, 8)
    if flags == "all":
        path = copied(original, tmp_path / f"all{original.suffix}")
    judge = straight(original)
    with seqpipe.open(original) as video:
        drawn = [frame.numpy() for frame in video]
    assert len(drawn) == len(judge) == 20
    if not ENCODERS[name][0].startswith(",format=yuv"):  # the same colors whoever converts them
        assert np.array_equal(drawn, judge)
    for number in range(20):
        with seqpipe.open(path) as video:
            assert np.array_equal(video[number].numpy(), drawn[number]), number
    with seqpipe.open(path) as video:
        for number in (19, 0, 10, 0, 1, 18, 7):
            assert np.array_equal(video[number].numpy(), drawn[number]), number


@pytest.mark.parametrize(("name", "gop"), combined([*TOLD], [1, 3, 8]))
def test_packets_that_draw_all_pixels_are_where_decoding_starts(tmp_path, name, gop):
    """Otherwise each frame of a file without predicted pictures would be decoded from its beginning."""
    path = encoded(tmp_path, name, gop)
    with av.open(str(path)) as source:
        flags = [packet.is_keyframe for packet in source.demux(video=0) if packet.size]
    for video in (path, copied(path, tmp_path / f"all{path.suffix}")):
        with seqpipe.open(video) as reader:
            assert reader.index.packets.key.tolist() == flags
    assert 20 / gop <= sum(flags) or name == "zmbv", "the encoder does as it was told"


def rpza(body):
    return b"\xe1" + (4 + len(body)).to_bytes(3, "big") + body


def test_a_first_packet_that_leaves_blocks_out_is_drawn_into_nothing(tmp_path):
    """libavcodec's flush leaves the last picture with the decoder, and it showed through."""
    skips = rpza(bytes([0x9F] * (24 * 16 // 32)))
    path = copied(encoded(tmp_path, "rpza", 8), tmp_path / "skips.mov", {0: skips})
    judge = straight(path)
    with seqpipe.open(path, threads=1) as video:
        for number in (19, 0, 10, 0, 1):
            assert np.array_equal(video[number].numpy(), judge[number]), number


def test_a_cut_packet_is_no_start():
    found = classifier("svq1", b"", from_start=True)
    assert found.classify(b"").random_access, "the first one has nothing before it"
    assert not found.classify(b"").random_access
