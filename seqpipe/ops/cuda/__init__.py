"""Kernels of operators: how their sources are put together and launched, and the CUDA sources.

Imports `core`.
"""

__all__: list[str] = []
