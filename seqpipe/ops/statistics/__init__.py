"""Operators that compute or use statistics of values: reductions, normalize.

Imports `core`, `call`, `cuda`, `arrays`.
"""

from __future__ import annotations

__all__: list[str] = []
