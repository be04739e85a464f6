"""JPEG encoding of frames in GPU memory: by the CPU's cores, and by nvImageCodec on the GPU.

    python -m benchmarks.gpu_jpeg [--frames 512] [--quality 90]

Frames are 1080p, RGB, in the GPU's memory, a moving gradient with noise; a result is the bytes of a file in main
memory. The cores get their frames by a copy for each, as export does it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from benchmarks.frame import parser_of, print_table

__all__ = ["main"]

_SHAPE = (1080, 1920, 3)
_DISTINCT = 16
_BATCH = 32

Encoder = Callable[[list[Any], int], Iterable[int]]
"""Frames on the GPU and a quality in; the length of each file out."""


def _frames() -> list[Any]:
    import cupy

    random = np.random.Generator(np.random.Philox(1))
    rows, columns, _ = np.indices(_SHAPE)
    base = (rows + 2 * columns) % 256
    noise = random.integers(0, 24, (_DISTINCT, *_SHAPE))
    return [cupy.asarray(((base + 5 * i) // 2 + noise[i]).astype(np.uint8)) for i in range(_DISTINCT)]


def _by_cores(threads: int) -> Encoder:
    import simplejpeg

    def one(frame: Any, quality: int) -> int:
        return len(simplejpeg.encode_jpeg(frame.get(), quality=quality, colorsubsampling="420"))

    def encode(frames: list[Any], quality: int) -> Iterable[int]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(partial(one, quality=quality), frames)

    return encode


def _by_gpu() -> Encoder:
    from nvidia import nvimgcodec

    encoder = nvimgcodec.Encoder()

    def encode(frames: list[Any], quality: int) -> Iterable[int]:
        params = nvimgcodec.EncodeParams(
            quality_type=nvimgcodec.QualityType.QUALITY,
            quality_value=quality,
            chroma_subsampling=nvimgcodec.ChromaSubsampling.CSS_420,
        )
        for begin in range(0, len(frames), _BATCH):
            images = [nvimgcodec.as_image(frame) for frame in frames[begin : begin + _BATCH]]
            for coded in encoder.encode(images, "jpeg", params=params):
                yield int(coded.size)

    return encode


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--frames", type=int, default=512)
    parser.add_argument("--quality", type=int, default=90)
    options = parser.parse_args()
    columns = ("1080p RGB in the GPU's memory to JPEG", "frames/s", "KB a file")
    print_table(columns, _rows(options.frames, options.quality))


def _rows(count: int, quality: int) -> Iterator[tuple[str, str, str]]:
    """Time each encoder after one batch of warm-up."""
    distinct = _frames()
    frames = [distinct[i % _DISTINCT] for i in range(count)]
    encoders: dict[str, Callable[[], Encoder]] = {
        "simplejpeg, 1 thread": partial(_by_cores, 1),
        "simplejpeg, 16 threads": partial(_by_cores, 16),
        "nvImageCodec": _by_gpu,
    }
    for name, make in encoders.items():
        try:
            encode = make()
            list(encode(frames[:_BATCH], quality))
            begin = time.perf_counter()
            sizes = list(encode(frames, quality))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        rate = len(sizes) / (time.perf_counter() - begin)
        yield name, f"{rate:.0f}", f"{np.mean(sizes) / 1000:.0f}"


if __name__ == "__main__":
    main()
