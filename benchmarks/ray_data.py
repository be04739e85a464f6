"""seqpipe on a local Ray of two cores, beside local processes and Ray's own reader of videos.

    python -m benchmarks.ray_data [--videos 300] [--rounds 2]

Start-up is left out: rates are those from the first to the last batch. H.264 of 340×256, 300 frames, a key frame every
250 at least.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import ray

import seqpipe
import seqpipe.ray
from benchmarks import media
from seqpipe import Clip, Decode, OutputSpec

__all__ = ["main"]

_SIZE = (112, 112)
_STORE_BYTES = 200 * 2**20


def main(arguments: list[str]) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ray_data", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_scale")
    parser.add_argument("--videos", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rank", type=int, help="used by this program itself")
    options = parser.parse_args(arguments)
    # Ray's workers yield to all other processes by default
    os.environ |= {"SEQPIPE_PROCESSES": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    paths = media.named([media.small(options.folder, n) for n in range(3)], options.folder, options.videos)
    clips = _clips(paths, Clip(16, per_video=5), options.folder)
    if options.rank is not None:
        _rate((len(batch["image"]) for batch in clips.shard(options.rank, 2).batch(16)), sys.stdout.write)
        return
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=_STORE_BYTES, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    for _ in range(options.rounds):
        _say("clips, two local processes", sum(map(float, _two_processes(sys.argv[1:]))), "clips/s")
        rows = seqpipe.ray.to_ray(clips, concurrency=2)
        _rate(_sizes(rows, "index"), lambda told: _say("clips, two actors", float(told), "clips/s"))
    several = paths[: max(1, len(paths) // 5)]
    whole = _clips(several, Clip(30, step=30), options.folder)
    for _ in range(options.rounds):
        rows = seqpipe.ray.to_ray(whole, concurrency=2)
        _rate(
            (30 * size for size in _sizes(rows, "index")),
            lambda told: _say("all frames, two actors", float(told), "frames/s"),
        )
        rows = ray.data.read_videos([str(path) for path in several]).map_batches(_resized, batch_size=30)
        _rate(
            _sizes(rows, "frame"),
            lambda told: _say("all frames, read_videos and resize", float(told), "frames/s"),
        )
    _slow_consumer(seqpipe.ray.to_ray(_clips(paths, Clip(32, per_video=5), options.folder), concurrency=2))


def _clips(paths: list[Path], take: Clip, folder: Path) -> Any:
    decode = Decode(threads=1, cache_dir=str(folder / "cache"))
    return seqpipe.videos(paths, take, output=OutputSpec(size=_SIZE), decode=decode)


def _resized(batch: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {"frame": np.stack([cv2.resize(frame, _SIZE) for frame in batch["frame"]])}


def _sizes(rows: Any, column: str) -> Iterable[int]:
    return (len(batch[column]) for batch in rows.iter_batches(batch_size=None))


def _rate(sizes: Iterable[int], tell: Callable[[str], Any]) -> None:
    counts, times = [], []
    for size in sizes:
        counts.append(size)
        times.append(time.perf_counter())
    tell(f"{sum(counts[1:]) / max(times[-1] - times[0], 1e-9):.2f}")


def _two_processes(arguments: list[str]) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.ray_data", *arguments, "--rank"]
    running = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    return [process.communicate()[0] for process in running]


def _slow_consumer(rows: Any) -> None:
    """Take a block every half second, and tell the most that the object store held."""
    most, size = 0.0, ray.cluster_resources()["object_store_memory"]
    for number, _ in enumerate(rows.iter_batches(batch_size=None)):
        for _ in range(5):
            time.sleep(0.1)
            most = max(most, size - ray.available_resources().get("object_store_memory", 0.0))
        if number >= 40:
            break
    _say("peak of the object store with a slow consumer", most / size, "of its size")


def _say(what: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{what}: {value:.2f} {unit}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
