"""Decoded surfaces to pixels on the CPU: color, chroma, scaling, geometry, output specification."""

__all__: list[str] = []
