"""``nvidia.dali.plugin.pytorch.fn``: the operator whose function takes torch tensors."""

from __future__ import annotations

from ... import fn

__all__ = ["torch_python_function"]

torch_python_function = fn.torch_python_function
"""``nvidia.dali.plugin.pytorch.fn.torch_python_function``."""
