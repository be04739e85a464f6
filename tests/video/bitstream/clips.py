"""Tiny encoded streams, and a decoder that says which packet each frame came from."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType

from seqpipe.video.convert.surface import Surface
from seqpipe.video.probe.probe import av_packet, set_extradata

MEDIA = Path(os.environ.get("SEQPIPE_MEDIA", Path(__file__).parents[4] / "shared" / "media"))
WIDTH, HEIGHT = 128, 96
DECODERS = {"av1": "libdav1d"}
"""FFmpeg's own AV1 decoder needs a GPU."""


@dataclass(frozen=True)
class Stream:
    """A demuxed video stream: packets in decoding order."""

    codec: str
    extradata: bytes
    packets: tuple[bytes, ...]


@dataclass(frozen=True)
class Recipe:
    """How a clip is encoded."""

    encoder: str
    container: str
    options: tuple[tuple[str, str], ...] = ()
    b_frames: int | None = None
    frames: int = 48
    pixels: str = "yuv420p"


def recipe(
    encoder: str, container: str, *, b_frames: int | None = None, frames: int = 48, **options: str
) -> Recipe:
    pairs = tuple((name.replace("_", "-"), value) for name, value in options.items())
    return Recipe(encoder, container, pairs, b_frames, frames)


H264 = {
    "pyramid": recipe("libx264", "mp4", preset="fast", x264_params="b-pyramid=normal:bframes=5:keyint=30"),
    "defaults": recipe("libx264", "mp4"),
    "open-gop": recipe("libx264", "matroska", preset="fast", x264_params="open-gop=1:keyint=16:bframes=3"),
    "sliced-ts": recipe("libx264", "mpegts", preset="fast", x264_params="slices=3:bframes=3:keyint=20"),
    "interlaced": recipe("libx264", "mp4", preset="fast", x264_params="interlaced=1:bframes=3"),
    "intra-refresh": recipe("libx264", "mpegts", preset="fast", x264_params="intra-refresh=1:keyint=20"),
}
QUIET = "log-level=none"
HEVC = {
    "defaults": recipe("libx265", "mp4", x265_params=QUIET),
    "open-gop": recipe(
        "libx265",
        "matroska",
        preset="fast",
        x265_params=f"{QUIET}:keyint=18:min-keyint=18:bframes=3:b-adapt=0:scenecut=0",
    ),
    "layers": recipe(
        "libx265", "mp4", preset="fast", x265_params=f"{QUIET}:temporal-layers=3:bframes=7:b-adapt=0"
    ),
    "sliced-ts": recipe(
        "libx265", "mpegts", preset="fast", x265_params=f"{QUIET}:ctu=16:slices=2:open-gop=0:keyint=16"
    ),
}
_LAYERED_2 = (
    "ts_number_layers=2:ts_target_bitrate=200,300:ts_rate_decimator=2,1:ts_periodicity=2:ts_layer_id=0,1"
    ":ts_layering_mode=2"
)
_LAYERED_3 = (
    "ts_number_layers=3:ts_target_bitrate=100,200,300:ts_rate_decimator=4,2,1:ts_periodicity=4"
    ":ts_layer_id=0,2,1,2:ts_layering_mode=3"
)


def _vp9(**options: str) -> Recipe:
    fixed = {"cpu_used": "7", "b": "300k", "deadline": "realtime", "lag_in_frames": "0"}
    return recipe("libvpx-vp9", "webm", **(fixed | options))


VP9 = {
    "alt-ref": _vp9(deadline="good", auto_alt_ref="1", lag_in_frames="16"),
    "layers": _vp9(error_resilient="1", ts_parameters=_LAYERED_2),
    "layers-not-resilient": _vp9(ts_parameters=_LAYERED_3),
}
AV1 = {
    "mp4": recipe("libsvtav1", "mp4", preset="10", svtav1_params="keyint=24:lp=1"),
    "mkv-grain": recipe("libsvtav1", "matroska", preset="10", svtav1_params="film-grain=8:lp=1"),
}
MPEG = {
    "mpeg1": recipe("mpeg1video", "mpeg", b_frames=2),
    "mpeg2": recipe("mpeg2video", "mpegts", b_frames=2),
    "mpeg4-avi": recipe("mpeg4", "avi", b_frames=2),
    "mpeg4-mp4": recipe("mpeg4", "mp4", b_frames=2),
}


def pictures(count: int) -> Iterable[np.ndarray]:
    """A drifting pattern with noise: everything moves, so frames differ and prediction is worth it."""
    noise = np.random.default_rng(7)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    for t in range(count):
        wave = 110 + 60 * np.sin((x + 3 * t) / 9) + 40 * np.cos((y - 2 * t) / 7)
        plane = wave[..., None] + (0, 15, -15) + noise.normal(0, 6, (HEIGHT, WIDTH, 1))
        yield np.clip(plane, 0, 255).astype(np.uint8)


@cache
def encoded(made: Recipe) -> Stream:
    """The clip of a recipe, encoded and demuxed once per process."""
    file = io.BytesIO()
    with av.open(file, "w", format=made.container) as container:
        stream = container.add_stream(made.encoder, rate=25, options=dict(made.options))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, made.pixels
        if made.b_frames is not None:
            stream.codec_context.max_b_frames = made.b_frames
        for picture in pictures(made.frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    file.seek(0)
    return demuxed(file)


@cache
def two_pass(ffmpeg: str, encoder: str, *options: str) -> Stream:
    """A clip that only a two-pass encode makes: libvpx hides frames and shows them again there."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "clip.webm")
        for number in ("1", "2"):
            log = ["-pass", number, "-passlogfile", str(Path(folder, "log"))]
            _run(ffmpeg, "testsrc2", made, "-c:v", encoder, *options, *log)
        return demuxed(made)


@cache
def by_ffmpeg(ffmpeg: str, encoder: str, container: str, *options: str) -> Stream:
    """A clip that PyAV's own libraries cannot make; all of it moves."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, f"clip.{container}")
        _run(ffmpeg, "mandelbrot", made, "-c:v", encoder, *options)
        return demuxed(made)


def _run(ffmpeg: str, source: str, made: Path, *options: str) -> None:
    drawn = ["-f", "lavfi", "-i", f"{source}=s={WIDTH}x{HEIGHT}:r=25", "-t", "3", "-pix_fmt", "yuv420p"]
    subprocess.run([ffmpeg, "-v", "error", "-y", *drawn, *options, str(made)], check=True)


def demuxed(source: io.BytesIO | Path) -> Stream:
    with av.open(source if isinstance(source, io.BytesIO) else str(source)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        packets = tuple(bytes(packet) for packet in container.demux(stream) if packet.size)
        return Stream(context.codec.canonical_name, bytes(context.extradata or b""), packets)


def decoded(stream: Stream, numbers: Iterable[int], decoder: str | None = None) -> dict[int, tuple[str, str]]:
    """Packet number → (digest of the visible samples, picture type) of the frame that came of it."""
    context = av.CodecContext.create(decoder or DECODERS.get(stream.codec, stream.codec), "r")
    set_extradata(context, stream.extradata)
    context.thread_count = 1
    frames: dict[int, tuple[str, str]] = {}

    def take(made: Iterable[av.VideoFrame]) -> None:
        for frame in made:
            assert frame.pts not in frames, f"packet {frame.pts} gave two frames"
            samples = b"".join(
                plane.tobytes() for plane in Surface.of(frame, 0).planes
            )  # any format, any PyAV
            frames[frame.pts] = (hashlib.sha1(samples).hexdigest(), PictureType(frame.pict_type).name)

    for number in numbers:
        packet = av_packet(stream.packets[number])
        packet.pts = number
        take(context.decode(packet))
    take(context.decode(None))
    return frames
