"""Factories of device executors: a thread pool for many readers, or the context of a single reader."""

from __future__ import annotations

import contextlib
import os

from ..convert.paint import HostPainter
from ..decode.pool import DecoderPool
from ..device import DecodeChoice, Device
from .backend import DecodeBackend, ReaderContext
from .engine import Engine, available_cores

__all__ = ["engine_for", "reader_context"]


def engine_for(
    device: Device,
    *,
    decode: DecodeChoice,
    threads: int | None,
    cache_dir: str | os.PathLike[str] | None,
    stream: int | None = None,
    register: str | None = None,
) -> Engine:
    """Create an engine that delivers sequences on a device.

    Args:
        device: device of the sequences.
        decode: decode backend, see :data:`DECODE`; ignored on the CPU.
        threads: CPU threads; by default one per core available to this process.
        cache_dir: folder of cached indexes.
        stream: which stream of each video, by its number in the container; None for the best one.
        register: path of a shared index register, or None.
    """
    if device.kind == "cpu":
        return Engine(threads, cache_dir=cache_dir, stream=stream, register=register)
    from .gpu_backends import gpu_decode_backends

    backends, allocate = gpu_decode_backends(device.number, decode, threads or available_cores())
    return Engine(
        threads,
        cache_dir=cache_dir,
        stream=stream,
        register=register,
        backends=backends,
        allocate=allocate,
    )


def reader_context(device: Device, *, decode: DecodeChoice) -> ReaderContext:
    """Create the decoders and painter of a single reader, which decodes in the calling thread.

    Args:
        device: device of the frames.
        decode: decode backend, see :data:`DECODE`; ignored on the CPU.
    """
    if device.kind == "cpu":
        decoders = DecoderPool()
        backend = DecodeBackend("cpu", decoders, HostPainter, close=decoders.clear)
        return ReaderContext(backend, contextlib.nullcontext, 1)
    from .gpu_backends import gpu_reader_context

    return gpu_reader_context(device.number, decode)
