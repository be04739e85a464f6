"""Steps that make a file out of another one: remuxing, cutting, patching, damaging.

Steps are frozen dataclasses: what they do is told by their repr, which the digest of an item covers.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import av

from data_scripts.media_bits import vui_removed
from data_scripts.media_item import Toolbox

__all__ = ["Content", "Cut", "CutAt", "Damage", "Join", "Patch", "Remux", "WithoutVui"]


@dataclass(frozen=True)
class Content:
    """A file of given bytes."""

    data: bytes

    def make(self, base: Path | None, target: Path, tools: Toolbox) -> None:  # noqa: ARG002  # a Step's signature
        """Write them."""
        target.write_bytes(self.data)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The start of a file: a number of bytes, or a share of it."""

    length: int = 0
    share: float = 0.0

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:  # noqa: ARG002  # a Step's signature
        """Write the part."""
        data = base.read_bytes()
        target.write_bytes(data[: self.length or int(len(data) * self.share)])


@dataclass(frozen=True)
class CutAt:
    """Everything before the first occurrence of a mark, and ``less`` bytes before it."""

    mark: bytes
    less: int = 0

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:  # noqa: ARG002  # a Step's signature
        """Write the part."""
        data = base.read_bytes()
        target.write_bytes(data[: data.index(self.mark) - self.less])


@dataclass(frozen=True)
class Patch:
    """The same file with every occurrence of some bytes replaced by others of the same length."""

    old: bytes
    new: bytes

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:  # noqa: ARG002  # a Step's signature
        """Write the patched file."""
        data = base.read_bytes()
        if self.old not in data or len(self.old) != len(self.new):
            raise ValueError(f"{base.name} cannot be patched: {self.old!r} to {self.new!r}")
        target.write_bytes(data.replace(self.old, self.new))


@dataclass(frozen=True, kw_only=True)
class Remux:
    """The same packets in another file, through ``ffmpeg -c copy``.

    Attributes:
        before: options of the input.
        after: options of the output.
    """

    before: str = ""
    after: str = ""

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:
        """Write the other file."""
        given = [
            *shlex.split(self.before),
            "-i",
            str(base),
            "-map",
            "0",
            "-c",
            "copy",
            "-fflags",
            "+bitexact",
        ]
        tools.ffmpeg(*given, *shlex.split(self.after), str(target))


@dataclass(frozen=True)
class Join:
    """The bytes of two files, one after the other."""

    second: str

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:
        """Write both."""
        target.write_bytes(base.read_bytes() + tools.path(self.second).read_bytes())


@dataclass(frozen=True, kw_only=True)
class WithoutVui:
    """A bare H.264 stream whose parameter sets lost their video usability information, muxed again."""

    rate: str = "25"

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:
        """Write the file."""
        with tempfile.TemporaryDirectory(prefix="seqpipe_vui_") as folder:
            raw = Path(folder, "stream.h264")
            raw.write_bytes(vui_removed(base.read_bytes()))
            tools.ffmpeg("-r", self.rate, "-i", str(raw), "-c", "copy", "-fflags", "+bitexact", str(target))


@dataclass(frozen=True)
class Damage:
    """An MP4 file in which one packet of the second GOP is damaged, well behind the slice header.

    Attributes:
        packet: ``key``, ``reference`` (predicted, and others are predicted from it) or ``disposable``.
        how: ``flip`` inverts bits in the middle third of the packet, ``zero`` clears it all but its length.
    """

    packet: Literal["key", "reference", "disposable"]
    how: Literal["flip", "zero"] = "flip"

    def make(self, base: Path, target: Path, tools: Toolbox) -> None:  # noqa: ARG002  # a Step's signature
        """Write the damaged file."""
        data = bytearray(base.read_bytes())
        start, size = self.place(base)
        first, last = (
            (start + size // 3, start + 2 * size // 3) if self.how == "flip" else (start, start + size)
        )
        for position in range(first, last):
            data[position] = data[position] ^ 0x5A if self.how == "flip" else 0
        target.write_bytes(data)

    def place(self, base: Path) -> tuple[int, int]:
        """(offset, size) of the packet that is damaged, in bytes."""
        keys = 0
        for start, size, key, reference in _packets(base):
            keys += key
            kind = "key" if key else "reference" if reference else "disposable"
            if keys == 2 and kind == self.packet:
                return start, size
        raise ValueError(f"{base.name} has no {self.packet} packet in a second GOP")


def _packets(path: Path) -> Iterator[tuple[int, int, bool, bool]]:
    """(offset, size, key, reference) of each packet of an H.264 or HEVC stream in MP4."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        hevc = stream.codec_context.name == "hevc"
        for packet in container.demux(stream):
            if packet.size and packet.pos is not None:
                yield packet.pos, packet.size, packet.is_keyframe, _is_reference(bytes(packet), hevc=hevc)


def _is_reference(packet: bytes, *, hevc: bool) -> bool:
    position = 0
    while position + 4 < len(packet):
        header = packet[position + 4]
        kind = header >> 1 & 0x3F if hevc else header & 0x1F
        if hevc and kind < 32:
            return kind > 15 or kind % 2 == 1
        if not hevc and kind in (1, 5):
            return header >> 5 != 0
        position += 4 + int.from_bytes(packet[position : position + 4], "big")
    return True
