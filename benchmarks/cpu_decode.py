"""Decoding rates of seqpipe and of other libraries on the CPU, measured in the same run.

    python benchmarks/cpu_decode.py [--job NAME]… [--threads 1,2] [--repeat 5] [--media DIR] [--json]

It makes its videos (a quarter of an hour, once), has every contestant show that it reads the same frames, then runs
them turn by turn, each in a process of its own, and prints one table of medians. It ends with 1 if a job misses its
target. Peers that are not installed are named and left out; ``benchmarks/RESULTS.md`` says how to install
them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.jobs import RACES, Race  # noqa: E402  run as a script, the checkout is not on the path before
from benchmarks.process_jobs import Figure, memory, startup  # noqa: E402  as above
from benchmarks.rounds import Arena, Runs, compare_frames  # noqa: E402  as above

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

_JOBS = (*RACES, "startup", "memory")


def main() -> int:
    """Run the selected jobs; returns the exit code."""
    options = _options()
    folder: Path = options.media
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["SEQPIPE_CACHE_DIR"] = str(folder / "cache")
    rows: list[dict[str, Any]] = []
    for row in _results(options, folder):
        rows.append(row)
        print(_line(row), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"machine": _machine(), "rows": rows}, indent=1))
    return 0 if all(row["pass"] in (True, None) for row in rows) else 1


def _results(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    print(f"{_machine()}, {options.repeat} rounds", file=sys.stderr)
    names = [name for name in options.job if name in RACES]
    if names:
        with Arena(
            ("seqpipe", *dict.fromkeys(peer for name in names for peer in RACES[name].peers)), folder
        ) as arena:
            print(", ".join(f"{what} {version}" for what, version in arena.versions.items()), file=sys.stderr)
            for name, why in arena.absent.items():
                print(f"{name} does not run here: {why}", file=sys.stderr)
            for name in names:
                for threads in options.threads:
                    yield _raced(arena, name, RACES[name], threads, folder, options.repeat)
    if "startup" in options.job:
        yield from map(_measured, startup(folder, options.repeat))
    if "memory" in options.job:
        yield from map(_measured, memory(folder))


def _raced(arena: Arena, name: str, race: Race, threads: int, folder: Path, repeat: int) -> dict[str, Any]:
    task = race.make(folder, threads)
    names = ("seqpipe", *race.peers)
    apart = compare_frames(arena, task, names)
    runs = arena.race(task, names, repeat)
    best = {}
    for run in sorted(runs, key=lambda run: -run.median_s):
        best[run.name] = run
    ours = best.pop("seqpipe")
    ratios = {peer: run.median_s / ours.median_s for peer, run in best.items()}
    ratio = min(ratios.values()) if ratios else None
    return {
        "job": f"{race.title}, {threads} thread{'s' * (threads > 1)}",
        "name": name,
        "ours": _said(ours),
        "peers": {
            peer: _said(run) | {"ratio": ratios[peer], "apart": apart[peer]} for peer, run in best.items()
        },
        "all": [_said(run) for run in runs],
        "ratio": ratio,
        "required": race.required,
        "pass": None if ratio is None or not race.required else ratio >= race.required,
    }


def _said(run: Runs) -> dict[str, Any]:
    return {
        "variant": run.variant,
        "median_s": run.median_s,
        "min_s": min(run.wall_s),
        "min_cpu_s": min(run.cpu_s),
        "frames_per_s": run.frames / run.median_s,
    }


def _measured(figure: Figure) -> dict[str, Any]:
    return {
        "job": figure.title,
        "value": figure.value,
        "unit": figure.unit,
        "allowed": figure.allowed,
        "note": figure.note,
        "pass": figure.passed,
    }


def _line(row: dict[str, Any]) -> str:
    """A row of a Markdown table."""
    passed = {True: "yes", False: "**no**", None: "–"}[row["pass"]]
    if "value" in row:
        note = f" ({row['note']})" if row["note"] else ""
        value, allowed = f"{row['value']:.4g} {row['unit']}", f"{row['allowed']:g} {row['unit']}"
        return f"| {row['job']}{note} | {value} | | | ≤ {allowed} | {passed} |"
    peers = "; ".join(f"{name} ({run['variant']}) {_times(run)}" for name, run in row["peers"].items())
    ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
    cpu = min((run["min_cpu_s"] for run in row["peers"].values()), default=0) / row["ours"]["min_cpu_s"]
    required = f"≥ {row['required']:g}" if row["required"] else "–"
    return f"| {row['job']} | {_times(row['ours'])} | {peers} | {ratio} (cpu {cpu:.2f}) | {required} | {passed} |"


def _times(run: dict[str, Any]) -> str:
    return f"{run['median_s']:.2f} s (min {run['min_s']:.2f}, {run['frames_per_s']:.0f} frames/s)"


def _machine() -> str:
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return f"{now}, {models[0]}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--job", action="append", choices=_JOBS, help="may be repeated; all by default")
    parser.add_argument("--threads", default="1,2", help="budgets of threads to compare at")
    parser.add_argument("--repeat", type=int, default=5, help="rounds that count, after one that does not")
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqpipe-bench"
    parser.add_argument("--media", type=Path, default=default, help="where the videos are made and kept")
    parser.add_argument("--json", action="store_true", help="everything that was measured, on stdout")
    options = parser.parse_args()
    options.job = options.job or list(_JOBS)
    options.threads = [int(number) for number in options.threads.split(",")]
    return options


if __name__ == "__main__":
    sys.exit(main())
