"""The proof of the flags: decoding without the droppable packets leaves every other frame as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from seqpipe.video.bitstream.kind import PacketKind, classifier, droppable
from tests.support.deep import deep

from .clips import (
    AV1,
    H264,
    HEVC,
    MEDIA,
    MPEG,
    VP9,
    Recipe,
    Stream,
    by_ffmpeg,
    decoded,
    demuxed,
    encoded,
    two_pass,
)

LETTERS = {"SP": "P", "SI": "I"}
"""FFmpeg's names of switching slices."""


def kinds_of(stream: Stream) -> list[PacketKind]:
    classify = classifier(stream.codec, stream.extradata).classify
    return [classify(packet) for packet in stream.packets]


def prove(stream: Stream, decoder: str | None = None, *, most: int | None = None) -> list[bool]:
    """Decodes with all packets, without the droppable ones, and with a random half of those."""
    kinds = kinds_of(stream)
    droppables = droppable(kinds)
    numbers = range(len(stream.packets))[:most]
    whole = decoded(stream, numbers, decoder)
    assert set(whole) == {n for n in numbers if kinds[n].shown}
    for seed, share in ((0, 0.0), (1, 0.5)):
        draw = random.Random(seed)
        kept = [n for n in numbers if not droppables[n] or draw.random() < share]
        assert decoded(stream, kept, decoder) == {n: whole[n] for n in kept if n in whole}
    return droppables


@pytest.mark.parametrize("made", [*H264.values(), *HEVC.values()], ids=[*H264, *(f"hevc-{k}" for k in HEVC)])
def test_h264_and_hevc_lose_only_what_was_dropped(made: Recipe) -> None:
    droppables = prove(encoded(made))
    assert 0.3 <= sum(droppables) / len(droppables) <= 0.75


@pytest.mark.parametrize("made", MPEG.values(), ids=MPEG)
def test_mpeg_loses_only_its_b_pictures(made: Recipe) -> None:
    droppables = prove(encoded(made))
    assert 0.6 <= sum(droppables) / len(droppables) <= 0.7


def test_packed_mpeg4_is_kept_whole_until_its_placeholder() -> None:
    """As Xvid packs two B-VOPs in a row: the second waits in its own packet for the placeholder behind it."""
    stream = one_pass("libxvid", "avi", "-g", "12", "-bf", "2")
    vops = [packet.count(b"\0\0\1\xb6") for packet in stream.packets]
    alone = [kind.picture_type == "B" and n == 1 for kind, n in zip(kinds_of(stream), vops, strict=True)]
    assert max(vops) == 2
    assert any(alone)
    assert not any(prove(stream))


def test_interlaced_mpeg4_keeps_the_b_picture_that_tells_how_long_a_frame_is() -> None:
    # at its usual bit rate the encoder writes a slice that libavcodec itself conceals, now in this way and now in that
    stream = one_pass("mpeg4", "avi", "-g", "12", "-bf", "2", "-flags", "+ildct+ilme", "-b:v", "1M")
    droppables = prove(stream)
    assert 0.5 <= sum(droppables) / len(droppables) <= 0.6


@pytest.mark.parametrize("made", AV1.values(), ids=AV1)
def test_av1_loses_only_what_was_dropped(made: Recipe) -> None:
    stream = encoded(made)
    droppables = prove(stream)
    coded = [
        number for number, dropped in enumerate(droppables) if dropped and len(stream.packets[number]) > 12
    ]
    assert sum(droppables) / len(droppables) >= 0.5
    assert coded, "only frames shown again were found, none with refresh_frame_flags 0"


@pytest.mark.parametrize("decoder", ["vp9", "libvpx-vp9"])
@pytest.mark.parametrize(
    ("name", "share"), [("alt-ref", 0.0), ("layers", 0.4), ("layers-not-resilient", 0.0)]
)
def test_vp9_loses_only_what_was_dropped(name: str, share: float, decoder: str) -> None:
    droppables = prove(encoded(VP9[name]), decoder)
    assert share <= sum(droppables) / len(droppables) <= share + 0.1


def test_vp9_frames_without_refresh_do_leave_state() -> None:
    """The reason for ``leaves_state``: refresh_frame_flags = 0 alone would change the frames that follow."""
    stream = encoded(VP9["layers-not-resilient"])
    kinds = kinds_of(stream)
    assert sum(not kind.reference for kind in kinds) > len(kinds) / 3
    kept = [n for n, kind in enumerate(kinds) if kind.reference]
    whole = decoded(stream, range(len(kinds)))
    assert decoded(stream, kept) != {n: whole[n] for n in kept}


@pytest.mark.parametrize("decoder", ["vp9", "libvpx-vp9"])
def test_vp9_frames_shown_again_are_droppable(decoder: str) -> None:
    stream = libvpx_two_pass("libvpx-vp9", "-auto-alt-ref", "6", "-lag-in-frames", "25", "-cpu-used", "5")
    droppables = prove(stream, decoder)
    again = [len(packet) <= 2 for packet in stream.packets]
    assert any(again)
    assert droppables == again


def test_vp8_hidden_frames_are_not_shown() -> None:
    stream = libvpx_two_pass("libvpx", "-auto-alt-ref", "1", "-lag-in-frames", "16")
    droppables = prove(stream)
    assert not any(droppables)
    assert not all(kind.shown for kind in kinds_of(stream))


def libvpx_two_pass(encoder: str, *options: str) -> Stream:
    return two_pass(ffmpeg("two-pass encoding"), encoder, "-b:v", "200k", *options)


def one_pass(encoder: str, container: str, *options: str) -> Stream:
    return by_ffmpeg(ffmpeg(encoder), encoder, container, *options)


def ffmpeg(what: str) -> str:
    found = pytest.importorskip("imageio_ffmpeg", reason=f"{what} takes the ffmpeg of imageio-ffmpeg")
    return str(found.get_ffmpeg_exe())


def test_motion_jpeg_frames_stand_alone() -> None:
    stream = encoded(Recipe("mjpeg", "avi", frames=8, pixels="yuvj420p"))
    assert all(prove(stream))
    assert {(kind.random_access, kind.picture_type) for kind in kinds_of(stream)} == {(True, "I")}


@pytest.mark.parametrize("codec", ["msmpeg4v3", "flv1", "ffv1", "png", "no-such-codec"])
def test_other_codecs_packets_are_all_references(codec: str) -> None:
    kind = classifier(codec, b"").classify(b"\1\2\3")
    assert (kind.reference, kind.shown, kind.random_access) == (True, True, None)


@pytest.mark.parametrize(
    "made",
    [*H264.values(), *HEVC.values(), *MPEG.values()],
    ids=[*H264, *(f"hevc-{k}" for k in HEVC), *MPEG],
)
def test_picture_types_are_those_of_the_decoder(made: Recipe) -> None:
    stream = encoded(made)
    frames = decoded(stream, range(len(stream.packets)))
    kinds = kinds_of(stream)
    judged = {n: LETTERS.get(letter, letter) for n, (_, letter) in frames.items()}
    assert {n: kinds[n].picture_type for n in judged} == judged
    assert "P" in judged.values()


def real_files() -> list[Path]:
    files = [path for path in sorted((MEDIA / "video").rglob("*.*")) if "corrupt" not in path.parts]
    return [path for path in files if path.suffix in {".mp4", ".mkv", ".webm", ".avi", ".mov"}]


@pytest.mark.skipif(
    not real_files(), reason=f"no videos under {MEDIA}: set SEQPIPE_MEDIA to the media folder"
)
@pytest.mark.parametrize(
    "path",
    [deep(path) if path.stat().st_size > 1 << 19 else path for path in real_files()],
    ids=lambda path: path.name,
)
def test_real_files_lose_only_what_was_dropped(path: Path) -> None:
    prove(demuxed(path), most=40)
