"""Operators that fill regions of images.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
