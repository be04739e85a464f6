"""``nvidia.dali.plugin.triton``: the mark of definitions that Triton's server serializes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..raised import dali_error

__all__ = ["autoserialize"]


def autoserialize(dali_pipeline: Callable[..., Any]) -> Callable[..., Any]:
    """Return a definition unchanged; DALI's backend of Triton, which asks for the mark, runs DALI's own format alone.

    Raises:
        ParameterError: it is no function with ``@pipeline_def``.
    """
    if not hasattr(dali_pipeline, "is_pipeline_def"):
        raise dali_error(
            "Only `@pipeline_def` can be decorated with `@triton.autoserialize`.", source="triton"
        )
    return dali_pipeline
