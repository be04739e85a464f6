"""Damaged videos: what is delivered is right, what is lost is named, and nothing hangs or spreads."""

from __future__ import annotations

import faulthandler
import random
import re
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

import seqpipe
from seqpipe.errors import DamagedSourceError, FrameRangeError, UnreadableSourceError
from seqpipe.video.decode.cpu import CpuDecoder, DecoderPool
from seqpipe.video.decode.packets import DecodeError, DecodeResult, FedPacket
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.build import build_index
from seqpipe.video.packet_index import PacketIndex
from seqpipe.video.plan import Request
from seqpipe.video.probe.probe import probe, set_extradata
from seqpipe.video.reader import VideoReader
from seqpipe.video.source.source import open_source
from tests.support import access, ffmpeg, media
from tests.support.access import Delivery
from tests.support.deep import combined, deep_but

# Damage that neither the codec nor ffmpeg can notice: every sequence of bits means some picture.
_CABAC = (
    "H.264 and HEVC slices are arithmetic-coded: flipped bits decode to other blocks, without an end too soon"
)
_BOOL = "VP9 tiles are arithmetic-coded without a checksum"
SILENT = {
    "h264_flip_silent": _CABAC,
    "hevc_flip_key": _CABAC,
    "hevc_flip_reference": _CABAC,
    "hevc_flip_disposable": _CABAC,
    "vp9_mp4_flip_key": _BOOL,
    "vp9_mp4_flip_reference": _BOOL,
}
_TIME_LIMIT_S = 120


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A decoder that hangs cannot be interrupted: the process ends, with a traceback of every thread."""
    faulthandler.dump_traceback_later(_TIME_LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    access.tap_surfaces(monkeypatch)


@dataclass(frozen=True)
class Damaged:
    """A damaged file and the truth about it.

    Attributes:
        path: of the file.
        index: its index.
        truth: digest of each frame in the undamaged file; "" for one that is not in it.
    """

    path: Path
    index: PacketIndex
    truth: list[str]

    def wrong(self, found: Delivery) -> list[int]:
        """Frames that were delivered with another picture than they should have."""
        return [number for number, digest in found.frames.items() if self.truth[number] != digest]


def damaged(name: str) -> Damaged:
    """A damaged item; its frames are told by their times, those of AVI, which has none, by counting."""
    path, twin = media.made(name), media.made(media.entry(name).twin)
    return _against(path, access.indexed(path), twin)


def _against(path: Path, index: PacketIndex, twin: Path) -> Damaged:
    judged = ffmpeg.judge(twin, planar=True).frames
    if index.info.container == "avi":
        return Damaged(path, index, [frame.md5 for frame in judged])
    by_time = {round(frame.time_s, 6): frame.md5 for frame in judged}
    return Damaged(path, index, [by_time.get(round(float(t), 6), "") for t in index.timestamps])


def safe_frames(index: PacketIndex, found: Delivery) -> set[int]:
    """Frames that the damage cannot reach: decoded before it, or in a later GOP and not leading there."""
    table = index.packets
    at = [int(number) for reason in found.lost.values() for number in re.findall(r"packet (\d+) is", reason)]
    if not at:
        return set(range(len(index)))
    packets = np.arange(len(table))
    safe = (packets < min(at)) | ((table.gop > max(at)) & ~table.leading)
    return set(table.packet_frame[safe & table.shown].tolist())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [name for name in media.names("damaged") if name not in SILENT])
def test_what_is_delivered_is_right_and_what_is_lost_is_named(name, threads):
    item = damaged(name)
    found = access.decode(item.path, item.index, range(len(item.index)), threads=threads)
    assert item.wrong(found) == []
    assert found.lost or item.index.cut
    assert sorted([*found.frames, *found.lost]) == list(range(len(item.index)))
    assert list(found.frames) == sorted(found.frames)
    assert all(re.match(r"packet \d+ is damaged: \w+", reason) for reason in found.lost.values())
    assert safe_frames(item.index, found) <= set(found.frames)


@pytest.mark.parametrize("name", media.names("damaged"))
def test_no_less_is_claimed_than_ffmpeg_claims(name):
    item, entry = damaged(name), media.entry(name)
    found = access.decode(item.path, item.index, range(len(item.index)))
    if entry.signs or ffmpeg.judge(item.path, planar=True).complaints:
        assert found.lost or item.index.cut
        assert name not in SILENT
    elif name in SILENT:
        assert item.wrong(found), "the damage has become harmless: take it out of the list"
        assert set(item.wrong(found)) <= {media.entry(name).numbers.index(number) for number in entry.lost}


@pytest.mark.parametrize("name", deep_but(media.names("damaged")[::3], media.names("damaged")))
def test_one_frame_alone_fares_as_it_does_among_all(name):
    item, pool = damaged(name), DecoderPool()
    everything = access.decode(item.path, item.index, range(len(item.index)))
    for number in range(len(item.index)):
        alone = access.decode(item.path, item.index, [number], pool=pool)
        assert alone.frames.get(number) == everything.frames.get(number)
        assert alone.lost.keys() == {number} - everything.frames.keys()


@pytest.mark.parametrize("name", ["h264_flip_reference", "av1_flip_reference"])
def test_a_decoder_that_has_failed_or_reported_damage_is_not_used_again(name):
    """Flushing does not undo all that damage may leave in it."""
    spent: set[CpuDecoder] = set()

    class Watched(CpuDecoder):
        def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
            assert self not in spent
            try:
                for result in super().feed(packets):
                    spent.update([self] * len(result.damaged))
                    yield result
            except DecodeError:
                spent.add(self)
                raise

    item, pool = damaged(name), DecoderPool(make=Watched)
    for frames in (range(len(item.index)), [0], [len(item.index) - 1]):
        access.decode(item.path, item.index, frames, pool=pool)
    assert len(spent) > 1


@pytest.mark.parametrize(
    "name", ["h264_flip_reference", "hevc_lost_key", "mpeg4_mp4_lost_key", "av1_flip_reference"]
)
def test_the_reader_gives_every_sound_frame_and_then_says_what_is_lost(name):
    item = damaged(name)
    expected = access.decode(item.path, item.index, range(len(item.index)))
    lost = tuple(sorted(expected.lost))
    given: list[int] = []
    with VideoReader(item.path, threads=2) as video:
        stream = (number for frame in video for number, _ in access.digests(frame))
        message = r"frames \(.*cannot be decoded \(packet \d+ is damaged"
        with pytest.raises(DamagedSourceError, match=message) as streamed:
            given.extend(stream)
        with pytest.raises(DamagedSourceError, match="cannot be decoded") as asked:
            video.frames([lost[0], 0, lost[-1]])
        assert video.frames(given[:3]).frames.tolist() == given[:3]
    assert given == sorted(expected.frames)
    assert streamed.value.lost == lost
    assert asked.value.lost == (lost[0], lost[-1])


def test_sound_videos_in_one_batch_with_damaged_ones_are_unaffected():
    broken = [damaged(name) for name in media.names("damaged") if name not in SILENT]
    sound = [
        media.made(name) for name in dict.fromkeys(media.entry(name).twin for name in media.names("damaged"))
    ]
    requests = [Request(item.path, np.arange(len(item.index))) for item in broken]
    requests += [Request(item.path, np.array([2, 0, 2])) for item in broken]
    requests += [Request(path, np.array([47, 20, 30, 20])) for path in sound]
    requests += [Request(media.made(name), np.array([0])) for name in media.names("unreadable")[:4]]
    order = random.Random(1).sample(range(len(requests)), len(requests))
    with Engine(threads=2) as engine:
        results = dict(zip(order, engine.read([requests[place] for place in order]), strict=True))
    for place, item in enumerate(broken):
        lost = tuple(sorted(access.decode(item.path, item.index, range(len(item.index))).lost))
        whole, start = results[place], results[place + len(broken)]
        assert (whole.lost if isinstance(whole, DamagedSourceError) else ()) == lost
        assert isinstance(start, seqpipe.Sequence)
        assert access.digests(start) == [(number, item.truth[number]) for number in (2, 0, 2)]
    for place, path in enumerate(sound, start=2 * len(broken)):
        judged = ffmpeg.judge(path, planar=True).frames
        found = results[place]
        assert isinstance(found, seqpipe.Sequence)
        assert access.digests(found) == [(number, judged[number].md5) for number in (47, 20, 30, 20)]
    for place in range(len(requests) - 4, len(requests)):
        assert isinstance(results[place], UnreadableSourceError)


@pytest.mark.parametrize("name", [name for name in media.names("damaged") if name.startswith("data_cut")])
def test_a_cut_file_says_so_beyond_its_end(name):
    item, entry = damaged(name), media.entry(name)
    count = len(item.index)
    assert min(entry.lost) <= count < entry.frames
    with (
        VideoReader(item.path) as video,
        pytest.raises(FrameRangeError, match="is not in the video") as raised,
    ):
        video[entry.frames - 1]
    # A transport stream states no length, and its last packet may well be its last.
    assert ("The file is truncated" in str(raised.value)) == (name != "data_cut_ts")


@pytest.mark.parametrize("name", [name for name in media.names("unreadable") if "cut" in name])
def test_a_file_cut_in_its_header_is_no_video(name):
    for ask in (probe, VideoReader):
        with pytest.raises(UnreadableSourceError, match=re.escape(str(media.made(name)))):
            ask(media.made(name))


@pytest.mark.parametrize("name", access.shared_names("corrupt"))
def test_a_real_corrupt_video_gives_ffmpegs_frames_up_to_the_damage(name):
    path = media.shared_media() / name
    judged = ffmpeg.judge(path, planar=True)
    item = _against(path, access.indexed(path), path)
    assert judged.complaints
    for threads in (1, 2):
        found = access.decode(path, item.index, range(len(item.index)), threads=threads)
        assert found.lost
        assert item.wrong(found) == []
        assert sorted([*found.frames, *found.lost]) == list(range(len(item.index)))
        assert safe_frames(item.index, found) <= set(found.frames)
    # All frames but one have the judge's times: the one whose picture it drops.
    assert len(item.index) - item.truth.count("") == len(judged.frames)


@pytest.mark.parametrize("name", ["h264", "h264_no_b", "mpeg4_mp4", "mpeg4_avi", "h264_mkv", "hevc_hashed"])
def test_damage_in_the_last_pictures_does_not_slip_past_frame_threads(name, tmp_path):
    twin = media.made(name)
    table = access.indexed(twin).packets
    last = np.flatnonzero(table.reference)[-1]
    start, size = int(table.offset[last]), int(table.size[last])
    path = _overwritten(twin, tmp_path, start + size // 2, size // 2)
    item = _against(path, build_index(open_source(path)), twin)
    for _ in range(8):
        found = access.decode(path, item.index, range(len(item.index)), threads=2)
        assert int(table.packet_frame[last]) in found.lost
        assert item.wrong(found) == []


_TRANSPORT = ["h264_ts", "hevc_ts", "mpeg2_ts", "mpeg2_closed"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", _TRANSPORT)
def test_lost_transport_packets_never_give_wrong_frames(name, seed, tmp_path):
    twin = media.made(name)
    data, rng = twin.read_bytes(), random.Random(f"{name} {seed}")
    at = 188 * rng.randrange(len(data) // 188 // 5, len(data) // 188 * 9 // 10)
    path = tmp_path / twin.name
    path.write_bytes(data[:at] + data[at + 188 * rng.choice([1, 1, 3]) :])
    item = _against(path, build_index(open_source(path)), twin)
    found = access.decode(path, item.index, range(len(item.index)))
    assert item.wrong(found) == []
    assert safe_frames(item.index, found) <= set(found.frames)
    assert len(found.frames) >= len(item.truth) // 4


def test_an_avi_file_whose_frames_take_several_ticks_is_not_cut(tmp_path):
    """As ffmpeg copies MP4: 600 ticks a second, and the header counts all that the last frame takes."""
    path = tmp_path / "ticks.avi"
    ffmpeg.write(path, "-i", str(media.made("h264")), "-c", "copy")
    index = access.indexed(path)
    assert (index.info.declared_frames or 0) > 2 * len(index)
    assert index.cut == ""


def test_an_overwritten_chunk_of_avi_is_missed(tmp_path):
    twin = media.made("h264_avi")
    offset = int(access.indexed(twin).packets.offset[30])
    path = _overwritten(twin, tmp_path, offset - 8, 8)
    index = build_index(open_source(path))
    assert len(index) == 47
    assert index.cut == "the file is truncated or damaged: its header states 48 frames, it has 47"


@pytest.mark.parametrize("packet", [6, 13, 15, 30])
@pytest.mark.parametrize("name", ["h264_avi", "mpeg4_avi"])
def test_a_blanked_packet_without_pts_keeps_its_place(name, packet, tmp_path):
    twin = media.made(name)
    table = access.indexed(twin).packets
    path = _overwritten(twin, tmp_path, int(table.offset[packet]), int(table.size[packet]))
    item = _against(path, build_index(open_source(path)), twin)
    found = access.decode(path, item.index, range(len(item.index)))
    assert len(item.index) == 48
    assert item.wrong(found) == []
    assert int(table.packet_frame[packet]) in found.lost
    assert len(found.frames) >= 24


def _digests(path: Path) -> list[str]:
    return [frame.md5 for frame in ffmpeg.judge(path, planar=True).frames]


def _overwritten(twin: Path, folder: Path, start: int, size: int) -> Path:
    data = bytearray(twin.read_bytes())
    data[start : start + size] = bytes(size)
    path = folder / twin.name
    path.write_bytes(data)
    return path


_HIT = [
    *["h264", "h264_open_gop", "h264_mbaff", "h264_mkv", "h264_ts", "hevc", "hevc_open_gop", "hevc_ts"],
    *["vp8", "vp9_mp4", "av1", "av1_mkv", "theora", "mjpeg", "png"],
    *["mpeg4_mp4", "mpeg2_ts", "mpeg2_mkv", "flv1"],
]


@pytest.mark.parametrize(("name", "seed"), combined(_HIT, range(4)))
def test_any_hit_leaves_the_rest_as_it_was(name, seed, tmp_path):
    """Random damage: frames from untouched packets are right, and what libavcodec flags is not delivered."""
    twin, rng = media.made(name), random.Random(f"{name} {seed}")
    data = bytearray(twin.read_bytes())
    start, size = rng.randrange(len(data) // 6, len(data) * 9 // 10), rng.choice([1, 4, 64, 256])
    for place in range(start, min(start + size, len(data))):
        data[place] = 0 if seed % 2 else data[place] ^ rng.randrange(1, 256)
    path = tmp_path / twin.name
    path.write_bytes(data)
    try:
        index = build_index(open_source(path))
    except UnreadableSourceError:
        return  # the hit was in the headers behind the data
    flagged, untouched = _flagged(path), _untouched(path, index, twin)
    for threads in (1, 2):
        found = access.decode(path, index, range(len(index)), threads=threads)
        assert {number: found.frames.get(number) for number in untouched} == untouched
        assert not flagged & {int(index.packets.pts[index.packets.frame_packet[n]]) for n in found.frames}


def _untouched(path: Path, index: PacketIndex, twin: Path) -> dict[int, str]:
    """The true digests of the frames of GOPs without any changed packet around them."""
    clean = access.indexed(twin)
    expected, theirs, ours = _digests(twin), _packets(twin), _packets(path)
    head = next(
        (i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), len(ours)
    )
    tail = next(
        (i for i, pair in enumerate(zip(ours[::-1], theirs[::-1], strict=False)) if pair[0] != pair[1]), 0
    )
    if head == len(theirs):
        return dict(enumerate(expected))
    table, shift = index.packets, len(theirs) - len(ours)
    before = [
        packet for packet in range(head) if table.gop[packet] + 0 < table.gop[min(head, len(table) - 1)]
    ]
    behind = [
        p
        for p in range(len(ours) - tail, len(ours))
        if table.gop[p] >= len(ours) - tail and not table.leading[p]
    ]
    same = {packet: packet for packet in before} | {packet: packet + shift for packet in behind}
    return {
        int(table.packet_frame[packet]): expected[clean.packets.packet_frame[twin_packet]]
        for packet, twin_packet in same.items()
        if table.packet_frame[packet] >= 0
    }


def _packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(container.streams.video[0]) if packet.size]


def _flagged(path: Path) -> set[int | None]:
    """The pts of frames that libavcodec calls corrupt, or that do not decode.

    Going through the file once, or, for MPEG-4 and FLV1, once from each key frame: their decoder tolerates junk behind
    a picture until it has seen a few pictures without, so what it flags depends on where it began.
    """
    flagged: set[int | None] = set()
    failed: set[int | None] = set()
    came: set[int | None] = set()

    def decode(decoder: av.CodecContext, packet: av.Packet | None) -> None:
        try:
            frames = decoder.decode(packet)
        except av.FFmpegError:
            failed.update([] if packet is None else [packet.pts])
            return
        came.update(frame.pts for frame in frames)
        flagged.update(frame.pts for frame in frames if frame.is_corrupt)

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        decoder = stream.codec_context
        for packet in container.demux(stream):
            if packet.is_keyframe and decoder.name in ("mpeg4", "flv"):
                decode(decoder, None)
                decoder = av.CodecContext.create(stream.codec_context.name, "r")
                decoder.thread_type = "NONE"
                set_extradata(decoder, stream.codec_context.extradata or b"")
            if packet.size or packet.dts is None:
                decode(decoder, packet if packet.size else None)
    return (flagged | failed - came) - {None}
