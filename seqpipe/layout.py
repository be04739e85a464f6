"""Array layouts: one letter per axis."""

from __future__ import annotations

from typing import Final

from .errors import ParameterError

__all__ = ["DEFAULT_LAYOUTS", "LAYOUTS", "axis", "check_layout", "frame_axis"]

DEFAULT_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC", 5: "NFHWC"}
"""Layout of arrays that state none, by their number of axes."""

LAYOUTS: Final = (
    "HW",
    "HWC",
    "CHW",
    "FHW",
    "FHWC",
    "FCHW",
    "CFHW",
    "DHW",
    "DHWC",
    "FDHWC",
    "NHW",
    "NHWC",
    "NCHW",
    "NFHWC",
    "NFCHW",
    "NCFHW",
    "NDHWC",
    "CDHW",
    "NDHW",
    "NCDHW",
    "NFDHWC",
)
"""N: samples, F: frames, D: slices of a volume (treated as frames), H: rows, W: columns, C: channels.

Networks with 3-D convolutions take ``CFHW`` and ``NCFHW``. In ``FDHWC``, a series of volumes, F counts time points;
operators process each time point as a volume of its own.
"""


def check_layout(layout: str, ndim: int) -> str:
    """Return the layout, checked against the array's number of axes."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ParameterError(f"layout={layout!r} is unknown", allowed=", ".join(LAYOUTS))
    if len(layout) != ndim:
        raise ParameterError(
            f"layout={layout!r} names {len(layout)} axes, but the array has {ndim}",
            allowed=", ".join(known for known in LAYOUTS if len(known) == ndim),
        )
    return layout


def axis(layout: str, letter: str) -> int | None:
    """Return the position of a letter's axis, or None if the layout lacks it."""
    position = layout.find(letter)
    return position if position >= 0 else None


def frame_axis(layout: str) -> int | None:
    """Return the position of the axis of frames: F, or D for a volume; None for a single image."""
    frames = axis(layout, "F")
    return frames if frames is not None else axis(layout, "D")
