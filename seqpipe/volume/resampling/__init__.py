"""Volumes on another grid or in another orientation.

Imports `space`, `info` and `source`.
"""

__all__: list[str] = []
