"""What a video says of itself, against its declaration, the manifest of the real media, and ffmpeg."""

from __future__ import annotations

import errno
import io
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import av
import av.error
import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from data_scripts.frame_code import find, read
from data_scripts.make_videos import ITEMS
from data_scripts.media_encode import ENCODERS, run_ffmpeg
from data_scripts.media_item import Encode
from seqpipe.errors import UnreadableSourceError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.probe.info import StreamInfo
from seqpipe.video.probe.probe import probe
from seqpipe.video.reader import VideoReader
from tests.support import access, ffmpeg, media

# What only reading all packets tells.
_COUNTED = {"frame_count", "has_b_frames", "start_s", "duration_s"}
# H.273, tables 2 to 4, by FFmpeg's names.
_MATRIX = {"gbr": 0, "bt709": 1, "unknown": 2, "bt470bg": 5, "smpte170m": 6, "bt2020nc": 9}
_PRIMARIES = {"bt709": 1, "unknown": 2, "bt470bg": 5, "smpte170m": 6, "bt2020": 9}
_TRANSFER = {
    **{"bt709": 1, "unknown": 2, "smpte170m": 6, "iec61966-2-4": 11},
    **{"bt2020-10": 14, "smpte2084": 16, "arib-std-b67": 18},
}
_RANGE = {"tv": False, "pc": True, "unknown": None}
_CHROMA = {"420": "4:2:0", "422": "4:2:2", "444": "4:4:4", "440": "4:4:0", "411": "4:1:1", "410": "4:1:0"}


def _said(path: Path, *options: str) -> str:
    """What ffmpeg says of a file while it decodes the first frames."""
    shown = ("-map", "0:V:0", "-vf", "showinfo", "-frames:v", "48", "-f", "null", "-")
    return re.sub(r"\[info\] ", "", ffmpeg.said(*options, "-i", str(path), *shown)[1])


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, pattern
    return match[1]


def _both(path: Path) -> tuple[StreamInfo, StreamInfo]:
    """By the headers alone, and by the index."""
    return probe(path), access.indexed(path).info


def _agrees_with_ffmpeg(path: Path, info: StreamInfo) -> None:
    said = _said(path, "-noautorotate")
    described = _found(r"Stream #0:\S+ Video: (.*)", said)
    codec, profile = _codec_and_profile(described)
    assert info.codec == codec
    assert (info.profile or "") == profile
    assert info.container == _found(r"Input #0, (\S+), from", said)
    assert info.has_audio == (" Audio: " in said.split("Output #0")[0])
    first = _found(r"showinfo_0 @ .*\] (n: +0 .*)", said)
    assert info.pixel_format == _found(r" fmt:(\S+)", first)
    assert f"{info.width}x{info.height}" == _found(r" s:(\S+)", first)
    shape = Fraction(_found(r" sar:(\S+)", first))
    assert info.sample_aspect_ratio == (shape or 1)
    if info.chroma != "rgb":  # ffmpeg's filters name RGB's and the range of gray even where the file does not
        tags = re.search(r"color_range:(\S+) color_space:(\S+) color_primaries:(\S+) color_trc:(\S+)", said)
        assert tags is not None
        assert info.chroma == "gray" or info.full_range == _RANGE[tags[1]]
        assert (info.matrix, info.primaries, info.transfer) == (
            _MATRIX[tags[2]],
            _PRIMARIES[tags[3]],
            _TRANSFER[tags[4]],
        )
    for rate, unit in ((info.average_rate, "fps"), (info.real_rate, "tbr")):
        stated = re.search(rf" ([\d.]+)(k?) {unit}", described)
        if stated is not None:
            assert rate is not None
            assert float(rate) == pytest.approx(float(stated[1]) * (1000 if stated[2] else 1), abs=0.0051)
    duration = re.search(r"Duration: (\d+):(\d+):([\d.]+), start: ([\d.-]+)", said)
    if duration is not None:
        hours, minutes, seconds, start = (float(part) for part in duration.groups())
        stated_end = 3600 * hours + 60 * minutes + seconds + start
        assert info.start_s is not None
        assert info.duration_s is not None
        # ffmpeg's is the whole file's, sound included, and some containers count from zero
        assert -0.2 <= info.start_s + info.duration_s - stated_end <= max(start, 0) + 0.1


def _codec_and_profile(described: str) -> tuple[str, str]:
    """Of ``h264 (High) (avc1 / 0x31637661), yuv420p(…), …``; a decoder of another name comes before the profile."""
    codec, _, rest = described.partition(",")[0].partition(" ")
    groups = re.findall(r"\(([^()]*)\)", rest)
    named = [group for group in groups if " / 0x" not in group and group not in ("libdav1d", "flv")]
    return codec, named[0] if named else ""


@pytest.mark.parametrize("name", media.names("sound"))
def test_a_made_video_is_described_as_declared_and_as_ffmpeg_does(name):
    path, entry, encode = media.made(name), media.entry(name), _encode(name)
    headers, info = _both(path)
    assert {**asdict(headers), **dict.fromkeys(_COUNTED)} == {
        **asdict(info),
        **dict.fromkeys(_COUNTED),
    }
    for found in (headers, info):
        assert (found.codec, found.pixel_format) == (
            ENCODERS[encode.encoder].codec if encode.encoder in ENCODERS else encode.encoder,
            entry.pix_fmt,
        )
        assert (found.width, found.height) == (entry.width, entry.height)
        assert (found.bit_depth, found.chroma) == _depth_and_chroma(entry.pix_fmt)
        _agrees_with_ffmpeg(path, headers if found.start_s is not None else info)
    assert headers.frame_count in (None, len(access.indexed(path).packets))
    assert info.frame_count == entry.frames
    assert headers.has_b_frames in (None, info.has_b_frames)
    assert info.has_b_frames == (" type:B " in _said(path, "-noautorotate"))
    assert info.source == str(path)


def _encode(name: str) -> Encode:
    item = ITEMS[name]
    return item.encode if item.encode is not None else _encode(item.base)


def _depth_and_chroma(pix_fmt: str) -> tuple[int, str]:
    depth = re.search(r"(9|10|12|14|16)(le|be)$", pix_fmt)
    if re.match(r"gbr|rgb|bgr", pix_fmt):
        chroma = "rgb"
    elif pix_fmt.startswith("gray"):
        chroma = "gray"
    else:
        sub = re.search(r"(4\d\d)", pix_fmt)
        chroma = _CHROMA[sub[1]] if sub is not None else "4:2:0"
    return int(depth[1]) if depth else 8, chroma


@pytest.mark.parametrize("name", [name for name in access.shared_names() if "truncated" not in str(name)])
def test_a_real_video_is_described_as_in_the_manifest_and_as_ffmpeg_does(name):
    row = next(row for row in media.shared_manifest() if row["file"] == name)
    path = media.shared_media() / name
    headers, info = _both(path)
    assert {**asdict(headers), **dict.fromkeys(_COUNTED)} == {
        **asdict(info),
        **dict.fromkeys(_COUNTED),
    }
    _agrees_with_ffmpeg(path, headers)
    assert row["codec"].split(" ")[0] == info.codec
    assert row["codec"].endswith(info.profile or info.codec)
    assert row["pix_fmt"] == info.pixel_format
    assert row["wxh"] == f"{info.width}x{info.height}"
    assert Fraction(row["fps_avg"]) == info.average_rate
    assert Fraction(row["fps_r"]) == info.real_rate
    assert int(row["packets"]) == info.frame_count
    assert info.has_b_frames == ("B-frames" in row["notes"])
    turned = re.search(r"rotation=(-?\d+)", row["notes"])
    assert info.rotation_degrees == (int(turned[1]) % 360 if turned else 0)
    shape = re.search(r"SAR (\d+):(\d+)", row["notes"])
    assert info.sample_aspect_ratio == (Fraction(int(shape[1]), int(shape[2])) if shape else 1)
    if row["duration_s"] and info.start_s == 0:
        assert info.duration_s == pytest.approx(float(row["duration_s"]), abs=0.1)


def test_a_cut_file_claims_in_its_header_what_the_index_does_not_find():
    headers, info = _both(media.shared_media() / "video/corrupt/truncated_mdat_1080p.mp4")
    assert (headers.frame_count, info.frame_count, info.declared_frames) == (745, 6, 745)
    assert headers.duration_s == pytest.approx(35.229)
    assert info.duration_s == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("name", "matrix", "full"),
    [
        ("color_bt601_limited", 6, False),
        ("color_bt709_full", 1, True),
        ("color_bt2020_10", 9, False),
        ("color_vp9_709", 1, False),
        ("color_container_only", 1, False),
        ("color_conflict", 1, False),  # the bitstream's word counts, not the container's
        ("h264_rgb", 0, True),
        ("h264", 2, None),
    ],
)
def test_color_tags_are_those_written(name, matrix, full):
    info = probe(media.made(name))
    assert (info.matrix, info.full_range) == (matrix, full)


@pytest.mark.parametrize(
    ("name", "location"), [("chroma_topleft", 3), ("h264", 0), ("mpeg2_ts", 1), ("mjpeg", 2)]
)
def test_the_chroma_location_is_read_where_it_is_told(name, location):
    assert probe(media.made(name)).chroma_location == location


def test_pictures_beside_the_video_do_not_count():
    cover, two = probe(media.made("cover")), probe(media.made("two_videos"))
    assert (cover.codec, cover.width, cover.has_audio) == ("h264", 128, True)
    assert (two.codec, two.width, two.has_audio) == ("h264", 128, False)


_TURNED = {
    "rotated_90": (90, False),
    "rotated_180": (180, False),
    "rotated_270": (270, False),
    "mirrored": (0, True),
    "rotated_90_mirrored": (270, True),
    "rotated_mkv": (90, False),
    "h264": (0, False),
}


@pytest.mark.parametrize("name", _TURNED)
def test_rotation_and_mirror_are_applied_as_ffmpeg_applies_them(name):
    path = media.made(name)
    info = probe(path)
    assert (info.rotation_degrees, info.flipped) == _TURNED[name]
    shown = _autorotated(path)
    with VideoReader(path) as turned, VideoReader(path, output=OutputSpec(rotate=False)) as stored:
        upright, plain = turned[7].numpy(), stored[7].numpy()
    assert upright.shape[:2] == shown.shape == info.display_size[::-1]
    assert find(upright) == find(shown)
    assert find(upright)[0] == 7
    assert read(plain) == 7
    mirrored = plain[:, ::-1] if info.flipped else plain
    assert np.array_equal(upright, np.rot90(mirrored, info.rotation_degrees // 90))


@pytest.mark.parametrize("name", access.shared_names("rotation", "vfr"))
def test_a_real_phone_video_stands_as_ffmpeg_shows_it(name):
    path = media.shared_media() / name
    shown = _autorotated(path, frame=1).astype(float)
    with VideoReader(path, output=OutputSpec(color="GRAY")) as video:
        info, upright = video.info, video[1].numpy()[..., 0].astype(float)
    assert upright.shape == shown.shape
    differences = [np.abs(other - shown).mean() for other in (upright, upright[::-1], upright[:, ::-1])]
    assert differences[0] < 4
    # one of the set is not turned, and as dark as it is symmetrical
    assert not info.rotation_degrees or differences[0] < min(differences[1:]) / 3


def test_an_eighth_of_a_turn_is_left_alone():
    info = probe(media.made("rotated_45"))
    assert (info.rotation_degrees, info.flipped) == (0, False)
    with VideoReader(media.made("rotated_45")) as video:
        assert read(video[7].numpy()) == 7


@pytest.mark.parametrize(("orientation", "degrees"), [(1, 0), (3, 180), (6, 270), (8, 90)])
def test_the_exif_of_motion_jpeg_tells_the_turn(orientation, degrees, tmp_path):
    """As cameras write it into each picture. PyAV has no name for EXIF, and lists nothing beside such a picture."""
    path = tmp_path / "camera.avi"
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    with VideoReader(media.made("mjpeg")) as video:
        pictures = video[:9].numpy()
    jpegs = io.BytesIO()
    for picture in pictures:
        Image.fromarray(picture).save(jpegs, "jpeg", exif=exif, quality=95)
    run_ffmpeg("-f", "mjpeg", "-i", "-", "-c", "copy", str(path), stdin=jpegs.getvalue())
    with VideoReader(path) as video:
        assert (video.info.rotation_degrees, video.info.flipped) == (degrees, False)
        assert find(video[7].numpy()) == find(_autorotated(path))


def test_a_file_that_may_not_be_read_is_not_called_no_video(monkeypatch):
    def refuse(*_, **__):
        raise av.error.PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(av, "open", refuse)
    with pytest.raises(
        UnreadableSourceError, match=r"h264\.mp4: cannot be opened \(Permission denied\)\. Pass a file"
    ):
        probe(media.made("h264"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff"])
def test_the_exif_of_a_picture_tells_turn_and_mirror(orientation, ending, tmp_path):
    """Pillow judges. Mirrored ones came out mirrored, and those of orientation 2 on their heads too."""
    pixels = np.random.default_rng(7).integers(0, 256, (6, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = tmp_path / f"x.{ending}"
    lossless = {"jpg": {"quality": 100, "subsampling": 0}, "webp": {"lossless": True}}
    Image.fromarray(pixels).save(path, exif=exif, **lossless.get(ending, {}))
    with Image.open(path) as picture:
        upright = np.asarray(ImageOps.exif_transpose(picture)).astype(int)
    with VideoReader(path) as video:
        shown = video[0].numpy()
        assert video.info.flipped == (orientation in (2, 4, 5, 7))
    assert shown.shape == upright.shape
    assert np.abs(shown - upright).max() <= (4 if ending == "jpg" else 0)


def _autorotated(path: Path, frame: int = 7) -> np.ndarray:
    """One frame as ffmpeg shows it, in full-range gray."""
    chain = f"select=eq(n\\,{frame}),scale=out_range=full,format=gray"
    shown = ("-map", "0:V:0", "-vf", chain, "-frames:v", "1", "-f", "image2pipe", "-c:v", "pgm", "-")
    data, _ = ffmpeg.said("-i", str(path), *shown)
    head = re.match(rb"P5\s(\d+)\s(\d+)\s255\s", data)
    assert head is not None
    return np.frombuffer(data, np.uint8, offset=head.end()).reshape(int(head[2]), int(head[1]))
