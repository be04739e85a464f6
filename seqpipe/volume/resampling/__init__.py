"""Resampling volumes to another grid or orientation.

Imports `space`, `info` and `source`.
"""

__all__: list[str] = []
