"""A hundred thousand requests of every kind, without a wrong frame, an error, or growing memory.

    python -m tests.deep.stress [--requests 100000] [--files 80] [--device cuda] [--decode auto] [--seconds LIMIT]

Random, strided, repeated and backward requests over the made files of ``data_scripts``, all codecs and sizes mixed,
through engines, readers and datasets, from many threads of some processes at once. What each of these askers asks for
depends on the seed and its number alone. Every picture is held against the CPU's, or by the number that it shows.
Prints the rate and what the processes hold; ends with 1 at a wrong frame, an error, or growth.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import get_args

from seqpipe.video.device import DecodeChoice
from seqpipe.video.engine.engine import available_cores
from tests.deep.crowd import Crowd

__all__ = ["main"]

_PARTS = 40
# of the requests or of the time, whichever comes first: until each process has met all files in all sizes
_WARM_UP, _WARM_UP_TIME = 0.2, 0.5
# the lock of Python keeps a process to a core or two, beside which there is some decoding
_CORES_OF_A_PROCESS = 4
_ASKERS = 16


def main() -> int:
    """Run the requests; returns the exit code."""
    options = _options()
    until = time.monotonic() + (options.seconds or float("inf"))
    chosen = {name: getattr(options, name) for name in ("device", "decode", "seed")}
    chosen["threads"] = options.threads or max(1, available_cores() // options.processes)
    with Crowd(options.processes, options.askers, options.files, **chosen) as crowd:
        print(f"{len(crowd.refused)} files refused: {', '.join(crowd.refused)}")
        _run(crowd, options, until)
        print("decoded in batches:", crowd.decoded)
        wrong = [*crowd.faults, *crowd.growth()]
    print(*wrong, sep="\n")
    done = "all" if crowd.requests >= options.requests else f"of {options.requests}"
    print(f"{crowd.requests} requests ({done}), {crowd.frames} frames, {len(wrong)} faults")
    return 1 if wrong else 0


def _run(crowd: Crowd, options: argparse.Namespace, until: float) -> None:
    """Run all requests, and sample the memory after each part behind the warm-up."""
    began = time.monotonic()
    span = until - began
    while crowd.requests < options.requests and time.monotonic() < until and not crowd.faults:
        passed = crowd.run(-(-options.requests // _PARTS), until=min(until, time.monotonic() + span / _PARTS))
        spent = time.monotonic() - began
        warm = crowd.requests > _WARM_UP * options.requests or spent > _WARM_UP_TIME * span
        if warm:
            crowd.sample()
        rates = f"{crowd.requests / spent:.0f} requests/s, {crowd.frames / spent:.0f} frames/s"
        print(
            f"{spent:5.0f} s, {crowd.requests} requests, {rates}; {passed}{'' if warm else ' (warm-up)'}",
            flush=True,
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=80, help="how many of the made files; 0 for all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decode", default="auto", choices=get_args(DecodeChoice))
    parser.add_argument("--processes", type=int, default=max(1, available_cores() // _CORES_OF_A_PROCESS))
    parser.add_argument(
        "--askers", type=int, default=_ASKERS, help="threads that ask, in all processes together"
    )
    parser.add_argument("--threads", type=int, help="of the CPU, that decode, in each process")
    parser.add_argument("--seconds", type=float, help="end after so many, however many requests are left")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
