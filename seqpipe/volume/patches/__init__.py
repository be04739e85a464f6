"""Patches of volumes: random patches for training, grids of patches for inference.

Imports `reader` and everything that it imports.
"""

__all__: list[str] = []
