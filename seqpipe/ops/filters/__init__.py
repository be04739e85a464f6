"""Neighborhood filters: blurs, sharpening, derivatives.

Imports `core`, `call`, `cuda`, `geometry`.
"""

from __future__ import annotations

__all__: list[str] = []
