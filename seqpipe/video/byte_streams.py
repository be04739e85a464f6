"""Byte streams that cannot seek: pipes, addresses and objects with ``read``; and their demuxers."""

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
from .probe.recognize import HEAD, data_before_index, declared_size
from .source.names import check_content
from .source.source import Source, open_source

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = [
    "INDEX_FIRST",
    "PeekableBytes",
    "ReadTimeouts",
    "Streamed",
    "demuxer_over",
    "is_address",
    "open_bytes",
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


class ReadTimeouts:
    """The longest wait for data, which differs between opening and reading."""

    def __init__(self, open_s: float, read_s: float) -> None:
        self.open_s, self.read_s = open_s, read_s
        self.current_s = open_s

    def opened(self) -> None:
        """Switch to the timeout of reading."""
        self.current_s = self.read_s


class _Pipe:
    """A file descriptor that is read sequentially, with a timeout."""

    def __init__(self, descriptor: int, timeouts: ReadTimeouts) -> None:
        self._descriptor, self._timeouts = descriptor, timeouts

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes as soon as any are available; ``b""`` at the end."""
        limit = self._timeouts.current_s
        if not select.select([self._descriptor], [], [], limit)[0]:
            raise TimeoutError(f"no data for {limit:g} s")
        return os.read(self._descriptor, max(1, size))


class _ForwardReader:
    """A file object of which only ``read`` is used, so that FFmpeg does not seek."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes."""
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise ParameterError("the file object returns text", advice="Open it with mode 'rb'")
        return data


def source_name(source: Streamed) -> str:
    """Return the name of a source for messages and results."""
    if isinstance(source, (str, os.PathLike)):
        return "<standard input>" if source == "-" else os.fspath(source)
    return f"<{getattr(source, 'name', None) or type(source).__name__}>"


class PeekableBytes:
    """A byte stream whose head can be peeked at and whose size is compared with the one that its header declares."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._head, self._size = b"", 0
        self._peeked = b""
        self._interrupt: KeyboardInterrupt | None = None

    def peek(self) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._head) < HEAD and (data := self._plain.read(HEAD - len(self._head))):
            self._head += data
            self._peeked += data
        return self._head

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes; ``b""`` at the end and after an interrupt."""
        if self._interrupt is not None:
            return b""
        try:
            data: bytes = self._peeked[:size] or self._plain.read(size)
        except KeyboardInterrupt as interrupt:  # PyAV's callback propagates subclasses of Exception only
            self._interrupt, data = interrupt, b""
        self._peeked = self._peeked[len(data) :]
        self._size += len(data)
        return data

    def check_interrupt(self) -> None:
        """Raise the interrupt that ended reading, if any."""
        if self._interrupt is not None:
            raise self._interrupt

    def missing(self) -> str:
        """Describe how much shorter the stream is than its header declares; "" if it is complete."""
        declared = declared_size(self._head)
        while declared is not None and declared > self._size and self.read():
            pass  # count the bytes after the last packet
        if declared is None or declared <= self._size:
            return ""
        return f"its header declares {declared} bytes, it has {self._size}"


def demuxer_over(file: Any, timeouts: ReadTimeouts, stack: ExitStack) -> InputContainer:
    """Open the demuxer for a path, an address, or a file object."""
    if isinstance(file, str):
        timeout = (timeouts.open_s, timeouts.read_s) if is_address(file) else None
        return stack.enter_context(av.open(file, timeout=timeout))
    return cast("InputContainer", stack.enter_context(av.open(file, "r", buffer_size=_BUFFER)))


def is_address(name: str) -> bool:
    """Return whether FFmpeg opens a source by its address."""
    return name.startswith(_SCHEMES)


def open_bytes(source: Streamed, timeouts: ReadTimeouts, stack: ExitStack) -> Any:
    """Return the argument for ``av.open``: a path, an address, or a file object."""
    if not isinstance(source, (str, os.PathLike)):
        if isinstance(source, bytes):
            check_content(source)
        if not hasattr(source, "read"):
            raise ParameterError(
                f"an object of type {type(source).__name__} cannot be streamed",
                allowed='"-", a path, an address, or a binary file object',
            )
        return _ForwardReader(source)
    name = os.fspath(source)
    if name == "-":
        return _Pipe(sys.stdin.fileno(), timeouts)
    if is_address(name):
        return name
    if "://" in name:
        import fsspec

        return stack.enter_context(fsspec.open(name, "rb").open())
    if os.path.exists(name) and S_ISFIFO(os.stat(name).st_mode):  # noqa: PTH110, PTH116  names are texts here
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        return _Pipe(descriptor, timeouts)
    opened = open_source(name)
    if opened.stills is not None:
        raise ParameterError(
            "images are not streamed", source=name, advice="Open them by seqpipe.open or seqpipe.videos"
        )
    return opened.for_demuxer()


def seekable_if_needed(stream: PeekableBytes, source: Source) -> Any:
    """Read an MP4 whose index follows its data into memory, since it requires seeking; return others unchanged."""
    behind = data_before_index(stream.peek())
    if not behind:
        return stream
    if behind > _WHOLE_BYTES:
        raise UnreadableSourceError(
            "this MP4 or QuickTime stream has its index (moov) behind its data, which requires seeking",
            source=source.name,
            allowed=f"at most {_WHOLE_BYTES >> 20} MiB of data before the index",
            advice=INDEX_FIRST,
        )
    return io.BytesIO(b"".join(iter(stream.read, b"")))


def stalled(source: Source, error: TimeoutError) -> SourceError:
    """Return the error for a stream without data within the timeout."""
    return SourceError(
        f"the stream has stalled ({error})",
        source=source.name,
        advice="Give more time: open_timeout_s, read_timeout_s",
    )
