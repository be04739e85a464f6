"""Canvas: base of operators whose results are windows that may reach outside of the images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...padding import FILL_MODES, FillMode, source_indices
from ..core.body import Body
from ..core.parameters import levels
from ..core.rounding import typed
from ..core.spec import Spec
from .base import Geometry
from .mapping import Mapping, scaling

__all__ = ["Canvas", "CanvasWindow"]

_OWN: Final = 16  # channels that may have a level each
_FAR: Final = 1 << 30  # from the images: no window begins there
_ROW: Final = np.dtype(
    [("top", np.int32), ("left", np.int32), ("border", np.int32), ("fill", np.int32, (2 * _OWN,))]
)


class CanvasWindow(NamedTuple):
    """A window in pixels; it may reach beyond the images."""

    top: int
    left: int
    height: int
    width: int


class Canvas(Geometry, register=False):
    """An operator that cuts a window out of images, and fills pixels outside of them.

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
            self.restate(channels=(count,), channels_from="fill_value")

    @abstractmethod
    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """The window that is shown of images of some rows and columns."""

    @property
    def beyond(self) -> FillMode:
        """How pixels outside of the images are filled."""
        return "constant"

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Where the pixels of the result come from."""
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
        """Those of a block's rows; the whole image where the operator does not act."""
        made = np.zeros(len(rows), _ROW)
        made["fill"] = _bits_of(self._levels(spec.channels, np.dtype(spec.dtype)))
        matrices = self.mappings(rows, spec).matrices
        made["top"], made["left"] = matrices[:, 1, 2], matrices[:, 0, 2]
        made["border"] = np.where(rows["acts"], FILL_MODES.index(self.beyond), 0)
        return made

    def reference(self, x: Array, p: Any) -> Array:
        """Gather the source row and column of each pixel, and the fill value where there is none."""
        library = namespace(x)
        window = self.window(p, *x.shape[1:3])
        rows = library.asarray(source_indices(window.top, window.height, x.shape[1], self.beyond))
        columns = library.asarray(source_indices(window.left, window.width, x.shape[2], self.beyond))
        outside = (rows < 0)[:, None] | (columns < 0)
        levels = library.asarray(self._levels(x.shape[3], x.dtype))
        return library.where(outside[..., None], levels, x[:, rows[:, None], columns])

    def cpu(self, x: Array, p: Any) -> Array:
        """Copy the part inside of the images, and fill the rest."""
        height, width = x.shape[1:3]
        window, levels = self.window(p, height, width), self._levels(x.shape[3], x.dtype)
        top, left = max(window.top, 0), max(window.left, 0)
        bottom, right = min(window.top + window.height, height), min(window.left + window.width, width)
        if (top, left, bottom - top, right - left) == window:
            return x[:, top:bottom, left:right]
        if self.beyond != "constant" and (bottom - top, right - left) != (height, width):
            return self.reference(x, p)
        out = np.empty((len(x), window.height, window.width, x.shape[3]), x.dtype)
        if self.beyond != "constant":
            return _surrounded(x, out, window, self.beyond)
        out[...] = levels
        if bottom > top and right > left:
            shown = x[:, top:bottom, left:right]
            out[:, top - window.top : bottom - window.top, left - window.left : right - window.left] = shown
        return out

    def checked(self, window: Seq[int]) -> CanvasWindow:
        """A window, if it holds pixels and is not too far away.

        Raises:
            ParameterError: it is empty, or further away than images reach.
        """
        found = CanvasWindow(*window)
        if found.height < 1 or found.width < 1 or min(found) <= -_FAR or max(found) >= _FAR:
            raise ParameterError(
                f"a window of {found.height}×{found.width} pixels from row {found.top} and column {found.left}",
                source=self.name,
                allowed=f"windows of one pixel or more, less than {_FAR} pixels away",
            )
        return found

    def _levels(self, channels: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """The level of each channel in a type, or one for all.

        Raises:
            ParameterError: there are levels for more channels than a kernel is given.
        """
        given = self.fill_value
        if len(given) > _OWN:
            raise ParameterError(
                f"fill_value has {len(given)} levels for {channels} channels",
                source=self.name,
                allowed=f"one, or one for each of up to {_OWN} channels",
            )
        kept: dict[np.dtype[Any], npt.NDArray[Any]] = self.__dict__.setdefault("_levels_kept", {})
        found = kept.get(dtype)
        if found is None:
            found = kept[dtype] = typed(np.asarray(given, np.float64), dtype)
            found.flags.writeable = False
        return found


def _bits_of(levels: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The bits of a level of each channel, 64 for each, with zeros after them."""
    bits = np.zeros((_OWN, 8), np.uint8)
    bits[:, : levels.itemsize] = np.resize(levels, _OWN).view(np.uint8).reshape(_OWN, -1)
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
        places = source_indices(start, into.shape[axis], length, mode)
        beyond = np.flatnonzero(places != np.arange(start, start + len(places)))
        at = (slice(None),) * axis
        into[(*at, beyond)] = source[(*at, places[beyond])]
    return out
