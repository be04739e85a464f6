"""``nvidia.dali.plugin.jax``: iterators that give JAX's arrays, as dictionaries."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ...errors import BackendError, ParameterError
from ...pipeline.value import Value
from .base_iterator import DALIIterator, LastBatchPolicy

__all__ = ["DALIGenericIterator", "LastBatchPolicy", "data_iterator"]


class DALIGenericIterator(DALIIterator):
    """Batches of one pipeline as dictionaries of JAX's arrays; see :class:`DALIIterator`.

    Raises:
        BackendError: JAX is not installed.
        ParameterError: there are several pipelines.
    """

    def __init__(self, pipelines: Any, *args: Any, **options: Any) -> None:
        if options.pop("sharding", None) is not None:
            raise ParameterError(
                "sharding",
                source="jax.DALIGenericIterator",
                advice="Place the arrays by jax.device_put(batch, sharding)",
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
                advice="Make an iterator for each",
            )

    def converted(self, value: Value, name: str) -> Any:
        """An array ``(N, …)``: of a GPU's memory without a copy, of main memory a copy.

        Raises:
            ParameterError: the samples have different shapes.
        """
        array = value.stacked(f"the output {name}")
        return self._jax.from_dlpack(array) if value.on_gpu else self._jax.array(array)

    def __next__(self) -> Any:
        """A dictionary."""
        return super().__next__()[0]


def data_iterator(pipeline_fn: Any = None, *args: Any, **options: Any) -> Callable[..., Any]:
    """A decorator: a function that gives nodes becomes one that gives an iterator.

    Args:
        pipeline_fn: the function; or the first argument of the iterator, when the decorator is called.
        *args: of :class:`DALIGenericIterator`, from ``output_map`` on.
        **options: likewise by name.
    """
    from ..definition import pipeline_def

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        defined = pipeline_def(function)

        @functools.wraps(function)
        def create(*given: Any, **named: Any) -> DALIGenericIterator:
            return DALIGenericIterator(defined(*given, **named), *args, **options)

        return create

    if pipeline_fn is None or callable(pipeline_fn):
        return decorated if pipeline_fn is None else decorated(pipeline_fn)
    args = (pipeline_fn, *args)
    return decorated
