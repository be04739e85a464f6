"""The media set, declared: files that no video can be had from, and files that lose frames."""

from __future__ import annotations

from data_scripts.media_item import Item, Step
from data_scripts.media_steps import Content, Cut, CutAt, Damage, Join, PacketRole, Patch, Remux

__all__ = ["FAULTS"]


def _unreadable(name: str, extension: str, quirk: str, step: Step, base: str = "") -> Item:
    return Item(name=name, extension=extension, quirk=quirk, base=base, step=step, state="unreadable")


def _damaged(name: str, base: str, quirk: str, step: Step, extension: str = "mp4") -> Item:
    return Item(name=name, extension=extension, quirk=quirk, base=base, step=step, state="damaged")


_UNREADABLE = (
    _unreadable("empty", "mp4", "an empty file", Content(b"")),
    _unreadable(
        "text", "mp4", "a text file", Content(b"The quick brown fox jumps over the lazy dog.\n" * 40)
    ),
    _unreadable("bytes", "mp4", "bytes of no format", Content(bytes(range(256)) * 8)),
    _unreadable("audio_only", "m4a", "audio without video", Remux(after="-vn"), "with_audio"),
    _unreadable(
        "audio_cover", "m4a", "audio with an attached picture", Remux(after="-map -0:v:0 -f mp4"), "cover"
    ),
    _unreadable("no_frames", "mp4", "headers without a frame", CutAt(b"moof", less=4), "h264_fragmented"),
    _unreadable("header_cut_mp4", "mp4", "the first 200 bytes", Cut(length=200), "h264_faststart"),
    _unreadable("header_cut_mkv", "mkv", "the first 200 bytes", Cut(length=200), "h264_mkv"),
    _unreadable("header_cut_ts", "ts", "the first 200 bytes", Cut(length=200), "h264_ts"),
    _unreadable("header_cut_avi", "avi", "the first 200 bytes", Cut(length=200), "h264_avi"),
    _unreadable("data_cut_moov", "mp4", "60 % of a file whose moov is at the end", Cut(share=0.6), "h264"),
    _unreadable("unknown_codec_mp4", "mp4", "a codec nobody knows", Patch(b"avc1", b"zzz9"), "h264"),
    _unreadable(
        "unknown_codec_mkv",
        "mkv",
        "a codec nobody knows",
        Patch(b"V_MPEG4/ISO/AVC", b"V_NOBODY/KNOWS1"),
        "h264_mkv",
    ),
    _unreadable("unknown_codec_avi", "avi", "a codec nobody knows", Patch(b"H264", b"ZZ9Z"), "h264_avi"),
)

_CUT = (
    _damaged("data_cut_mp4", "h264_faststart", "60 % of a file whose moov comes first", Cut(share=0.6)),
    _damaged("data_cut_fragmented", "h264_fragments", "60 % of a fragmented file", Cut(share=0.6)),
    _damaged("data_cut_mkv", "h264_mkv", "60 % of the file", Cut(share=0.6), "mkv"),
    _damaged("data_cut_webm", "vp9", "60 % of the file", Cut(share=0.6), "webm"),
    _damaged("data_cut_ts", "h264_ts", "60 % of the file", Cut(share=0.6), "ts"),
    _damaged(
        "data_cut_avi", "h264_avi", "60 % of the file, so that the index is missing", Cut(share=0.6), "avi"
    ),
)

_FLIPS: tuple[tuple[str, PacketRole, int], ...] = (
    ("h264", "key", 0x5A),
    ("h264", "reference", 0xFF),
    ("h264", "disposable", 0x5A),
    ("h264_slices", "reference", 0x5A),
    ("hevc", "key", 0x5A),
    ("hevc", "reference", 0x5A),
    ("hevc", "disposable", 0x5A),
    ("hevc_hashed", "reference", 0x5A),
    ("vp9_mp4", "key", 0x5A),
    ("vp9_mp4", "reference", 0x5A),
    ("av1", "reference", 0x5A),
    ("mpeg4_mp4", "reference", 0x5A),
)
_LOSSES: tuple[tuple[str, PacketRole], ...] = (
    ("h264", "key"),
    ("h264", "reference"),
    ("h264", "disposable"),
    ("hevc", "key"),
    ("hevc", "reference"),
    ("hevc", "disposable"),
    ("vp9_mp4", "reference"),
    ("av1", "reference"),
    ("mpeg4_mp4", "key"),
)
_HIT = (
    *(
        _damaged(f"{base}_flip_{role}", base, f"flipped bits in a {role} packet", Damage(role, flip))
        for base, role, flip in _FLIPS
    ),
    _damaged("h264_flip_silent", "h264", "flipped bits in a reference packet", Damage("reference", 0x5A)),
    *(
        _damaged(f"{base}_lost_{role}", base, f"zeros in the place of a {role} packet", Damage(role))
        for base, role in _LOSSES
    ),
)

_MIXED = (
    Item(
        name="resized",
        extension="h264",
        quirk="the picture size changes on the way",
        base="h264_raw",
        also=("h264_raw_wide",),
        step=Join("h264_raw_wide"),
        numbers="0-47,200-223",
        state="mixed",
    ),
)

FAULTS = (*_UNREADABLE, *_CUT, *_HIT, *_MIXED)
