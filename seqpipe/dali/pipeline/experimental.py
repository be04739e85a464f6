"""``nvidia.dali.pipeline.experimental``: where DALI has the decorator with debug mode."""

from __future__ import annotations

from .definition import pipeline_def

__all__ = ["pipeline_def"]
