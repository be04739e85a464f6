"""Operators that move pixels: crop, flip, pad, paste, rotate, warps; mappings and interpolation.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
