"""Pointwise operators on colors and tones.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
