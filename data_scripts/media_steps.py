"""Steps that make a file out of another one: remuxing, cutting, patching, damaging.

Steps are frozen dataclasses: what they do is told by their repr, which the digest of an item covers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av

from data_scripts.media_bits import vui_removed
from data_scripts.media_item import Toolbox
from seqpipe.video.probe.probe import av_packet, set_extradata

__all__ = [
    "Content",
    "Cut",
    "CutAt",
    "Damage",
    "Join",
    "PackBFrames",
    "PacketRole",
    "Patch",
    "Remux",
    "WithoutVui",
]

PacketRole = Literal["key", "reference", "disposable"]


@dataclass(frozen=True)
class Content:
    """A file of given bytes."""

    data: bytes

    def make(self, _base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write them."""
        target.write_bytes(self.data)
        return ""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The start of a file: a number of bytes, or a share of it."""

    length: int = 0
    share: float = 0.0

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the part."""
        data = base.read_bytes()
        end = self.length or int(len(data) * self.share)
        target.write_bytes(data[:end])
        return f"cut off from byte {end} on"


@dataclass(frozen=True)
class CutAt:
    """Everything before the first occurrence of a mark, and ``less`` bytes before it."""

    mark: bytes
    less: int = 0

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the part."""
        data = base.read_bytes()
        target.write_bytes(data[: data.index(self.mark) - self.less])
        return ""


@dataclass(frozen=True)
class Patch:
    """The same file with every occurrence of some bytes replaced by others of the same length."""

    old: bytes
    new: bytes

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the patched file."""
        data = base.read_bytes()
        if self.old not in data or len(self.old) != len(self.new):
            raise ValueError(f"{base.name} cannot be patched: {self.old!r} to {self.new!r}")
        target.write_bytes(data.replace(self.old, self.new))
        return ""


@dataclass(frozen=True, kw_only=True)
class Remux:
    """The same packets in another file, through ``ffmpeg -c copy``.

    Attributes:
        before: options of the input.
        after: options of the output.
    """

    before: str = ""
    after: str = ""

    def make(self, base: Path, target: Path, tools: Toolbox, /) -> str:
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
        return ""


@dataclass(frozen=True)
class Join:
    """The bytes of two files, one after the other."""

    second: str

    def make(self, base: Path, target: Path, tools: Toolbox, /) -> str:
        """Write both."""
        target.write_bytes(base.read_bytes() + tools.path(self.second).read_bytes())
        return ""


@dataclass(frozen=True)
class WithoutVui:
    """An H.264 file in MP4 whose parameter set lost its video usability information."""

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the file."""
        with av.open(str(base)) as container, av.open(str(target), "w", format="mp4") as out:
            source = container.streams.video[0]
            stream = out.add_stream_from_template(source)
            set_extradata(stream.codec_context, vui_removed(source.codec_context.extradata or b""))
            for packet in container.demux(source):
                if packet.size:
                    packet.stream = stream
                    out.mux(packet)
        return ""


@dataclass(frozen=True)
class PackBFrames:
    """MPEG-4 in AVI, packed as DivX 5 did: each single B frame behind its reference, in one packet.

    In the place of the B frame stands a frame that is marked as not coded. 25 frames per second are assumed:
    five bits for the time increment.
    """

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the packed file."""
        with av.open(str(base)) as container, av.open(str(target), "w", format="avi") as out:
            source = container.streams.video[0]
            stream = out.add_stream_from_template(source)
            packets = [bytes(packet) for packet in container.demux(source) if packet.size]
            for number, data in enumerate(_packed(packets)):
                packet = av_packet(data)
                packet.pts = packet.dts = number
                packet.duration, packet.time_base, packet.stream = 1, Fraction(1, 25), stream
                packet.is_keyframe = _vop_type(data) == 0
                out.mux(packet)
        return ""


def _packed(packets: list[bytes]) -> Iterator[bytes]:
    marker = b"\x00\x00\x01\xb2DivX503b1393p"
    waiting = False
    for number, (data, following) in enumerate(zip(packets, [*packets[1:], b""], strict=True)):
        if waiting:
            yield _not_coded(number)
            waiting = False
            continue
        waiting = _vop_type(following) == 2
        vop = data.index(_VOP)
        head = data[:vop] + marker if number == 0 else data[:vop]
        yield head + data[vop:] + (following if waiting else b"")


_VOP = b"\x00\x00\x01\xb6"


def _vop_type(data: bytes) -> int:
    """0 I, 1 P, 2 B; -1 without a VOP."""
    return data[data.index(_VOP) + 4] >> 6 if _VOP in data else -1


def _not_coded(number: int) -> bytes:
    """A VOP: type 01 (P), no whole second, marker, time increment, marker, coded 0, stuffing."""
    bits = "01" + "0" + "1" + f"{number % 25:05b}" + "1" + "0" + "01111"
    return _VOP + int(bits, 2).to_bytes(2, "big")


@dataclass(frozen=True)
class Damage:
    """An MP4 file in which one packet of the second GOP is damaged.

    Attributes:
        packet: ``key``, ``reference`` (predicted, and others are predicted from it) or ``disposable``; of
            codecs other than H.264 and HEVC, every packet that is no key frame counts as ``reference``.
        flip: bits that are inverted in each byte from a half to six sevenths of the packet, well behind the
            headers; 0 clears the whole packet instead.
    """

    packet: PacketRole
    flip: int = 0

    def make(self, base: Path, target: Path, _tools: Toolbox, /) -> str:
        """Write the damaged file; tells where the damage lies."""
        data = bytearray(base.read_bytes())
        number, start, size = self.place(base)
        first, end = (start + size // 2, start + size * 6 // 7) if self.flip else (start, start + size)
        for position in range(first, end):
            data[position] = data[position] ^ self.flip if self.flip else 0
        target.write_bytes(data)
        return f"packet {number} in decode order, bytes {first} to {end - 1}"

    def place(self, base: Path) -> tuple[int, int, int]:
        """(number in decode order, offset, size in bytes) of the packet that is damaged."""
        keys = 0
        for number, (start, size, key, reference) in enumerate(_packets(base)):
            keys += key
            kind = "key" if key else "reference" if reference else "disposable"
            if keys == 2 and kind == self.packet:
                return number, start, size
        raise ValueError(f"{base.name} has no {self.packet} packet in a second GOP")


def _packets(path: Path) -> Iterator[tuple[int, int, bool, bool]]:
    """(offset, size, key, reference) of each packet of an MP4 file, in decode order."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        codec = stream.codec_context.name
        for packet in container.demux(stream):
            if packet.size and packet.pos is not None:
                nal = codec in ("h264", "hevc")
                reference = not nal or _is_reference(bytes(packet), hevc=codec == "hevc")
                yield packet.pos, packet.size, packet.is_keyframe, reference


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
