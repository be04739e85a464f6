"""Decoding of one video's frames into their target arrays, with a fallback decoder for frames that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np

from ...errors import BackendError, DeviceMemoryError, SourceError
from ..convert.converter import Painter, Targets
from ..convert.surface import AnySurface
from ..decode.packets import Decoders, PacketReader, open_packets
from ..decode.run import Decoding, Lost
from ..plan import PlannedVideo
from .backend import DecodeBackend, Helpers

__all__ = ["Count", "fill"]

Count: TypeAlias = Callable[[str, int, str], None]
"""Called with a backend's name, its number of decoded frames, and why the backend before it failed, or ""."""


def fill(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    painter: Painter,
    count: Count,
    *,
    reader: Callable[[], PacketReader] | None = None,
    threads: int = 1,
) -> dict[int, str]:
    """Decode and paint all targets; frames that the backend cannot decode are left to its fallback."""
    reader = reader or partial(open_packets, video.source, video.index)
    decode = partial(_decode_and_paint, video, targets, painter, reader, threads)
    try:
        try:
            if backend.fused is None:
                return _decode_with_fallback(video, targets, backend, count, decode)
            fused = partial(backend.fused, video, targets, painter, reader)
            return _decode_with_fallback(video, targets, backend, count, decode, fused)
        finally:
            # Also after an error: the painter would write pending frames later, into arrays that are freed by then.
            painter.finish()
    except SourceError as error:
        # The painter's converter may have been created for another stream of the same kind, which the error names.
        error.source = video.index.info.source
        raise


def _decode_with_fallback(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    count: Count,
    decode: Callable[..., dict[int, str]],
    fused: Callable[[], bool] = lambda: False,
) -> dict[int, str]:
    wanted = len(targets)
    lost: dict[int, str] = {}
    try:
        if fused():
            targets.clear()
        else:
            lost = decode(backend.decoders, backend.helpers)
        reason = next(iter(lost.values()), "")
    except BackendError as error:
        if backend.fallback is None:
            if not isinstance(error, DeviceMemoryError):  # a full GPU has nothing to do with the video
                error.source = video.index.info.source
            raise
        reason = error.fact
    count(backend.name, wanted - len(targets), "")
    if targets and backend.fallback is not None:
        wanted = len(targets)
        lost = decode(backend.fallback)
        count("cpu", wanted - len(targets), reason)
    return lost


def _decode_and_paint(
    video: PlannedVideo,
    targets: Targets,
    painter: Painter,
    reader: Callable[[], PacketReader],
    threads: int,
    decoders: Decoders,
    helpers: Helpers | None = None,
) -> dict[int, str]:
    """Decode and paint targets, which are removed; returns the reason for each frame that is lost."""
    lost: dict[int, str] = {}
    frames = np.fromiter(targets, dtype=np.int64, count=len(targets))
    by_helper = None if helpers is None else helpers.decode(video, frames)
    with contextlib.ExitStack() as stack:
        items: Iterable[AnySurface | Lost]
        if by_helper is None:
            packets = stack.enter_context(contextlib.closing(reader()))
            items = Decoding(video.index, packets, decoders, frames, threads=threads)
        else:
            items = stack.enter_context(contextlib.closing(by_helper))
        left = len(frames)
        for item in items:
            left -= 1
            if isinstance(item, Lost):
                lost[item.number] = item.reason
            else:
                painter.put(item, targets.pop(item.number))
            # A frame buffer that is still referenced is not reused. Where damage leaves part of a frame undecoded, the
            # old content of its buffer shows, which must not depend on the set of requested frames.
            del item
            if not left:
                painter.finish()  # the decoder is returned to its pool with the last frame, and may be reused
        assert not left, "some frames were neither delivered nor lost"
    return lost
