"""Decoding on several GPUs of a host: a process for each and one process for all, beside one GPU alone.

    python -m benchmarks.gpus [--size small | --size large] [--gpus N] [--seconds 10]
    torchrun --nproc-per-node N -m benchmarks.gpus        # prints one line, by the first rank

Random windows of 16 frames of 340×256 with stride 4, or of 32 frames of 1080p with stride 5; videos are made once. Each
GPU reads its own shard of one data set, on its own equal share of the cores (the first GPU alone: on the first share),
and warms up until all do. Told are frames a second, the share of what as many single GPUs would give, and what each
GPU takes of the host: cores, and switches of threads a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np

import seqpipe
from benchmarks import media
from seqpipe import Clip, Decode

__all__ = ["main"]

_WARM_S = 4.0
_FILES = {"small": 384, "large": 96}
_TAKES = {"small": Clip(16, stride=4, per_video=8), "large": Clip(32, stride=5, per_video=2)}
_BATCHES = {"small": 32, "large": 8}


def main(arguments: list[str]) -> None:
    """Measure all contestants; or be one of their processes, or a rank of torchrun."""
    options = _options(arguments)
    if "LOCAL_RANK" in os.environ:
        _torchrun(options)
    elif options.gpu is not None:
        _share_cores(options.gpu, options.gpus)
        loop = _Loop(options, options.gpu)
        sys.stdout.write("\n")
        sys.stdout.flush()
        sys.stdin.readline()  # all are warm
        sys.stdout.write(json.dumps(loop.measured()))
    elif options.together:
        sys.stdout.write(json.dumps(_threads(options)))
    else:
        _videos(options)  # made before anything is measured
        alone = _processes(options, [0])
        _tell("one GPU alone", [alone[0]], alone[0])
        _tell("a process for each GPU", _processes(options, range(options.gpus)), alone[0])
        done = subprocess.run([*_command(options), "--together"], stdout=subprocess.PIPE, check=True)
        _tell("one process for all", json.loads(done.stdout), alone[0])


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpus", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_gpus")
    parser.add_argument("--size", choices=tuple(_TAKES), default="small")
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--device", default="cuda", help="cpu shows that it runs")
    parser.add_argument("--gpu", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--together", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.gpus is None:
        told = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=True).stdout
        options.gpus = len(told.splitlines())
    return options


def _videos(options: argparse.Namespace) -> list[Path]:
    small = options.size == "small"
    made = [
        media.small(options.folder, n) if small else media.large(options.folder, n, key_every=30)
        for n in range(3 if small else 1)
    ]
    return media.named(made, options.folder, _FILES[options.size])


class _Loop:
    """The feed of one GPU, warm."""

    def __init__(self, options: argparse.Namespace, gpu: int) -> None:
        self._seconds = options.seconds
        self._gpu = None if options.device == "cpu" else gpu
        dataset = seqpipe.videos(
            _videos(options),
            _TAKES[options.size],
            shuffle=True,
            device="cpu" if self._gpu is None else f"cuda:{gpu}",
            decode=Decode(cache_dir=str(options.folder / "cache")),
        )
        self._batches = dataset.shard(gpu, options.gpus).batch(_BATCHES[options.size]).epochs(10_000)
        self._left: Any = iter(())
        self._run(_WARM_S)

    def measured(self) -> dict[str, float]:
        """Return frames, and what they took, of a number of seconds."""
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        frames = self._run(self._seconds)
        wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
        return {"rate": frames / wall_s, "cores": cpu_s / wall_s, "switches": switches / wall_s}

    def _run(self, seconds: float) -> int:
        frames, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            for batch in self._left:
                frames += int(np.prod(batch["image"].shape[:-3]))
                if time.perf_counter() >= until:
                    break
            else:
                self._left = iter(next(self._batches))
        if self._gpu is not None:
            import cupy

            cupy.cuda.Device(self._gpu).synchronize()
        return frames


def _share_cores(gpu: int, gpus: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    size = max(1, len(cores) // gpus)
    os.sched_setaffinity(0, cores[gpu * size :][:size] or cores)


def _command(options: argparse.Namespace) -> list[str]:
    names = ("folder", "size", "gpus", "seconds", "device")
    given = [text for name in names for text in (f"--{name}", str(getattr(options, name)))]
    return [sys.executable, "-m", "benchmarks.gpus", *given]


def _processes(options: argparse.Namespace, gpus: Any) -> list[dict[str, float]]:
    running = [
        subprocess.Popen(
            [*_command(options), "--gpu", str(gpu)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for gpu in gpus
    ]
    for process in running:
        process.stdout.readline()  # type: ignore[union-attr]  # it is warm
    for process in running:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    return [json.loads(process.communicate()[0]) for process in running]


def _threads(options: argparse.Namespace) -> list[dict[str, float]]:
    """Feed all GPUs by threads of this process; its cores and switches are divided among them."""
    warm = Barrier(options.gpus)

    def fed(gpu: int) -> dict[str, float]:
        loop = _Loop(options, gpu)
        warm.wait()
        return loop.measured()

    with ThreadPoolExecutor(options.gpus) as pool:
        each = list(pool.map(fed, range(options.gpus)))
    return [
        {**one, "cores": one["cores"] / options.gpus, "switches": one["switches"] / options.gpus}
        for one in each
    ]


def _torchrun(options: argparse.Namespace) -> None:
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    gpu, options.gpus = int(os.environ["LOCAL_RANK"]), distributed.get_world_size()
    _share_cores(gpu, options.gpus)
    if gpu == 0:
        _videos(options)
    distributed.barrier()
    loop = _Loop(options, gpu)
    distributed.barrier()
    counts = loop.measured()
    totals = torch.tensor(list(counts.values()), dtype=torch.float64)
    distributed.all_reduce(totals)
    if gpu == 0:
        mean = dict(zip(counts, (totals / options.gpus).tolist(), strict=True))
        _tell("torchrun", [mean] * options.gpus, None)
    distributed.destroy_process_group()


def _tell(what: str, each: list[dict[str, float]], alone: dict[str, float] | None) -> None:
    rate = sum(counts["rate"] for counts in each)
    share = "" if alone is None else f", {rate / len(each) / alone['rate']:.3f} of one GPU each"
    cores, switches = (np.mean([counts[name] for counts in each]) for name in ("cores", "switches"))
    taken = f"a GPU takes {cores:.1f} cores and {switches:.0f} switches/s"
    sys.stdout.write(f"{what}: {rate:.0f} frames/s of {len(each)}{share}; {taken}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
