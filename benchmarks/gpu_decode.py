"""Throughput of sequences decoded to GPU memory, by seqpipe and its peers on the same files in the same run.

    python -m benchmarks.gpu_decode --large VIDEO --small VIDEO... [--job NAME]... [--only NAME]... [--share 0.5]

``--large`` is a 1080p video, ``--small`` some of 340×256, all of 300 frames or more; each is copied until there are
enough distinct files. Every contestant runs in a process of its own, once to warm up and once that counts, with all
indexes cached; a result that is not on the GPU does not count. Peers that are not installed are named and left out.
How to bring them to a machine without a network: ``../shared/tools/PEERS.md``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame import add_choice, ask_process, parser_of, print_table, use_folder

__all__ = ["main"]

_FRAMES = 300


@dataclass(frozen=True)
class Job:
    """Random windows over distinct files.

    Attributes:
        name: for the command line; the files of job "large" are copies of what ``--large`` names, and so on.
        title: for the table.
        source: the option that names the videos.
        length: frames of a window.
        stride: from frame to frame.
        batch: windows that are asked for together.
        files: how many.
        windows: how many.
    """

    name: str
    title: str
    source: str
    length: int
    stride: int
    batch: int
    files: int
    windows: int


JOBS = {
    job.name: job
    for job in (
        Job("large", "windows 32×5, 1080p", "large", 32, 5, 8, 24, 240),
        Job("small", "windows 16×4, 340×256", "small", 16, 4, 32, 320, 1920),
        Job("comparison", "173 videos, 60×5, 1080p", "large", 60, 5, 8, 173, 173),
    )
}

Windows = list[tuple[str, np.ndarray[Any, Any]]]
_ENGINES: list[Any] = []  # of this process, which tell what they have decoded


def _windows(job: Job, folder: Path, count: int) -> Windows:
    paths = sorted(str(path) for path in folder.glob(f"{job.name}_*.mp4"))
    random = np.random.Generator(np.random.Philox(1))
    starts = random.integers(0, _FRAMES - (job.length - 1) * job.stride, count)
    return [
        (paths[i % len(paths)], int(start) + np.arange(job.length) * job.stride)
        for i, start in enumerate(starts)
    ]


def _seqpipe(decode: str) -> Callable[[Windows, Job], Iterator[Any]]:
    def read(windows: Windows, job: Job) -> Iterator[Any]:
        from seqpipe.video.plan import Request

        if not _ENGINES:  # a dataset has one engine for all its epochs
            _ENGINES.append(_engine(decode))
        engine, waiting = _ENGINES[0], deque[Any]()
        for begin in range(0, len(windows), job.batch):
            part = windows[begin : begin + job.batch]
            waiting.append(engine.submit([Request(path, frames) for path, frames in part]))
            if len(waiting) > 3:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()

    return read


def _engine(decode: str) -> Any:
    """Return an engine whose worker processes, if any, have started."""
    from seqpipe.video.device import Device
    from seqpipe.video.engine.engine import engine_for

    engine = engine_for(Device("cuda", 0), decode=decode, threads=None, cache_dir=None)  # type: ignore[arg-type]  # from the table below
    for backend, _ in engine._backends:
        if backend.helpers is not None:
            backend.helpers.wait()  # type: ignore[attr-defined]  # those of this library are children
    return engine


def _threaded(
    one: Callable[[str, np.ndarray[Any, Any]], Any], threads: int, windows: Windows
) -> Iterator[Any]:
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Any] = deque()
        for path, frames in windows:
            waiting.append(pool.submit(one, path, frames))
            if len(waiting) > 4 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _torchcodec(device: str, threads: int) -> Callable[[Windows, Job], Iterator[Any]]:
    def read(windows: Windows, job: Job) -> Iterator[Any]:
        from torchcodec.decoders import VideoDecoder

        def one(path: str, frames: np.ndarray[Any, Any]) -> Any:
            decoder = VideoDecoder(
                path,
                device=device,
                seek_mode="approximate",
                dimension_order="NHWC",
                num_ffmpeg_threads=1,
            )
            return decoder.get_frames_at(frames.tolist()).data.to("cuda")

        yield from _threaded(one, threads, windows)

    return read


def _spdl(windows: Windows, job: Job) -> Iterator[Any]:
    import torch
    from spdl import io

    def one(path: str, frames: np.ndarray[Any, Any]) -> Any:
        span = (float(frames[0]) / 30 - 0.001, float(frames[-1] + 1) / 30 - 0.001)
        packets = io.demux_video(path, timestamp=span)
        stream = torch.cuda.Stream()
        config = io.cuda_config(device_index=0, stream=stream.cuda_stream)
        decoded = io.decode_packets_nvdec(packets, device_config=config)
        pictures = io.to_torch(decoded)[:: job.stride]
        stream.synchronize()
        return pictures

    yield from _threaded(one, 7, windows)


def _dali(name: str) -> Callable[[Windows, Job], Iterator[Any]]:
    built: list[Any] = []

    def read(windows: Windows, job: Job) -> Iterator[Any]:
        import torch

        if not built:  # its index is made with the pipeline, which does not count
            built.append((_dali_reader if name == "reader" else _dali_decoder)(windows, job))
            built[0].build()
        for _ in range(0, len(windows), job.batch):
            (sequences,) = built[0].run()
            for i in range(len(sequences)):
                yield torch.from_dlpack(sequences[i])

    return read


def _dali_reader(windows: Windows, job: Job) -> Any:
    """DALI's reader, which samples its own windows of the same files."""
    from nvidia.dali import fn, pipeline_def

    folder = Path(windows[0][0]).parent

    @pipeline_def(batch_size=job.batch, num_threads=8, device_id=0)
    def pipeline() -> Any:
        return fn.readers.video(
            device="gpu",
            filenames=sorted(map(str, folder.glob(f"{job.name}_*.mp4"))),
            sequence_length=job.length,
            stride=job.stride,
            random_shuffle=True,
            initial_fill=16,
        )

    return pipeline()


def _dali_decoder(windows: Windows, job: Job) -> Any:
    """DALI's decoder on the same windows, repeated."""
    from nvidia.dali import fn, pipeline_def, types

    def window(info: Any) -> tuple[Any, Any]:
        path, frames = windows[info.idx_in_epoch % len(windows)]
        return np.fromfile(path, np.uint8), np.array(frames[0], np.int32)

    @pipeline_def(batch_size=job.batch, num_threads=8, device_id=0)
    def pipeline() -> Any:
        encoded, start = fn.external_source(
            window, num_outputs=2, batch=False, dtype=[types.UINT8, types.INT32], ndim=[1, 0]
        )
        return fn.decoders.video(
            encoded, device="mixed", start_frame=start, sequence_length=job.length, stride=job.stride
        )

    return pipeline()


CONTESTANTS: dict[str, Callable[[Windows, Job], Iterator[Any]]] = {
    "seqpipe nvdec": _seqpipe("nvdec"),
    "seqpipe mixed": _seqpipe("mixed"),
    "seqpipe cpu": _seqpipe("cpu"),
    "torchcodec cuda, 7 threads": _torchcodec("cuda", 7),
    "torchcodec cpu, 16 threads": _torchcodec("cpu", 16),
    "SPDL nvdec, 7 threads": _spdl,
    "DALI readers.video": _dali("reader"),
    "DALI decoders.video": _dali("decoder"),
}


def _measure(name: str, job: Job, folder: Path, count: int) -> dict[str, float]:
    """One contestant in this process."""
    import torch

    windows = _windows(job, folder, count)
    read = CONTESTANTS[name]
    torch.cuda.init()
    free_before = torch.cuda.mem_get_info()[0]
    delivered, best, decoded, least_free = 0, 0.0, 0, free_before
    for part in (windows[: 2 * job.batch], windows):
        begin, delivered, decoded = time.perf_counter(), 0, _decoded()
        for sequence in read(part, job):
            if isinstance(sequence, Exception):
                raise sequence
            delivered += len(sequence)
            least_free = min(least_free, torch.cuda.mem_get_info()[0])
        torch.cuda.synchronize()
        best = delivered / (time.perf_counter() - begin)
    return {
        "frames_per_s": best,
        "decoded": (_decoded() - decoded) / delivered,
        "memory_gib": (free_before - least_free) / 2**30,
    }


def _decoded() -> int:
    """Return the number of frames that this library has decoded in this process."""
    return sum(sum(engine.stats()["frames"].values()) for engine in _ENGINES)


def main() -> None:
    """Run all contestants, each in a process of its own; print one table."""
    options = _options()
    if options.measure:
        name, job_name, copies, count = options.measure
        print(json.dumps(_measure(name, JOBS[job_name], Path(copies), int(count))))
        return
    columns = ("job", "contestant", "delivered frames/s", "decoded per delivered", "most memory")
    print_table(columns, _rows(options))


def _rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """What each contestant gives for each job whose videos are there."""
    for job in [JOBS[name] for name in options.job or JOBS]:
        if not (videos := getattr(options, job.source)):
            continue
        _copy(videos, job, options.folder, whole=not options.first_epoch)
        count = str(round(options.share * job.windows))
        for name in options.only or CONTESTANTS:
            words = ("--measure", name, job.name, str(options.folder), count)
            result, why = ask_process("benchmarks.gpu_decode", *words, limit_s=150)
            if result is None:
                print(f"{job.title}, {name}: {why}", file=sys.stderr, flush=True)
                continue
            decoded = f"{result['decoded']:.2f}" if result["decoded"] else ""  # peers do not tell
            rate, memory = f"{result['frames_per_s']:.0f}", f"{result['memory_gib']:.2f} GiB"
            yield job.title, name, rate, decoded, memory


def _copy(videos: list[str], job: Job, folder: Path, *, whole: bool) -> None:
    """Create the files of a job and their indexes before contestants run.

    Args:
        videos: are copied.
        job: says how many times.
        folder: for the copies.
        whole: whether the indexes know of each packet whether others refer to it, as after some epochs.
    """
    from seqpipe.video.engine.engine import Engine
    from seqpipe.video.index.open import open_index

    paths = [folder / f"{job.name}_{i:04d}.mp4" for i in range(job.files)]
    for i, path in enumerate(paths):
        shutil.copy(videos[i % len(videos)], path)
    with Engine() as engine:
        for _ in engine.map(partial(open_index, whole=whole), paths):
            pass


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--large", nargs="*", default=[], help="1080p videos")
    parser.add_argument("--small", nargs="*", default=[], help="videos of 340×256")
    add_choice(parser, "--job", JOBS)
    parser.add_argument("--share", type=float, default=1.0, help="of each job's windows")
    add_choice(parser, "--only", CONTESTANTS)
    parser.add_argument("--first-epoch", action="store_true", help="indexes know what opening a file tells")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/gpu_decode"), help="for the copies")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    use_folder(options.folder)
    return options


if __name__ == "__main__":
    main()
