"""``nvidia.dali.pipeline``: pipelines, and the functions that define them."""

from __future__ import annotations

from ..data_node import DataNode
from . import experimental
from .definition import do_not_convert, pipeline_def
from .description import UnknownSourceError
from .pipeline import NotBuiltError, Pipeline

__all__ = [
    "DataNode",
    "NotBuiltError",
    "Pipeline",
    "UnknownSourceError",
    "do_not_convert",
    "experimental",
    "pipeline_def",
]
