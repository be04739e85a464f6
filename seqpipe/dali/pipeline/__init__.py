"""``nvidia.dali.pipeline``: pipelines, and the functions that define them."""

from __future__ import annotations

from ..data_node import DataNode
from ..definition import do_not_convert, pipeline_def
from ..running import NotBuiltError, Pipeline, UnknownSourceError
from . import experimental

__all__ = [
    "DataNode",
    "NotBuiltError",
    "Pipeline",
    "UnknownSourceError",
    "do_not_convert",
    "experimental",
    "pipeline_def",
]
