"""Operators that change the size of images.

Imports `core`, `call`, `cuda`, `geometry`.
"""

from __future__ import annotations

__all__: list[str] = []
