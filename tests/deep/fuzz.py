"""Thousands of damaged files: the only exception is SeqpipeError, nothing crashes or hangs, and frames never vary.

    python -m tests.deep.fuzz [--kind videos|volumes|images|archives] [--seconds 1200 | --mutants 5000]
        [--device cuda] [--processes 1] [--files made|shared|all] [--match TEXT] [--first NUMBER] [--seed 0]

Mutants are made of the files of ``data_scripts`` and of the shared media; each is a function of the seed and its
number, so ``--first NUMBER --mutants 1`` makes one again. Each process is watched: one that dies, or takes more than
two minutes of CPU time for a mutant, is a fault, and another one goes on behind it. Prints counts;
ends with 1 at a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path

import av

from tests.support.fuzz import Verdict, mutant

__all__ = ["main"]

KINDS = {
    "videos": "tests.support.fuzz",
    "volumes": "tests.support.fuzz_volumes",
    "images": "tests.deep.fuzz_images",
    "archives": "tests.deep.fuzz_archives",
}
"""Kind of files → the module whose ``sources`` gives the files to damage, and whose ``tried`` reads a mutant."""

_LIMIT_S = 120  # of CPU time, which other programs on the machine do not change
_STILL_S = 1200  # by the clock, for a process that waits for ever
_LARGEST = 3 << 20
_REPORT_S = 30
_MOST_MIB = 4096


def main() -> int:
    """Run the mutants; returns the exit code."""
    options = _options()
    files = _files(options.kind, options.files, options.match)
    verdict, began, reported = Verdict(), time.monotonic(), time.monotonic()
    numbers = iter(range(options.first, options.first + options.mutants if options.mutants else 1 << 40))
    print(f"{len(files)} files, device {options.device}, seed {options.seed}", flush=True)
    workers = [_Worker(files, options) for _ in range(options.processes)]
    try:
        while (
            any(worker.number is not None for worker in workers) or time.monotonic() - began < options.seconds
        ):
            for worker in workers:
                if worker.number is None and time.monotonic() - began < options.seconds:
                    worker.begin(next(numbers, None))
            busy = [worker for worker in workers if worker.number is not None]
            if not busy:
                break
            wait([worker.pipe for worker in busy], timeout=1)
            for worker in busy:
                if finished := worker.finished():
                    verdict.add(finished)
                    print(*finished.faults, sep="\n", end="\n" * bool(finished.faults), flush=True)
            if time.monotonic() - reported > _REPORT_S:
                reported = time.monotonic()
                _say(verdict, began)
    finally:
        for worker in workers:
            worker.close()
    _say(verdict, began)
    return 1 if verdict.faults else 0


class _Worker:
    """A process that reads one mutant at a time."""

    def __init__(self, files: list[Path], options: argparse.Namespace) -> None:
        self._given, self.number = (files, options.device, options.seed, options.kind), None
        self._begin_process()

    def begin(self, number: int | None) -> None:
        """Try a mutant."""
        self.number, self._since, self._used_s = number, time.monotonic(), self._cpu_s()
        if number is not None:
            self.pipe.send(number)

    def finished(self) -> Verdict | None:
        """Return the outcome of the mutant once it is known; a process that died or hangs is replaced."""
        number, fault = self.number, ""
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll():
                self.number = None
                verdict: Verdict = self.pipe.recv()
                return verdict
            used_s, passed_s = self._cpu_s() - self._used_s, time.monotonic() - self._since
            if used_s < _LIMIT_S and passed_s < _STILL_S:
                return None
            fault = f"hangs: {used_s:.0f} s of CPU time, {passed_s:.0f} s by the clock"
            os.kill(self._process.pid or 0, signal.SIGUSR1)  # it prints where it is
            time.sleep(1)
        self._process.kill()
        self._process.join()
        fault = fault or f"ended its process with {self._process.exitcode}"
        self._begin_process()
        self.number = None
        subject = mutant(self._given[0], number or 0, self._given[2])
        return Verdict(faults=[f"{subject} {fault}"])

    def _cpu_s(self) -> float:
        """CPU time of the process, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _begin_process(self) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA survives no fork
        self.pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, *self._given), daemon=False)
        self._process.start()
        there.close()


def _serve(pipe: Connection, files: list[Path], device: str, seed: int, kind: str) -> None:
    tried = importlib.import_module(KINDS[kind]).tried
    av.logging.set_level(None)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(EOFError):
        while True:
            number: int = pipe.recv()
            verdict = tried(mutant(files, number, seed), Path(folder), device=device, seed=seed)
            verdict.counts["mutants"] += 1
            mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            if mib > _MOST_MIB:
                verdict.faults.append(f"the process of mutant {number} held {mib} MiB, more than {_MOST_MIB}")
            pipe.send(verdict)


def _files(kind: str, which: str, match: str) -> list[Path]:
    """Return the files to damage; missing ones of a manifest are counted and left out."""
    files = [path for path in importlib.import_module(KINDS[kind]).sources(which) if match in str(path)]
    here = [path for path in files if path.is_file()]
    if len(here) < len(files):
        print(f"{len(files) - len(here)} of {len(files)} files are not here, and are left out", flush=True)
    return [path for path in here if 0 < path.stat().st_size <= _LARGEST]


def _say(verdict: Verdict, began: float) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in verdict.counts.most_common() if count)
    errors = ", ".join(f"{count} {name}" for name, count in verdict.errors.most_common() if count)
    print(
        f"{time.monotonic() - began:.0f} s: {counts}; errors: {errors}; {len(verdict.faults)} faults",
        flush=True,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=list(KINDS), default="videos")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument(
        "--mutants", type=int, default=0, help="how many; by default as many as the time allows"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--files", choices=["made", "shared", "all"], default="all")
    parser.add_argument("--match", default="", help="only files whose path holds this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.seconds == float("inf") and not options.mutants:
        parser.error("say how long: --seconds or --mutants")
    return options


if __name__ == "__main__":
    sys.exit(main())
