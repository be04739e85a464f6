"""Formats of files and the encoders that FFmpeg's build has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import av
import av.codec

from ...errors import BackendError, ParameterError

__all__ = ["FileFormat", "VideoEncoder", "encoder_of", "format_of"]

_DEFAULT_QUALITY: Final = 65.0


@dataclass(frozen=True)
class VideoEncoder:
    """An encoder of FFmpeg.

    Attributes:
        name: FFmpeg's name.
        form: pixel format of opaque frames.
        alpha: pixel format of frames with alpha; "" if it has none.
        even: whether sides have to be even.
        worst: value of the option ``quality`` at quality 0.
        best: its value at quality 100.
        quality: name of the option; "" for lossless encoders.
        options: further options.
    """

    name: str
    form: str = "yuv420p"
    alpha: str = ""
    even: bool = True
    worst: float = 51
    best: float = 0
    quality: str = "crf"
    options: Mapping[str, str] = field(default_factory=dict)

    def settings(self, quality: float | None, gop: int | None) -> dict[str, str]:
        """Return the encoder's options."""
        options = dict(self.options)
        if self.quality:
            share = (_DEFAULT_QUALITY if quality is None else quality) / 100
            options[self.quality] = f"{round(self.worst + (self.best - self.worst) * share)}"
        elif quality is not None:
            raise ParameterError(
                f"quality={quality:g} has no meaning for {self.name}, which is lossless for what it stores",
                allowed="quality=None",
            )
        if gop is not None:
            options["g"] = str(gop)
        return options


@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    Attributes:
        name: FFmpeg's name of the muxer.
        codecs: names of the codecs that it holds; the first one is the default.
        sound: names of encoders of sound, of which the first one that the build has is used; empty if it holds none.
        options: options of the muxer.
    """

    name: str
    codecs: tuple[str, ...]
    sound: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


_MP4: Final = FileFormat("mp4", ("h264", "hevc", "av1"), ("aac",), {"movflags": "+faststart"})
_FORMATS: Final[Mapping[str, FileFormat]] = {
    ".mp4": _MP4,
    ".m4v": _MP4,
    ".mov": FileFormat("mov", ("h264", "hevc"), ("aac",)),
    ".mkv": FileFormat("matroska", ("h264", "hevc", "av1", "vp9"), ("libopus", "aac")),
    ".webm": FileFormat("webm", ("vp9", "av1"), ("libopus", "libvorbis")),
    ".gif": FileFormat("gif", ("gif",), options={"loop": "0"}),
    ".webp": FileFormat("webp", ("webp",), options={"loop": "0"}),
    ".apng": FileFormat("apng", ("apng",), options={"plays": "0"}),
}
# the same frames give the same bytes without mbtree alone
_X264: Final = {"preset": "veryfast", "mbtree": "0"}
_ENCODERS: Final[Mapping[str, tuple[VideoEncoder, ...]]] = {
    "h264": (VideoEncoder("libx264", options=_X264),),
    "hevc": (VideoEncoder("libx265", options={"preset": "veryfast", "x265-params": "log-level=error"}),),
    "av1": (
        VideoEncoder("libsvtav1", worst=63, best=1, options={"preset": "8"}),
        VideoEncoder("libaom-av1", even=False, worst=63, options={"cpu-used": "6", "b": "0"}),
    ),
    "vp9": (
        VideoEncoder(
            "libvpx-vp9",
            alpha="yuva420p",
            even=False,
            worst=63,
            options={"b": "0", "deadline": "good", "cpu-used": "4", "row-mt": "1", "auto-alt-ref": "0"},
        ),
    ),
    "gif": (VideoEncoder("gif", form="pal8", even=False, quality=""),),
    "webp": (
        VideoEncoder(
            "libwebp_anim", form="bgra", alpha="bgra", even=False, worst=0, best=100, quality="quality"
        ),
    ),
    "apng": (
        VideoEncoder("apng", form="rgb24", alpha="rgba", even=False, quality="", options={"pred": "mixed"}),
    ),
}


def format_of(path: Path) -> FileFormat:
    """Return the format of a file by its suffix."""
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ParameterError(
            f"{path.name!r} does not end as a video's name does",
            allowed=", ".join(_FORMATS),
            source=str(path),
        )
    return found


def encoder_of(form: FileFormat, codec: str | None) -> VideoEncoder:
    """Return the encoder of a codec, by default of the first codec of the format."""
    name = form.codecs[0] if codec is None else codec
    if name not in form.codecs:
        raise ParameterError(f"codec={codec!r} is not for {form.name} files", allowed=", ".join(form.codecs))
    for encoder in _ENCODERS[name]:
        if _has(encoder.name):
            return encoder
    here = [one for one, encoders in _ENCODERS.items() if any(_has(encoder.name) for encoder in encoders)]
    raise BackendError(
        f"PyAV {av.__version__} has no encoder for {name}",
        allowed=", ".join(here) or "none: the build encodes no video",
        advice="Install PyAV's wheel: pip install av",
    )


@cache
def _has(encoder: str) -> bool:
    """Return whether FFmpeg's build has an encoder."""
    try:
        av.codec.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True
