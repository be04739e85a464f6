"""``nvidia.dali.plugin.tf`` is not available; every name raises an error with an alternative."""

from __future__ import annotations

from ..absent import absent

__all__: list[str] = []

__getattr__ = absent(
    "plugin.tf",
    "TensorFlow",
    "Build a tf.data.Dataset.from_generator from pipe.run() and as_array()",
)
