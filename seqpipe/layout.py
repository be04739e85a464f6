"""Layouts: one letter per axis."""

from __future__ import annotations

from typing import Final

from .errors import ParameterError

__all__ = ["LAYOUTS", "axis", "check_layout", "frame_axis"]

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
"""N: samples, F: frames, D: slices of a volume (read as frames), H: rows, W: columns, C: channels.

``CFHW`` and ``NCFHW`` are what networks with three-dimensional convolutions take.

Of ``FDHWC``, a series of volumes, F counts the time points of one sample, each a volume that operators see by itself.
"""


def check_layout(layout: str, ndim: int) -> str:
    """The layout, if it is known and has as many letters as the array has axes.

    Raises:
        ParameterError: it is unknown or does not fit the array.
    """
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ParameterError(f"layout={layout!r} is unknown", allowed=", ".join(LAYOUTS))
    if len(layout) != ndim:
        raise ParameterError(
            f"layout={layout!r} names {len(layout)} axes, but the array has {ndim}",
            allowed=", ".join(known for known in LAYOUTS if len(known) == ndim),
        )
    return layout


def axis(layout: str, letter: str) -> int | None:
    """The position of a letter's axis, or None if the layout has none."""
    position = layout.find(letter)
    return position if position >= 0 else None


def frame_axis(layout: str) -> int | None:
    """The axis that counts the frames of a sequence: F, or D for a volume; None for a single image."""
    frames = axis(layout, "F")
    return frames if frames is not None else axis(layout, "D")
