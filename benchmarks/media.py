"""Input videos of the benchmarks: encoded once from generated frames, kept in a folder, equal on every machine."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from data_scripts import frame_code
from seqpipe.core.whole_file import replacing
from seqpipe.video.probe.probe import av_packet

__all__ = [
    "CONTENTS",
    "FILM_PARTS",
    "FRAMES",
    "film_source",
    "hour",
    "large",
    "many",
    "named",
    "read_code",
    "small",
]

FRAMES = 300
CONTENTS, FILM_PARTS = 10, 5
RATE = 30
Size = tuple[int, int]
Picture = NDArray[np.uint8]
_LARGE, _SMALL, _TINY = (1920, 1080), (340, 256), (128, 96)
_INSET = {_LARGE: (192, 128), _SMALL: (96, 64)}
_HOUR_S = 3600
_MOST_LINKS = 60_000  # of a file, which ext4 limits to 65,000
_MEDIA = Path(os.environ.get("SEQPIPE_MEDIA", Path(__file__).resolve().parents[2] / "shared" / "media"))
_FILMS = {_SMALL: "video/codec/vp8_tears_of_steel_70s.webm", _LARGE: "video/codec/h264_1080p50.mov"}


def large(folder: Path, content: int = 0, *, key_every: int | None = None, film: bool = False) -> Path:
    """A 1080p H.264 file of 300 frames: x264's default structure, or a key frame every so many frames."""
    options = {} if key_every is None else {"g": str(key_every), "keyint_min": str(key_every)}
    return _file(folder, f"large_{key_every or 'default'}", _LARGE, content, options, film=film)


def small(folder: Path, content: int, *, film: bool = False) -> Path:
    """A 340×256 H.264 file of 300 frames with x264's default structure: a key frame every 250 at least."""
    return _file(folder, "small", _SMALL, content, {"g": "250"}, film=film)


def film_source(size: Size = _SMALL) -> Path | None:
    """The real video that films of this size are cut from, if it is here."""
    path = _MEDIA / _FILMS[size]
    return path if path.is_file() else None


def named(sources: list[Path], folder: Path, count: int) -> list[Path]:
    """Return ``count`` distinct names of fewer files: hard links."""
    names = folder / f"names_{sources[0].stem}"
    return [_linked(sources[n % len(sources)], names, f"{n:05d}.mp4") for n in range(count)]


def many(folder: Path, count: int) -> list[Path]:
    """``count`` tiny files, hard links of one and its copies, in folders of a thousand."""
    tiny = _made(folder / "tiny.mp4", lambda path: _encode(path, _TINY, {}, _generated(_TINY, 0, 48, 2.0)))
    copies = [tiny, *(folder / f"tiny_{n}.mp4" for n in range(1, -(-count // _MOST_LINKS)))]
    for copy in copies[1:]:
        _made(copy, partial(shutil.copyfile, tiny))
    return [
        _linked(copies[n // _MOST_LINKS], folder / "many" / f"{n // 1000:03d}", f"clip {n:05d}.mp4")
        for n in range(count)
    ]


def hour(folder: Path) -> Path:
    """One hour of 1080p at 30 frames/s: ten seconds at a low bitrate, their packets repeated."""
    options = {"crf": "38", "g": "150"}
    source = _made(
        folder / "large_cheap.mp4",
        lambda path: _encode(path, _LARGE, options, _generated(_LARGE, 3, FRAMES, 0.0)),
    )
    return _made(folder / "hour.mp4", lambda path: _repeat(source, path, _HOUR_S * RATE // FRAMES))


def read_code(image: Picture) -> int:
    """Return the frame number drawn into a frame of these files."""
    width, height = _INSET[image.shape[1], image.shape[0]]
    return frame_code.read(image[:height, :width])


def _file(folder: Path, stem: str, size: Size, content: int, options: dict[str, str], *, film: bool) -> Path:
    name = f"{stem}_{'film' if film else 'made'}_{content}.mp4"
    pictures = _filmed(size, content) if film else _generated(size, content, FRAMES, 2.0)
    return _made(folder / name, lambda path: _encode(path, size, options, pictures))


def _made(path: Path, make: Callable[[Path], None]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            make(part)
    return path


def _linked(source: Path, folder: Path, name: str) -> Path:
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(source)
    return path


def _encode(path: Path, size: Size, options: dict[str, str], pictures: Iterator[Picture]) -> None:
    with av.open(str(path), "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        context = stream.codec_context
        # BT.709, limited range, said in the stream: a decoder that guesses would not show the same colors
        context.colorspace = context.color_primaries = context.color_trc = 1
        context.color_range = 1
        inset = _INSET.get(size)
        for number, picture in enumerate(pictures):
            if inset is not None:
                picture[: inset[1], : inset[0]] = frame_code.draw(number, inset)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            coded = frame.reformat(format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            container.mux(stream.encode(coded))
        container.mux(stream.encode(None))


def _filmed(size: Size, content: int) -> Iterator[Picture]:
    """300 frames of a real video, from frame 300 · content on; a shorter one is played forward and backward.

    One that has no such frame begins 16 · content frames into that.
    """
    source = film_source(size)
    if source is None:
        raise FileNotFoundError(
            f"{_MEDIA / _FILMS[size]}: set SEQPIPE_MEDIA to the folder of the shared media"
        )
    first = FRAMES * content
    frames = _read(source, size, first) or _read(source, size, 0)
    order = [*range(len(frames)), *range(len(frames) - 2, 0, -1)]
    begin = 0 if len(frames) == FRAMES else 16 * content
    for number in range(begin, begin + FRAMES):
        yield frames[order[number % len(order)]].copy()


def _read(source: Path, size: Size, first: int) -> list[Picture]:
    """Return up to 300 frames of a video from one on."""
    with av.open(str(source)) as container:
        shown = itertools.islice(container.decode(video=0), first, first + FRAMES)
        return [frame.reformat(*size, "rgb24").to_ndarray().astype(np.uint8, copy=False) for frame in shown]


def _generated(size: Size, content: int, frames: int, grain: float) -> Iterator[Picture]:
    """A hand-held camera over a 1/f landscape, three textured rectangles that cross it, and grain."""
    width, height = size
    random = np.random.Generator(np.random.Philox(content))
    scene = _landscape(random, (height * 3 // 2, width * 3 // 2))
    thing = _landscape(random, (height // 3, width // 5))
    noise = random.normal(0, grain, (height + 64, width + 64, 1)).astype(np.float32)
    sway = random.uniform(0, 2 * np.pi, 5)
    for number in range(frames):
        t = number / RATE
        angle, zoom = 0.03 * np.sin(0.7 * t + sway[0]), 1 + 0.08 * np.sin(0.4 * t + sway[1])
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * zoom
        center = np.array([width, height]) * (
            0.75 + 0.08 * np.array([np.sin(0.9 * t + sway[2]), np.cos(0.6 * t)])
        )
        matrix = np.column_stack([turn, center - turn @ (np.array([width, height]) / 2)])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        picture = cv2.warpAffine(scene, matrix, size, flags=flags, borderMode=cv2.BORDER_REFLECT)
        for k in range(3):
            x = int((width - thing.shape[1]) * (0.5 + 0.5 * np.sin((0.5 + 0.3 * k) * t + sway[3] + k)))
            y = int((height - thing.shape[0]) * (0.5 + 0.5 * np.cos((0.4 + 0.2 * k) * t + sway[4] + 2 * k)))
            picture[y : y + thing.shape[0], x : x + thing.shape[1]] = thing[:: (-1) ** k]
        dy, dx = random.integers(0, 64, 2)
        yield np.clip(picture + noise[dy : dy + height, dx : dx + width], 0, 255).astype(np.uint8)


def _landscape(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Noise whose amplitude falls with 1/f, as in photographs; (rows, columns, 3), float32 0…255."""
    rows, columns = np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None, :]
    amplitude = 1 / np.maximum(np.hypot(rows, columns), 1 / max(shape)) ** 1.1
    layers = []
    for _ in range(3):
        phase = np.exp(2j * np.pi * random.random(amplitude.shape))
        layer = np.fft.irfft2(amplitude * phase, shape)
        layers.append(layer / layer.std())
    # colors of one scene go together: each channel is mostly the common brightness
    mixed = np.stack([layers[0] + 0.3 * layers[1], layers[0], layers[0] + 0.3 * layers[2]], axis=-1)
    landscape: NDArray[np.float32] = np.clip(118 + 48 * mixed, 0, 255).astype(np.float32)
    return landscape


def _repeat(source: Path, path: Path, times: int) -> None:
    with av.open(str(source)) as read:
        stream: Any = read.streams.video[0]
        packets = [(bytes(p), p.pts, p.dts, p.duration, p.is_keyframe) for p in read.demux(stream) if p.size]
        span = round(FRAMES / RATE / stream.time_base)
        with av.open(str(path), "w", format="mp4") as written:
            target = written.add_stream_from_template(stream)
            for turn in range(times):
                for data, pts, dts, duration, key in packets:
                    packet = av_packet(data)
                    packet.pts, packet.dts, packet.duration = pts + turn * span, dts + turn * span, duration
                    packet.time_base, packet.stream, packet.is_keyframe = stream.time_base, target, key
                    written.mux(packet)
