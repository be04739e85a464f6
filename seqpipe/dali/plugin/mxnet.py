"""``nvidia.dali.plugin.mxnet`` does not exist here; every name asked of it raises an error that says what to use."""

from __future__ import annotations

from .absent import absent

__all__: list[str] = []

__getattr__ = absent("mxnet", "MXNet", "MXNet is retired: take NumPy's arrays, by pipe.run() and as_array()")
