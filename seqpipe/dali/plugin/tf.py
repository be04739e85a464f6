"""``nvidia.dali.plugin.tf``: ``DALIDataset``, the batches of a pipeline as a ``tf.data.Dataset``."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import BackendError, ParameterError
from ..absent import absent
from ..pipeline import Pipeline
from ..value import value_of

__all__ = ["DALIDataset"]

__getattr__ = absent(
    "plugin.tf", "TensorFlow", "DALIDataset(pipeline, output_dtypes=…) is a tf.data.Dataset of its batches"
)


def DALIDataset(  # noqa: N802  DALI's name
    pipeline: Pipeline,
    output_dtypes: Any = None,
    output_shapes: Any = None,
    fail_on_device_mismatch: bool = True,  # noqa: ARG001  DALI's signature
    *,
    input_datasets: Any = None,
    **_: Any,
) -> Any:
    """Return a ``tf.data.Dataset`` of a pipeline's batches, by ``tf.data.Dataset.from_generator``.

    Batches pass through main memory. The pipeline is one position: a new iteration goes on behind the batches that
    are read so far, or with the next epoch of a source that has ended. Give ``steps_per_epoch`` or ``take(count)``, as
    pipelines with readers do not end.

    Args:
        pipeline: the pipeline, whose outputs have samples of one shape.
        output_dtypes: TensorFlow's type of the output, or a tuple with one for each.
        output_shapes: shape ``(N, …)`` of the output, or a tuple with one for each; None for axes of any length, or for
            any shape. An output ``(N, 1)`` becomes ``(N,)``, if that is its shape here.
        fail_on_device_mismatch: accepted without effect.
        input_datasets: not available.
        **_: arguments of the pipeline such as ``batch_size``, without effect: it has its own.

    Raises:
        BackendError: TensorFlow is not installed.
        ParameterError: ``pipeline`` is none, types are missing, or there is another number of types or shapes.
    """
    source = "tf.DALIDataset"
    if input_datasets is not None:
        raise ParameterError(
            "input_datasets", source=source, advice="Read them by fn.external_source(source=…)"
        )
    if not isinstance(pipeline, Pipeline):
        raise ParameterError(f"pipeline={pipeline!r}", source=source, allowed="a Pipeline")
    if output_dtypes is None:
        raise ParameterError(
            "output_dtypes is missing", source=source, allowed="TensorFlow's type of each output"
        )
    try:
        tf: Any = importlib.import_module("tensorflow")
    except ImportError as error:
        raise BackendError(
            "tensorflow is not installed", advice="Install it: pip install tensorflow"
        ) from error
    several = isinstance(output_dtypes, (tuple, list))
    kinds = tuple(output_dtypes) if several else (output_dtypes,)
    shapes = (None,) * len(kinds) if output_shapes is None else output_shapes if several else (output_shapes,)
    pipeline.build()
    if not len(kinds) == len(shapes) == pipeline.output_count:
        raise ParameterError(
            f"{len(kinds)} types and {len(shapes)} shapes for {pipeline.output_count} outputs",
            source=source,
            allowed="one for each",
        )
    sides = [(shape,) if isinstance(shape, int) else shape for shape in shapes]
    specs = tuple(tf.TensorSpec(shape=shape, dtype=kind) for shape, kind in zip(sides, kinds, strict=True))

    def batches() -> Iterator[Any]:
        if pipeline.executor.ended():
            pipeline.reset()
        while (result := pipeline.next_batch()) is not None:
            arrays = [
                _array(value_of(value), shape, label)
                for value, shape, label in zip(result.values, sides, pipeline.output_labels, strict=True)
            ]
            yield tuple(arrays) if several else arrays[0]

    return tf.data.Dataset.from_generator(batches, output_signature=specs if several else specs[0])


def _array(value: Any, shape: Any, label: str) -> Any:
    """Return an output as an array in main memory, without a last axis of length 1 that the shape does not have."""
    array = np.asarray(value.on_host().stacked(f"the output {label}"))
    return (
        array[..., 0]
        if shape is not None and len(shape) == array.ndim - 1 and array.shape[-1] == 1
        else array
    )
