"""Compression artifacts: operators that distort images as lossy compression does.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
