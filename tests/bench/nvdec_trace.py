"""Callbacks of the driver's parser, packet by packet: the surface that is decoded into, and the one that is displayed.

    python -m tests.bench.nvdec_trace FILE [--delay 2] [--packets 80]

The last line counts the frames that the parser displayed with the timestamp of another packet.
"""

from __future__ import annotations

import argparse
import ctypes
from typing import Any

import cupy
import numpy as np

from seqpipe.video.bitstream.elementary import SHOWS_EARLIER, SHOWS_LAST, ElementaryStream
from seqpipe.video.decode.packets import open_packets
from seqpipe.video.index.open import open_index
from seqpipe.video.nvdec.cuvid import (
    CODECS,
    DISPLAY,
    END_OF_PICTURE,
    END_OF_STREAM,
    PICTURE,
    SEQUENCE,
    TIMESTAMP,
    Packet,
    ParserParams,
    PictureParams,
    load,
)
from seqpipe.video.nvdec.hardware import HardwareDecoder, ReleasedDecoders, StreamShape
from seqpipe.video.source.source import open_source

_SHOW_FRAME = {"vp9": (184 + 12, 6), "av1": (184 + 20, 2)}  # byte of CUVIDPICPARAMS, and bit
_ROLES = {0: "nothing", SHOWS_LAST: "its last", SHOWS_EARLIER: "an earlier one"}


class Trace:
    """Prints the callbacks.

    Args:
        codec: FFmpeg's name.
        delay: ulMaxDisplayDelay.
        stream: address of a CUDA stream.
    """

    def __init__(self, codec: str, delay: int, stream: int) -> None:
        self._cuvid, self._codec, self._stream = load(), codec, stream
        self._decoder: HardwareDecoder | None = None
        self._packet = 0
        self.shown: list[tuple[int, int]] = []
        self._kept = SEQUENCE(self._sequence), PICTURE(self._picture), DISPLAY(self._display)
        self._parser = ctypes.c_void_p()
        params = ParserParams(
            codec=CODECS[codec],
            decode_surfaces=20,
            display_delay=delay,
            on_sequence=self._kept[0],
            on_picture=self._kept[1],
            on_display=self._kept[2],
        )
        code = self._cuvid.create_parser(ctypes.byref(self._parser), ctypes.byref(params))
        assert not code, code

    def parse(self, number: int, data: bytes, what: str) -> None:
        """Parse a packet; without data, the end of the stream."""
        self._packet = number
        flags = TIMESTAMP | END_OF_PICTURE if data else END_OF_STREAM
        packet = Packet(flags=flags, size=len(data), payload=data, timestamp=number)
        print(f"packet {number}: {len(data)} bytes, shows {what}" if data else "end of stream")
        code = self._cuvid.parse(self._parser, ctypes.addressof(packet))
        if code:
            print(f"  the parser answers {code}")

    def _sequence(self, _: int, form: Any) -> int:
        shape = StreamShape.of(form.contents)
        print(f"  sequence {shape}, asked for {form.contents.min_surfaces} surfaces")
        if self._decoder is None or not self._decoder.accept(shape):
            self._decoder = HardwareDecoder(
                self._cuvid,
                shape,
                stream=self._stream,
                most_mapped=4,
                several=True,
                released=ReleasedDecoders(),
            )
        return self._decoder.surfaces

    def _picture(self, _: int, address: int) -> int:
        picture = PictureParams.from_address(address)
        byte, bit = _SHOW_FRAME.get(self._codec, (0, 0))
        shown = ctypes.c_uint8.from_address(address + byte).value >> bit & 1 if byte else "?"
        code = self._decoder.decode(address) if self._decoder else -1
        print(f"  decode into surface {picture.surface}, show_frame {shown}, the GPU answers {code}")
        return int(not code)

    def _display(self, _: int, display: Any) -> int:
        if display:
            frame = display.contents
            print(f"  show surface {frame.surface}, timestamp {frame.timestamp}")
            self.shown.append((frame.surface, frame.timestamp))
        return 1


def main() -> None:
    """Trace one file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--delay", type=int, default=2)
    parser.add_argument("--packets", type=int, default=80)
    options = parser.parse_args()
    cupy.cuda.Device(0).use()
    stream = cupy.cuda.Stream(non_blocking=True)
    index = open_index(options.file)
    elementary = ElementaryStream(index.info.codec, index.extradata)
    numbers = np.arange(min(options.packets, len(index.packets)))
    reader = open_packets(open_source(options.file), index)
    trace, due = Trace(index.info.codec, options.delay, stream.ptr), []
    for number, data in zip(numbers.tolist(), reader.read(numbers), strict=True):
        role = elementary.roles([data])[0] & (SHOWS_LAST | SHOWS_EARLIER)
        trace.parse(number, elementary.packet(data, first=not number), _ROLES[role])
        if role or index.packets.shown[number]:
            due.append(number)
    trace.parse(-1, b"", "")
    stamps = [stamp for _, stamp in trace.shown]
    wrong = sum(packet != stamp for packet, stamp in zip(due, stamps, strict=False))
    print(f"{len(due)} packets show a picture, {len(stamps)} were shown, {wrong} with another's timestamp")


if __name__ == "__main__":
    main()
