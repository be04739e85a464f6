"""Operators on whole batches: mixup and CutMix.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

__all__: list[str] = []
