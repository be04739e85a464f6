"""ColorMatrix: base of operators that multiply the values of a pixel by a matrix."""

from __future__ import annotations

from typing import Any, Final

from ...array import Array, namespace
from ..call.op import Op
from ..core.traits import Body

__all__ = ["ColorMatrix"]

_MAX_WHOLE_VALUES: Final = 4096  # up to so many values, the overhead of NumPy calls dominates
_BLOCK_PIXELS: Final = 1 << 16  # of a block on the CPU, whose planes fit the cache


class ColorMatrix(Op, register=False):
    """Base of operators whose result is a matrix times the vector of a pixel, plus an offset for each value.

    A subclass derives both, the matrix as 3×3 whatever its size. A factor of 0 skips the product, so that NaN in one
    channel does not affect the others.
    """

    channels = (3,)
    derived = (("matrix", 9), ("offset", 3))

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the product and the sum, channel by channel."""
        library = namespace(x)
        count = x.shape[-1]
        planes = [library.ascontiguousarray(x[..., channel]) for channel in range(count)]
        mixed = library.empty((*x.shape[:-1], self.result_channels(count)), x.dtype)
        for to in range(mixed.shape[-1]):
            value = library.full(x.shape[:-1], p.offset[to], x.dtype)
            for plane, factor in zip(planes, p.matrix[3 * to :], strict=False):
                if factor:
                    value += plane * factor
            mixed[..., to] = value
        return mixed

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute all channels at once for few values, else block by block."""
        count = x.shape[-1]
        if x.size < _MAX_WHOLE_VALUES and count == self.result_channels(count) == 3 and p.matrix.all():
            columns = p.matrix.reshape(3, 3).T
            mixed = p.offset + x[..., :1] * columns[0]
            mixed += x[..., 1:2] * columns[1]
            mixed += x[..., 2:] * columns[2]
            return mixed
        pixels = x.reshape(-1, count)
        if len(pixels) <= _BLOCK_PIXELS:
            return self.reference(x, p)
        mixed = namespace(x).empty((len(pixels), self.result_channels(count)), x.dtype)
        for start in range(0, len(pixels), _BLOCK_PIXELS):
            block = slice(start, start + _BLOCK_PIXELS)
            mixed[block] = self.reference(pixels[block], p)
        return mixed.reshape(*x.shape[:-1], -1)

    body = Body(
        "pixel",
        """Real mixed[3];
    for (int to = 0; to < 3; to++) {
        mixed[to] = row.offset[to];
        for (int from = 0; from < 3; from++) {
            const Real factor = row.matrix[3 * to + from];
            if (factor.v != 0.0f) mixed[to] = mixed[to] + pixel[from] * factor;
        }
    }
    for (int to = 0; to < 3; to++) pixel[to] = mixed[to];""",
    )
