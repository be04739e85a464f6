"""Operators that compute or depend on statistics of values: reductions, normalize.

Imports `core`, `call`, `cuda`, `arrays`.
"""

from __future__ import annotations

__all__: list[str] = []
