"""Session: the driver's parser with a hardware decoder, fed a few dozen packets at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from typing import Any, TypeVar

from ...errors import BackendError
from ..bitstream.elementary import ElementaryStream
from ..decode.packet_decoder import DecodeResult, FedPacket
from .arrays import PacketArrays, PendingFrames
from .callbacks import PythonFeeder
from .cuvid import CODECS, SEQUENCE, Cuvid, ParserParams, VideoFormat, load
from .feeder import MOST_OF_A_STEP, Feeder, PacketBatch
from .hardware import Forgotten, HardwareDecoder, StreamShape
from .interrupt import interrupts_later
from .native_feeder import NativeFeeder, native
from .painting import PaintingOf

__all__ = ["Session"]

# the parser is told the true number once it has seen the stream
_DECODE_SURFACES = 20
_DISPLAY_DELAY = 2
# VP9 and AV1 show pictures in the order of their packets; a packet may hold hidden ones, or show one from before.
_IN_ORDER = frozenset({CODECS["vp9"], CODECS["av1"]})
# Their packets may hold several pictures, those of MPEG-4 as well.
_SEVERAL = _IN_ORDER | {CODECS["mpeg4"]}
# They may predict a picture from others of another size, which are scaled; those are gone with their decoder.
_SCALED = _IN_ORDER

ResultT = TypeVar("ResultT")


class Session:
    """A parser with its decoder, for one kind of codec; used for one stream after another by one thread at a time.

    Args:
        codec: cudaVideoCodec.
        stream: address of the CUDA stream on which pictures are handed over.
        in_use: how many pictures may be in use while a step of others is handed over.
        step: after how many pictures feeding pauses.
        forgotten: the GPU's decoders that are to be destroyed.

    Raises:
        BackendError: the driver has no parser for it.
    """

    def __init__(
        self,
        codec: int,
        stream: int,
        *,
        in_use: int,
        step: int = MOST_OF_A_STEP,
        forgotten: Forgotten | None = None,
    ) -> None:
        self._forgotten = forgotten or Forgotten()
        self._cuvid: Cuvid = load()
        self._stream, self._at_once, self._several = stream, in_use + step, codec in _SEVERAL
        self._predicted = codec in _SCALED
        self._decoder: HardwareDecoder | None = None
        self._painting: PaintingOf | None = None
        self._error: BaseException | None = None
        self._feeder = _feeder(self._cuvid, in_order=codec in _IN_ORDER, step=step)
        self._on_sequence: Any = SEQUENCE(self._sequence)  # the parser does not keep it alive
        self._parser = ctypes.c_void_p()
        params = ParserParams(
            codec=codec,
            decode_surfaces=_DECODE_SURFACES,
            display_delay=_DISPLAY_DELAY,
            user_data=self._feeder.user_data,
            on_sequence=self._feeder.asks(self._on_sequence),
            on_picture=self._feeder.on_picture,
            on_display=self._feeder.on_display,
        )
        code = self._cuvid.create_parser(ctypes.byref(self._parser), ctypes.byref(params))
        if code:
            raise BackendError(f"NVDEC has no parser for codec {codec}: CUDA error {code}")
        self._feeder.start(self._parser.value or 0)

    def feed(
        self, packets: Seq[FedPacket], stream: ElementaryStream, *, first: bool
    ) -> Iterator[DecodeResult]:
        """Parse packets, begin to decode them, and tell as it goes what became known.

        Args:
            packets: the packets; the parser knows by itself which are key packets.
            stream: makes an elementary stream of them.
            first: whether decoding starts with the first of them.

        Raises:
            DecodeError: one of them cannot be parsed, or the GPU refused it.
            BackendError: the GPU refused the stream.
        """
        batch, begin = PacketBatch(packets, stream, first=first), 0
        while begin < len(packets):
            fed, result = self._done(partial(self._feeder.feed, batch, begin))
            begin += fed
            yield result
            del result  # it holds pictures, of which there must not be too many

    def finish(self) -> Iterator[DecodeResult]:
        """Hand over what is left, a step at a time, and make ready for another stream.

        Raises:
            DecodeError: the GPU refused something.
            BackendError: the GPU could not hand over a picture.
        """
        last = False
        while not last:
            last, result = self._done(self._feeder.finish)
            yield result
            del result

    @property
    def runs_whole(self) -> bool:
        """Whether :meth:`whole_run` can be tried: not before it is known how pictures lie in the GPU's memory."""
        known = self._decoder is not None and self._decoder.pitch > 0
        return known and isinstance(self._feeder, NativeFeeder)

    def whole_run(
        self, arrays: PacketArrays, awaited: PendingFrames, painting: PaintingOf
    ) -> tuple[bool, bool]:
        """Decode all packets of a run, and convert what is wanted of them, without Python in between.

        Args:
            arrays: the packets, the first as the parser takes it.
            awaited: what is to come of them.
            painting: how pictures are converted.

        Returns:
            Whether nothing was wrong, and whether the session is ready for another run. Where something was, some
            pictures may have been converted, and only a run step by step can tell what it is.

        Raises:
            BackendError: the GPU refused the stream.
            SourceError: the stream's color cannot be converted to the one that is asked for.
        """
        feeder = self._feeder
        if not isinstance(feeder, NativeFeeder):
            return False, True
        self._painting, painting.told.begun = painting, 0
        self._fit()
        try:
            return self._done(partial(feeder.whole_run, arrays, awaited, painting.told))
        finally:
            self._painting = None

    def use(self, stream: int) -> None:
        """Hand pictures over on another CUDA stream from now on."""
        self._stream = stream
        if self._decoder is not None:
            self._decoder.use(stream)

    @property
    def memory(self) -> int:
        """About how many bytes of the GPU it holds."""
        return self._decoder.memory if self._decoder is not None else 0

    def close(self) -> None:
        """Destroy the parser, and the decoder once no picture of it is in use."""
        parser, self._parser = (
            self._parser,
            ctypes.c_void_p(),
        )  # first, lest an interrupt makes it happen twice
        if parser:
            self._cuvid.destroy_parser(parser)
            self._feeder.close()
        self._decoder, self._on_sequence = None, None
        self._forgotten.destroy()

    def _done(self, step: Callable[[], ResultT]) -> ResultT:
        """What a step of the feeder gives, during which the parser calls back."""
        with interrupts_later():
            try:
                return step()
            finally:
                self._raise()

    def _raise(self) -> None:
        """Raise what the parser's call could not let through; an interrupt that was held back then takes its place.

        Not the other way round: what the GPU refuses is left to the CPU, and the interrupt would be gone with it.
        """
        if self._error is not None:
            try:
                raise self._error  # a local name for it would be a circle, in which pictures stay
            finally:
                self._error = None

    def _sequence(self, _: int, form: ctypes._Pointer[VideoFormat]) -> int:
        try:
            return self._configure(StreamShape.of(form.contents)).surfaces
        except BaseException as error:
            self._error = error
            self._feeder.stop()
            return 0

    def _configure(self, shape: StreamShape) -> HardwareDecoder:
        if self._decoder is not None and self._decoder.take(shape):
            self._feeder.use(self._decoder)
            self._fit()
            return self._decoder
        if self._decoder is not None and self._predicted and not self._feeder.anew:
            raise BackendError(
                f"NVDEC cannot go on with {shape.width}×{shape.height} pixels, predicted from pictures of another size",
                advice="Use decode='auto' or 'cpu' for this file",
            )
        self._feeder.wait_decoded()
        self._feeder.use(None)
        self._decoder = None  # it goes when the last of its pictures does
        self._forgotten.destroy()
        self._decoder = decoder = HardwareDecoder(
            self._cuvid,
            shape,
            stream=self._stream,
            at_once=self._at_once,
            several=self._several,
            forgotten=self._forgotten,
        )
        self._feeder.use(decoder)
        self._fit()
        return decoder

    def _fit(self) -> None:
        """Let a whole run know what its pictures are like."""
        feeder, decoder = self._feeder, self._decoder
        if self._painting is not None and decoder is not None and isinstance(feeder, NativeFeeder):
            self._painting.fit(decoder.shape, decoder.pitch, feeder.sequence)


def _feeder(cuvid: Cuvid, *, in_order: bool, step: int) -> Feeder:
    library = native()
    if library is None:
        return PythonFeeder(cuvid, in_order=in_order, step=step)
    return NativeFeeder(library, cuvid, in_order=in_order, step=step)
