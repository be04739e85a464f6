"""Decode backends of a GPU: NVDEC, the CPU, or both concurrently; and the fused loop: a job decoded in one C call.

Step by step, a window of 16 small frames acquires the GIL some 30 times, and the seven NVDEC engines of a GPU wait for
it. The C call decodes a whole segment and reports whether any packet was damaged; the few segments with damage are
decoded again step by step, which finds the damaged packet and the frames that depend on it.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import numpy as np

from ...array import Array
from ..convert.converter import Targets
from ..cuda.device_surface import free_uploads
from ..cuda.memory import idle_bytes, when_full
from ..cuda.painter import DeviceConverter, DevicePainter
from ..cuda.streams import Streams
from ..decode.cpu import DecoderPool
from ..decode.packets import HeldPackets, PacketReader, learn
from ..device import DecodeChoice
from ..nvdec.feeder import PendingFrames
from ..nvdec.hardware import Painting, engines, exact_refusal
from ..nvdec.session import NvdecDecoder, NvdecDecoders, NvdecPool
from ..plan import Job, PlannedVideo, Segment, make_plan, tracked, undecodable
from ..probe.info import StreamInfo
from .backend import DecodeBackend, ReaderContext
from .children import Children, children

__all__ = [
    "CpuShare",
    "FusedDecoder",
    "WorkSplit",
    "gpu_decode_backends",
    "gpu_reader_context",
    "mixed_cpu_workers",
]

# The drain at the end of a segment takes as long as some frames: clips 16×4 of 340×256 with key frames 8 apart give
# 1.3 times as many frames/s as with 1 (H200, RESULTS.md). Segments that would be too long together stay apart.
NVDEC_LEAST_SAVED: Final = 4
# A segment is read before any of it is decoded, and its C call cannot be interrupted.
_MOST_FUSED_BYTES: Final = 16 << 20
_MOST_FUSED_PACKETS: Final = 1024


class FusedDecoder:
    """Fused decode loop of one GPU, see :class:`seqpipe.video.engine.backend.FusedDecode`; thread-safe.

    Args:
        decoders: decoders of the GPU.
    """

    def __init__(self, decoders: NvdecDecoders) -> None:
        self._decoders = decoders
        # Where one segment failed, the next one most likely fails too.
        self._failed: weakref.WeakSet[PlannedVideo] = weakref.WeakSet()

    def __call__(
        self, video: PlannedVideo, targets: Targets, painter: Any, reader: Callable[[], PacketReader]
    ) -> bool:
        """Decode and paint the targets; False where there are none, or they are too large, or damaged."""
        table = video.index.packets
        if not targets or video in self._failed or table.damaged.any():
            return False
        wanted = table.frame_packet[np.fromiter(targets, np.int64, len(targets))]
        with contextlib.closing(HeldPackets(reader())) as packets:
            learn(video.index, packets, wanted)
            plans = (make_plan(table, wanted, least_saved=least) for least in (NVDEC_LEAST_SAVED, 1))
            segments = next((plan.segments for plan in plans if _are_short(video, plan.segments)), None)
            if segments is None:
                return False
            decoder = self._decoders.take(video.index, 1)
            done, usable = False, True
            if decoder.can_fuse:
                converters = dict.fromkeys(converter for pairs in targets.values() for converter, _ in pairs)
                painting = painter.painting(list(converters), video.index.info)
                conversions = {converter: index for index, converter in enumerate(converters)}
                done, usable = _decode(video, segments, targets, conversions, painting, decoder, packets)
                if not done and painting.fits:
                    self._failed.add(video)
                    usable = False  # the decoder has reported damage
        if usable:
            self._decoders.give_back(video.index, 1, decoder)
        return done


def _decode(
    video: PlannedVideo,
    segments: Iterable[Segment],
    targets: Targets,
    conversions: Mapping[DeviceConverter, int],
    painting: Painting,
    decoder: NvdecDecoder,
    packets: PacketReader,
) -> tuple[bool, bool]:
    """Decode segments."""
    table = video.index.packets
    for segment in segments:
        numbers = segment.packets
        pending = PendingFrames(
            np.searchsorted(numbers, segment.wanted),
            [
                [(address, conversions[converter]) for converter, address in targets[frame]]
                for frame in table.packet_frame[segment.wanted].tolist()
            ],
            tracked(table, segment),
            undecodable(table, segment),
        )
        undamaged, flushed = decoder.fused_run(numbers, list(packets.read(numbers)), pending, painting)
        if not (undamaged and flushed):
            return False, flushed
    return True, True


def _are_short(video: PlannedVideo, segments: Iterable[Segment]) -> bool:
    """Return whether all segments fit into one fused call."""
    sizes = video.index.packets.size
    return all(
        len(segment.packets) <= _MOST_FUSED_PACKETS and int(sizes[segment.packets].sum()) <= _MOST_FUSED_BYTES
        for segment in segments
    )


_SMOOTHING = 0.2
# Pixels per second until measured: 700 frames of 1080p of a GPU worker, 200 of a CPU thread.
_INITIAL_GPU_RATE, _INITIAL_CPU_RATE = 1.4e9, 4e8


class WorkSplit:
    """Jobs that the GPU can decode, and an estimate of when it would finish them.

    Args:
        refusal: returns why the GPU cannot decode a stream, or "".
        gpu_workers: returns the number of GPU workers for jobs like the given one.
    """

    def __init__(self, refusal: Callable[[StreamInfo], str], gpu_workers: Callable[[Job], int]) -> None:
        self._refusal, self._gpu_workers = refusal, gpu_workers
        self._rate = _Rate(_INITIAL_GPU_RATE)

    def takes(self, job: Job) -> bool:
        """Return whether the GPU can decode a job."""
        return not self._refusal(job.video.index.info)

    def refuses(self, job: Job) -> bool:
        """Return whether the GPU cannot decode a job."""
        return not self.takes(job)

    def gpu_done(self, jobs: Seq[Job], seconds: float) -> None:
        """Update the GPU's rate with the duration of jobs that one worker decoded."""
        self._rate.update(jobs, seconds)

    def seconds(self, job: Job, waiting: Seq[Job]) -> float:
        """Estimate when the GPU would finish a job if it decoded all queued jobs first."""
        ahead = sum([job.pixels for job in waiting]) / self._gpu_workers(job)
        return (ahead + job.pixels) / self._rate.value


class CpuShare:
    """Rule for CPU workers: take a job only where the CPU finishes it sooner than the GPU would.

    Args:
        split: estimates of the GPU.
        threads: frame threads of a CPU worker.
    """

    def __init__(self, split: WorkSplit, threads: int = 1) -> None:
        self._split = split
        self._rate = _Rate(threads * _INITIAL_CPU_RATE)

    def choose(self, jobs: Iterable[Job], waiting: Seq[Job]) -> Job | None:
        """Return a job that the GPU cannot decode; else the last one, if the CPU finishes it before the GPU would."""
        last = None
        for job in jobs:
            if self._split.refuses(job):
                return job
            last = job
        if last is None:
            return None
        on_cpu = last.pixels / self._rate.value
        return last if on_cpu <= self._split.seconds(last, waiting) else None

    def done(self, jobs: Seq[Job], seconds: float) -> None:
        """Update the CPU's rate with the duration of jobs that one worker decoded."""
        self._rate.update(jobs, seconds)


class _Rate:
    """Smoothed decode rate of a worker in pixels per second; thread-safe."""

    def __init__(self, initial: float) -> None:
        self.value = initial
        self._lock = threading.Lock()

    def update(self, jobs: Seq[Job], seconds: float) -> None:
        rate = sum([job.pixels for job in jobs]) / max(seconds, 1e-6)
        with self._lock:
            self.value += _SMOOTHING * (rate - self.value)


_STREAM_BATCH = 16  # frames of a single stream that are painted together; independent of batches of sequences
# One worker decodes while the other waits for its last frames or opens the next file. With small frames the engines
# also wait for the GIL: seven engines decode 6,113 frames/s of 340×256 with two workers each, and 6,421, their maximum,
# with three. With large frames a third worker adds no speed and takes 40 MB of GPU memory.
_WORKERS_PER_ENGINE = 2
_WORKERS_PER_ENGINE_OF_SMALL = 3
_MOST_PIXELS_OF_SMALL = 1 << 20
# Feeding seven engines takes 1.4 to 2 cores.
_FEEDING_CORES = 2
_FRAME_THREADS = 7
# Worker processes that decode small frames concurrently with the engines. They run at a lower priority than the threads
# that feed the engines, and leave these some cores: 16 cores and 7 engines read 6,719 frames/s of 340×256 with 10
# processes, 6,421 without.
_PROCESSES_PER_CORE = 5 / 8
_PROCESS_NICENESS = 10
# A GPU paints the frames of a job in a twentieth of the time that a process decodes them in. More threads would only
# take jobs early and hold them until a process is free, while the engines could have decoded them, and CpuShare would
# take that time for the CPU's.
_PROCESSES_PER_SPARE_THREAD = 4


def gpu_decode_backends(
    device: int, decode: DecodeChoice, cores: int
) -> tuple[list[DecodeBackend], Callable[[tuple[int, ...], np.dtype[Any]], Array]]:
    """Create the decode backends of one GPU."""
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
    gpu = DecodeBackend("nvdec", nvdec, painter, fused=FusedDecoder(nvdec))
    if decode == "nvdec":
        return _by_size(gpu, workers), streams.allocate
    split = WorkSplit(_refusals(streams), lambda job: workers(_is_small(job)))
    gpu = replace(gpu, fits=split.takes, fallback=pool, done=split.gpu_done)
    if decode == "auto":
        cpu = replace(cpu, fits=split.refuses)
        return [*_by_size(gpu, workers), *cpu.with_helpers(helpers)], streams.allocate
    count, frame_threads = mixed_cpu_workers(cores)
    cpu = replace(cpu, threads=count, frame_threads=frame_threads)
    spare = None if helpers is None else max(2, helpers.count // _PROCESSES_PER_SPARE_THREAD)
    on_cpu = map(partial(_mixed_cpu_backend, split), cpu.with_helpers(helpers, spare))
    return [*_by_size(gpu, workers), *on_cpu], streams.allocate


def _is_small(job: Job) -> bool:
    info = job.video.index.info
    return info.width * info.height <= _MOST_PIXELS_OF_SMALL


def _workers(engine_count: int, small: bool) -> int:
    return engine_count * (_WORKERS_PER_ENGINE_OF_SMALL if small else _WORKERS_PER_ENGINE)


def _by_size(gpu: DecodeBackend, workers: Callable[[bool], int]) -> list[DecodeBackend]:
    """Split a backend in one for large frames and one for small frames."""
    large, small = gpu.only(lambda job: not _is_small(job)), gpu.only(_is_small)
    return [replace(large, threads=workers(False)), replace(small, threads=workers(True))]


def _mixed_children(cores: int) -> Children | None:
    return children(int(_PROCESSES_PER_CORE * cores), nice=_PROCESS_NICENESS)


def _mixed_cpu_backend(split: WorkSplit, backend: DecodeBackend) -> DecodeBackend:
    """Return a CPU backend that shares the queue with a GPU."""
    share = CpuShare(split, backend.frame_threads)
    return replace(backend, choose=share.choose, done=share.done)


def mixed_cpu_workers(cores: int) -> tuple[int, int]:
    """Choose the CPU workers of mixed decoding.

    With several frame threads a CPU worker finishes a sequence about as soon as a GPU worker, which keeps the latency
    of a batch; and fewer Python threads compete for the GIL.
    """
    spare = max(1, cores - _FEEDING_CORES)
    frame_threads = min(spare, _FRAME_THREADS)
    return spare // frame_threads, frame_threads


def _refusals(streams: Streams) -> Callable[[StreamInfo], str]:
    """Return a thread-safe, memoized function that says why a GPU should not decode a stream, or ""."""
    reasons: dict[Hashable, str] = {}

    def refusal(info: StreamInfo) -> str:
        key = info.codec, info.pixel_format, info.width, info.height
        if key not in reasons:
            with streams.bound():
                reasons[key] = exact_refusal(streams.device, info)
        return reasons[key]

    return refusal


def gpu_reader_context(device: int, decode: DecodeChoice) -> ReaderContext:
    """Create the decoders and painter of a single reader."""
    streams = Streams(device, shared=True)
    painter = partial(DevicePainter, streams)
    cpu = DecoderPool()
    backend = DecodeBackend("cpu", cpu, painter, close=cpu.clear)
    if decode != "cpu":
        fallback = None if decode == "nvdec" else cpu
        nvdec = NvdecDecoders(_pool(device), streams.address, exact=decode != "nvdec")
        backend = DecodeBackend("nvdec", nvdec, painter, fallback=fallback, close=cpu.clear)
    return ReaderContext(backend, streams.ready, _STREAM_BATCH)


@cache
def _pool(device: int) -> NvdecPool:
    """Return the decoder sessions of a GPU, shared by the process: creating one takes longer than most jobs."""
    # Nothing closes its sessions when the program ends: the driver frees them with the process, whereas closing them
    # takes 0.2 s of a program that is alone on a GPU, and up to 5 s of each of 24 programs that end at once.
    pool = NvdecPool(device, memory=idle_bytes())
    when_full(device, partial(_free_idle, device, pool))
    return pool


def _free_idle(device: int, pool: NvdecPool) -> None:
    """Free the idle decoders and upload buffers of a GPU."""
    pool.clear()
    free_uploads(device)
