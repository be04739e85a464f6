"""Operators on bounding boxes, points and class labels.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
