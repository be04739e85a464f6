"""``nvidia.dali.plugin``: iterators over pipelines that return the arrays of a framework."""

from __future__ import annotations

from .base_iterator import LastBatchPolicy

__all__ = ["LastBatchPolicy"]
