"""The media set, declared: every codec with its prediction structures, and every container.

What goes beyond a plain encoding (clocks, tags, damage) is in media_quirks.
"""

from __future__ import annotations

from data_scripts.media_item import Encode, Item

__all__ = ["CODECS"]

_GOP12 = "keyint=12:min-keyint=12:scenecut=0"
_GOP24 = "keyint=24:min-keyint=24:scenecut=0"


def _h264(name: str, quirk: str, params: str = _GOP24, extension: str = "mp4", **given: object) -> Item:
    return _plain(name, extension, "libx264", quirk, params=params, **given)


def _hevc(name: str, quirk: str, params: str = _GOP24, extension: str = "mp4", **given: object) -> Item:
    return _plain(name, extension, "libx265", quirk, params=params, **given)


def _plain(name: str, extension: str, encoder: str, quirk: str, **given: object) -> Item:
    spec = Encode(encoder=encoder, **given)  # type: ignore[arg-type]  # the fields of Encode, by name
    return Item(name=name, extension=extension, quirk=quirk, encode=spec)


_H264 = (
    _h264("h264", "x264's default structure: B-pyramid, closed GOPs of 24 frames"),
    _h264("h264_open_gop", "open GOP: leading B frames before recovery points", f"{_GOP12}:open-gop=1"),
    _h264("h264_no_b", "no B frames", f"{_GOP24}:bframes=0"),
    _h264("h264_long_gop", "one key frame only", "keyint=250:scenecut=0", frames=75),
    _h264("h264_short_gops", "a key frame every 4 frames", "keyint=4:min-keyint=4:scenecut=0"),
    _h264("h264_intra", "key frames only", "keyint=1"),
    _h264(
        "h264_many_b",
        "16 consecutive B frames at most, strict pyramid",
        f"{_GOP24}:bframes=16:b-adapt=0:b-pyramid=strict",
    ),
    _h264("h264_slices", "four slices in each frame", f"{_GOP24}:slices=4"),
    _h264(
        "h264_refresh",
        "periodic intra refresh: recovery points that are no key frames",
        "keyint=12:intra-refresh=1:bframes=0",
    ),
    _h264(
        "h264_mbaff",
        "interlaced, top field first, MBAFF",
        f"{_GOP24}:tff=1",
        interlaced=True,
        options="-flags:v:0 +ildct+ilme",
    ),
    _h264("h264_high10", "10 bits", pix_fmt="yuv420p10le"),
    _h264("h264_422", "4:2:2", pix_fmt="yuv422p"),
    _h264("h264_422_10", "4:2:2, 10 bits", pix_fmt="yuv422p10le"),
    _h264("h264_444", "4:4:4", pix_fmt="yuv444p"),
    _h264("h264_gray", "monochrome; decoded with constant chroma planes", pix_fmt="gray", surface="yuv420p"),
    _plain(
        "h264_rgb",
        "mp4",
        "libx264rgb",
        "RGB in 4:4:4 with the identity matrix",
        pix_fmt="rgb24",
        surface="gbrp",
        params=_GOP24,
    ),
)

_HEVC = (
    _hevc("hevc", "closed GOPs of 24 frames", f"{_GOP24}:open-gop=0", options="-tag:v hvc1"),
    _hevc("hevc_open_gop", "open GOP: CRA pictures with RASL leading pictures", f"{_GOP12}:open-gop=1"),
    _hevc("hevc_radl", "IDR pictures with RADL leading pictures", f"{_GOP12}:open-gop=0:radl=2"),
    _hevc("hevc_layers", "temporal sub-layers", f"{_GOP24}:open-gop=0:temporal-layers=1:b-adapt=0:bframes=3"),
    _hevc("hevc_hashed", "an MD5 of each picture in the bitstream", f"{_GOP24}:open-gop=0:hash=1"),
    _hevc("hevc_no_b", "no B frames", f"{_GOP24}:bframes=0"),
    _hevc("hevc_10", "Main 10", pix_fmt="yuv420p10le"),
    _hevc("hevc_12", "12 bits", pix_fmt="yuv420p12le"),
    _hevc("hevc_422_10", "4:2:2, 10 bits", pix_fmt="yuv422p10le"),
    _hevc("hevc_444", "4:4:4", pix_fmt="yuv444p"),
    _hevc("hevc_gray", "monochrome", pix_fmt="gray"),
)

_VPX = (
    _plain("vp8", "webm", "libvpx", "no hidden frames", options="-g 24 -auto-alt-ref 0"),
    _plain(
        "vp8_altref",
        "webm",
        "libvpx",
        "hidden alt-ref frames in packets of their own",
        options="-g 24 -auto-alt-ref 1 -lag-in-frames 16",
        passes=2,
    ),
    _plain("vp9", "webm", "libvpx-vp9", "no hidden frames", options="-g 24 -auto-alt-ref 0"),
    _plain(
        "vp9_altref",
        "webm",
        "libvpx-vp9",
        "hidden alt-ref frames in superframes",
        options="-g 24 -auto-alt-ref 1 -lag-in-frames 16",
        passes=2,
    ),
    _plain("vp9_10", "webm", "libvpx-vp9", "profile 2, 10 bits", pix_fmt="yuv420p10le", options="-g 24"),
    _plain("vp9_444", "webm", "libvpx-vp9", "profile 1, 4:4:4", pix_fmt="yuv444p", options="-g 24"),
    _plain("vp9_rgb", "webm", "libvpx-vp9", "profile 1, RGB", pix_fmt="gbrp", options="-g 24"),
    _plain(
        "vp9_mp4",
        "mp4",
        "libvpx-vp9",
        "VP9 in MP4",
        options="-g 24 -auto-alt-ref 1 -lag-in-frames 16",
        passes=2,
    ),
    _plain("vp9_ivf", "ivf", "libvpx-vp9", "VP9 in IVF", options="-g 24"),
)

_AV1 = (
    _plain("av1", "mp4", "libsvtav1", "hidden frames and show-existing-frame headers", options="-g 24"),
    _plain("av1_mkv", "mkv", "libsvtav1", "AV1 in Matroska", options="-g 24"),
    _plain("av1_webm", "webm", "libsvtav1", "AV1 in WebM, one GOP", options="-g 240"),
    _plain("av1_10", "mp4", "libsvtav1", "10 bits", pix_fmt="yuv420p10le", options="-g 24"),
    _plain("av1_444", "mp4", "libaom-av1", "4:4:4", pix_fmt="yuv444p", options="-g 24"),
    _plain("av1_gray", "mp4", "libaom-av1", "monochrome", pix_fmt="gray", options="-g 24"),
    _plain("av1_grain", "mp4", "libsvtav1", "film grain synthesis", params="film-grain=20", options="-g 24"),
    _plain("av1_ivf", "ivf", "libsvtav1", "AV1 in IVF", options="-g 24"),
    _plain("av1_obu", "obu", "libsvtav1", "AV1, bare OBUs: no timestamps", options="-g 24"),
)

_MPEG = (
    _plain("mpeg4_avi", "avi", "mpeg4", "B frames in AVI: no timestamps", options="-g 12 -bf 2"),
    _plain("mpeg4_mp4", "mp4", "mpeg4", "B frames", options="-g 12 -bf 2"),
    _plain("mpeg4_m4v", "m4v", "mpeg4", "bare elementary stream", options="-g 12 -bf 2", muxer="m4v"),
    _plain(
        "mpeg2_ts", "ts", "mpeg2video", "open GOP with B frames in a transport stream", options="-g 12 -bf 2"
    ),
    _plain(
        "mpeg2_ps",
        "mpg",
        "mpeg2video",
        "open GOP with B frames in a program stream",
        options="-g 12 -bf 2",
        muxer="vob",
    ),
    _plain("mpeg2_mkv", "mkv", "mpeg2video", "open GOP with B frames in Matroska", options="-g 12 -bf 2"),
    _plain(
        "mpeg2_closed",
        "ts",
        "mpeg2video",
        "closed GOP with B frames",
        options="-g 12 -bf 2 -flags:v:0 +cgop -sc_threshold 1000000000",
    ),
    _plain(
        "mpeg2_interlaced",
        "ts",
        "mpeg2video",
        "interlaced, top field first",
        options="-g 12 -bf 2 -flags:v:0 +ildct+ilme",
        interlaced=True,
        filters="setfield=tff",
    ),
    _plain("mpeg2_422", "mkv", "mpeg2video", "4:2:2", pix_fmt="yuv422p", options="-g 12 -bf 2"),
    _plain("mpeg2_mxf", "mxf", "mpeg2video", "MXF", options="-g 12 -bf 2"),
    _plain("mpeg1", "mpg", "mpeg1video", "B frames in a program stream", options="-g 12 -bf 2"),
    _plain("theora", "ogv", "libtheora", "Theora in Ogg", options="-g 12"),
    _plain("wmv2", "wmv", "wmv2", "WMV 8 in ASF", options="-g 12"),
    _plain("flv1", "flv", "flv", "Sorenson H.263 in FLV", options="-g 12"),
)

_INTRA = (
    _plain("mjpeg", "avi", "mjpeg", "JPEG frames, full range", pix_fmt="yuvj420p", full=True),
    _plain("mjpeg_422", "mov", "mjpeg", "JPEG frames, 4:2:2", pix_fmt="yuvj422p", full=True),
    _plain("ffv1", "mkv", "ffv1", "lossless, key frames only", options="-g 1 -level 3"),
    _plain("ffv1_gop", "mkv", "ffv1", "coder states carried over 12 frames", options="-g 12 -level 3"),
    _plain("ffv1_odd", "mkv", "ffv1", "odd size in 4:2:0, lossless", options="-g 1 -level 3", size=(97, 65)),
    _plain("ffv1_bgr0", "mkv", "ffv1", "packed RGB, 8 bits", pix_fmt="bgr0", options="-g 1 -level 3"),
    _plain("ffv1_gbrp10", "mkv", "ffv1", "planar RGB, 10 bits", pix_fmt="gbrp10le", options="-g 1 -level 3"),
    _plain("ffv1_gray16", "mkv", "ffv1", "monochrome, 16 bits", pix_fmt="gray16le", options="-g 1 -level 3"),
    _plain("ffv1_444_16", "mkv", "ffv1", "4:4:4, 16 bits", pix_fmt="yuv444p16le", options="-g 1 -level 3"),
    _plain("ffv1_410", "mkv", "ffv1", "4:1:0", pix_fmt="yuv410p", options="-g 1 -level 3"),
    _plain("ffv1_411", "mkv", "ffv1", "4:1:1", pix_fmt="yuv411p", options="-g 1 -level 3"),
    _plain("ffv1_440", "mkv", "ffv1", "4:4:0", pix_fmt="yuv440p", options="-g 1 -level 3"),
    _plain(
        "ffv1_alpha", "mkv", "ffv1", "4:2:0 with an alpha plane", pix_fmt="yuva420p", options="-g 1 -level 3"
    ),
    _plain("prores", "mov", "prores_ks", "ProRes 422", pix_fmt="yuv422p10le", options="-profile:v 2"),
    _plain(
        "prores_444",
        "mov",
        "prores_ks",
        "ProRes 4444",
        pix_fmt="yuv444p10le",
        surface="yuv444p12le",
        options="-profile:v 4",
    ),
    _plain("raw_yuyv", "avi", "rawvideo", "packed 4:2:2, YUYV", pix_fmt="yuyv422", frames=30),
    _plain("raw_uyvy", "mov", "rawvideo", "packed 4:2:2, UYVY", pix_fmt="uyvy422", frames=30),
    _plain("raw_bgr24", "avi", "rawvideo", "packed RGB stored bottom up", pix_fmt="bgr24", frames=30),
    _plain("raw_nv12", "nut", "rawvideo", "half-planar 4:2:0, NV12", pix_fmt="nv12", frames=30),
    _plain("raw_i420", "nut", "rawvideo", "planar 4:2:0 without compression", frames=30),
    _plain("huffyuv", "avi", "huffyuv", "lossless 4:2:2", pix_fmt="yuv422p", frames=30),
    _plain("png", "mov", "png", "PNG frames, packed RGB", pix_fmt="rgb24", frames=30),
    _plain(
        "qtrle",
        "mov",
        "qtrle",
        "QuickTime animation, packed RGB with difference frames",
        pix_fmt="rgb24",
        frames=30,
    ),
    _plain("gif", "gif", "gif", "palette with difference frames", pix_fmt="rgb8", surface="bgra", frames=30),
    _plain("apng", "apng", "apng", "animated PNG with difference frames", pix_fmt="rgb24", frames=30),
)

_CONTAINERS = (
    _h264("h264_faststart", "moov before the data", options="-movflags +faststart"),
    _h264(
        "h264_fragmented",
        "fragmented, a fragment per GOP",
        options="-movflags +frag_keyframe+empty_moov+default_base_moof",
    ),
    _h264(
        "h264_fragments",
        "fragmented, a fragment per frame, no index at the end",
        options="-movflags +frag_every_frame+empty_moov+default_base_moof+skip_trailer",
    ),
    _h264("h264_mov", "QuickTime", extension="mov"),
    _h264("h264_mkv", "Matroska", extension="mkv"),
    _h264(
        "h264_live_mkv",
        "Matroska written live: unknown sizes, no cues, no duration",
        extension="mkv",
        options="-live 1",
    ),
    _h264("h264_avi", "AVI with B frames: no timestamps", extension="avi"),
    _h264("h264_ts", "transport stream", extension="ts"),
    _h264("h264_flv", "FLV", extension="flv"),
    _h264("h264_nut", "NUT", extension="nut"),
    _h264("h264_3gp", "3GP", extension="3gp"),
    _h264("h264_raw", "bare Annex B: no timestamps", extension="h264"),
    _hevc("hevc_mkv", "Matroska", extension="mkv"),
    _hevc("hevc_ts", "transport stream, open GOP", f"{_GOP12}:open-gop=1", extension="ts"),
    _hevc("hevc_raw", "bare Annex B: no timestamps", extension="hevc"),
)

CODECS = (*_H264, *_HEVC, *_VPX, *_AV1, *_MPEG, *_INTRA, *_CONTAINERS)
