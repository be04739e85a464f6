"""Random access by time: the frames on screen at given times, with their exact timestamps.

python examples/frames_at_times.py VIDEO SECONDS [SECONDS …]
"""

from __future__ import annotations

import argparse
import sys

import seqpipe


def main() -> int:
    """Print the frame at each time; returns the exit code."""
    parser = argparse.ArgumentParser(description="Tell which frames are on screen at given times.")
    parser.add_argument("video")
    parser.add_argument("seconds", type=float, nargs="+", help="on the stream's own clock")
    options = parser.parse_args()
    try:
        with seqpipe.open(options.video) as video:
            shown = video.at(options.seconds)
    except seqpipe.SeqpipeError as error:
        print(error, file=sys.stderr)  # names the source, the fact, and the allowed values
        return 1
    for requested, number, came, pixels in zip(
        options.seconds, shown.frames, shown.timestamps, shown.data, strict=True
    ):
        print(f"{requested:9.3f} s: frame {number} (on since {came:.3f} s), mean level {pixels.mean():.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
