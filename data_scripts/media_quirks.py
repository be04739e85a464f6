"""The media set, declared: clocks, tags, orientation, company of other streams, and damage."""

from __future__ import annotations

from data_scripts.media_item import Encode, Item
from data_scripts.media_steps import Join, PackBFrames, Remux, WithoutVui

__all__ = ["QUIRKS"]

_GOP = "keyint=24:min-keyint=24:scenecut=0"
_NO_B = f"{_GOP}:bframes=0"


def _h264(name: str, quirk: str, extension: str = "mp4", params: str = _GOP, **given: object) -> Item:
    return _plain(name, extension, "libx264", quirk, params=params, **given)


def _plain(name: str, extension: str, encoder: str, quirk: str, **given: object) -> Item:
    spec = Encode(encoder=encoder, **given)  # type: ignore[arg-type]  # the fields of Encode, by name
    return Item(name=name, extension=extension, quirk=quirk, encode=spec)


def _remux(
    name: str,
    base: str,
    quirk: str,
    after: str = "",
    before: str = "",
    extension: str = "mp4",
    numbers: str | None = None,
) -> Item:
    step = Remux(before=before, after=after)
    return Item(name=name, extension=extension, quirk=quirk, base=base, step=step, numbers=numbers)


_SIZES = (
    _plain("odd_vp9", "webm", "libvpx-vp9", "odd size in 4:2:0", size=(97, 65), options="-g 24"),
    _plain("odd_vp8", "webm", "libvpx", "odd size in 4:2:0", size=(97, 65), options="-g 24"),
    _plain("odd_av1", "mp4", "libsvtav1", "odd size in 4:2:0", size=(97, 65), options="-g 24"),
    _plain("odd_mpeg4", "mp4", "mpeg4", "odd size in 4:2:0", size=(97, 65), options="-g 12 -bf 2"),
    _plain("odd_mpeg2", "mkv", "mpeg2video", "odd size in 4:2:0", size=(97, 65), options="-g 12 -bf 2"),
    _plain("odd_mjpeg", "avi", "mjpeg", "odd size in 4:2:0", size=(97, 65), pix_fmt="yuvj420p", full=True),
    _h264("odd_h264_444", "odd size in 4:4:4", size=(97, 65), pix_fmt="yuv444p"),
    _plain(
        "odd_hevc_444", "mp4", "libx265", "odd size in 4:4:4", size=(97, 65), pix_fmt="yuv444p", params=_GOP
    ),
    _h264("cropped_h264", "coded size 112×80 cropped to 98×66 by the bitstream", size=(98, 66)),
    _h264("wide_h264", "176×100, no multiple of 16", size=(176, 100)),
    _h264("sar_4_3", "sample aspect ratio 4:3", filters="setsar=4/3"),
    _h264("chroma_topleft", "chroma samples at the top left", params=f"{_GOP}:chromaloc=2"),
)

_COLORS = (
    *(
        _h264(
            f"color_{name}_{span}",
            f"tagged {name}, {span} range",
            matrix=matrix,
            full=span == "full",
            surface="yuvj420p" if span == "full" else "",
        )
        for name, matrix in (("bt601", "smpte170m"), ("bt709", "bt709"), ("bt2020", "bt2020nc"))
        for span in ("limited", "full")
    ),
    _plain(
        "color_bt2020_10",
        "mp4",
        "libx265",
        "tagged bt2020, 10 bits",
        pix_fmt="yuv420p10le",
        matrix="bt2020nc",
        params=_GOP,
    ),
    _plain(
        "color_bt2020_10_full",
        "mp4",
        "libx265",
        "tagged bt2020, 10 bits, full range",
        pix_fmt="yuv420p10le",
        matrix="bt2020nc",
        full=True,
        params=_GOP,
    ),
    _plain(
        "color_vp9_709",
        "webm",
        "libvpx-vp9",
        "tagged bt709 in the VP9 header",
        matrix="bt709",
        options="-g 24",
    ),
    _remux(
        "color_container_only",
        "h264",
        "tagged bt709 by the container only",
        "-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv -movflags +write_colr",
    ),
    _remux(
        "color_conflict",
        "color_bt709_limited",
        "tagged bt709 by the bitstream and smpte170m by the container",
        "-colorspace smpte170m -color_primaries smpte170m -color_trc smpte170m -movflags +write_colr",
    ),
)

_ORIENTATIONS = (
    _remux(
        "rotated_90",
        "h264",
        "display matrix: a quarter turn counter-clockwise",
        before="-display_rotation:v:0 90",
    ),
    _remux("rotated_180", "h264", "display matrix: half a turn", before="-display_rotation:v:0 180"),
    _remux(
        "rotated_270", "h264", "display matrix: a quarter turn clockwise", before="-display_rotation:v:0 270"
    ),
    _remux("mirrored", "h264", "display matrix: mirrored left to right", before="-display_hflip:v:0"),
    _remux(
        "rotated_90_mirrored",
        "h264",
        "display matrix: a quarter turn and mirrored",
        before="-display_rotation:v:0 90 -display_hflip:v:0",
    ),
    _remux(
        "rotated_mkv",
        "h264",
        "projection roll of Matroska: a quarter turn",
        before="-display_rotation:v:0 90",
        extension="mkv",
    ),
    _remux(
        "rotated_45",
        "h264",
        "display matrix: an eighth of a turn, which no array can show",
        before="-display_rotation:v:0 45",
    ),
)

_VFR = "-fps_mode passthrough -enc_time_base 1/1000"
_UNEVEN = "settb=1/1000,setpts='N*40+7*mod(N\\,5)+300*gte(N\\,20)'"
_CLOCKS = (
    _h264("vfr", "uneven frame distances with a gap of 0.3 s", filters=_UNEVEN, options=_VFR),
    _h264("vfr_mkv", "uneven frame distances in Matroska", "mkv", filters=_UNEVEN, options=_VFR),
    _plain(
        "vfr_webm",
        "webm",
        "libvpx-vp9",
        "uneven frame distances in WebM",
        filters=_UNEVEN,
        options=f"{_VFR} -g 24",
    ),
    _h264("ntsc", "30000/1001 frames per second", rate="30000/1001"),
    _h264("ntsc_mkv", "30000/1001 frames per second, rounded to milliseconds", "mkv", rate="30000/1001"),
    _remux("start_10s", "h264", "begins at 10 s by an empty edit", "-output_ts_offset 10"),
    _remux("start_10s_mkv", "h264", "begins at 10 s", "-output_ts_offset 10", extension="mkv"),
    _remux("start_10s_ts", "h264", "begins at 11.4 s", "-output_ts_offset 10", extension="ts"),
    _remux(
        "ts_wrap",
        "h264",
        "33-bit clock wraps in the middle",
        "-output_ts_offset 95442.8 -mpegts_copyts 1",
        extension="ts",
    ),
    _remux(
        "edit_list",
        "h264_short_gops",
        "edit list that begins in the middle of a GOP",
        "",
        "-ss 0.75",
        numbers="19-47",
    ),
    _remux(
        "edit_list_b",
        "h264",
        "edit list that begins between B frames, 30 frames in",
        "",
        "-ss 1.2",
        numbers="30-47",
    ),
    _remux("no_edit_list", "h264", "B frames and no edit list: begins at 0.08 s", "-use_editlist 0"),
    _remux(
        "negative_cts",
        "h264",
        "negative composition offsets instead of an edit list",
        "-movflags +negative_cts_offsets",
    ),
    _remux(
        "negative_pts",
        "h264",
        "negative timestamps",
        "-output_ts_offset -5 -mpegts_copyts 1 -avoid_negative_ts disabled",
        extension="ts",
    ),
    _remux(
        "duplicate_pts",
        "h264_no_b",
        "each two frames share a timestamp",
        "-bsf:v setts=pts=2*floor(PTS/2/DURATION)*DURATION:dts=2*floor(PTS/2/DURATION)*DURATION",
        extension="mkv",
    ),
    _remux(
        "duplicate_pts_mp4",
        "h264_no_b",
        "each two frames share a timestamp",
        "-bsf:v setts=pts=2*floor(PTS/2/DURATION)*DURATION+2*DURATION:dts=DTS",
    ),
    Item(
        name="joined",
        extension="ts",
        quirk="two transport streams in one file: the clock begins again",
        base="h264_ts",
        also=("h264_ts_second",),
        step=Join("h264_ts_second"),
        numbers="0-47,100-123",
    ),
    _h264(
        "h264_raw_wide",
        "bare Annex B of another size, numbers from 200 on",
        "h264",
        first=200,
        frames=24,
        size=(176, 100),
    ),
    _h264("h264_ts_second", "transport stream, numbers from 100 on", "ts", first=100, frames=24),
    Item(
        name="h264_no_vui",
        extension="mp4",
        quirk="no video usability information, so no reorder depth either",
        base="h264",
        step=WithoutVui(),
    ),
    _plain("mpeg4_one_b", "avi", "mpeg4", "one B frame between references", options="-g 12 -bf 1"),
    Item(
        name="mpeg4_packed",
        extension="avi",
        quirk="packed bitstream: a B frame shares the packet of its reference, an empty frame follows",
        base="mpeg4_one_b",
        step=PackBFrames(),
    ),
)

_SINE = "-f lavfi -i sine=frequency=440:sample_rate=44100:duration=2"
_COVER = "-f lavfi -i color=c=red:size=64x64:duration=0.04:rate=25"
_COVERED = "-c:v:1 mjpeg -disposition:v:1 attached_pic -pix_fmt:v:1 yuvj420p"
_COMPANY = (
    _h264("with_audio", "AAC beside the video", inputs=_SINE, options="-map 0:v -map 1:a -c:a aac -shortest"),
    _h264(
        "audio_first",
        "the audio stream comes first",
        "mkv",
        inputs=_SINE,
        options="-map 1:a -map 0:v -c:a aac -shortest",
    ),
    _h264(
        "audio_ts",
        "MP2 beside the video in a transport stream",
        "ts",
        inputs=_SINE,
        options="-map 0:v -map 1:a -c:a mp2 -shortest",
    ),
    _h264(
        "two_videos",
        "a second video stream of another size",
        inputs="-f lavfi -i testsrc=size=64x64:duration=1.92:rate=25",
        options="-map 0:v -map 1:v -c:v:1 mpeg4 -disposition:v:0 default",
    ),
    _h264(
        "cover",
        "an attached picture beside video and audio",
        inputs=f"{_COVER} {_SINE}",
        options=f"-map 0:v -map 1:v -map 2:a -c:a aac {_COVERED}",
    ),
)

QUIRKS = (*_SIZES, *_COLORS, *_ORIENTATIONS, *_CLOCKS, *_COMPANY)
