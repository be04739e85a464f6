"""``nvidia.dali.pipeline.experimental``: the decorator that has DALI's debug mode as an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ParameterError
from .definition import pipeline_def as plain_pipeline_def

__all__ = ["pipeline_def"]


def pipeline_def(
    fn: Callable[..., Any] | None = None, *, debug: bool = False, **options: Any
) -> Callable[..., Any]:
    """Decorate a function as :func:`seqpipe.dali.pipeline_def` does.

    Args:
        fn: the function.
        debug: only False; DALI's debug mode, which executes each operator at its call, is not available.
        **options: arguments of :func:`seqpipe.dali.pipeline_def`.

    Raises:
        ParameterError: debug is True, or an argument does not exist.
    """
    if debug:
        raise ParameterError(
            "debug=True is not available",
            source="pipeline_def",
            advice="Return the nodes in question as outputs of the pipeline, or print arrays in fn.python_function",
        )
    return plain_pipeline_def(fn, **options)
