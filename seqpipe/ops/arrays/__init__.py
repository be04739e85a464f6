"""Operators on arrays as a whole: reshape, transpose, stack, cat, cast, lookup table.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
