"""What benchmarks share: sides that take turns, processes of their own, waiting for a device, tables and options."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "ROOT",
    "Spent",
    "add_choice",
    "ask_process",
    "gpu_number",
    "in_turns",
    "is_here",
    "least",
    "listed",
    "medians",
    "outcome",
    "parser_of",
    "print_table",
    "processor_s",
    "use_folder",
    "waiting_for",
]

ROOT = Path(__file__).resolve().parents[1]


class Spent(NamedTuple):
    """What a call took.

    Attributes:
        wall_ms: milliseconds by the clock.
        cpu_ms: of processor time, of this process and of those that it has waited for.
    """

    wall_ms: float
    cpu_ms: float


def processor_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def in_turns(
    sides: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    warm_up: int = 0,
    before: Callable[[], Any] = lambda: None,
    wait: Callable[[], Any] = lambda: None,
) -> dict[str, list[Spent]]:
    """What each call of each side took; sides take turns, so that other load affects all alike.

    Args:
        sides: calls by name.
        rounds: how often each is measured.
        warm_up: rounds before these, which do not count.
        before: called before each call, not measured.
        wait: waits for a device, before the clock is read.
    """
    spent: dict[str, list[Spent]] = {name: [] for name in sides}
    for number in range(warm_up + rounds):
        for name, call in sides.items():
            before()
            wait()
            cpu_s, begin = processor_s(), time.perf_counter()
            call()
            wait()
            taken = Spent(1e3 * (time.perf_counter() - begin), 1e3 * (processor_s() - cpu_s))
            spent[name] += [taken] if number >= warm_up else []
    return spent


def least(rounds: Iterable[Spent]) -> Spent:
    """The least of both times."""
    return Spent(*map(min, zip(*rounds, strict=True)))


def medians(rounds: Iterable[Spent]) -> Spent:
    """The medians of both times."""
    return Spent(*map(statistics.median, zip(*rounds, strict=True)))


def gpu_number(device: str) -> int:
    """The number of ``cuda:N``."""
    return int(device.partition(":")[2] or 0)


def waiting_for(device: str) -> Callable[[], Any]:
    """A function that waits for a device; for a CPU it does nothing."""
    if device == "cpu":
        return lambda: None
    cuda = importlib.import_module("cupy").cuda
    return cuda.Device(gpu_number(device)).synchronize  # type: ignore[no-any-return]  # CuPy is not typed


def is_here(module: str) -> bool:
    """Whether a library can be imported."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def ask_process(
    *words: str, limit_s: float, python: str = sys.executable, environment: dict[str, str] | None = None
) -> tuple[Any, str]:
    """Run ``python -m words``, and return the JSON of its last line and "", or None and why there is none."""
    command = [python, "-m", *words]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return None, f"does not end within {limit_s:g} s"
    return outcome(done.returncode, done.stdout, done.stderr)


def outcome(code: int, out: str, err: str) -> tuple[Any, str]:
    """The JSON of a process' last line, or the end of what it said when it failed."""
    if code:
        return None, " ".join([word for word in err.split() if word.strip("^~")][-60:])
    return json.loads(out.splitlines()[-1]), ""


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table, row by row as they come."""
    names = list(columns)
    for cells in itertools.chain([names, ["---"] * len(names)], rows):
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser that describes a benchmark by the first line of its module's docstring."""
    return argparse.ArgumentParser(description=(doc or "").partition("\n")[0])


def add_choice(parser: argparse.ArgumentParser, option: str, choices: Iterable[str]) -> None:
    """Add an option that chooses some of several; without it, all."""
    parser.add_argument(
        option, action="append", choices=list(choices), help="may be repeated; by default all"
    )


def use_folder(folder: Path) -> Path:
    """Make the folder of a benchmark's files, and keep indexes in it."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SEQPIPE_CACHE_DIR", str(folder / "cache"))
    return folder


def listed(paths: Iterable[object], file: Path) -> str:
    """Write a file of paths, one a line, for another process; returns its name."""
    file.write_text("\n".join(map(str, paths)))
    return str(file)
