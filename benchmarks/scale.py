"""Work beyond one machine: training from object storage, large sets, exports into object storage.

    python -m benchmarks.scale remote [--videos 60] [--latency-ms 50]   # beside the local disk
    python -m benchmarks.scale export [--clips 1000]                     # shards in object storage beside a folder
    python -m benchmarks.scale planning [--files 100000]                 # of local files
    python -m benchmarks.scale register [--files 1000000]                # of objects, by a register that is simulated
    python -m benchmarks.scale ranks [--files 100000] [--ranks 8]        # of one host, which start at the same time

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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

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
    parser.add_argument("job", choices=("remote", "export", "planning", "register", "ranks", "plan", "rank"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "seqpipe_bench_scale")
    parser.add_argument("--videos", type=int, default=60)
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--files", type=int)
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--register")
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args(arguments)
    jobs = {
        "remote": _remote,
        "export": _export,
        "planning": _planning,
        "register": _register,
        "ranks": _ranks,
        "plan": _plan,  # these two are used by the others
        "rank": _rank,
    }
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
    listed, register = options.folder / "urls.txt", options.folder / f"simulated-{count}.register"
    urls = [f"s3://{BUCKET}/{n // 1000:04d}/clip {n:07d}.mp4" for n in range(count)]
    listed.write_text("".join(f"{url}\n" for url in urls))
    began = time.perf_counter()
    etag = '"0123456789abcdef0123456789abcdef"'
    _write_register(options, register, ((url, 100_000, etag) for url in urls))
    sys.stdout.write(
        f"written in {time.perf_counter() - began:.0f} s, {register.stat().st_size / 1e6:.0f} MB\n"
    )
    _plan_apart(listed, register)
    with SharedRegister(str(register)) as shared:
        url, began = f"s3://{BUCKET}/0000/clip 0000007.mp4", time.perf_counter()
        for _ in range(1000):
            assert shared.known(url) is not None
        sys.stdout.write(f"size and tag of one: {(time.perf_counter() - began) * 1e3:.0f} µs\n")


def _write_register(options: argparse.Namespace, register: Path, stamps: Iterable[Any]) -> None:
    """Write entries as of one tiny clip, without opening the files."""
    index = open_index(media.many(options.folder, 1)[0], cache_dir=str(options.folder / "cache"))
    register.unlink(missing_ok=True)
    facts = json.dumps(Facts.of(index))
    packed = zlib.compress(pack(index, ("", 0, "")), 1)  # the same for all: planning reads none
    with SharedRegister(str(register), add=True) as shared:
        for name, size, tag in stamps:
            key = shared._key(name)
            row = (key, size, tag, bytes(20), facts, _checksum(key, size, tag, facts), True, False)
            shared._waiting.append((row, (key, packed)))
            if len(shared._waiting) >= 5000:
                shared._write()


def _ranks(options: argparse.Namespace) -> None:
    """Processes that share a list, a register and a cache, as those of one host: what each does until it may decode."""
    paths = media.many(options.folder, options.files or 100_000)
    listed, register = options.folder / "list.txt", options.folder / "ranks.register"
    listed.write_text("".join(f"{path}\n" for path in paths))
    stats = ((str(path), path.stat()) for path in paths)
    _write_register(options, register, ((name, stat.st_size, str(stat.st_mtime_ns)) for name, stat in stats))
    command = [sys.executable, "-m", "benchmarks.scale", "rank", "--list", listed, "--register", register]
    with tempfile.TemporaryDirectory() as cache:
        command += ["--folder", cache, "--ranks", str(options.ranks)]
        for name in ("first start", "again"):
            running = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for _ in range(options.ranks)
            ]
            for process in running:
                process.stdout.readline()  # it has imported all
            for rank, process in enumerate(running):
                process.stdin.write(f"{rank}\n")
                process.stdin.flush()
            _tell_ranks(name, [json.loads(process.communicate()[0]) for process in running])


def _tell_ranks(name: str, ranks: list[dict[str, Any]]) -> None:
    samples = [index for rank in ranks for index in rank["indices"]]
    assert len({*samples}) == len(samples) == ranks[0]["samples"], "every sample once"
    assert len({rank["steps"] for rank in ranks}) == 1, "equal steps"
    cpu = [rank["cpu_s"] for rank in ranks]
    sys.stdout.write(
        f"{name}: {len(ranks)} ranks ready after {max(rank['wall_s'] for rank in ranks):.2f} s; {min(cpu):.2f} to "
        f"{max(cpu):.2f} s of processor each, {max(rank['mib'] for rank in ranks):.0f} MiB at most; "
        f"{sum(rank['reads'] for rank in ranks)} read the register; {ranks[0]['steps']} steps\n"
    )


def _rank(options: argparse.Namespace) -> None:
    """Be a rank of :func:`_ranks`: its number arrives on the standard input."""
    paths: list[Any] = options.list.read_text().splitlines()
    sys.stdout.write("\n")
    sys.stdout.flush()
    rank = int(sys.stdin.readline())
    reads = []
    files = SharedRegister._files
    SharedRegister._files = lambda self: reads.append(self) or files(self)  # type: ignore[method-assign]
    began, cpu = time.perf_counter(), time.process_time()
    decode = Decode(register=options.register, cache_dir=str(options.folder))
    data = seqpipe.videos(paths, Clip(16, per_video=1), decode=decode, shuffle=True)
    shard = data.shard(rank, options.ranks).batch(32)
    ready = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu, "mib": _peak_mib()}
    part = data.order.share(0, rank, options.ranks)
    indices = part.indices(np.arange(len(part))).tolist()
    counts = {"samples": data.size, "steps": len(shard), "indices": indices, "reads": len(reads)}
    sys.stdout.write(json.dumps({**ready, **counts}))


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
