"""Drawn pictures into a file, through the ffmpeg command."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from data_scripts.frame_code import draw
from data_scripts.media_item import Encode

__all__ = ["ENCODERS", "Encoder", "FFmpegError", "encode", "ffmpeg_exe", "run_ffmpeg"]


class FFmpegError(RuntimeError):
    """The ffmpeg command is missing, or it failed."""


@dataclass(frozen=True)
class Encoder:
    """Options that every file of one encoder shares.

    Attributes:
        codec: FFmpeg's decoder name.
        options: output options; one thread each, so that the bytes do not depend on the machine's cores.
        flag: the option that takes the encoder's own parameters.
        params: own parameters that are always given.
    """

    codec: str
    options: str = ""
    flag: str = ""
    params: str = ""


ENCODERS = {
    "libx264": Encoder("h264", "-preset medium", "-x264-params", "threads=1"),
    "libx264rgb": Encoder("h264", "-preset medium", "-x264-params", "threads=1"),
    "libx265": Encoder(
        "hevc", "-preset fast", "-x265-params", "log-level=error:pools=none:frame-threads=1:info=0"
    ),
    "libvpx": Encoder("vp8", "-deadline good -cpu-used 4 -b:v 300k"),
    "libvpx-vp9": Encoder("vp9", "-deadline good -cpu-used 4 -b:v 300k -row-mt 0"),
    "libsvtav1": Encoder("av1", "-preset 10 -crf 35", "-svtav1-params", "lp=1"),
    "libaom-av1": Encoder("av1", "-cpu-used 8 -usage good -crf 35 -lag-in-frames 12"),
    "mpeg4": Encoder("mpeg4", "-q:v 4"),
    "libxvid": Encoder("mpeg4", "-q:v 4"),
    "mpeg2video": Encoder("mpeg2video", "-q:v 4"),
    "mpeg1video": Encoder("mpeg1video", "-q:v 4"),
    "mjpeg": Encoder("mjpeg", "-q:v 4"),
    "prores_ks": Encoder("prores"),
    "libtheora": Encoder("theora", "-q:v 7"),
    "wmv2": Encoder("wmv2", "-q:v 4"),
    "flv": Encoder("flv1", "-q:v 4"),
    "apng": Encoder("apng", "-pred mixed"),
}


@functools.cache
def ffmpeg_exe() -> str:
    """The ffmpeg command: imageio-ffmpeg's binary, else the system's.

    Raises:
        FFmpegError: neither is there.
    """
    try:
        import imageio_ffmpeg  # type: ignore[import-untyped]  # it ships no annotations
    except ImportError:
        system = shutil.which("ffmpeg")
        if system is None:
            raise FFmpegError(
                "no ffmpeg command; install imageio-ffmpeg (pip install imageio-ffmpeg) or Debian's ffmpeg"
            ) from None
        return system
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def run_ffmpeg(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run ffmpeg quietly; returns its standard output.

    Raises:
        FFmpegError: it is missing or it failed; the message holds the command and the end of what it said.
    """
    command = [ffmpeg_exe(), "-hide_banner", "-v", "error", "-y", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-400:]
        raise FFmpegError(f"{shlex.join(command[5:])}: exit {done.returncode}: {said}")
    return done.stdout


def encode(spec: Encode, target: Path) -> None:
    """Encode what ``spec`` declares into ``target``.

    Raises:
        FFmpegError: ffmpeg is missing, lacks the encoder, or failed.
    """
    with tempfile.TemporaryDirectory(prefix="seqpipe_pass_") as log:
        for number in range(1, spec.passes + 1):
            statistics = (
                ["-pass", str(number), "-passlogfile", str(Path(log, "log"))] if spec.passes > 1 else []
            )
            last = number == spec.passes
            muxer = ["-f", spec.muxer] if spec.muxer and last else [] if last else ["-f", "null"]
            end = [*muxer, str(target) if last else "-"]
            run_ffmpeg(*_input(spec), *_output(spec), *statistics, *end, stdin=_pictures(*_drawn(spec)))


def _input(spec: Encode) -> list[str]:
    layout = "rgb48le" if _is_deep(spec) else "rgb24"
    size = f"{spec.size[0]}x{spec.size[1]}"
    given = ["-f", "rawvideo", "-pix_fmt", layout, "-s", size, "-r", spec.rate, "-i", "pipe:0"]
    return [*given, *shlex.split(spec.inputs)]


def _output(spec: Encode) -> list[str]:
    encoder = ENCODERS.get(spec.encoder, Encoder(spec.encoder))
    params = ":".join(part for part in (encoder.params, spec.params) if part)
    return [
        *("-filter:v:0", _filters(spec), "-c:v:0", spec.encoder, "-threads", "1"),
        *shlex.split(encoder.options),
        *([encoder.flag, params] if encoder.flag else []),
        *_tags(spec),
        *("-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact"),
        *shlex.split(spec.options),
    ]


def _filters(spec: Encode) -> str:
    """RGB to the encoder's format by the declared matrix and range; only the declared tags stay."""
    matrix, span = spec.matrix or "smpte170m", "full" if spec.full else "limited"
    tag = spec.matrix or "unknown"
    chain = [
        f"scale=in_range=full:out_color_matrix={matrix.removesuffix('nc')}:out_range={span}:flags=accurate_rnd+bitexact",
        f"format={spec.pix_fmt}",
        f"setparams=colorspace={tag}:range={span if spec.full or spec.matrix else 'unknown'}",
    ]
    return ",".join([*chain, spec.filters] if spec.filters else chain)


def _tags(spec: Encode) -> list[str]:
    tags = ["-color_range", "pc" if spec.full else "tv"] if spec.full or spec.matrix else []
    if spec.matrix:
        primaries = spec.matrix.removesuffix("nc")
        transfer = "bt2020-10" if primaries == "bt2020" else primaries
        tags += ["-colorspace", spec.matrix, "-color_primaries", primaries, "-color_trc", transfer]
    return tags


def _is_deep(spec: Encode) -> bool:
    return spec.pix_fmt.endswith(("le", "be"))


def _drawn(spec: Encode) -> tuple[int, int, tuple[int, int], bool, bool]:
    return spec.first, spec.frames, spec.size, _is_deep(spec), spec.interlaced


@functools.lru_cache(maxsize=8)
def _pictures(first: int, frames: int, size: tuple[int, int], deep: bool, interlaced: bool) -> bytes:
    numbers = range(first, first + frames)
    return b"".join(draw(n, size, deep=deep, interlaced=interlaced).tobytes() for n in numbers)
