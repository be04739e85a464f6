"""Memory of a dataset, beside DALI's for the same output; of operators, with and without fusion; time to a first batch.

    python -m benchmarks.gpu_memory [--device cuda:0] [--job memory] [--job augmented] [--job start] [--only NAME]...

``memory``: batches of 8 sequences of 32 frames of 1080p, scaled to 224×224, normalized, float16, NFCHW: the most memory
that was in use while a contestant ran, less what was in use before it began. Everything counts: context, kernels,
decoders, results. Each contestant runs in a process of its own; this one looks at the GPU every 5 ms, so nothing else
may use it meanwhile. With ``--device cpu`` the memory is the process's own.

``augmented``: a chain on sequences of 16 such frames, random resized crops to 224×224, mirrored, normalized: memory,
frames delivered in a second, and the processor time of a frame, which tells more where other work uses the machine.
``unfused, no prefetch`` reads no batch ahead, so that as few frames as possible are stored at full size.

``start``: from the start of the interpreter to the first batch, of 10,000 distinct files whose indexes are cached. Its
first run in a folder is a first start: it opens all indexes and compiles modules. Later ones find the register that it
left in the cache, and the bytecode that pip leaves in an installed package.

``--large`` are 1080p videos of 300 frames or more, ``--many`` those that are given 10,000 names; both are generated if
they are not given. DALI is left out where it is not installed; how to bring it to a machine without a network:
``../shared/tools/PEERS.md``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from . import media
from .frame import (
    ROOT,
    add_choice,
    gpu_number,
    is_here,
    listed,
    outcome,
    parser_of,
    print_table,
    use_folder,
    waiting_for,
)

__all__ = ["main"]

_POLL_S = 0.005
_LIMIT_S = 400
_BATCH, _LENGTH, _SHORT, _SIDE = 8, 32, 16, 224
_FIRST_FRAMES = 200
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Batches = Callable[[list[str], str, int], Iterator[tuple[int, ...]]]
"""Videos, a device and a number of batches in; the shape of each batch out."""


def _seqpipe(paths: list[str], device: str, count: int) -> Iterator[tuple[int, ...]]:
    import seqpipe
    from seqpipe import Clip, OutputSpec

    take = Clip(_LENGTH, per_video=-(-count * _BATCH // len(paths)))
    output = OutputSpec(size=(_SIDE, _SIDE), dtype="float16", layout="FCHW", mean=_MEAN, std=_STD)
    with seqpipe.videos(paths, take, output=output, shuffle=True, device=device).batch(_BATCH) as data:
        for batch in data:
            yield batch["image"].shape
        print(data.stats(), file=sys.stderr)


def _context(paths: list[str], device: str, count: int) -> Iterator[tuple[int, ...]]:
    if device != "cpu":
        import cupy

        cupy.cuda.Device(gpu_number(device)).use()
        cupy.cuda.runtime.free(0)
    time.sleep(20 * _POLL_S)
    return iter(())


def _dali(reader: str) -> Batches:
    def read(paths: list[str], device: str, count: int) -> Iterator[tuple[int, ...]]:
        from nvidia.dali import fn, pipeline_def, types

        @pipeline_def(batch_size=_BATCH, num_threads=8, device_id=gpu_number(device), seed=1)
        def pipeline() -> Any:
            if reader == "readers":
                video = fn.readers.video(
                    device="gpu",
                    filenames=paths,
                    sequence_length=_LENGTH,
                    random_shuffle=True,
                    initial_fill=16,
                )
            else:
                encoded, _ = fn.readers.file(files=paths, random_shuffle=True, initial_fill=16)
                start = fn.random.uniform(range=[0, _FIRST_FRAMES], dtype=types.INT32)
                video = fn.decoders.video(encoded, device="mixed", sequence_length=_LENGTH, start_frame=start)
            return fn.crop_mirror_normalize(
                fn.resize(video, size=(_SIDE, _SIDE)),
                dtype=types.FLOAT16,
                output_layout="FCHW",
                mean=[255 * value for value in _MEAN],
                std=[255 * value for value in _STD],
            )

        built = pipeline()
        built.build()
        for _ in range(count):
            batch = built.run()[0]
            yield (len(batch), *batch[0].shape())

    return read


def _augmented(fuse: Any, *, ahead: int = 2, **output: Any) -> Batches:
    """Sequences with a chain, or those of a reader alone where nothing is to be fused."""

    def read(paths: list[str], device: str, count: int) -> Iterator[tuple[int, ...]]:
        import seqpipe
        from seqpipe import Clip, OutputSpec, ops

        take = Clip(_SHORT, per_video=-(-count * _BATCH // len(paths)))
        spec = OutputSpec(**output)
        clips = seqpipe.videos(paths, take, output=spec, shuffle=True, device=device).prefetch(ahead)
        chain = ops.Chain(
            ops.RandomResizedCrop(size=(_SIDE, _SIDE)),
            ops.Flip(p=0.5),
            ops.CropMirrorNormalize(
                mean=[255 * value for value in _MEAN],
                std=[255 * value for value in _STD],
                dtype="float16",
                output_layout="CHW",
            ),
        )
        wait = waiting_for(device)
        with (clips if fuse is None else clips.map(chain).fuse(fuse)).batch(_BATCH, last="drop") as dataset:
            print(dataset.explain(), file=sys.stderr)
            for batch in dataset:
                yield batch["image"].shape
                wait()  # as a training step does

    return read


class Job(NamedTuple):
    """A table of contestants that deliver the same batches.

    Attributes:
        frames: of a sequence.
        contestants: by name.
        warm_up: batches that do not count for rates: decoders and kernels are there behind them.
    """

    frames: int
    contestants: dict[str, Batches]
    warm_up: int


JOBS = {
    "memory": Job(
        _LENGTH,
        {
            "a context and nothing else": _context,
            "seqpipe": _seqpipe,
            "DALI readers.video": _dali("readers"),
            "DALI decoders.video": _dali("decoders"),
        },
        0,
    ),
    "augmented": Job(
        _SHORT,
        {
            "unfused": _augmented("none"),
            "unfused, no prefetch": _augmented("none", ahead=0),
            "fuse='surface'": _augmented("surface"),
            "the reader alone, 224×224": _augmented(
                None, size=(_SIDE, _SIDE), dtype="float16", layout="FCHW"
            ),
        },
        2,
    ),
}


def _deliver(job: Job, name: str, paths: list[str], device: str, count: int) -> dict[str, float]:
    """Read the batches of one contestant in this process."""
    begin, cpu_s, delivered = time.perf_counter(), time.process_time(), 0
    for number, shape in enumerate(job.contestants[name](paths, device, count + job.warm_up), 1):
        if shape[1:] != (job.frames, 3, _SIDE, _SIDE):
            raise ValueError(f"{name} gives {shape}")
        if number == job.warm_up:
            begin, cpu_s = time.perf_counter(), time.process_time()
        delivered += shape[0] * job.frames if number > job.warm_up else 0
        if number == count + job.warm_up:
            break
    return {
        "frames": delivered,
        "frames_per_s": delivered / (time.perf_counter() - begin),
        "cpu_ms": 1e3 * (time.process_time() - cpu_s) / max(1, delivered),
    }


class _Gauge:
    """Samples the memory in use every 5 ms while a process runs.

    Attributes:
        most: the most bytes that were in use, less those before.
        looks: how often it was looked.
    """

    def __init__(self, used: Callable[[], int], before: int) -> None:
        self._used, self._before = used, before
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most = self.looks = 0

    def __enter__(self) -> _Gauge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(_POLL_S):
            self.most = max(self.most, self._used() - self._before)
            self.looks += 1


def _gpu(number: int) -> Callable[[], int]:
    """Return a function for the bytes in use on a GPU by all processes; creates the context of this process first."""
    import cupy

    runtime = cupy.cuda.runtime

    def used() -> int:
        runtime.setDevice(number)  # each thread has its own
        free, total = runtime.memGetInfo()
        return int(total - free)

    used()
    return used


def _process(number: int) -> Callable[[], int]:
    """Return a function for the resident bytes of a process; 0 once it has ended."""
    page = os.sysconf("SC_PAGE_SIZE")

    def used() -> int:
        try:
            return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            return 0

    return used


def _run_measured(
    options: argparse.Namespace, *words: str, timed: bool = False, environment: dict[str, str] | None = None
) -> tuple[dict[str, float] | None, str]:
    """Run a module in a process of its own, and measure memory; if timed, its last argument is the start time."""
    command = [sys.executable, "-m", *words]
    if timed:
        command.append(str(time.monotonic()))
    used = None if options.device == "cpu" else _gpu(gpu_number(options.device))
    before = 0 if used is None else used()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        gauge = _Gauge(used or _process(child.pid), before)
        try:
            with gauge:
                out, err = child.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return None, f"does not end within {_LIMIT_S} s"
    result, why = outcome(child.returncode, out, err)
    if result is not None:
        print(err, file=sys.stderr, end="")
        result["gib"] = gauge.most / 2**30
    return result, why


def _build_indexes(paths: list[Path]) -> None:
    """Build the indexes in parallel processes, before contestants run."""
    from seqpipe.video.engine.engine import available_cores

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(available_cores(), len(paths)), mp_context=context) as pool:
        for _ in pool.map(_index_one, paths, chunksize=max(1, min(100, len(paths) // 64))):
            pass


def _index_one(path: Path) -> int:
    from seqpipe.video.index.open import open_index

    return len(open_index(path).packets)


def _left_out(name: str, options: argparse.Namespace) -> str:
    """Why a contestant cannot run here, or ""."""
    if not name.startswith("DALI"):
        return ""
    if options.device == "cpu":
        return "it reads videos on a GPU only"
    return "" if is_here("nvidia.dali") else "nvidia.dali is not installed"


def _contestants(job: str, options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """What each contestant of a job gives that can run here."""
    sources = options.large or [media.large(options.folder, content) for content in range(4)]
    paths = media.named(sources, options.folder, 24)
    _build_indexes(paths)
    file = listed(paths, options.folder / "large.txt")
    for name in [name for name in JOBS[job].contestants if name in (options.only or [name])]:
        result, why = None, _left_out(name, options)
        if not why:
            words = ("--device", options.device, "--measure", job, name, file, str(options.batches))
            result, why = _run_measured(options, "benchmarks.gpu_memory", *words)
        if result is None:
            print(f"{name} is left out: {why}", file=sys.stderr, flush=True)
        else:
            yield name, result


def _memory(options: argparse.Namespace) -> None:
    own = 0.0

    def rows() -> Iterator[tuple[str, ...]]:
        nonlocal own
        for name, result in _contestants("memory", options):
            own = result["gib"] if name == "seqpipe" else own
            share = f"{own / result['gib']:.2f}" if own and name.startswith("DALI") else ""
            frames = f"{result['frames']:.0f}", f"{result['frames_per_s']:.0f}"
            yield name, f"{result['gib']:.2f}", share, *frames

    print_table(("contestant", "most memory, GiB", "seqpipe's share of it", "frames", "frames/s"), rows())


def _fused(options: argparse.Namespace) -> None:
    columns = ("contestant", "frames/s", "processor ms a frame", "greatest memory, GiB", "frames")
    print_table(
        columns,
        (
            (name, f"{r['frames_per_s']:.0f}", f"{r['cpu_ms']:.2f}", f"{r['gib']:.2f}", f"{r['frames']:.0f}")
            for name, r in _contestants("augmented", options)
        ),
    )


def _start(options: argparse.Namespace) -> None:
    if options.many:
        paths = media.named(options.many, options.folder, options.files)
    else:
        paths = media.many(options.folder, options.files)
    _build_indexes(paths)
    file = listed(paths, options.folder / "many.txt")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(options.folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    names = ("interpreter", "imports", "dataset", "first batch", "all")

    def rows() -> Iterator[list[str]]:
        for run in range(options.runs):
            words = ("benchmarks.first_batch", options.device, file)
            result, why = _run_measured(options, *words, timed=True, environment=environment)
            if result is None:
                print(f"the first batch does not come: {why}", file=sys.stderr)
                return
            yield [str(run + 1), *(f"{result[name]:.2f}" for name in names)]

    print_table(("first batch, run", *names[:-1], "all, s"), rows())


_TABLES = {"memory": _memory, "augmented": _fused, "start": _start}


def main() -> None:
    """Print the tables, or run as the process of one contestant."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    add_choice(parser, "--job", _TABLES)
    parser.add_argument("--large", nargs="*", type=Path, default=[], help="1080p videos")
    parser.add_argument("--many", nargs="*", type=Path, default=[], help="videos for the start")
    add_choice(parser, "--only", [name for job in JOBS.values() for name in job.contestants])
    parser.add_argument("--batches", type=int, default=40, help="for each contestant")
    parser.add_argument("--files", type=int, default=10_000, help="for the start")
    parser.add_argument("--runs", type=int, default=4, help="of the start")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/gpu_memory"), help="for files and indexes")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_folder(options.folder)
    if options.measure:
        job, name, file, count = options.measure
        paths = Path(file).read_text().splitlines()
        print(json.dumps(_deliver(JOBS[job], name, paths, options.device, int(count))))
        return
    for job in options.job or _TABLES:
        _TABLES[job](options)


if __name__ == "__main__":
    main()
