"""What operators have in common that mix the values of a pixel by a matrix."""

from __future__ import annotations

from typing import Any, Final

from ..array import Array, namespace
from ._body import Body
from ._op import Op

__all__ = ["ColourMatrix"]

_PIXELS: Final = 1 << 16  # of a block on the CPU: planes of so many stay in the cache


class ColourMatrix(Op, register=False):
    """An operator whose result is a matrix times the vector of a pixel, plus a level for each of its values.

    It derives both. A factor of 0 is no term at all, so that NaN in one value of a pixel stays out of others.
    """

    channels = (3,)
    derived = (("matrix", 9), ("offset", 3))

    def reference(self, x: Array, p: Any) -> Array:
        """The product and the sum, value by value."""
        library = namespace(x)
        planes = [library.ascontiguousarray(x[..., channel]) for channel in range(3)]
        mixed = library.empty_like(x)
        for to, (factors, offset) in enumerate(zip(p.matrix.reshape(3, 3), p.offset, strict=True)):
            level = library.full(x.shape[:-1], offset, x.dtype)
            for plane, factor in zip(planes, factors, strict=True):
                if factor:
                    level += plane * factor
            mixed[..., to] = level
        return mixed

    def cpu(self, x: Array, p: Any) -> Array:
        """The same, block by block."""
        pixels = x.reshape(-1, 3)
        if len(pixels) <= _PIXELS:
            return self.reference(x, p)
        mixed = namespace(x).empty_like(pixels)
        for start in range(0, len(pixels), _PIXELS):
            block = slice(start, start + _PIXELS)
            mixed[block] = self.reference(pixels[block], p)
        return mixed.reshape(x.shape)

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
