"""Frames spread evenly over a video, written as JPEG.

    python examples/export_frames.py VIDEO DIR [--count 12]

The same from the command line: seqpipe export VIDEO --out DIR --num 12
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import simplejpeg

import seqpipe


def main() -> None:
    """Read the arguments, decode, write."""
    parser = argparse.ArgumentParser(description="Write frames spread evenly over a video.")
    parser.add_argument("video")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=12)
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    with seqpipe.open(options.video, output=seqpipe.OutputSpec(max_side=640)) as video:
        count = min(options.count, len(video))
        numbers = (np.arange(count) + 0.5) * len(video) / count
        # stream() decodes one frame at a time: memory does not grow with the count.
        for frame in video.stream(numbers.astype(int).tolist()):
            path = options.folder / f"{frame.frames[0]:06d}.jpg"
            path.write_bytes(simplejpeg.encode_jpeg(frame.numpy(), quality=90))
            print(f"{path}  {frame.timestamps[0]:.3f} s")


if __name__ == "__main__":
    main()
