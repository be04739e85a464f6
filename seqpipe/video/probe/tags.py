"""Names of color tags' values (ITU-T H.273; chroma locations by FFmpeg's numbers)."""

from __future__ import annotations

from typing import Final

__all__ = ["describe"]

_NAMES: Final[dict[str, dict[int, str]]] = {
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
    names = _NAMES.get(field)
    return (
        str(value)
        if names is None or not isinstance(value, int)
        else f"{value} ({names.get(value, 'reserved')})"
    )
