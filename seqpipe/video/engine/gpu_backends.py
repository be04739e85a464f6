"""Decode backends of a GPU: NVDEC, the CPU's cores, or both at the same time."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from ...array import Array
from ..cuda.memory import idle_bytes, when_full
from ..cuda.painter import DevicePainter
from ..cuda.streams import Streams
from ..cuda.upload import forget_uploads
from ..decode.pool import DecoderPool
from ..device import Decode
from ..nvdec.caps import engines, mistrust
from ..nvdec.decoder import NvdecDecoders, NvdecPool
from ..plan.jobs import Job
from ..probe.info import StreamInfo
from .backend import DecodeBackend
from .children import Children, children
from .fused_decode import WholeRuns
from .single_reader import ReaderContext
from .work_split import Cores, WorkSplit

__all__ = ["gpu_decode_backends", "gpu_reader_context", "mixed_cpu_workers"]

_STREAMED_AT_ONCE = 16
# One decodes while the other waits for its last frames, or begins with the next file. With small frames an engine
# is done so soon that it waits for Python, too: of 340×256, seven gave 6,113 frames/s with two workers for each, and
# 6,421 with three, all that they can. With large ones a third would be no faster, and take some 40 MB of the GPU.
_WORKERS_PER_ENGINE = 2
_WORKERS_PER_ENGINE_OF_SMALL = 3
_MOST_PIXELS_OF_SMALL = 1 << 20
# feeding seven engines takes 1.4 to 2 cores
_FEEDING_CORES = 2
_FRAME_THREADS = 7
# Processes that decode small frames beside the engines. They stand back behind the threads that feed these, and
# leave them some cores: 16 cores and 7 engines read 6,719 frames of 340×256 a second with 10 of them, 6,421 without.
# When the engines waited for Python more, 14 were slower than 10, and 10 that do not stand back slower than those.
_PROCESSES_PER_CORE = 5 / 8
_STANDING_BACK = 10


def gpu_decode_backends(
    device: int, decode: Decode, cores: int
) -> tuple[list[DecodeBackend], Callable[[tuple[int, ...], np.dtype[Any]], Array]]:
    """The workers for one GPU, and what allocates its memory.

    Args:
        device: the GPU's number.
        decode: who decodes.
        cores: CPU threads of the engine.

    Raises:
        BackendError: CuPy, the driver or its decoder library is missing, or this is a forked process.
    """
    streams = Streams(device)
    painter = partial(DevicePainter, streams)
    pool = DecoderPool(idle=4 * cores)
    helpers = _mixed_children(cores) if decode == "mixed" else children(cores)
    cpu = DecodeBackend("cpu", pool, painter, close=pool.clear)
    if decode == "cpu":
        return cpu.with_helpers(helpers), streams.allocate
    with streams.bound():
        workers = partial(_workers, engines(device) or 1)
    nvdec = NvdecDecoders(_pool(device), streams.address, exact=decode != "nvdec")
    gpu = DecodeBackend("nvdec", nvdec, painter, whole=WholeRuns(nvdec))
    if decode == "nvdec":
        return _by_size(gpu, workers), streams.allocate
    split = WorkSplit(_refusals(streams), lambda job: workers(_is_small(job)))
    gpu = replace(gpu, fits=split.takes, fallback=pool, done=split.gpu_done)
    if decode == "auto":
        cpu = replace(cpu, fits=split.refuses)
        return [*_by_size(gpu, workers), *cpu.with_helpers(helpers)], streams.allocate
    count, frame_threads = mixed_cpu_workers(cores)
    cpu = replace(cpu, threads=count, frame_threads=frame_threads)
    beside = map(partial(_mixed_cpu_backend, split), cpu.with_helpers(helpers))
    return [*_by_size(gpu, workers), *beside], streams.allocate


def _is_small(job: Job) -> bool:
    info = job.video.index.info
    return info.width * info.height <= _MOST_PIXELS_OF_SMALL


def _workers(engine_count: int, small: bool) -> int:
    return engine_count * (_WORKERS_PER_ENGINE_OF_SMALL if small else _WORKERS_PER_ENGINE)


def _by_size(gpu: DecodeBackend, workers: Callable[[bool], int]) -> list[DecodeBackend]:
    """The backend for large frames, and that for small ones."""
    large, small = gpu.only(lambda job: not _is_small(job)), gpu.only(_is_small)
    return [replace(large, threads=workers(False)), replace(small, threads=workers(True))]


def _mixed_children(cores: int) -> Children | None:
    return children(int(_PROCESSES_PER_CORE * cores), nice=_STANDING_BACK)


def _mixed_cpu_backend(split: WorkSplit, backend: DecodeBackend) -> DecodeBackend:
    """A CPU backend that takes jobs beside a GPU."""
    cores = Cores(split, backend.frame_threads)
    return replace(backend, choose=cores.choose, done=cores.done)


def mixed_cpu_workers(cores: int) -> tuple[int, int]:
    """How the cores help where the engines decode.

    With several frame threads, a worker on the cores is as soon done with a sequence as one of the GPU's, so that
    whoever waits for it waits no longer; and few threads of Python stand in each other's way.

    Args:
        cores: of the CPU.

    Returns:
        Workers, and the frame threads of each.
    """
    spare = max(1, cores - _FEEDING_CORES)
    frame_threads = min(spare, _FRAME_THREADS)
    return spare // frame_threads, frame_threads


def _refusals(streams: Streams) -> Callable[[StreamInfo], str]:
    """What says why a GPU should not decode a stream; any thread may ask, often."""
    known: dict[Hashable, str] = {}

    def refusal(info: StreamInfo) -> str:
        key = info.codec, info.pixel_format, info.width, info.height
        if key not in known:
            with streams.bound():
                known[key] = mistrust(streams.device, info)
        return known[key]

    return refusal


def gpu_reader_context(device: int, decode: Decode) -> ReaderContext:
    """What a single reader works with.

    Raises:
        BackendError: CuPy, the driver or its decoder library is missing, or this is a forked process.
    """
    streams = Streams(device, shared=True)
    painter = partial(DevicePainter, streams)
    cpu = DecoderPool()
    backend = DecodeBackend("cpu", cpu, painter, close=cpu.clear)
    if decode != "cpu":
        fallback = None if decode == "nvdec" else cpu
        nvdec = NvdecDecoders(_pool(device), streams.address, exact=decode != "nvdec")
        backend = DecodeBackend("nvdec", nvdec, painter, fallback=fallback, close=cpu.clear)
    return ReaderContext(backend, streams.ready, _STREAMED_AT_ONCE)


@cache
def _pool(device: int) -> NvdecPool:
    """The sessions of a GPU, shared by all readers of the process: making one takes longer than most runs."""
    pool = NvdecPool(device, memory=idle_bytes())
    atexit.register(pool.clear)
    when_full(device, partial(_give_back, device, pool))
    return pool


def _give_back(device: int, pool: NvdecPool) -> None:
    """Give back what is idle on a GPU."""
    pool.clear()
    forget_uploads(device)
