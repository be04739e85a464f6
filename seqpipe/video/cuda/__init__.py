"""Conversion of decoded surfaces to pixels in GPU memory: kernels, their launch, streams and memory.

CuPy is imported with the first converter.
"""

__all__: list[str] = []
