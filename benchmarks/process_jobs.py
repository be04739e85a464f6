"""Jobs of a whole process: start of a large dataset, and memory of a long export."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import media
from benchmarks.rounds import ROOT

__all__ = ["Figure", "memory", "startup"]

_FILES = 10_000
_START = """
import json, resource, sys, time
files = open(sys.argv[1]).read().splitlines()
import seqpipe
from seqpipe import Clip, Decode, videos
before = time.perf_counter()
dataset = videos(files, Clip(8, stride=2), decode=Decode(cache_dir=sys.argv[2]), shuffle=True)
length = len(dataset)
print(json.dumps([time.perf_counter() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, length]))
"""


@dataclass(frozen=True)
class Figure:
    """A measured value and its limit."""

    title: str
    value: float
    unit: str
    allowed: float
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.value <= self.allowed


def startup(folder: Path, repeat: int) -> list[Figure]:
    """A reader over ten thousand indexed files: seconds until it knows its length, and the process' peak memory."""
    files, cache = media.many(folder, _FILES), folder / "cache"
    subprocess.run(
        [_seqpipe(), "index", str(files[0].parents[1]), "--cache-dir", str(cache)],
        check=True,
        capture_output=True,
    )
    names = folder / "many.txt"
    names.write_text("\n".join(map(str, files)))
    command = [sys.executable, "-c", _START, str(names), str(cache)]
    answers = [json.loads(_output(command)) for _ in range(repeat + 1)][1:]
    seconds, peaks, lengths = zip(*answers, strict=True)
    note = f"{lengths[0]:,} sequences; fastest {min(seconds):.2f} s"
    return [
        Figure("reader over 10,000 indexed files: ready after", median(seconds), "s", 2.0, note),
        Figure("its process' peak memory", max(peaks), "MB", 200.0),
    ]


def memory(folder: Path) -> list[Figure]:
    """Export of one hour of 1080p: the peak, and how much more the second half takes than the first."""
    video = media.hour(folder)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [_seqpipe(), "export", str(video), "--out", out, "--every", "150", "--size", "320x180"]
        samples, seconds = _resident([*command, "--cache-dir", str(folder / "cache")])
        written = sum(1 for _ in Path(out).rglob("*.jpg"))
    half = len(samples) // 2
    note = f"{written} frames written in {seconds:.0f} s, {len(samples)} samples"
    return [
        Figure("export of 1 hour of 1080p: peak memory", max(samples), "MB", 600.0, note),
        Figure(
            "peak of its second half over its first", max(samples[half:]) / max(samples[:half]), "×", 1.05
        ),
    ]


def _resident(command: list[str]) -> tuple[list[float], float]:
    """Resident megabytes of a process every tenth of a second, and how long it took."""
    begun = time.perf_counter()
    samples = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            if "VmRSS" in lines:
                samples.append(int(lines["VmRSS"].split()[0]) / 1024)
            time.sleep(0.1)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return samples, time.perf_counter() - begun


def _output(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _seqpipe() -> str:
    return str(Path(sys.executable).with_name("seqpipe"))
