"""Writing of sequences as video files, with their times, their colors and sound; the formats and their encoders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import av
import av.codec
import av.error
import av.filter
import numpy as np
from av.video.reformatter import ColorRange, VideoReformatter

from ...core.param import Param, check_path
from ...core.whole_file import replacing
from ...errors import BackendError, OutputError, ParameterError, described_type
from ...sequence import Sequence
from ..audio.samples import AudioSamples
from ..convert.surface import reformat_colors
from .edit_lists import end_edit_lists
from .params import GOP, QUALITY
from .sound import CopiedSound, EncodedSound

__all__ = [
    "FileFormat",
    "VideoEncoder",
    "check_encoder",
    "encoder_of",
    "format_of",
    "write_into",
    "write_video",
]

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
        copied: names of codecs of sound whose packets it takes over.
        edit_lists: whether it hides what is stored before the first frame and behind the last one.
        options: options of the muxer.
    """

    name: str
    codecs: tuple[str, ...]
    sound: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    edit_lists: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def takes(self, sound: CopiedSound) -> bool:
        """Return whether files of this format can hold the packets of a sound."""
        return sound.codec in self.copied and (self.edit_lists or not sound.early)


_MP4: Final = FileFormat(
    "mp4",
    ("h264", "hevc", "av1"),
    ("aac",),
    ("aac", "mp3"),
    edit_lists=True,
    options={"movflags": "+faststart"},
)
_FORMATS: Final[Mapping[str, FileFormat]] = {
    ".mp4": _MP4,
    ".m4v": _MP4,
    ".mov": FileFormat("mov", ("h264", "hevc"), ("aac",), ("aac", "mp3"), edit_lists=True),
    ".mkv": FileFormat(
        "matroska", ("h264", "hevc", "av1", "vp9"), ("libopus", "aac"), ("aac", "mp3", "opus", "vorbis")
    ),
    ".webm": FileFormat("webm", ("vp9", "av1"), ("libopus", "libvorbis"), ("opus", "vorbis")),
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
    here = [codec for codec, encoders in _ENCODERS.items() if any(_has(encoder.name) for encoder in encoders)]
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


FPS: Final = Param(
    name="fps", doc="Frames per second", kind=float, lo=0.001, hi=1000, unit="Hz", optional=True
)
_TICKS: Final = 90_000
_BT709: Final = 1  # code of matrix, primaries and transfer in H.273
_MODES: Final = {1: "gray", 3: "rgb24", 4: "rgba"}


def write_video(
    path: str | os.PathLike[str],
    sequence: Sequence | Iterable[Sequence],
    *,
    fps: float | None = None,
    codec: str | None = None,
    quality: float | None = None,
    gop: int | None = None,
    audio: AudioSamples | Iterable[AudioSamples] | CopiedSound | None = None,
    format: str | None = None,  # noqa: A002  as in Dataset.write
) -> int:
    """Write frames as a video, beside ``path`` and renamed once it is complete.

    Colors are BT.709 of limited range and tagged as such, so that they are read back with the same matrix and range.
    H.264, HEVC and AV1 have even sides: an odd last row or column is repeated. Frames keep their times, counted from
    the first one.

    Args:
        path: the file, whose suffix is the format: ``.mp4``, ``.mov``, ``.mkv``, ``.webm``, ``.gif``, ``.webp``
            (animated) or ``.apng``.
        sequence: frames of uint8 with 1 (gray), 3 (RGB) or 4 (RGBA) channels; or consecutive sequences of one size,
            which are taken one after the other. WebM (VP9), WebP and APNG store alpha.
        fps: frames per second; None for the times of the frames.
        codec: "h264", "hevc", "av1" or "vp9"; None for the first one that the format holds.
        quality: quality of lossy codecs, 0 to 100; None for 65, which is nearly without visible loss. For H.264 and
            HEVC it is ``crf = 51 · (1 - quality / 100)``, for VP9 and AV1 of 63, for WebP its own quality.
        gop: frames from one key frame to the next; None for the encoder's choice.
        audio: sound that begins with the first frame, or consecutive pieces of it: AAC, in WebM and Matroska Opus; or
            packets that are copied.
        format: the format, as a suffix without its dot, for a path that ends otherwise.

    Returns:
        The number of frames.

    Raises:
        ParameterError: an argument is out of bounds, or the frames do not fit the format.
        BackendError: FFmpeg's build has no such encoder.
        OutputError: the file cannot be written, or there are no frames.
    """
    target = Path(check_path("path", path))
    form = format_of(target if format is None else Path(f"video.{format}"))
    encoder = encoder_of(form, codec)
    settings = encoder.settings(QUALITY.check(quality), GOP.check(gop))
    rate = FPS.check(fps)
    pieces = [audio] if isinstance(audio, AudioSamples) else audio
    if not isinstance(pieces, Iterable | CopiedSound | None):
        raise ParameterError(
            f"audio is {described_type(audio)}", allowed="AudioSamples, as video.audio() gives"
        )
    if audio is not None and not form.sound:
        raise ParameterError(f"{form.name} files hold no sound", source=str(target), allowed="audio=None")
    sequences = [sequence] if isinstance(sequence, Sequence) else sequence
    try:
        with (
            replacing(target) as part,
            closing(_Writer(part, target.name, form, encoder, settings, pieces)) as writer,
        ):
            return writer.write(_timed(sequences, rate))
    except (av.error.FFmpegError, FileNotFoundError, PermissionError, IsADirectoryError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"the video cannot be written ({reason})",
            source=str(target),
            advice="Check that the folder exists, may be written and has room",
        ) from error


def write_into(
    file: BinaryIO, ending: str, sequences: Iterable[Sequence], *, quality: float | None = None
) -> int:
    """Write consecutive sequences as a video into a readable, seekable file, whose position is then at its end."""
    form = format_of(Path(f"video.{ending}"))
    encoder = encoder_of(form, None)
    options = (
        {} if "movflags" in form.options else form.options
    )  # FFmpeg would open the file again by its name
    settings = encoder.settings(quality, None)
    writer = _Writer(file, "the video", replace(form, options=options), encoder, settings, None)
    with closing(writer):
        count = writer.write(_timed(sequences, None))
    file.seek(0, os.SEEK_END)
    return count


def check_encoder(ending: str, codec: str | None) -> None:
    """Check that a codec can be written into files of an ending."""
    encoder_of(format_of(Path(f"video.{ending}")), codec)


def _timed(sequences: Iterable[Sequence], fps: float | None) -> Iterator[tuple[Any, Fraction]]:
    """Yield the pixels of each frame, of layout HWC, with its time from the first one on."""
    first: float | None = None
    count, last = 0, Fraction(-1)
    exact = None if fps is None else Fraction(fps).limit_denominator(1001)
    for sequence in sequences:
        pixels = _pixels(sequence)
        times = sequence.timestamps
        if exact is None and (times is None or np.isnan(times).any()):
            raise ParameterError(
                "the frames have no times" if times is None else "padded frames have no times",
                source=sequence.source,
                allowed="fps=…, or frames with timestamps",
            )
        for number, frame in enumerate(pixels):
            if exact is not None:
                yield frame, count / exact
            else:
                assert times is not None
                first = float(times[0]) if first is None else first
                time = Fraction(round((float(times[number]) - first) * _TICKS), _TICKS)
                if time <= last:
                    raise ParameterError(
                        f"the time of frame {count} is not later than that of the one before",
                        source=sequence.source,
                        advice="Pass fps=… for frames that are not in the order of their times",
                    )
                last = time
                yield frame, time
            count += 1


def _pixels(sequence: Sequence) -> Any:
    """Return the pixels of a sequence with axes FHWC."""
    if not isinstance(sequence, Sequence):
        raise ParameterError(f"sequence is {described_type(sequence)}", allowed="a Sequence, or several")
    pixels, layout = sequence.numpy(), sequence.layout
    if "F" not in layout and "D" not in layout:
        pixels, layout = pixels[None], f"F{layout}"
    if (
        set(layout) != set("FHWC")
        or pixels.dtype != np.uint8
        or pixels.shape[layout.index("C")] not in _MODES
    ):
        raise ParameterError(
            f"{layout} of {pixels.dtype} with shape {pixels.shape} is no video",
            source=sequence.source,
            allowed="frames FHWC of uint8 with 1, 3 or 4 channels",
            advice="Read frames with OutputSpec(dtype='uint8')",
        )
    return np.moveaxis(pixels, [layout.index(axis) for axis in "FHWC"], range(4))


class _Writer:
    """Encodes frames and sound in the order of their times."""

    def __init__(
        self,
        part: Path | BinaryIO,
        name: str,
        form: FileFormat,
        encoder: VideoEncoder,
        settings: dict[str, str],
        audio: Iterable[AudioSamples] | CopiedSound | None,
    ) -> None:
        self._part, self._name, self._form = part, name, form
        self._encoder, self._settings = encoder, settings
        self._container = av.open(
            str(part) if isinstance(part, Path) else part,
            "w",
            format=form.name,
            container_options=dict(form.options),
        )
        self._stream: Any = None
        self._audio = audio
        self._sound: EncodedSound | CopiedSound | None = None
        self._shape: tuple[int, ...] = ()
        self._pending: tuple[Any, Fraction] | None = None
        self._palette: _Palettes | None = None
        self._reformatter = VideoReformatter()
        self.count = 0

    def write(self, frames: Iterable[tuple[Any, Fraction]]) -> int:
        """Encode frames, each once the next one tells how long it is shown; return their number."""
        for pixels, time in frames:
            if self._pending is not None:
                self._encode(*self._pending, time - self._pending[1])
            self._pending = pixels, time
        if self._pending is None:
            raise OutputError(
                "a video without frames cannot be written", source=self._name, allowed="one frame or more"
            )
        self._encode(*self._pending, self._step if self.count else Fraction(1, 30))
        if self._sound is not None:
            self._sound.until(None)
        self._container.mux(self._stream.encode(None))
        self._container.close()
        if isinstance(self._audio, CopiedSound) and self._form.edit_lists and isinstance(self._part, Path):
            with self._part.open("r+b") as file:
                end_edit_lists(file, self._audio.duration_s)
        return self.count

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def _encode(self, pixels: Any, time: Fraction, step: Fraction) -> None:
        """Encode a frame that is shown for a time."""
        if self._stream is None:
            self._begin(pixels, step)
        elif pixels.shape != self._shape:
            raise ParameterError(
                f"frame {self.count} has shape {pixels.shape}",
                source=self._name,
                allowed=f"{self._shape}, as the first",
            )
        self._step = step
        frame = av.VideoFrame.from_ndarray(self._evened(pixels), _MODES[pixels.shape[2]])
        frame.pts, frame.time_base = round(time / self._stream.time_base), self._stream.time_base
        frame = self._converted(frame)
        if self._sound is not None:
            self._sound.until(float(time))
        self._container.mux(self._stream.encode(frame))
        self.count += 1

    def _begin(self, pixels: Any, step: Fraction) -> None:
        """Add the streams, for frames as the first one is."""
        encoder, channels = self._encoder, pixels.shape[2]
        if channels == 4 and not encoder.alpha:
            raise ParameterError(
                f"{encoder.name} stores no alpha, and the frames have 4 channels",
                source=self._name,
                allowed=".webm (vp9), .webp, .apng",
                advice="Drop the channel, or choose one of these",
            )
        self._shape = pixels.shape
        if encoder.name == "libsvtav1":
            os.environ.setdefault("SVT_LOG", "1")  # errors alone: it tells its settings on stderr
        height, width = self._evened(pixels).shape[:2]
        stream: Any = self._container.add_stream(encoder.name, rate=(1 / step).limit_denominator(1001))
        stream.width, stream.height = width, height
        stream.pix_fmt = encoder.alpha if channels == 4 else encoder.form
        ticks = Fraction(1, 100) if encoder.form == "pal8" else Fraction(1, _TICKS)
        stream.time_base = stream.codec_context.time_base = ticks
        stream.options = self._settings
        if encoder.name == "libx265" and self._form.name in ("mp4", "mov"):
            stream.codec_context.codec_tag = "hvc1"
        if stream.pix_fmt.startswith("yuv"):
            context = stream.codec_context
            context.colorspace = context.color_primaries = context.color_trc = _BT709
            context.color_range = int(ColorRange.MPEG)
        self._stream = stream
        if encoder.form == "pal8":
            self._palette = _Palettes(width, height, ticks)
        if isinstance(self._audio, CopiedSound):
            self._audio.begin(self._container)
            self._sound = self._audio
        elif (piece := next(pieces := iter(self._audio or ()), None)) is not None:
            self._sound = EncodedSound(self._container, self._form.sound, piece, pieces)

    def _evened(self, pixels: Any) -> Any:
        """Return pixels with even sides where the encoder needs them."""
        odd = [side % 2 if self._encoder.even else 0 for side in pixels.shape[:2]]
        pixels = np.pad(pixels, [(0, odd[0]), (0, odd[1]), (0, 0)], mode="edge") if any(odd) else pixels
        return np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)

    def _converted(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return a frame in the encoder's pixel format."""
        if self._palette is not None:
            return self._palette.applied(frame)
        form = self._stream.pix_fmt
        pts, base = frame.pts, frame.time_base
        if form.startswith("yuv"):
            frame = reformat_colors(self._reformatter, frame, form)
        elif frame.format.name != form:
            frame = self._reformatter.reformat(frame, format=form)
        frame.pts, frame.time_base = pts, base
        return frame


class _Palettes:
    """Conversion to 256 colors, of which each frame has its own."""

    def __init__(self, width: int, height: int, ticks: Fraction) -> None:
        graph = self._graph = av.filter.Graph()
        self._source = graph.add_buffer(
            width=width, height=height, format=av.VideoFormat("rgb24"), time_base=ticks
        )
        split = graph.add("split")
        colors = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
        use = graph.add("paletteuse", "new=1:dither=sierra2_4a")
        self._sink = graph.add("buffersink")
        self._source.link_to(split)
        split.link_to(use, 0, 0)
        split.link_to(colors, 1, 0)
        colors.link_to(use, 0, 1)
        use.link_to(self._sink)
        graph.configure()
        self._reformatter = VideoReformatter()

    def applied(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return a frame in 256 colors."""
        pts, base = frame.pts, frame.time_base
        if frame.format.name != "rgb24":
            frame = self._reformatter.reformat(frame, format="rgb24")
            frame.pts, frame.time_base = pts, base
        self._source.push(frame)
        result: Any = self._sink.pull()
        result.pts, result.time_base = pts, base
        return result  # type: ignore[no-any-return]
