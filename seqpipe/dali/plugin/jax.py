"""``nvidia.dali.plugin.jax``: iterators that return dictionaries of JAX arrays."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...errors import BackendError, ParameterError
from ..value import Value
from .base_iterator import DALIIterator, LastBatchPolicy

__all__ = ["DALIGenericIterator", "LastBatchPolicy", "data_iterator"]


class DALIGenericIterator(DALIIterator):
    """Batches of one pipeline as dictionaries of JAX arrays; see :class:`DALIIterator`.

    Raises:
        BackendError: JAX is not installed.
        ParameterError: there are several pipelines.
    """

    def __init__(self, pipelines: Any, *args: Any, **options: Any) -> None:
        if options.pop("sharding", None) is not None:
            raise ParameterError(
                "sharding",
                source="jax.DALIGenericIterator",
                advice="Shard the arrays with jax.device_put(batch, sharding)",
            )
        try:
            self._jax: Any = importlib.import_module("jax.numpy")
        except ImportError as error:
            raise BackendError("jax is not installed", advice="Install it: pip install jax") from error
        super().__init__(pipelines, *args, **options)
        if len(self._pipes) > 1:
            raise ParameterError(
                f"{len(self._pipes)} pipelines",
                source="jax.DALIGenericIterator",
                allowed="one",
                advice="Create an iterator for each",
            )

    def converted(self, value: Value, name: str, title: str) -> Any:  # noqa: ARG002  the base class'
        """Return an array ``(N, …)``: from a GPU without a copy, from main memory as a copy.

        Raises:
            ParameterError: the samples have different shapes.
        """
        array = value.stacked(title)
        return self._jax.from_dlpack(array) if value.on_gpu else self._jax.array(array)

    def __next__(self) -> Any:
        """Return the next batch as a dictionary."""
        return super().__next__()[0]


def data_iterator(pipeline_fn: Any = None, *args: Any, **options: Any) -> Callable[..., Any]:
    """Decorate a function that returns nodes; the result returns an iterator over its pipeline.

    Args:
        pipeline_fn: the function; or ``output_map``, if the decorator is called with arguments.
        *args: further arguments of :class:`DALIGenericIterator`.
        **options: arguments of :class:`DALIGenericIterator` by name.
    """
    from ..pipeline import pipeline_def

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        pipeline_of = pipeline_def(function)

        @functools.wraps(function)
        def create(*arguments: Any, **named: Any) -> DALIGenericIterator:
            return DALIGenericIterator(pipeline_of(*arguments, **named), *args, **options)

        return create

    if callable(pipeline_fn):
        return decorate(pipeline_fn)
    if pipeline_fn is not None:
        args = (pipeline_fn, *args)
    return decorate
