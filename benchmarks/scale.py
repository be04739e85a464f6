"""Work beyond one machine: training from object storage, large sets, exports into object storage.

    python -m benchmarks.scale remote [--videos 60] [--latency-ms 50]   # beside the local disk
    python -m benchmarks.scale export [--clips 1000]                     # shards in object storage beside a folder
    python -m benchmarks.scale planning [--files 100000]                 # of local files
    python -m benchmarks.scale register [--files 1000000]                # of objects, by a register that is simulated

Contestants take turns; the fastest round of each is told. Jobs that are measured by their memory are processes of their
own.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import seqpipe
from benchmarks import media
from benchmarks.object_server import BUCKET, object_server
from seqpipe import Clip, Decode, OutputSpec
from seqpipe.ray.planning import planned_blocks
from seqpipe.video.index.cache import pack
from seqpipe.video.index.open import open_index
from seqpipe.video.index.shared import SharedRegister, _checksum
from seqpipe.video.packet_index import Facts

__all__ = ["main"]

_SMALL = OutputSpec(size=(112, 112))


def main(arguments: list[str]) -> None:
    """Measure one job, and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=("remote", "export", "planning", "register", "plan"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_scale")
    parser.add_argument("--videos", type=int, default=60)
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--files", type=int)
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--register")
    options = parser.parse_args(arguments)
    jobs = {"remote": _remote, "export": _export, "planning": _planning, "register": _register, "plan": _plan}
    jobs[options.job](options)


def _remote(options: argparse.Namespace) -> None:
    """An epoch of clips from the disk and from object storage, by one decoding thread, from the second batch on."""
    paths = media.named([media.small(options.folder, n) for n in range(3)], options.folder, options.videos)
    cache = str(options.folder / "cache")
    with object_server(options.latency_ms) as client:
        for path in paths:
            client.upload_file(str(path), BUCKET, path.name)
        urls, register = [f"s3://{BUCKET}/{path.name}" for path in paths], f"s3://{BUCKET}/set.register"
        for inputs, name in ((urls, register), (map(str, paths), str(options.folder / "set.register"))):
            command = [sys.executable, "-m", "seqpipe", "index", *inputs, "--register", name]
            subprocess.run([*command, "--cache-dir", cache], check=True)

        def clips_per_s(sources: list[str], register: str) -> tuple[float, ...]:
            decode = Decode(threads=1, register=register, cache_dir=cache)
            began = time.perf_counter()
            with seqpipe.videos(
                sources, Clip(16, per_video=8), output=_SMALL, decode=decode, shuffle=True
            ).batch(8) as data:
                times = [time.perf_counter() for _ in data]
            return 8 * (len(times) - 2) / (times[-2] - times[0]), times[0] - began

        _in_turns(
            options.rounds,
            ("clips/s from the second batch on", "s to the first batch"),
            {
                "disk": lambda: clips_per_s(
                    [str(path) for path in paths], str(options.folder / "set.register")
                ),
                f"S3, {options.latency_ms:g} ms": lambda: clips_per_s(urls, register),
            },
        )


def _export(options: argparse.Namespace) -> None:
    """Clips of 16 frames into WebDataset shards of 100, in a folder and in object storage."""
    paths = media.named([media.small(options.folder, n) for n in range(3)], options.folder, options.videos)
    per_video = -(-options.clips // len(paths))
    data = seqpipe.videos(paths, Clip(16, per_video=per_video), output=_SMALL)

    def written(place: str) -> tuple[float, ...]:
        began = time.perf_counter()
        report = data.write(place, "webdataset", samples_per_shard=100, overwrite=True)
        return (report.written / (time.perf_counter() - began),)

    folder = options.folder / "shards"
    shutil.rmtree(folder, ignore_errors=True)
    with object_server(0.0):
        _in_turns(
            options.rounds,
            ("clips/s",),
            {"folder": lambda: written(str(folder)), "S3": lambda: written(f"s3://{BUCKET}/shards")},
        )


def _in_turns(
    rounds: int, what: tuple[str, ...], contestants: dict[str, Callable[[], tuple[float, ...]]]
) -> None:
    best: dict[str, tuple[float, ...]] = {}
    for _ in range(rounds):
        for name, run in contestants.items():
            best[name] = max(best.get(name, ()), run())
    for name, values in best.items():
        told = ", ".join(f"{value:.2f} {unit}" for value, unit in zip(values, what, strict=True))
        sys.stdout.write(f"{name}: {told}\n")
    (first, second) = (values[0] for values in best.values())
    sys.stdout.write(f"ratio: {second / first:.3f}\n")


def _planning(options: argparse.Namespace) -> None:
    """Files are links of one tiny clip: first without any index, then with a register."""
    paths = media.many(options.folder, options.files or 100_000)
    listed, register = options.folder / "list.txt", options.folder / "many" / "seqpipe.register"
    listed.write_text("".join(f"{path}\n" for path in paths))
    began = time.perf_counter()
    command = [sys.executable, "-m", "seqpipe", "index", "--files-from", listed, "--register", register]
    subprocess.run([*command, "--cache-dir", options.folder / "cache"], check=True)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = children.ru_utime + children.ru_stime
    sys.stdout.write(
        f"register of {len(paths)} files: {time.perf_counter() - began:.1f} s, {cpu_s:.1f} s of processor, "
        f"{children.ru_maxrss / 1024:.0f} MiB at most, {register.stat().st_size / 1e6:.1f} MB\n"
    )
    _plan_apart(listed, register)


def _register(options: argparse.Namespace) -> None:
    """Entries of objects that do not exist: planning opens none of them."""
    count = options.files or 1_000_000
    index = open_index(media.many(options.folder, 1)[0], cache_dir=str(options.folder / "cache"))
    listed, register = options.folder / "urls.txt", options.folder / f"simulated-{count}.register"
    listed.write_text("".join(f"s3://{BUCKET}/{n // 1000:04d}/clip {n:07d}.mp4\n" for n in range(count)))
    register.unlink(missing_ok=True)
    facts, began = json.dumps(Facts.of(index)), time.perf_counter()
    packed = zlib.compress(pack(index, ("", 0, "")), 1)  # the same for all: planning reads none
    with SharedRegister(str(register), add=True) as shared, listed.open() as lines:
        for url in map(str.rstrip, lines):
            stamp = url, 100_000, '"0123456789abcdef0123456789abcdef"'
            row = (*stamp, bytes(20), facts, _checksum(*stamp, facts), True, False)
            shared._waiting.append((row, (url, packed)))
            if len(shared._waiting) >= 5000:
                shared._write()
    sys.stdout.write(
        f"written in {time.perf_counter() - began:.0f} s, {register.stat().st_size / 1e6:.0f} MB\n"
    )
    _plan_apart(listed, register)
    with SharedRegister(str(register)) as shared:
        url, began = f"s3://{BUCKET}/0000/clip 0000007.mp4", time.perf_counter()
        for _ in range(1000):
            assert shared.known(url) is not None
        sys.stdout.write(f"size and tag of one: {(time.perf_counter() - began) * 1e3:.0f} µs\n")


def _plan_apart(listed: Path, register: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.scale", "plan", "--list", listed, "--register", register]
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first", "again"):
            output = subprocess.run(
                [*command, "--folder", cache], check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            sys.stdout.write(f"{name}: {output}")


def _plan(options: argparse.Namespace) -> None:
    """Plan an epoch and the blocks of Ray from a list and a register; used by the other jobs."""
    paths: list[Any] = options.list.read_text().splitlines()
    before, began, cpu = _peak_mib(), time.perf_counter(), time.process_time()
    decode = Decode(register=options.register, cache_dir=str(options.folder))
    data = seqpipe.videos(paths, Clip(16, per_video=5), decode=decode, shuffle=True)
    planned, planned_cpu = time.perf_counter() - began, time.process_time() - cpu
    blocks = planned_blocks(data, 0, 8)
    sys.stdout.write(
        f"{data.size} samples of {len(paths)} planned in {planned:.1f} s ({planned_cpu:.1f} s of processor), "
        f"{len(blocks)} blocks after {time.perf_counter() - began:.1f} s; {before:.0f} MiB before, at most "
        f"{_peak_mib():.0f} MiB\n"
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
