"""Streams of bytes that cannot seek: pipes, addresses and objects with ``read``, and the demuxer over them."""

from __future__ import annotations

import io
import os
import select
import sys
from contextlib import ExitStack
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import av
import av.container

from ..errors import ParameterError, SourceError, UnreadableSourceError
from .probe.extent import HEAD, data_before_index, declared_size
from .source.source import Source, open_source

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = [
    "INDEX_FIRST",
    "HeardBytes",
    "Streamed",
    "Waiting",
    "demuxer_over",
    "opened_bytes",
    "seekable_if_needed",
    "source_name",
    "stalled",
]

Streamed: TypeAlias = "str | os.PathLike[str] | Any"
"""A source to stream: "-" for standard input, a path of a file or pipe, an address, or an object with ``read``."""

INDEX_FIRST: Final = (
    "Save the stream to a file, or let its writer put the index first: ffmpeg -movflags +faststart; into a pipe, "
    "fragmented MP4 or another container"
)
"""Advice for MP4 that requires seeking."""

_BUFFER: Final = 1 << 16
_WHOLE_BYTES: Final = 32 << 20
_SCHEMES: Final = ("http://", "https://", "rtsp://", "rtmp://", "udp://", "tcp://", "srt://", "hls+http")


class Waiting:
    """How long to wait for data."""

    def __init__(self, open_s: float, read_s: float) -> None:
        self.open_s, self.read_s = open_s, read_s
        self.now_s = open_s

    def opened(self) -> None:
        """From now on the stream is read."""
        self.now_s = self.read_s


class _Pipe:
    """A descriptor that is read from front to back, and not waited for forever."""

    def __init__(self, descriptor: int, waiting: Waiting) -> None:
        self._descriptor, self._waiting = descriptor, waiting

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes, as soon as there are some; none at the end.

        Raises:
            TimeoutError: there are none for too long.
        """
        limit = self._waiting.now_s
        if not select.select([self._descriptor], [], [], limit)[0]:
            raise TimeoutError(f"no data for {limit:g} s")
        return os.read(self._descriptor, max(1, size))


class _Front:
    """A file object that is read from front to back, whatever else it could do."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes."""
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise ParameterError("the file object gives text", advice="Open it with mode 'rb'")
        return data


def source_name(source: Streamed) -> str:
    """What messages and results call a source."""
    if isinstance(source, (str, os.PathLike)):
        return "<standard input>" if source == "-" else os.fspath(source)
    return f"<{getattr(source, 'name', None) or type(source).__name__}>"


class HeardBytes:
    """A stream of bytes that is looked at first; its end is noticed where its header promises more."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._head, self._size = b"", 0
        self._looked = b""
        self._interrupt: KeyboardInterrupt | None = None

    def look(self) -> bytes:
        """The first bytes, which are read again later."""
        while len(self._head) < HEAD and (data := self._plain.read(HEAD - len(self._head))):
            self._head += data
            self._looked += data
        return self._head

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes; none at the end, and from an interrupt on."""
        if self._interrupt is not None:
            return b""
        try:
            data: bytes = self._looked[:size] or self._plain.read(size)
        except KeyboardInterrupt as interrupt:  # FFmpeg has called this, and lets only an Exception through
            self._interrupt, data = interrupt, b""
        self._looked = self._looked[len(data) :]
        self._size += len(data)
        return data

    def check_interrupt(self) -> None:
        """Raise the interrupt that has ended reading, if one has.

        Raises:
            KeyboardInterrupt: it.
        """
        if self._interrupt is not None:
            raise self._interrupt

    def missing(self) -> str:
        """What does not come of what the header promises, or nothing."""
        stated = declared_size(self._head)
        while stated is not None and stated > self._size and self.read():
            pass  # what stands behind the last packet
        if stated is None or stated <= self._size:
            return ""
        return f"its header promises {stated} bytes, {self._size} came"


def demuxer_over(file: Any, waiting: Waiting, stack: ExitStack) -> InputContainer:
    """The demuxer over a path, an address, or an object that reads."""
    if isinstance(file, str):
        timeout = (waiting.open_s, waiting.read_s) if file.startswith(_SCHEMES) else None
        return stack.enter_context(av.open(file, timeout=timeout))
    return cast("InputContainer", stack.enter_context(av.open(file, "r", buffer_size=_BUFFER)))


def opened_bytes(source: Streamed, waiting: Waiting, stack: ExitStack) -> Any:
    """What ``av.open`` takes: a path or address, or an object that reads."""
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise ParameterError(
                f"a {type(source).__name__} cannot be streamed",
                allowed='"-", a path, an address, or a binary file object',
            )
        return _Front(source)
    name = os.fspath(source)
    if name == "-":
        return _Pipe(sys.stdin.fileno(), waiting)
    if name.startswith(_SCHEMES):
        return name
    if "://" in name:
        import fsspec

        return stack.enter_context(fsspec.open(name, "rb").open())
    if S_ISFIFO(os.stat(name).st_mode) if os.path.exists(name) else False:  # noqa: PTH110, PTH116  names are texts here
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        return _Pipe(descriptor, waiting)
    return open_source(name).for_demuxer()


def seekable_if_needed(heard: HeardBytes, source: Source) -> Any:
    """A stream as it is, or what is in it: MP4 with its index behind its data requires seeking.

    Raises:
        UnreadableSourceError: it requires seeking, and is too large to be held.
    """
    behind = data_before_index(heard.look())
    if not behind:
        return heard
    if behind > _WHOLE_BYTES:
        raise UnreadableSourceError(
            "this MP4 or QuickTime stream has its index (moov) behind its data, which requires seeking",
            source=source.name,
            allowed=f"at most {_WHOLE_BYTES >> 20} MiB of data before the index",
            advice=INDEX_FIRST,
        )
    return io.BytesIO(b"".join(iter(heard.read, b"")))


def stalled(source: Source, error: TimeoutError) -> SourceError:
    """The error for a stream without data for too long."""
    return SourceError(
        f"the stream has stalled ({error})",
        source=source.name,
        advice="Give more time: open_timeout_s, read_timeout_s",
    )
