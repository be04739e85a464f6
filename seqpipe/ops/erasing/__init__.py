"""Erasing operators: parts of images are filled.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
