"""``nvidia.dali.plugin.mxnet`` is not available; every name raises an error with an alternative."""

from __future__ import annotations

from ..absent import absent

__all__: list[str] = []

__getattr__ = absent(
    "plugin.mxnet", "MXNet", "MXNet is retired: use NumPy arrays, by pipe.run() and as_array()"
)
