"""The independent judge: the ffmpeg command, of another build than the libraries inside PyAV.

Frames are judged as decoded: in presentation order, in their own pixel format, before rotation and color
conversion, none dropped and none repeated. What ffmpeg said of the same bytes in an earlier run is not asked again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from data_scripts.media_encode import FFmpegError, ffmpeg_exe, run_ffmpeg
from tests.support.kept import kept

__all__ = [
    "ChromaLocation",
    "FFmpegError",
    "JudgedFrame",
    "Judgment",
    "all_planes",
    "count_frames",
    "frame_times",
    "framehashes",
    "judge",
    "plane_hash",
    "planes",
    "said",
    "split",
    "surfaces",
    "to_rgb",
    "write",
]

ChromaLocation = Literal["left", "center", "topleft", "top", "bottomleft", "bottom"]

# The planar format with the same samples: what a Surface holds. Alpha is left out.
_PLANAR = {
    "nv12": "yuv420p",
    "nv21": "yuv420p",
    "nv16": "yuv422p",
    "p010le": "yuv420p10le",
    "yuyv422": "yuv422p",
    "uyvy422": "yuv422p",
    "rgb24": "gbrp",
    "bgr24": "gbrp",
    "bgr0": "gbrp",
    "rgb0": "gbrp",
    "rgba": "gbrp",
    "bgra": "gbrp",
    "gbrap": "gbrp",
    "rgb48le": "gbrp16le",
    "yuva420p": "yuv420p",
    "yuva444p12le": "yuv444p12le",
}
_SUBSAMPLING = {"420": (1, 1), "422": (1, 0), "444": (0, 0), "440": (0, 1), "411": (2, 0), "410": (2, 2)}
_LOUD = ("-hide_banner", "-nostats", "-loglevel", "level+info")
_FLAGS = "bilinear+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"


class _FailedError(Exception):
    """What ffmpeg wrote and said before it failed."""


@dataclass(frozen=True)
class JudgedFrame:
    """One frame as ffmpeg gives it: ticks of its pts, seconds, bytes, and the MD5 of its packed planes."""

    pts: int
    time_s: float
    size: int
    md5: str


@dataclass(frozen=True)
class Judgment:
    """All frames of a file, their pixel format and size, and ffmpeg's complaints (none: a clean file)."""

    frames: tuple[JudgedFrame, ...]
    pix_fmt: str
    width: int
    height: int
    complaints: tuple[str, ...]


def judge(path: Path, *, planar: bool = False) -> Judgment:
    """Decode a whole file.

    Args:
        path: of the video; its first stream that is no attached picture is taken.
        planar: hash packed and half-planar surfaces as the planar format of the same samples, without alpha.

    Raises:
        FFmpegError: no frame came out.
    """
    facts = path.stat()
    return _judge(str(path), planar, facts.st_mtime_ns, facts.st_size)


def framehashes(path: Path, *, planar: bool = False) -> list[str]:
    """MD5 of each surface, in presentation order; :func:`plane_hash` gives the like of NumPy planes."""
    return [frame.md5 for frame in judge(path, planar=planar).frames]


def frame_times(path: Path) -> list[float]:
    """Presentation time of each frame in seconds, on the stream's own clock."""
    return [frame.time_s for frame in judge(path).frames]


def count_frames(path: Path) -> int:
    """Number of frames that ffmpeg presents."""
    return len(judge(path).frames)


def surfaces(path: Path, *, pix_fmt: str | None = None, limit: int | None = None) -> list[bytes]:
    """Each surface's bytes, planes one after the other without padding, 16-bit samples little endian.

    Args:
        path: of the video.
        pix_fmt: format to convert to; None for the surfaces' own.
        limit: number of frames from the first on; None for all. Mind the memory.
    """
    count = count_frames(path) if limit is None else min(limit, count_frames(path))
    options = ["-pix_fmt", pix_fmt] if pix_fmt else []
    done = _run(*_decode(str(path)), *options, "-frames:v", str(count), "-f", "rawvideo", "-")
    size = len(done.stdout) // count
    return [done.stdout[start : start + size] for start in range(0, size * count, size)]


def planes(path: Path, number: int) -> tuple[NDArray[Any], ...]:
    """The planes of one frame as a Surface holds them: (Y, U, V), (Y,) or (R, G, B), uint8 or uint16."""
    judged = judge(path)
    pix_fmt = _PLANAR.get(judged.pix_fmt, judged.pix_fmt)
    return split(
        surfaces(path, pix_fmt=pix_fmt, limit=number + 1)[number], pix_fmt, judged.width, judged.height
    )


def all_planes(path: Path) -> list[tuple[NDArray[Any], ...]]:
    """The planes of every frame, as :func:`planes`. Mind the memory."""
    judged = judge(path)
    pix_fmt = _PLANAR.get(judged.pix_fmt, judged.pix_fmt)
    return [split(data, pix_fmt, judged.width, judged.height) for data in surfaces(path, pix_fmt=pix_fmt)]


def split(data: bytes, pix_fmt: str, width: int, height: int) -> tuple[NDArray[Any], ...]:
    """Packed planes of a planar format into arrays, (Y, U, V), (Y,) or (R, G, B)."""
    dtype = np.dtype("<u2") if pix_fmt.endswith("le") else np.dtype(np.uint8)
    samples = np.frombuffer(data, dtype)
    shapes = [(height, width)]
    if not pix_fmt.startswith("gray"):
        shift_x, shift_y = _chroma_shifts(pix_fmt)
        shapes += [(-(-height >> shift_y), -(-width >> shift_x))] * 2
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    parts = [part.reshape(shape) for part, shape in zip(np.split(samples, ends[:-1]), shapes, strict=True)]
    return (parts[2], parts[0], parts[1]) if pix_fmt.startswith("gbr") else tuple(parts)


def plane_hash(arrays: Sequence[NDArray[Any]], pix_fmt: str) -> str:
    """MD5 that ``framehashes(path, planar=True)`` gives for these planes of a surface of ``pix_fmt``."""
    rgb = _PLANAR.get(pix_fmt, pix_fmt).startswith("gbr")
    ordered = (arrays[1], arrays[2], arrays[0]) if rgb else arrays
    little = [array.astype(array.dtype.newbyteorder("<"), copy=False) for array in ordered]
    return hashlib.md5(b"".join(np.ascontiguousarray(array).tobytes() for array in little)).hexdigest()


def to_rgb(
    arrays: Sequence[NDArray[Any]],
    pix_fmt: str,
    *,
    matrix: str,
    full_range: bool,
    chroma_location: ChromaLocation = "left",
    out: Literal["rgb24", "rgb48le"] = "rgb24",
) -> NDArray[Any]:
    """RGB by swscale, with accurate rounding and bilinear chroma.

    It is no exact judge itself. Against the formulas in float64 it is within 0.51 of 255 levels for ``rgb24``
    (within 1.5 for full range of 10 bits and more), and within 1.0 for ``rgb48le``.

    Args:
        arrays: the planes of one surface, (Y, U, V) or (Y,), of a planar format.
        pix_fmt: that format.
        matrix: ``bt601``, ``bt709``, ``bt2020``, ``smpte240m`` or ``fcc``.
        full_range: range of the surface; the result is of full range.
        chroma_location: where the chroma samples sit.
        out: 8 or 16 bits per channel.

    Returns:
        (height, width, 3), uint8 or uint16.
    """
    height, width = arrays[0].shape
    chain = (
        f"setparams=range={'full' if full_range else 'limited'},"
        f"scale=in_color_matrix={matrix}:in_range={'full' if full_range else 'limited'}:out_range=full:"
        f"in_chroma_loc={chroma_location}:flags={_FLAGS},format={out}"
    )
    size = ["-f", "rawvideo", "-pix_fmt", pix_fmt, "-s", f"{width}x{height}", "-i", "pipe:0"]
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    packed, _ = said(*size, "-vf", chain, "-f", "rawvideo", "-", stdin=data)
    picture = np.frombuffer(packed, np.uint8 if out == "rgb24" else np.dtype("<u2"))
    return picture.reshape(height, width, 3)


@functools.lru_cache(maxsize=512)
def _judge(path: str, planar: bool, *version: int) -> Judgment:
    """``version`` (modification time, size) only tells one state of the file from another."""
    judged = _judge(path, False, *version) if planar else None
    if judged is not None and judged.pix_fmt not in _PLANAR:
        return judged
    options = ["-pix_fmt", _PLANAR[judged.pix_fmt]] if judged is not None else []
    listing, messages = said(*_decode(path), *options, "-f", "framemd5", "-")
    frames = _frames(listing.decode())
    form = re.search(
        r"Output #0.*?Video: rawvideo(?: \([^)]*\))?, (\w+).*?, (\d+)x(\d+)", messages, re.DOTALL
    )
    if not frames or form is None:
        raise FFmpegError(f"ffmpeg gives no frame of {path}: {messages[-400:]}")
    complaints = tuple(line for line in messages.splitlines() if re.search(r"\[(error|fatal|panic)\]", line))
    return Judgment(frames, form[1], int(form[2]), int(form[3]), complaints)


def _decode(path: str) -> list[str]:
    return [
        *("-noautorotate", "-copyts", "-i", path, "-map", "0:V:0"),
        *("-fps_mode", "passthrough", "-enc_time_base", "demux", "-noautoscale"),
    ]


def _frames(listing: str) -> tuple[JudgedFrame, ...]:
    base = re.search(r"#tb 0: (\d+/\d+)", listing)
    tick = Fraction(base[1]) if base else Fraction(0)
    rows = [line.replace(" ", "").split(",") for line in listing.splitlines() if not line.startswith("#")]
    return tuple(JudgedFrame(int(row[2]), float(int(row[2]) * tick), int(row[4]), row[5]) for row in rows)


def _chroma_shifts(pix_fmt: str) -> tuple[int, int]:
    match = re.match(r"yuvj?a?(\d{3})p", pix_fmt)
    return _SUBSAMPLING[match[1]] if match else (0, 0)


def said(*arguments: str, stdin: bytes = b"") -> tuple[bytes, str]:
    """What ffmpeg writes to its output and says of it, kept between runs by content unless it fails.

    Args:
        arguments: of the command; the files among them are told by their bytes.
        stdin: what it reads from its input.
    """

    def make(part: Path) -> None:
        done = _run(*arguments, stdin=stdin)
        if done.returncode:
            raise _FailedError(done.stdout, done.stderr)
        part.write_bytes(b"%d\n" % len(done.stdout) + done.stdout + done.stderr)

    try:
        answer = kept("ffmpeg", (_by_content(arguments), _digest(stdin)), ".answer", make).read_bytes()
    except _FailedError as failure:
        out, messages = failure.args
    else:
        length, _, rest = answer.partition(b"\n")
        out, messages = rest[: int(length)], rest[int(length) :]
    return out, messages.decode(errors="replace")


def write(path: Path, *arguments: str) -> None:
    """Have ffmpeg write a file, or copy what it wrote in an earlier run.

    Args:
        path: of the file; its ending tells the container.
        arguments: of the command, without the file; the files among them are told by their bytes.

    Raises:
        FFmpegError: it is missing or it failed.
    """

    def make(part: Path) -> None:
        run_ffmpeg(*arguments, str(part))

    shutil.copyfile(kept("ffmpeg", _by_content(arguments), path.suffix, make), path)


def _by_content(arguments: Sequence[str]) -> list[Any]:
    """The program and its arguments, with their bytes in the place of the names of files."""
    exe = Path(_exe())
    files = [Path(one) if len(one) < 256 and os.path.isfile(one) else None for one in arguments]  # noqa: PTH113
    told = [
        (file.suffix, _digest(file.read_bytes())) if file else one
        for one, file in zip(arguments, files, strict=True)
    ]
    return [exe.name, exe.stat().st_size, _LOUD, *told]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [_exe(), *_LOUD, *arguments], input=stdin, capture_output=True, check=False, timeout=300
    )


def _exe() -> str:
    """The program; skips the test where there is none."""
    try:
        return ffmpeg_exe()
    except FFmpegError as error:
        pytest.skip(str(error))
