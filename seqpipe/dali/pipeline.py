"""``nvidia.dali.pipeline``: pipelines, and the functions that define them."""

from __future__ import annotations

from .data_node import DataNode
from .definition import pipeline_def
from .running import NotBuiltError, Pipeline, UnknownSourceError

__all__ = ["DataNode", "NotBuiltError", "Pipeline", "UnknownSourceError", "pipeline_def"]
