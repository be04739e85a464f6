"""Rate of ``seqpipe export`` to JPEG, encoded on the CPU and on the GPU; wall-clock time of the whole command.

    python -m benchmarks.gpu_export --large VIDEO... [--job NAME]... [--encoder NAME]... [--folder /dev/shm/export]

``--large`` are 1080p videos of 300 frames or more; each is linked until there are 16 of them. Every encoder runs in a
process of its own, once to warm up and once that counts, with all indexes cached. Files are written to ``--folder``,
and removed again; with a folder in memory it is not the disk that is measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.frame import add_choice, ask_process, parser_of, print_table, use_folder

__all__ = ["main"]

_FRAMES, _FILES = 300, 16

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
    given = (*chosen, *ENCODERS[encoder][1], "--quality", str(options.quality))
    seconds = []
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        begin = time.perf_counter()
        code = seqpipe(["export", *videos, "--out", str(out), *given], standalone_mode=False)
        seconds.append(time.perf_counter() - begin)
        if code:
            sys.exit(f"seqpipe export ends with {code}")
    sizes = [path.stat().st_size for path in out.rglob("*.jpg")]
    shutil.rmtree(out)
    print(json.dumps({"first": seconds[0], "seconds": seconds[1], "files": len(sizes), "bytes": sum(sizes)}))


def _link(options: argparse.Namespace) -> None:
    """Link the videos under distinct names."""
    videos = options.folder / "videos"
    shutil.rmtree(videos, ignore_errors=True)
    videos.mkdir(parents=True)
    for index in range(_FILES):
        (videos / f"{index:02d}.mp4").symlink_to(options.large[index % len(options.large)].resolve())


def _rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Measure each encoder for each job, in processes of their own."""
    for job in options.job or JOBS:
        for encoder in options.encoder or ENCODERS:
            words = (*sys.argv[1:], "--measure", job, encoder)
            result, why = ask_process("benchmarks.gpu_export", *words, limit_s=180)
            if result is None:
                print(f"{job}, {encoder}: {why}", file=sys.stderr)
                continue
            rate, size = result["files"] / result["seconds"], result["bytes"] / result["files"] / 1000
            yield JOBS[job][0], ENCODERS[encoder][0], f"{rate:.0f}", f"{result['first']:.1f}", f"{size:.0f}"


def main() -> None:
    """Print the table, or run as the process of one encoder."""
    parser = parser_of(__doc__)
    parser.add_argument("--large", nargs="+", type=Path, required=True, help="1080p videos")
    add_choice(parser, "--job", JOBS)
    add_choice(parser, "--encoder", ENCODERS)
    parser.add_argument("--quality", type=int, default=90)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/gpu_export"), help="for the files")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_folder(options.folder)
    if options.measure:
        _measure(*options.measure, options)
        return
    _link(options)
    columns = ("export of 1080p to JPEG", "on", "frames/s", "first time, s", "KB a file")
    print_table(columns, _rows(options))


if __name__ == "__main__":
    main()
