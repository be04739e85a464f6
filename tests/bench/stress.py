"""A hundred thousand requests of every kind: none may give a wrong frame or an error, and nothing may grow.

    python -m tests.bench.stress [--requests 100000] [--files 80] [--device cuda] [--decode auto] [--seconds LIMIT]

Random, strided, repeated and backward requests over the made files of ``data_scripts``, all codecs and sizes mixed,
through the engine, readers and datasets. Every picture is held against the CPU's, or by the number that it shows.
Prints the rate and what the process holds; ends with 1 at a wrong frame, an error, or growth.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import get_args

from seqpipe.video.device import Decode
from tests.support.memory import LIMITS, Usage, growth, usage
from tests.support.stress import Stress
from tests.support.truth import known_files

__all__ = ["main"]

_PARTS, _WARM_UP = 40, 0.2


def main() -> int:
    """Run it; returns the exit code."""
    options = _options()
    until = time.monotonic() + (options.seconds or float("inf"))
    files = known_files(options.files)
    with Stress(
        files, device=options.device, decode=options.decode, threads=options.threads, seed=options.seed
    ) as stress:
        print(f"{len(files)} files, {len(stress.refused)} refused: {', '.join(map(str, stress.refused))}")
        samples = _run(stress, options, until)
        print(stress.stats())
    wrong = [*stress.faults, *growth(samples, LIMITS)]
    if not samples:
        wrong.append("it did not get beyond its warm-up: allow more seconds")
    print(*wrong, sep="\n")
    done = "all" if stress.requests >= options.requests else f"of {options.requests}"
    print(f"{stress.requests} requests ({done}), {stress.frames} frames, {len(wrong)} faults")
    return 1 if wrong else 0


def _run(stress: Stress, options: argparse.Namespace, until: float) -> list[Usage]:
    """Go through all requests; returns what was held after each part, without those of the warm-up."""
    began = time.monotonic()
    samples: list[Usage] = []
    span = until - began
    while stress.requests < options.requests and time.monotonic() < until and not stress.faults:
        stress.run(-(-options.requests // _PARTS), until=min(until, time.monotonic() + span / _PARTS))
        now, spent = usage(options.device), time.monotonic() - began
        warm = stress.requests > _WARM_UP * options.requests or spent > _WARM_UP * span
        samples += [now] if warm else []
        rates = f"{stress.requests / spent:.0f} requests/s, {stress.frames / spent:.0f} frames/s"
        print(
            f"{spent:5.0f} s, {stress.requests} requests, {rates}; {now}{'' if warm else ' (warm-up)'}",
            flush=True,
        )
    return samples


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=80, help="how many of the made files; 0 for all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decode", default="auto", choices=get_args(Decode))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, help="end after so many, however many requests are left")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
