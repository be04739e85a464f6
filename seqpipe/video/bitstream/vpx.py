"""VP8 and VP9: frame tags (RFC 6386, clause 9.1) and uncompressed headers."""

from __future__ import annotations

from dataclasses import dataclass

from .bits import BitReader, BitstreamError
from .kind import NO_PICTURE, UNKNOWN, PacketKind, packet_kind

__all__ = ["Vp8Classifier", "Vp9Classifier", "vp9_shows"]


class Vp8Classifier:
    """Classifies VP8 packets, each one frame.

    Every frame counts as a reference: one that refreshes no buffer can still save its probabilities for the next
    (refresh_entropy_probs), and both flags are in the arithmetic-coded header.

    Args:
        extradata: not used; VP8 has none.
    """

    def __init__(self, extradata: bytes) -> None:
        del extradata

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind by the frame tag; a packet without one holds no frame."""
        if len(packet) < 3:
            return NO_PICTURE
        key = not packet[0] & 1
        shown = bool(packet[0] & 0x10)
        return packet_kind(True, shown, random_access=key and shown, picture_type="I" if key else "P")


_HEADER_BYTES = 16
_FRAME_MARKER = 2
_SYNC_CODE = 0x498342


@dataclass(frozen=True, slots=True)
class _Header:
    """The fields of an uncompressed header that matter here."""

    existing: bool
    key: bool = False
    intra: bool = False
    shown: bool = True
    resilient: bool = False
    refresh: int = 0


class Vp9Classifier:
    """Classifies VP9 packets, each a frame or a superframe.

    Args:
        extradata: not used; what a vpcC record says is not needed.
    """

    def __init__(self, extradata: bytes) -> None:
        del extradata
        self._last_shown = False

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        if not len(packet):
            return NO_PICTURE
        try:
            headers = [_header(frame) for frame in _frames(packet)]
        except BitstreamError:
            self._last_shown = False
            return UNKNOWN
        before, first, shown = self._last_shown, headers[0], any(header.shown for header in headers)
        coded = [header for header in headers if not header.existing]
        if not coded and len(headers) == 1:
            return packet_kind(not before, random_access=False, picture_type="P", takes_state=True)
        if coded:
            self._last_shown = coded[-1].shown
        return packet_kind(
            len(headers) > 1 or not shown or first.refresh != 0,
            shown,
            random_access=first.key and first.shown,
            picture_type="I" if all(header.intra for header in coded) else "P",
            leaves_state=True,
            takes_state=not (first.key or first.resilient),
        )


def vp9_shows(packet: bytes) -> tuple[bool, bool, bool]:
    """Return whether a packet shows a frame of its own, shows an earlier one again, and starts with a key frame."""
    if not packet:
        raise BitstreamError("an empty packet")
    headers = [_header(frame) for frame in _frames(packet)]
    shown = next((header for header in reversed(headers) if header.existing or header.shown), None)
    return (
        shown is not None and not shown.existing,
        shown is not None and shown.existing,
        headers[0].key,
    )


def _frames(packet: bytes | memoryview) -> list[bytes]:
    """Return the first bytes of each frame of a packet, by its superframe index if it has one (annex B)."""
    last, size = packet[-1], len(packet)
    count, width = (last & 7) + 1, (last >> 3 & 3) + 1
    index = 2 + width * count
    if last & 0xE0 != 0xC0 or size < index or packet[size - index] != last:
        return [bytes(packet[:_HEADER_BYTES])]
    frames: list[bytes] = []
    at, end = 0, size - index
    for begin in range(end + 1, size - 1, width):
        length = int.from_bytes(packet[begin : begin + width], "little")
        if length > end - at:
            raise BitstreamError("a frame is longer than its superframe")
        if length:
            frames.append(bytes(packet[at : at + min(length, _HEADER_BYTES)]))
        at += length
    if not frames:
        raise BitstreamError("a superframe without a frame")
    return frames


def _header(frame: bytes) -> _Header:
    """Parse the uncompressed header of a VP9 frame, up to what its kind depends on."""
    bits = BitReader(frame)
    if bits.u(2) != _FRAME_MARKER:
        raise BitstreamError("no frame marker")
    profile = bits.u(1) | bits.u(1) << 1
    if profile == 3:
        bits.skip(1)
    if bits.flag():
        return _Header(existing=True)
    key, shown, resilient = not bits.flag(), bits.flag(), bits.flag()
    if key:
        _check_sync(bits)
        return _Header(False, True, True, shown, resilient, 0xFF)
    intra = False if shown else bits.flag()
    if not resilient:
        bits.skip(2)  # reset_frame_context
    if intra:
        _check_sync(bits)
        if profile:
            _skip_color(bits, profile)
    return _Header(False, False, intra, shown, resilient, bits.u(8))


def _check_sync(bits: BitReader) -> None:
    if bits.u(24) != _SYNC_CODE:
        raise BitstreamError("no sync code")


def _skip_color(bits: BitReader, profile: int) -> None:
    """Skip color_config of an intra-only frame of profile 1 to 3."""
    if profile >= 2:
        bits.skip(1)  # ten_or_twelve_bit
    rgb = bits.u(3) == 7
    if not rgb:
        bits.skip(1)  # color_range
    if profile in (1, 3):
        bits.skip(1 if rgb else 3)  # subsampling_x, subsampling_y, reserved_zero
