"""Windows over a stream of frames: the frames that are still needed, and the windows that are complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from .clip import FrameClip, Span
from .windows import Windows

__all__ = ["RollingWindows"]

ItemT = TypeVar("ItemT")


class RollingWindows(Generic[ItemT]):
    """The windows of a span whose end is unknown while its frames arrive.

    Args:
        windows: the windows.
        first: the number of the span's first frame.

    Attributes:
        held: the caller's items for frames of later windows, by frame number; items that no later window needs are
            removed.
    """

    def __init__(self, windows: Windows, first: int) -> None:
        self._windows, self._first = windows, first
        self._reach = (windows.sequence_length - 1) * windows.stride
        self._next, self._end = 0, first
        self.held: dict[int, ItemT] = {}

    def needs(self, number: int) -> bool:
        """Return whether a later window contains a frame."""
        at, distance, stride = number - self._first, self._windows.distance, self._windows.stride
        earliest = max(self._next, -(-(at - self._reach) // distance))
        return any((at - k * distance) % stride == 0 for k in range(earliest, at // distance + 1))

    def passed(self, number: int) -> Iterator[FrameClip]:
        """Yield the windows that a frame completes; ``held`` has the frames of a window until the next is yielded."""
        self._end = number + 1
        while self._begin + self._reach < self._end:
            yield from self._window()

    def rest(self) -> Iterator[FrameClip]:
        """Yield the padded windows that reach past the last frame; none without padding."""
        while self._windows.pad_mode != "none" and self._begin < self._end:
            yield from self._window()

    @property
    def _begin(self) -> int:
        """The first frame of the next window."""
        return self._first + self._next * self._windows.distance

    def _window(self) -> Iterator[FrameClip]:
        yield self._windows.clip_at(Span(self._first, self._end), self._next)
        self._next += 1
        self.held = {number: item for number, item in self.held.items() if number >= self._begin}
