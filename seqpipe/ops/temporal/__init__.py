"""Operators on the frames of sequences: extract, rearrange, reverse, subsample, difference.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
