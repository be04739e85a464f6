"""GPU memory of a dataset, beside DALI's for the same output, and the time to its first batch.

    python -m benchmarks.gpu_memory [--device cuda:0] [--large VIDEO...] [--many VIDEO...] [--only NAME]...

Two tables. The first: batches of 8 sequences of 32 frames of 1080p, scaled to 224×224, normalized, float16, NFCHW; the
most memory that was in use while a contestant ran, less what was in use before it began. Everything counts: context,
kernels, decoders, results. Each contestant runs in a process of its own; another one looks at the GPU every 5 ms, so
nothing else may use it meanwhile. The second: from the start of the interpreter to the first batch, of 10,000 distinct
files whose indexes are cached. Its first run in a folder is a first start: it opens all indexes and compiles modules.
Later ones find the register that it left in the cache, and the bytecode that pip leaves in an installed package.

``--large`` are 1080p videos of 300 frames or more, ``--many`` those that are given 10,000 names; both are generated if
they are not given. With ``--device cpu`` the memory is the process's own. DALI is left out where it is not installed;
how to bring it to a machine without a network: ``../shared/tools/PEERS.md``.
"""

from __future__ import annotations

import argparse
import importlib.util
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
from typing import Any

from . import media

__all__ = ["build_indexes", "main", "run_measured"]

_ROOT = Path(__file__).resolve().parents[1]
_POLL_S = 0.005
_LIMIT_S = 400
_BATCH, _LENGTH, _SIDE = 8, 32, 224
_FIRST_FRAMES = 200
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SHAPE = (_LENGTH, 3, _SIDE, _SIDE)


def _seqpipe(paths: list[str], device: str, count: int) -> Iterator[Any]:
    import seqpipe
    from seqpipe import Clip, OutputSpec

    take = Clip(_LENGTH, per_video=-(-count * _BATCH // len(paths)))
    output = OutputSpec(size=(_SIDE, _SIDE), dtype="float16", layout="FCHW", mean=_MEAN, std=_STD)
    with seqpipe.videos(paths, take, output=output, shuffle=True, device=device).batch(_BATCH) as data:
        for batch in data:
            yield batch["image"].data
        print(data.stats(), file=sys.stderr)


def _context(paths: list[str], device: str, count: int) -> Iterator[Any]:
    if device != "cpu":
        import cupy

        cupy.cuda.Device(int(device.partition(":")[2] or 0)).use()
        cupy.cuda.runtime.free(0)
    time.sleep(20 * _POLL_S)
    return iter(())


def _dali(reader: str) -> Callable[[list[str], str, int], Iterator[Any]]:
    def read(paths: list[str], device: str, count: int) -> Iterator[Any]:
        from nvidia.dali import fn, pipeline_def, types

        @pipeline_def(batch_size=_BATCH, num_threads=8, device_id=int(device.partition(":")[2] or 0), seed=1)
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
            yield built.run()[0]

    return read


CONTESTANTS: dict[str, Callable[[list[str], str, int], Iterator[Any]]] = {
    "a context and nothing else": _context,
    "seqpipe": _seqpipe,
    "DALI readers.video": _dali("readers"),
    "DALI decoders.video": _dali("decoders"),
}


def _deliver(name: str, paths: list[str], device: str, count: int) -> dict[str, float]:
    """Read the batches of one contestant in this process."""
    begin, delivered = time.perf_counter(), 0
    for batch in CONTESTANTS[name](paths, device, count):
        shape = tuple(batch.shape) if name == "seqpipe" else (len(batch), *batch[0].shape())
        if shape[1:] != _SHAPE:
            raise ValueError(f"{name} gives {shape}, not sequences of {_SHAPE}")
        delivered += shape[0] * _LENGTH
    return {"frames": delivered, "frames_per_s": delivered / (time.perf_counter() - begin)}


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


def run_measured(
    options: argparse.Namespace, *words: str, timed: bool = False, environment: dict[str, str] | None = None
) -> tuple[dict[str, float] | None, str]:
    """Run a module in a process of its own, and measure memory; if timed, its last argument is the start time."""
    command = [sys.executable, "-m", *words]
    if timed:
        command.append(str(time.monotonic()))
    used = None if options.device == "cpu" else _gpu(int(options.device.partition(":")[2] or 0))
    before = 0 if used is None else used()
    with subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        gauge = _Gauge(used or _process(child.pid), before)
        try:
            with gauge:
                out, err = child.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return None, f"does not end within {_LIMIT_S} s"
    if child.returncode:
        return None, " ".join(err.split()[-60:])
    print(err, file=sys.stderr, end="")
    return {**json.loads(out.splitlines()[-1]), "gib": gauge.most / 2**30, "looks": gauge.looks}, ""


def build_indexes(paths: list[Path]) -> None:
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
    try:
        is_installed = importlib.util.find_spec("nvidia.dali") is not None
    except ImportError:
        is_installed = False
    return "" if is_installed else "nvidia.dali is not installed"


def _memory(options: argparse.Namespace) -> None:
    sources = options.large or [media.large(options.folder, content) for content in range(4)]
    paths = media.named(sources, options.folder, 24)
    build_indexes(paths)
    listed = options.folder / "large.txt"
    listed.write_text("\n".join(map(str, paths)))
    rows = []
    for name in options.only or CONTESTANTS:
        why = _left_out(name, options)
        result = None
        if not why:
            words = ("benchmarks.gpu_memory", "--device", options.device, "--measure", name)
            result, why = run_measured(options, *words, str(listed), str(options.batches))
        if result is None:
            print(f"{name} is left out: {why}", file=sys.stderr, flush=True)
        else:
            rows.append((name, result))
    own = next((result["gib"] for name, result in rows if name == "seqpipe"), None)
    print(
        "| contestant | most memory, GiB | seqpipe's share of it | frames | frames/s |\n|---|---|---|---|---|"
    )
    for name, result in rows:
        share = "" if own is None or not name.startswith("DALI") else f"{own / result['gib']:.2f}"
        print(
            f"| {name} | {result['gib']:.2f} | {share} | {result['frames']:.0f} | {result['frames_per_s']:.0f} |"
        )


def _many(options: argparse.Namespace) -> None:
    if options.many:
        paths = media.named(options.many, options.folder, options.files)
    else:
        paths = media.many(options.folder, options.files)
    build_indexes(paths)
    listed = options.folder / "many.txt"
    listed.write_text("\n".join(map(str, paths)))
    print(
        "| first batch, run | interpreter | imports | dataset | first batch | all, s |\n|---|---|---|---|---|---|"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(options.folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for run in range(options.runs):
        words = ("benchmarks.first_batch", options.device, str(listed))
        result, why = run_measured(options, *words, timed=True, environment=environment)
        if result is None:
            print(f"the first batch does not come: {why}", file=sys.stderr)
            return
        names = ("interpreter", "imports", "dataset", "first batch", "all")
        print(f"| {run + 1} | {' | '.join(f'{result[name]:.2f}' for name in names)} |")


def main() -> int:
    """Print the tables, or run as the process of one contestant."""
    options = _options()
    if options.measure:
        name, listed, count = options.measure
        paths = Path(listed).read_text().splitlines()
        print(json.dumps(_deliver(name, paths, options.device, int(count))))
    else:
        if "memory" in options.job:
            _memory(options)
        if "start" in options.job:
            _many(options)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu")
    parser.add_argument("--job", action="append", choices=["memory", "start"], help="by default both")
    parser.add_argument("--large", nargs="*", type=Path, default=[], help="1080p videos")
    parser.add_argument("--many", nargs="*", type=Path, default=[], help="videos for the start")
    parser.add_argument("--only", action="append", choices=list(CONTESTANTS), help="may be repeated")
    parser.add_argument("--batches", type=int, default=40, help="for each contestant")
    parser.add_argument("--files", type=int, default=10_000, help="for the start")
    parser.add_argument("--runs", type=int, default=4, help="of the start")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/gpu_memory"), help="for files and indexes")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.job = options.job or ["memory", "start"]
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SEQPIPE_CACHE_DIR", str(options.folder / "cache"))
    return options


if __name__ == "__main__":
    sys.exit(main())
