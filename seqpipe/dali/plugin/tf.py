"""``nvidia.dali.plugin.tf`` does not exist here; every name asked of it raises an error that says what to use."""

from __future__ import annotations

from .absent import absent

__all__: list[str] = []

__getattr__ = absent(
    "tf",
    "TensorFlow",
    "Make a data set of the pipeline: tf.data.Dataset.from_generator, of pipe.run() and as_array()",
)
