"""File formats, one module each, and shared parts. ``open`` detects the format by content.

Imports `space`, `info` and `source`. File-format libraries are imported here and in `export`, when a file needs them.
"""

__all__: list[str] = []
