"""Make a small data set of motion: folders left, right, up and down, of videos whose picture slides that way.

    python data_scripts/make_motion.py --out DIR [--videos 8]

A single frame does not tell the class: textures and speeds are the same in all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seqpipe.core.whole_file import replacing

__all__ = ["DIRECTIONS", "make_motion"]

DIRECTIONS = {"down": (0, 1), "left": (-1, 0), "right": (1, 0), "up": (0, -1)}
"""How the picture of each class moves: x to the right, y down."""

_SIZE, _FRAMES, _RATE = (96, 128), 25, 25


def make_motion(out: Path, videos: int = 8) -> list[Path]:
    """Write the data set.

    Args:
        out: takes a folder for each class.
        videos: how many each class has.

    Returns:
        The files.
    """
    made = []
    for name, (x, y) in DIRECTIONS.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        for number in range(videos):
            speed = 1 + number % 3  # pixels a frame
            path = out / name / f"{number:03d}.mp4"
            _write(path, _texture(number), (x * speed, y * speed))
            made.append(path)
    return made


def _texture(seed: int) -> NDArray[np.uint8]:
    """A colored picture that repeats in both directions."""
    rng = np.random.default_rng(seed)
    noise = np.pad(rng.standard_normal((*_SIZE, 3)), ((32, 32), (32, 32), (0, 0)), mode="wrap")
    smooth = sum(cv2.GaussianBlur(noise, (0, 0), sigma) * sigma for sigma in (1.5, 4.0))[32:-32, 32:-32]
    return np.clip(128 + 50 * smooth / smooth.std(), 0, 255).astype(np.uint8)


def _write(path: Path, picture: NDArray[np.uint8], step: tuple[int, int]) -> None:
    with replacing(path) as part, av.open(str(part), "w") as container:
        stream = container.add_stream("libx264", rate=_RATE, options={"crf": "18"})
        stream.width, stream.height, stream.pix_fmt = _SIZE[1], _SIZE[0], "yuv420p"
        stream.time_base = Fraction(1, _RATE)
        for number in range(_FRAMES):
            moved = np.roll(picture, (step[1] * number, step[0] * number), axis=(0, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        container.mux(stream.encode(None))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="make the set in this folder")
    parser.add_argument("--videos", type=int, default=8, help="videos of each class")
    given = parser.parse_args(arguments)
    print(f"{len(make_motion(given.out, given.videos))} files in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
