"""Rate of ``seqpipe export`` to JPEG, encoded on the CPU and on the GPU; wall-clock time of the whole command.

    python -m benchmarks.gpu_export --large VIDEO... [--job NAME]... [--encoder NAME]... [--folder /dev/shm/export]

``--large`` are 1080p videos of 300 frames or more; each is linked until there are 16 of them. Every encoder runs in a
process of its own, once to warm up and once that counts, with all indexes cached. Files are written to ``--folder``,
and removed again; with a folder in memory it is not the disk that is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]

_FRAMES, _FILES = 300, 16
_ROOT = Path(__file__).resolve().parents[1]

# for each job: what it is called in the table, how many files, and options
JOBS = {
    "many": ("16 videos, 75 frames of each", _FILES, ("--end", "75f")),
    "one": ("1 video, 300 frames", 1, ("--end", f"{_FRAMES}f")),
    "small": (
        "16 videos, 300 frames of each, to 256 rows",
        _FILES,
        ("--end", f"{_FRAMES}f", "--short-side", "256"),
    ),
}
ENCODERS = {
    "cpu": ("CPU; simplejpeg", ("--device", "cpu")),
    "cores": ("GPU; simplejpeg", ("--device", "cuda", "--encode", "cpu")),
    "gpu": ("GPU; nvImageCodec", ("--device", "cuda", "--encode", "gpu")),
}


def _measure(job: str, encoder: str, options: argparse.Namespace) -> None:
    """Export twice, and print the rates as JSON."""
    from seqpipe.cli import main as seqpipe

    _, count, chosen = JOBS[job]
    out = options.folder / "out"
    videos = [str(path) for path in sorted((options.folder / "videos").glob("*.mp4"))[:count]]
    seconds = []
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        begin = time.perf_counter()
        arguments = [
            "export",
            *videos,
            "--out",
            str(out),
            *chosen,
            *ENCODERS[encoder][1],
            "--quality",
            str(options.quality),
        ]
        code = seqpipe(arguments, standalone_mode=False)
        seconds.append(time.perf_counter() - begin)
        if code:
            sys.exit(f"seqpipe export ends with {code}")
    sizes = [path.stat().st_size for path in out.rglob("*.jpg")]
    shutil.rmtree(out)
    print(json.dumps({"first": seconds[0], "seconds": seconds[1], "files": len(sizes), "bytes": sum(sizes)}))


def _run(job: str, encoder: str) -> dict[str, float] | str:
    """Measure in a process of its own; returns the figures, or the reason of a failure."""
    command = [sys.executable, "-m", "benchmarks.gpu_export", *sys.argv[1:], "--measure", job, encoder]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return "does not end within 180 s"
    if done.returncode:
        return " ".join(done.stderr.split()[-40:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _link(options: argparse.Namespace) -> None:
    """Link the videos under distinct names."""
    videos = options.folder / "videos"
    shutil.rmtree(videos, ignore_errors=True)
    videos.mkdir(parents=True)
    for index in range(_FILES):
        (videos / f"{index:02d}.mp4").symlink_to(options.large[index % len(options.large)].resolve())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--large", nargs="+", type=Path, required=True, help="1080p videos")
    parser.add_argument("--job", action="append", choices=list(JOBS), help="may be repeated; by default all")
    parser.add_argument(
        "--encoder", action="append", choices=list(ENCODERS), help="may be repeated; by default all"
    )
    parser.add_argument("--quality", type=int, default=90)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/gpu_export"), help="for the files")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("SEQPIPE_CACHE_DIR", str(options.folder / "cache"))
    return options


def main() -> int:
    """Measure each encoder for each job."""
    options = _options()
    if options.measure:
        job, encoder = options.measure
        _measure(job, encoder, options)
        return 0
    _link(options)
    print("| export of 1080p to JPEG | on | frames/s | first time, s | KB a file |\n|---|---|---|---|---|")
    for job in options.job or JOBS:
        for encoder in options.encoder or ENCODERS:
            result = _run(job, encoder)
            if isinstance(result, str):
                print(f"{job}, {encoder}: {result}", file=sys.stderr)
                continue
            rate, size = result["files"] / result["seconds"], result["bytes"] / result["files"] / 1000
            row = (JOBS[job][0], ENCODERS[encoder][0], f"{rate:.0f}", f"{result['first']:.1f}", f"{size:.0f}")
            print(f"| {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
