"""Properties of a video stream and of its container's streams."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

__all__ = ["ContainerStream", "StreamInfo", "describe"]

_TAG_NAMES: Final[dict[str, dict[int, str]]] = {
    "matrix": {
        0: "identity: RGB",
        1: "BT.709",
        2: "unspecified",
        4: "FCC",
        5: "BT.601, 625 lines",
        6: "BT.601, 525 lines",
        7: "SMPTE 240M",
        8: "YCgCo",
        9: "BT.2020",
        10: "BT.2020, constant luminance",
    },
    "primaries": {
        1: "BT.709",
        2: "unspecified",
        4: "BT.470 M",
        5: "BT.601, 625 lines",
        6: "BT.601, 525 lines",
        7: "SMPTE 240M",
        8: "film",
        9: "BT.2020",
        10: "XYZ",
        11: "DCI-P3",
        12: "Display P3",
        22: "EBU 3213",
    },
    "transfer": {
        1: "BT.709",
        2: "unspecified",
        4: "gamma 2.2",
        5: "gamma 2.8",
        6: "BT.601",
        7: "SMPTE 240M",
        8: "linear",
        11: "xvYCC",
        12: "BT.1361",
        13: "sRGB",
        14: "BT.2020, 10 bits",
        15: "BT.2020, 12 bits",
        16: "PQ",
        17: "SMPTE 428",
        18: "HLG",
    },
    "chroma_location": {
        0: "unspecified",
        1: "left",
        2: "center",
        3: "top left",
        4: "top",
        5: "bottom left",
        6: "bottom",
    },
}


def describe(field: str, value: object) -> str:
    """Format a value of :class:`~seqpipe.video.probe.info.StreamInfo` for display; tags with their names."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    names = _TAG_NAMES.get(field)
    return (
        str(value)
        if names is None or not isinstance(value, int)
        else f"{value} ({names.get(value, 'reserved')})"
    )


@dataclass(frozen=True, kw_only=True)
class ContainerStream:
    """One of the streams of a container.

    Attributes:
        number: stream number in the container, the value of ``stream=``.
        kind: ``"video"``, ``"audio"``, ``"subtitle"``, ``"data"``, ….
        codec: the decoder's name; None if FFmpeg has none.
        width: frame width of a video stream in pixels, else None.
        height: frame height of a video stream in pixels, else None.
        default: whether the container marks it as the default stream.
        cover: whether it is an attached cover image, not a video.
    """

    number: int
    kind: str
    codec: str | None
    width: int | None
    height: int | None
    default: bool
    cover: bool

    def __str__(self) -> str:
        """Format the stream, such as ``2: video h264 1920x1080 (default)``."""
        size = f" {self.width}x{self.height}" if self.width and self.height else ""
        marks = ["default"] * self.default + ["cover picture"] * self.cover
        return f"{self.number}: {self.kind} {self.codec or 'unknown'}{size}{f' ({chr(44).join(marks)})' * bool(marks)}"


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Properties of a video stream, as stated by its container and headers.

    Attributes:
        source: the path, URL or name that it was opened by.
        container: the demuxer's short name, such as ``mov,mp4,m4a,3gp,3g2,mj2``.
        codec: the decoder's name, such as ``h264``.
        profile: name of the codec's profile, or None.
        pixel_format: FFmpeg's name of the surface's pixel format, such as ``yuv420p10le``.
        bit_depth: bits per component.
        chroma: ``"4:2:0"``, ``"4:2:2"``, ``"4:4:4"``, …; ``"gray"``, ``"rgb"``.
        width: width of the surface in pixels, before rotation.
        height: height of the surface in pixels, before rotation.
        sample_aspect_ratio: width over height of one pixel; 1 where unspecified.
        rotation_degrees: counter-clockwise rotation of the display matrix, to the nearest of 0, 90, 180 and 270.
        flipped: whether the display matrix mirrors the frame left to right, before the rotation.
        matrix: matrix coefficients of H.273 as tagged, 2 where unspecified.
        full_range: whether the tags say full range; None where unspecified.
        primaries: color primaries of H.273 as tagged, 2 where unspecified.
        transfer: transfer characteristics of H.273 as tagged, 2 where unspecified.
        chroma_location: H.273 chroma sample location as FFmpeg numbers it (1 left, 2 center, 3 top left, …); 0 unknown.
        average_rate: frames per second on average; None where unknown.
        real_rate: the lowest rate that represents all timestamps exactly, as FFmpeg guesses it; None where unknown.
        time_base: seconds per tick of a pts.
        start_s: the first frame's time on the stream's clock in seconds; None where unknown.
        duration_s: seconds from the first frame's start to the last one's end; None where unknown.
        frame_count: number of frames; before the file is indexed, the same as ``declared_frames``.
        declared_frames: number of frames stated by the container, or None.
        has_b_frames: whether presentation order differs from decode order; before indexing, as stated by the headers.
        has_audio: whether the container also holds audio.
        stream: stream number in the container.
        streams: all streams of the container.
    """

    source: str
    container: str
    codec: str
    profile: str | None
    pixel_format: str
    bit_depth: int
    chroma: str
    width: int
    height: int
    sample_aspect_ratio: Fraction
    rotation_degrees: int
    flipped: bool
    matrix: int
    full_range: bool | None
    primaries: int
    transfer: int
    chroma_location: int
    average_rate: Fraction | None
    real_rate: Fraction | None
    time_base: Fraction
    start_s: float | None
    duration_s: float | None
    frame_count: int | None
    declared_frames: int | None
    has_b_frames: bool | None
    has_audio: bool
    stream: int = 0
    streams: tuple[ContainerStream, ...] = ()

    @property
    def display_size(self) -> tuple[int, int]:
        """(width, height) in pixels after rotation."""
        return (self.height, self.width) if self.rotation_degrees % 180 else (self.width, self.height)

    def to_json(self) -> dict[str, Any]:
        """Return values for JSON; fractions become ``"num/den"``."""
        values = {name: getattr(self, name) for name in _NAMES}
        streams = [dict(vars(stream)) for stream in self.streams]
        fractions = {name: str(values[name]) for name in _FRACTIONS if values[name] is not None}
        return values | fractions | {"streams": streams}

    def describe(self) -> dict[str, str]:
        """Return the properties as text for display, without the source."""
        words = {name: describe(name, value) for name, value in self.to_json().items() if name != "source"}
        return words | {"streams": "; ".join(map(str, self.streams))}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StreamInfo:
        """Create an instance from the result of :meth:`to_json`.

        Raises:
            KeyError: a field is missing.
            ValueError: a fraction cannot be read.
        """
        fractions = {name: _fraction(values[name]) for name in _FRACTIONS if values[name] is not None}
        streams = tuple(ContainerStream(**entry) for entry in values["streams"])
        return cls(**{**{name: values[name] for name in _NAMES}, **fractions, "streams": streams})


_NAMES = tuple(field.name for field in fields(StreamInfo))
_FRACTIONS = ("sample_aspect_ratio", "average_rate", "real_rate", "time_base")
# The files of a dataset share a few rates and time bases, and parsing a fraction costs more than all other fields.
_fraction = lru_cache(maxsize=1024)(Fraction)
