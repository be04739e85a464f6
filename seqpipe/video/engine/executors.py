"""Device executors: an engine with threads, or the context of a single reader."""

from __future__ import annotations

import os

from ..device import Decode, Device
from .engine import Engine, available_cores
from .single_reader import ReaderContext, cpu_reader_context

__all__ = ["engine_for", "reader_context"]


def engine_for(
    device: Device,
    *,
    decode: Decode,
    threads: int | None,
    cache_dir: str | os.PathLike[str] | None,
    stream: int | None = None,
    register: str | None = None,
) -> Engine:
    """An engine whose sequences are on a device.

    Args:
        device: where.
        decode: who decodes, see :data:`DECODE`; without meaning on the CPU.
        threads: CPU threads; by default one per core that this process may use.
        cache_dir: where indexes are kept.
        stream: which stream of each video, by its number in the container; None for the best one.
        register: the path of a register of indexes, if there is one.
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


def reader_context(device: Device, *, decode: Decode) -> ReaderContext:
    """What a single reader works with.

    Args:
        device: where frames are to be.
        decode: who decodes, see :data:`DECODE`; without meaning on the CPU.
    """
    if device.kind == "cpu":
        return cpu_reader_context()
    from .gpu_backends import gpu_reader_context

    return gpu_reader_context(device.number, decode)
