"""Every way to a video's frames, with the MD5 of each decoded surface in the place of its pixels.

A surface is what a decoder gives, before any color conversion; its digest is the one that the judge gives for the
same frame (tests.support.ffmpeg). So whole files are compared bit by bit without keeping a picture.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import seqpipe
from seqpipe.array import IntArray
from seqpipe.video.convert import converter
from seqpipe.video.convert.surface import Surface
from seqpipe.video.decode.cpu import DecoderPool
from seqpipe.video.decode.packets import OffsetPackets, open_packets
from seqpipe.video.decode.run import Decoding, Lost
from seqpipe.video.index.open import open_index
from seqpipe.video.packet_index import PacketIndex
from seqpipe.video.plan import make_plan
from seqpipe.video.probe.info import StreamInfo
from seqpipe.video.reader import VideoReader
from seqpipe.video.source.source import Origin, open_source
from tests.support import media
from tests.support.ffmpeg import plane_hash

__all__ = [
    "WAYS",
    "Delivery",
    "Frame",
    "Way",
    "decode",
    "demuxed_index",
    "digests",
    "indexed",
    "shared_names",
    "tap_surfaces",
]

Frame = tuple[int, str]
"""A frame number and the MD5 of the surface that was delivered under it."""

Way = Callable[[Path], Iterator[Frame]]
"""Goes one way through a video and gives each frame that came, as often as it came."""

_PIXELS = 12e6
_PIXELS_WITH_THREADS = 200e6
_ASKS = 8


@dataclass
class Delivery:
    """What one decoding gave: digests by frame number in the order they came, and the reasons of the lost."""

    frames: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


class _Tap:
    """Stands where the color conversion does: a frame's pixels are the 16 bytes of its surface's MD5."""

    shape, dtype = (1, 16, 1), np.dtype(np.uint8)

    def __init__(self, info: StreamInfo, *_given: object) -> None:
        self._form = info.pixel_format

    def __call__(self, surface: Surface, out: NDArray[Any]) -> None:
        digest = bytes.fromhex(plane_hash(surface.planes, self._form))
        out[...] = np.frombuffer(digest, np.uint8).reshape(self.shape)


def tap_surfaces(patch: pytest.MonkeyPatch) -> None:
    """Let VideoReader and Engine deliver digests of surfaces; :func:`digests` reads them back."""
    patch.setattr(converter, "Converter", _Tap)


def digests(sequence: seqpipe.Sequence) -> list[Frame]:
    """The frames of a sequence that a tapped reader or engine gave."""
    pixels = sequence.numpy().reshape(-1, 16)
    assert sequence.frames is not None
    return [(int(number), bytes(row).hex()) for number, row in zip(sequence.frames, pixels, strict=True)]


def shared_names(*folders: str) -> list[Any]:
    """The shared real videos for parametrising a test, those of some folders or all; one skip where there are none."""
    try:
        files = [row["file"] for row in media.shared_manifest()]
    except pytest.skip.Exception as reason:
        return [pytest.param("", marks=pytest.mark.skip(reason=str(reason)))]
    return [file for file in files if not folders or file.split("/")[1] in folders]


def is_long(name: Any) -> bool:
    """Whether a shared real video has more to decode than 37 megapixels, or a thousand frames."""
    if not isinstance(name, str):
        return False  # a skip
    (row,) = (row for row in media.shared_manifest() if row["file"] == name)
    frames, (width, height) = int(row["frames_decoded"]), map(int, row["wxh"].split("x"))
    return frames > 1000 or frames * width * height > 37e6


def indexed(path: Path) -> PacketIndex:
    """The index of a file, from the cache of this test run."""
    return open_index(path)


def demuxed_index(path: Path) -> PacketIndex:
    """The index of a file as if its container kept no packet in one piece, so that the demuxer must read them."""
    index = indexed(path)
    if not index.by_offset:
        return index
    packets = OffsetPackets(open_source(path), index).read(np.arange(len(index.packets)))
    checksums = np.array([zlib.crc32(data) for data in packets], dtype=np.uint32)
    table = replace(index.packets, checksum=checksums, offset=np.full(len(checksums), -1))
    return replace(index, packets=table)


def decode(
    origin: Origin,
    index: PacketIndex,
    frames: Iterable[int],
    *,
    threads: int = 1,
    pool: DecoderPool | None = None,
) -> Delivery:
    """Decode some frames of a video below the reader; damage loses frames, and is not raised."""
    delivery = Delivery()
    wanted = np.fromiter(frames, dtype=np.int64)
    with closing(open_packets(open_source(origin), index)) as packets:
        for item in Decoding(index, packets, pool or DecoderPool(), wanted, threads=threads):
            assert item.number not in delivery.frames, f"frame {item.number} came twice"
            assert item.number not in delivery.lost, f"frame {item.number} came after it was lost"
            if isinstance(item, Lost):
                delivery.lost[item.number] = item.reason
            else:
                delivery.frames[item.number] = plane_hash(item.planes, index.info.pixel_format)
    return delivery


def _sequential(path: Path) -> Iterator[Frame]:
    """Every frame in order, by one decoder with one thread."""
    index = indexed(path)
    yield from _run(path, index, len(index))


def _frame_threads(path: Path) -> Iterator[Frame]:
    """Frames in order from the first on, by one decoder with two frame threads."""
    index = indexed(path)
    yield from _run(path, index, min(len(index), _room(index, _PIXELS_WITH_THREADS)), threads=2)


def _demuxed(path: Path) -> Iterator[Frame]:
    """Packets through the demuxer instead of by offset: a run from the start, then here and there."""
    index = demuxed_index(path)
    assert not index.by_offset
    pool = DecoderPool()
    for wanted in _affordable(index, [np.arange(min(len(index), _room(index))), *_anywhere(index, path)]):
        delivery = decode(path, index, wanted, pool=pool)
        assert not delivery.lost
        yield from delivery.frames.items()


def _at_random(path: Path) -> Iterator[Frame]:
    """A few frames here and there, in the order asked for, and single ones."""
    with VideoReader(path, threads=1) as video:
        for wanted in _affordable(video.index, _anywhere(video.index, path)):
            frames = digests(video.frames(wanted))
            assert [number for number, _ in frames] == wanted.tolist()
            yield from frames
            yield from digests(video[int(wanted[0]) - len(video)])


def _reversed(path: Path) -> Iterator[Frame]:
    """Backwards: a slice, and step by step."""
    with VideoReader(path, threads=1) as video:
        last = int(_generator(path).integers(len(video)))
        first = max(0, last - _room(video.index))
        frames = digests(video[last : first - 1 if first else None : -1])
        assert [number for number, _ in frames] == list(range(last, first - 1, -1))
        yield from frames
        for number in range(last, max(last - 3, -1), -1):
            yield from digests(video[number])


def _repeated(path: Path) -> Iterator[Frame]:
    """The same frames more than once in one request."""
    with VideoReader(path, threads=1) as video:
        for wanted in _affordable(video.index, _anywhere(video.index, path)):
            twice = np.concatenate([wanted, wanted[::-1], wanted[:1]])
            frames = digests(video.frames(twice))
            assert [number for number, _ in frames] == twice.tolist()
            yield from frames


def _strided(path: Path) -> Iterator[Frame]:
    """Windows of every third and fifth frame, and an ascending stream of every second one."""
    with VideoReader(path, threads=1) as video:
        for wanted in _affordable(video.index, _windows(video.index, path)):
            stride = int(wanted[1] - wanted[0]) if len(wanted) > 1 else 1
            frames = digests(video.sequence(int(wanted[0]), len(wanted), stride))
            assert [number for number, _ in frames] == wanted.tolist()
            yield from frames
        for frame in video.stream(range(0, min(len(video), _room(video.index)), 2)):
            yield from digests(frame)


def _walking(path: Path) -> Iterator[Frame]:
    """Frame after frame by number, with a jump on the way; two frame threads where the reader thinks they pay."""
    with VideoReader(path, threads=2) as video:
        count = min(len(video), _room(video.index))
        for number in [*range(count), *range(len(video) - 2, len(video))]:
            yield from digests(video[number])


def _from_bytes(path: Path) -> Iterator[Frame]:
    """The file's bytes in memory, indexed anew."""
    yield from _some_of(path.read_bytes(), path)


def _from_file_object(path: Path) -> Iterator[Frame]:
    """A file object, indexed anew."""
    yield from _some_of(io.BytesIO(path.read_bytes()), path)


WAYS: dict[str, Way] = {
    "sequential": _sequential,
    "frame threads": _frame_threads,
    "demuxed": _demuxed,
    "random": _at_random,
    "reversed": _reversed,
    "repeated": _repeated,
    "strided": _strided,
    "walking": _walking,
    "bytes": _from_bytes,
    "file object": _from_file_object,
}
"""The first gives every frame, the others as many as a bound on the decoded pixels allows: all of a short video."""


def _run(path: Path, index: PacketIndex, count: int, threads: int = 1) -> Iterator[Frame]:
    delivery = decode(path, index, range(count), threads=threads)
    assert not delivery.lost
    assert list(delivery.frames) == list(range(count)), "the frames did not come in presentation order"
    yield from delivery.frames.items()


def _some_of(origin: Origin, path: Path) -> Iterator[Frame]:
    with VideoReader(origin, threads=1) as video:
        assert len(video) == len(indexed(path))
        for wanted in _affordable(video.index, _anywhere(video.index, path)):
            yield from digests(video.frames(wanted))


def _anywhere(index: PacketIndex, path: Path) -> list[IntArray]:
    """Requests of one to four frames anywhere, the same in every run."""
    rng = _generator(path)
    return [rng.integers(0, len(index), size=rng.integers(1, 5)) for _ in range(_ASKS)]


def _windows(index: PacketIndex, path: Path) -> list[IntArray]:
    rng = _generator(path)
    starts = rng.integers(0, len(index), size=_ASKS)
    return [
        np.arange(start, min(len(index), start + 6 * stride), stride)
        for start, stride in zip(starts, np.resize([3, 5], _ASKS), strict=True)
    ]


def _affordable(index: PacketIndex, requests: Sequence[IntArray]) -> Iterator[IntArray]:
    """As many of the requests as the bound on decoded pixels allows, the first one in any case."""
    left = float(_room(index))
    for wanted in requests:
        yield wanted
        left -= make_plan(index.packets, index.packets.frame_packet[wanted]).cost
        if left < 0:
            return


def _room(index: PacketIndex, pixels: float = _PIXELS) -> int:
    """How many frames may be decoded in one go."""
    return max(3, int(pixels / (index.info.width * index.info.height)))


def _generator(path: Path) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(path.name.encode()))
