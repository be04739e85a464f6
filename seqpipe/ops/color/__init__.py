"""Operators that change colors and tones pixel by pixel.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
