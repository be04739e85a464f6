"""Decoding of one video's frames into their target arrays, with a fallback decoder for lost frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np

from ...errors import BackendError, DeviceMemoryError, SourceError
from ..convert.paint import Painter, Targets
from ..convert.surface import AnySurface
from ..decode.packet_decoder import Decoders
from ..decode.packets import PacketReader, open_packets
from ..decode.run import Decoding, Lost
from ..plan.jobs import PlannedVideo
from .backend import DecodeBackend, Helpers

__all__ = ["Note", "fill"]

Note: TypeAlias = Callable[[str, int, str], None]
"""Told who has decoded how many frames, and why they were not left to the one before, or ""."""


def fill(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    painter: Painter,
    note: Note,
    *,
    reader: Callable[[], PacketReader] | None = None,
    threads: int = 1,
) -> dict[int, str]:
    """Paint all targets; what a backend cannot decode, or finds damaged, its fallback decodes.

    Args:
        video: the video.
        targets: what is wanted; what was painted is taken out.
        backend: who decodes.
        painter: the calling thread's.
        note: is told what was done.
        reader: opens what its packets are read by; by default they are read where they lie.
        threads: frame threads of the decoder.

    Returns:
        The frames that are lost, with the reason for each.

    Raises:
        BackendError: the backend cannot decode such a stream, and has no fallback.
        SourceError: the stream cannot be read, or not be converted to what is asked for.
    """
    reader = reader or partial(open_packets, video.source, video.index)
    decode = partial(_painted, video, targets, painter, reader, threads)
    try:
        try:
            if backend.whole is None:
                return _judged(video, targets, backend, note, decode)
            whole = partial(backend.whole, video, targets, painter, reader)
            return _judged(video, targets, backend, note, decode, whole)
        finally:
            # Also after an error: frames that a painter still holds would end in memory that is someone else's.
            painter.finish()
    except SourceError as error:
        # The painter's converter may have been made for another stream like this one.
        error.source = video.index.info.source
        raise


def _judged(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    note: Note,
    decode: Callable[..., dict[int, str]],
    whole: Callable[[], bool] = lambda: False,
) -> dict[int, str]:
    wanted = len(targets)
    lost: dict[int, str] = {}
    try:
        if whole():
            targets.clear()
        else:
            lost = decode(backend.decoders, backend.helpers)
        reason = next(iter(lost.values()), "")
    except BackendError as error:
        if backend.fallback is None:
            if not isinstance(error, DeviceMemoryError):  # a full GPU is no fault of the video's
                error.source = video.index.info.source
            raise
        reason = error.fact
    note(backend.name, wanted - len(targets), "")
    if targets and backend.fallback is not None:
        wanted = len(targets)
        lost = decode(backend.fallback)
        note("cpu", wanted - len(targets), reason)
    return lost


def _painted(
    video: PlannedVideo,
    targets: Targets,
    painter: Painter,
    reader: Callable[[], PacketReader],
    threads: int,
    decoders: Decoders,
    helpers: Helpers | None = None,
) -> dict[int, str]:
    """Take from the targets what is decoded and painted; returns the rest with the reason for each."""
    lost: dict[int, str] = {}
    frames = np.fromiter(targets, dtype=np.int64, count=len(targets))
    elsewhere = None if helpers is None else helpers.decode(video, frames)
    with contextlib.ExitStack() as stack:
        items: Iterable[AnySurface | Lost]
        if elsewhere is None:
            packets = stack.enter_context(contextlib.closing(reader()))
            items = Decoding(video.index, packets, decoders, frames, threads=threads)
        else:
            items = stack.enter_context(contextlib.closing(elsewhere))
        left = len(frames)
        for item in items:
            left -= 1
            if isinstance(item, Lost):
                lost[item.number] = item.reason
            else:
                painter.put(item, targets.pop(item.number))
            # A frame that is held on to decides which memory the next ones come into; what damage leaves undecoded of
            # them shows what was there. It may not depend on what was asked for.
            del item
            if not left:
                painter.finish()  # its decoder is for others from now on
        assert not left, "some frames were neither delivered nor lost"
    return lost
