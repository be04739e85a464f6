"""Rates of optical flow: the GPU's engine against its own limit, decoding with flow, and DIS on the CPU's cores.

    python -m benchmarks.flow [--job resident] [--job decode] [--job cpu] [--video FILM…] [--seconds 6] [--dali PYTHON]

Without ``--job`` all of them that this machine can do. ``resident``: 1080p frames in the GPU's memory, grid 4, by the
operator and by the engine alone in the same run. ``decode``: a 1080p file from its packets to flow; rates are those
behind the first batch, for which one engine decodes all frames before flow can begin, and that time is told beside
them. ``cpu``: DIS fast, 1080p, by one thread and by all. ``--video`` names films; without it a made one is taken, and
kept in the folder .media. ``--dali`` names a Python interpreter that has DALI: its ``readers.video`` and
``optical_flow`` then do ``decode`` too.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import fn, ops
from seqpipe.errors import BackendError
from tests.support.motion import texture

from .frame import add_choice, ask_process, parser_of, print_table
from .media import large

__all__ = ["main"]

_SIZE, _GRID = (1080, 1920), 4
_IN_FLIGHT = 4
_FILES = (
    8  # sequences of a batch; of as many files they are decoded side by side: one for each engine, and one
)
_PASSES = 3  # over each file in an epoch
Row = tuple[str, ...]
_FOLDER = Path(__file__).resolve().parents[1] / ".media" / "bench"


def _frames(count: int, channels: int = 1) -> Any:
    """Frames of 1080p that move by (5, -3) each."""
    whole = texture(_SIZE[0] + 3 * count, _SIZE[1] + 5 * count).astype(np.uint8)
    cut = [
        whole[3 * k : 3 * k + _SIZE[0], 5 * (count - k) : 5 * (count - k) + _SIZE[1]] for k in range(count)
    ]
    return np.repeat(np.stack(cut)[..., None], channels, -1)


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Return pairs per second of a call that is repeated for some seconds, after one warm-up call."""
    work()
    begin, pairs = time.perf_counter(), 0
    while (spent := time.perf_counter() - begin) < seconds:
        pairs += work()
    return pairs / spent


def _bare(preset: str, frames: Any, seconds: float) -> float:
    """The engine alone: frames are in its buffers, and results are not read."""
    import cupy

    from seqpipe.flow.nvofa.library import INPUT, OUTPUT
    from seqpipe.flow.nvofa.session import EngineKind, FlowSession

    session = FlowSession(EngineKind(0, _SIZE[1], _SIZE[0], _GRID, preset))
    try:
        inputs, outputs = session.buffers(INPUT, len(frames)), session.buffers(OUTPUT, _IN_FLIGHT)
        for buffer, frame in zip(inputs, frames, strict=False):
            buffer.pixels[...] = frame[..., 0]
        cupy.cuda.Device().synchronize()
        begun: deque[Any] = deque()

        def work() -> int:
            for k in range(len(frames) - 1):
                if len(begun) == _IN_FLIGHT:
                    begun.popleft().synchronize()
                session.execute(inputs[k], inputs[k + 1], (outputs[k % _IN_FLIGHT], None, None, None))
                begun.append(session.outputs.record())
            return len(frames) - 1

        rate = _rate(work, seconds)
        session.outputs.synchronize()
        return rate
    finally:
        session.close()


def _resident(options: argparse.Namespace) -> list[Row]:
    """Measure the operator against the engine."""
    import cupy

    rows, host = [], _frames(33)
    gray, colors = cupy.asarray(host), cupy.asarray(np.repeat(host, 3, -1))
    for preset in ("medium", "fast"):
        bare = _bare(preset, gray, options.seconds)
        for kind, frames in (("gray", gray), ("RGB", colors)):

            def work(frames: Any = frames, preset: str = preset) -> int:
                found = fn.optical_flow(frames, preset=preset, output_grid=_GRID)
                cupy.cuda.get_current_stream().synchronize()
                return len(found)

            rate = _rate(work, options.seconds)
            rows.append(_row(f"1080p {kind}, grid 4 {preset}, resident", rate, bare))
    return rows


def _row(title: str, rate: float, most: float) -> Row:
    return title, f"{rate:.0f}", f"{most:.0f}", f"{rate / most:.2f}"


def _decode(options: argparse.Namespace) -> list[Row]:
    """Measure decoding and flow of a file, against decoding alone and the engine alone."""
    import cupy

    films = options.video or [large(_FOLDER)]
    paths = [str(films[k % len(films)]) for k in range(_FILES * _PASSES)]

    def clips(**output: Any) -> seqpipe.Dataset:
        take = seqpipe.Clip(33, step=32)
        return seqpipe.videos(paths, take, output=seqpipe.OutputSpec(**output), device="cuda").batch(_FILES)

    def rate(dataset: seqpipe.Dataset) -> tuple[float, float]:
        """Pairs a second behind the first batch of the second epoch, and the seconds until that batch is there."""
        with dataset:
            for _ in range(2):
                begin, first, pairs = time.perf_counter(), 0.0, 0
                for batch in dataset:
                    if first:
                        pairs += batch["frames"].size
                        continue
                    cupy.cuda.Device().synchronize()
                    first = time.perf_counter()
                cupy.cuda.Device().synchronize()
                spent = time.perf_counter() - first
        return pairs / spent, first - begin

    bare = _bare("fast", cupy.asarray(_frames(33)), options.seconds)
    flow = ops.OpticalFlow(preset="fast", output_grid=_GRID)
    both, wait = rate(clips().map(flow))
    alone = rate(clips(color="GRAY"))[0] * 32 / 33
    title = (
        f"decode + flow, 1080p, grid 4 fast (decoding alone {alone:.0f}; the first batch after {wait:.2f} s)"
    )
    rows = [_row(title, both, bare)]
    if options.dali:
        words = ("--peer", "--seconds", str(options.seconds), "--video", *paths)
        rate_of_dali, why = ask_process("benchmarks.flow", *words, python=options.dali, limit_s=600)
        if rate_of_dali is None:
            print(f"DALI failed: {why}", file=sys.stderr)
        else:
            rows.append(_row(f"the same by DALI (seqpipe {both / rate_of_dali:.2f} ×)", rate_of_dali, bare))
    return rows


def _dali(options: argparse.Namespace) -> None:
    """Print the pairs a second of DALI's own program; in a process of its own, whose Python has DALI."""
    dali = importlib.import_module("nvidia.dali.fn")
    pipeline_def = importlib.import_module("nvidia.dali").pipeline_def

    @pipeline_def(batch_size=_FILES, num_threads=_FILES, device_id=0)  # type: ignore[untyped-decorator]  # DALI is not typed
    def program() -> Any:
        films = [str(path) for path in options.video]
        frames = dali.readers.video(device="gpu", filenames=films, sequence_length=33, step=32)
        return dali.optical_flow(frames, device="gpu", output_grid=_GRID, preset=1.0)

    pipe = program()
    pipe.build()

    def work() -> int:
        (flow,) = pipe.run()
        return sum(shape[0] for shape in flow.shape())

    print(_rate(work, options.seconds))


def _cpu(options: argparse.Namespace) -> list[Row]:
    """Measure DIS on all threads, against one thread times their number."""
    frames, rates, cores = _frames(4 * ops.threads() + 1), [], ops.threads()
    try:
        for count in (1, cores):
            ops.set_threads(count)
            rates.append(_rate(lambda: len(fn.optical_flow(frames, preset="fast")), options.seconds))
    finally:
        ops.set_threads(None)
    one, every = rates
    title = f"DIS fast, 1080p, {cores} threads (one: {one:.1f})"
    return [(title, f"{every:.1f}", f"{cores * one:.1f}", f"{every / cores / one:.2f}")]


_JOBS = {"resident": _resident, "decode": _decode, "cpu": _cpu}


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of(__doc__)
    add_choice(parser, "--job", _JOBS)
    parser.add_argument("--video", type=Path, nargs="+", help="films of 1080p")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--dali", metavar="PYTHON", help="an interpreter that has DALI")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        _dali(options)
        return
    rows = []
    for name in options.job or _JOBS:
        try:
            rows += _JOBS[name](options)
        except (ImportError, BackendError) as error:
            print(f"{name} is left out: {error}")
    print_table(("job", "pairs/s", "of at most", "share"), rows)


if __name__ == "__main__":
    main()
