"""Noise operators, and the random numbers that they use.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
