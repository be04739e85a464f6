"""Layouts: one letter per axis, and the flattening that lets 2-D operators run over sequences."""

from __future__ import annotations

from typing import Final

from .array import Array
from .errors import ParameterError

__all__ = ["LAYOUTS", "axis", "check_layout", "depth_axis", "flatten", "frame_axis", "unflatten"]

LAYOUTS: Final = (
    "HW",
    "HWC",
    "CHW",
    "FHW",
    "FHWC",
    "FCHW",
    "DHW",
    "DHWC",
    "FDHWC",
    "NHW",
    "NHWC",
    "NCHW",
    "NFHWC",
    "NFCHW",
    "NDHWC",
    "CDHW",
    "NDHW",
    "NCDHW",
    "NFDHWC",
)
"""N: samples, F: frames, D: slices of a volume (read as frames), H: rows, W: columns, C: channels.

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


def depth_axis(layout: str) -> int | None:
    """The axis that counts the slices of a volume; None for pictures."""
    return axis(layout, "D")


def flatten(array: Array, layout: str) -> tuple[Array, str]:
    """View ``(N, F, …)`` as ``(N·F, …)``: the batch of images that a 2-D operator sees.

    Args:
        array: any array with ``shape`` and ``reshape``; a view needs leading axes that are contiguous.
        layout: its layout; a sequence without N is flattened to itself.

    Returns:
        The array with one leading axis for all images, and its layout (F leading).
    """
    check_layout(layout, array.ndim)
    if layout == "FDHWC":
        return array.reshape((-1, *array.shape[2:])), "DHWC"
    if layout == "NCDHW":
        return flatten(array.transpose((0, 2, 3, 4, 1)), "NDHWC")
    if layout == "NFDHWC":
        return array.reshape((-1, *array.shape[3:])), "DHWC"
    if layout[0] != "N":
        return array, layout
    if frame_axis(layout) is None:
        return array, layout.replace("N", "F")
    shape = array.shape
    return array.reshape((shape[0] * shape[1], *shape[2:])), layout[1:]


def unflatten(array: Array, samples: int) -> Array:
    """View ``(N·F, …)`` as ``(N, F, …)`` again.

    Raises:
        ParameterError: the leading axis is not a multiple of the number of samples.
    """
    shape = array.shape
    if samples < 1 or shape[0] % samples:
        raise ParameterError(f"{shape[0]} images cannot be cut into {samples} sequences of equal length")
    return array.reshape((samples, shape[0] // samples, *shape[1:]))
