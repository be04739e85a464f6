"""Operators on whole arrays: reshape, transpose, stack, cat, cast, lookup table.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
