"""Operators on the motion between frames: optical flow.

Imports `core`, `call`, `arrays`, and the package `flow`, which computes it.
"""

from __future__ import annotations

__all__: list[str] = []
