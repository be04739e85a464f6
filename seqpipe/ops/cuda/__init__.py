"""Kernels of operators: assembly of their sources, launches, and the CUDA sources.

Imports `core`.
"""

__all__: list[str] = []
