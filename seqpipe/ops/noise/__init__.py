"""Noise operators, with their random numbers.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
