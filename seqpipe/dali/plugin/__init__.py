"""``nvidia.dali.plugin``: iterators that give what a framework trains with."""

from __future__ import annotations

from .base_iterator import LastBatchPolicy

__all__ = ["LastBatchPolicy"]
