"""seqpipe on a local Ray: beside local processes and Ray's own reader of videos, its object store, and GPUs.

    python -m benchmarks.ray_data [rates] [--videos 300] [--rounds 2]    # two cores
    python -m benchmarks.ray_data store [--videos 40]                    # most that it holds, with a slow consumer
    python -m benchmarks.ray_data gpus [--videos 1000] [--rounds 2]      # two actors with a GPU each beside one

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
from collections.abc import Iterable
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
    parser.add_argument("job", nargs="?", choices=("rates", "store", "gpus"), default="rates")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_scale")
    parser.add_argument("--videos", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=4, help="of an actor with a GPU")
    parser.add_argument("--rank", type=int, help="used by this program itself")
    options = parser.parse_args(arguments)
    # Ray's workers yield to all other processes by default
    os.environ |= {"SEQPIPE_PROCESSES": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    count = options.videos or {"rates": 300, "store": 40, "gpus": 1000}[options.job]
    paths = media.named([media.small(options.folder, n) for n in range(3)], options.folder, count)
    if options.rank is not None:
        shard = _clips(paths, Clip(16, per_video=5), options.folder).shard(options.rank, 2)
        sys.stdout.write(f"{_rate(len(batch['image']) for batch in shard.batch(16))}")
        return
    machine = {"num_cpus": 2, "object_store_memory": _STORE_BYTES} if options.job != "gpus" else {}
    ray.init(include_dashboard=False, log_to_driver=False, **machine)
    ray.data.DataContext.get_current().enable_progress_bars = False
    {"rates": _rates, "store": _store, "gpus": _gpus}[options.job](paths, options)


def _rates(paths: list[Path], options: argparse.Namespace) -> None:
    clips = _clips(paths, Clip(16, per_video=5), options.folder)
    for _ in range(options.rounds):
        _say("clips, two local processes", sum(map(float, _two_processes(sys.argv[1:]))), "clips/s")
        _say("clips, two actors", _row_rate(seqpipe.ray.to_ray(clips, concurrency=2)), "clips/s")
    several = paths[: max(1, len(paths) // 5)]
    whole = _clips(several, Clip(30, step=30), options.folder)
    for _ in range(options.rounds):
        ours = 30 * _row_rate(seqpipe.ray.to_ray(whole, concurrency=2))
        _say("all frames, two actors", ours, "frames/s")
        rows = ray.data.read_videos([str(path) for path in several]).map_batches(_resized, batch_size=30)
        _say("all frames, read_videos and resize", _row_rate(rows, "frame"), "frames/s")


def _store(paths: list[Path], options: argparse.Namespace) -> None:
    """Take a block every half second, and tell the most that the object store held."""
    clips = _clips(paths, Clip(32, per_video=8), options.folder)
    most, size = 0.0, ray.cluster_resources()["object_store_memory"]
    rows = seqpipe.ray.to_ray(clips, concurrency=2)
    began, count = time.perf_counter(), 0
    for batch in rows.iter_batches(batch_size=None):
        count += len(batch["index"])
        for _ in range(5):
            time.sleep(0.1)
            most = max(most, size - ray.available_resources().get("object_store_memory", 0.0))
        if time.perf_counter() - began > 60:
            break
    _say(f"{count} of {clips.size} clips, the most that the object store held", most / size, "of its size")


def _gpus(paths: list[Path], options: argparse.Namespace) -> None:
    """Clips by actors with a GPU each; one GPU and two take turns."""
    clips = _clips(paths, Clip(16, stride=4, per_video=4), options.folder, device="cuda")
    best = {1: 0.0, 2: 0.0}
    for _ in range(options.rounds):
        for actors in best:
            rows = seqpipe.ray.to_ray(clips, concurrency=actors, num_gpus=1, num_cpus=options.cores)
            best[actors] = max(best[actors], 16 * _row_rate(rows))
    for actors, rate in best.items():
        _say(f"actors with a GPU: {actors}", rate, "frames/s")
    _say("two beside one", best[2] / best[1], "×")


def _clips(paths: list[Path], take: Clip, folder: Path, device: str = "cpu") -> Any:
    decode = Decode(threads=1 if device == "cpu" else None, cache_dir=str(folder / "cache"))
    return seqpipe.videos(paths, take, output=OutputSpec(size=_SIZE), decode=decode, device=device)


def _resized(batch: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {"frame": np.stack([cv2.resize(frame, _SIZE) for frame in batch["frame"]])}


def _row_rate(rows: Any, column: str = "index") -> float:
    return _rate(len(batch[column]) for batch in rows.iter_batches(batch_size=None))


def _rate(sizes: Iterable[int]) -> float:
    """Return the rate from the first to the last of some counts."""
    counts, times = [], []
    for size in sizes:
        counts.append(size)
        times.append(time.perf_counter())
    return sum(counts[1:]) / max(times[-1] - times[0], 1e-9)


def _two_processes(arguments: list[str]) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.ray_data", *arguments, "--rank"]
    running = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    return [process.communicate()[0] for process in running]


def _say(what: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{what}: {value:.2f} {unit}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
