"""Canvas: base of operators whose results are windows that may extend beyond the images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.padding import FILL_MODES, FillMode, source_indices
from ...errors import ParameterError
from ..core.body import Body
from ..core.parameters import levels
from ..core.spec import Spec, typed
from .base import Geometry
from .mapping import Mapping, scaling

__all__ = ["FAR", "Canvas", "CanvasWindow"]

_OWN: Final = 16  # most channels with fill values of their own
FAR: Final = 1 << 30  # greatest distance of a window from the images
_ROW: Final = np.dtype(
    [("top", np.int32), ("left", np.int32), ("border", np.int32), ("fill", np.int32, (2 * _OWN,))]
)


class CanvasWindow(NamedTuple):
    """A window in pixels; it may extend beyond the images."""

    top: int
    left: int
    height: int
    width: int


class Canvas(Geometry, register=False):
    """Base of operators that crop a window, and fill pixels outside of the images.

    Subclasses define :meth:`window`, :attr:`beyond` and the parameter ``fill_value``.
    """

    keeps_size: ClassVar[bool] = False
    fill_value: tuple[float, ...] = levels("value outside of the images")
    body: ClassVar[Body | None] = Body("canvas")

    def __post_init__(self) -> None:
        super().__post_init__()
        # checked for all inputs of this object, not only where a window reaches outside
        count = len(self.fill_value)
        if count > 1:
            self.override_traits(channels=(count,), channels_from="fill_value")

    @abstractmethod
    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """Return the window for images of some rows and columns."""

    @property
    def beyond(self) -> FillMode:
        """How pixels outside of the images are filled."""
        return "constant"

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        top, left, rows, columns = self.window(p, height, width)
        return Mapping(scaling(left, 1, top, 1), rows, columns)

    def nearest(self) -> Geometry:
        """The same operator with ``fill_value=0``."""
        return type(self)(**{**self.settings(), "fill_value": (0.0,)})

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """The window's first pixel, the padding mode, and the bits of the fill values."""
        return _ROW

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows; the whole image where the operator does not act."""
        result = np.zeros(len(rows), _ROW)
        result["fill"] = _bits_of(self._fill_values(spec.channels, np.dtype(spec.dtype)))
        matrices = self.mappings(rows, spec).matrices
        result["top"], result["left"] = matrices[:, 1, 2], matrices[:, 0, 2]
        result["border"] = np.where(rows["acts"], FILL_MODES.index(self.beyond), 0)
        return result

    def reference(self, x: Array, p: Any) -> Array:
        """Gather the source row and column of each pixel, and the fill value where there is none."""
        library = namespace(x)
        window = self.window(p, *x.shape[1:3])
        rows = library.asarray(source_indices(window.top, window.height, x.shape[1], self.beyond))
        columns = library.asarray(source_indices(window.left, window.width, x.shape[2], self.beyond))
        outside = (rows < 0)[:, None] | (columns < 0)
        fill = library.asarray(self._fill_values(x.shape[3], x.dtype))
        return library.where(outside[..., None], fill, x[:, rows[:, None], columns])

    def cpu(self, x: Array, p: Any) -> Array:
        """Copy the part inside of the images, and fill the rest."""
        height, width = x.shape[1:3]
        window, fill = self.window(p, height, width), self._fill_values(x.shape[3], x.dtype)
        top, left = max(window.top, 0), max(window.left, 0)
        bottom, right = min(window.top + window.height, height), min(window.left + window.width, width)
        if (top, left, bottom - top, right - left) == window:
            return x[:, top:bottom, left:right]
        if self.beyond != "constant" and (bottom - top, right - left) != (height, width):
            return self.reference(x, p)
        out = np.empty((len(x), window.height, window.width, x.shape[3]), x.dtype)
        if self.beyond != "constant":
            return _surrounded(x, out, window, self.beyond)
        out[...] = fill
        if bottom > top and right > left:
            shown = x[:, top:bottom, left:right]
            out[:, top - window.top : bottom - window.top, left - window.left : right - window.left] = shown
        return out

    def checked(self, window: Seq[int]) -> CanvasWindow:
        """Return a window after checking its size and position."""
        result = CanvasWindow(*window)
        if result.height < 1 or result.width < 1 or min(result) <= -FAR or max(result) >= FAR:
            raise ParameterError(
                f"a window of {result.height}×{result.width} pixels from row {result.top} and column {result.left}",
                source=self.name,
                allowed=f"windows of one pixel or more, less than {FAR} pixels away",
            )
        return result

    def _fill_values(self, channels: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return the fill value of each channel in a dtype, or one for all."""
        fill_value = self.fill_value
        if len(fill_value) > _OWN:
            raise ParameterError(
                f"fill_value has {len(fill_value)} values for {channels} channels",
                source=self.name,
                allowed=f"one, or one for each of up to {_OWN} channels",
            )
        cached: dict[np.dtype[Any], npt.NDArray[Any]] = self.__dict__.setdefault("_fill_cache", {})
        values = cached.get(dtype)
        if values is None:
            values = cached[dtype] = typed(np.asarray(fill_value, np.float64), dtype)
            values.flags.writeable = False
        return values


def _bits_of(fill: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the bits of the fill value of each channel, 64 for each, padded with zeros."""
    bits = np.zeros((_OWN, 8), np.uint8)
    bits[:, : fill.itemsize] = np.resize(fill, _OWN).view(np.uint8).reshape(_OWN, -1)
    return bits.reshape(-1).view(np.int32)


def _surrounded(x: Array, out: Array, window: CanvasWindow, mode: FillMode) -> Array:
    """Write images and their padding, columns first."""
    height, width = x.shape[1:3]
    lines = out[:, -window.top : height - window.top]
    lines[:, :, -window.left : width - window.left] = x
    for into, start, length, source, axis in (
        (lines, window.left, width, x, 2),
        (out, window.top, height, lines, 1),
    ):
        indices = source_indices(start, into.shape[axis], length, mode)
        beyond = np.flatnonzero(indices != np.arange(start, start + len(indices)))
        at = (slice(None),) * axis
        into[(*at, beyond)] = source[(*at, indices[beyond])]
    return out
