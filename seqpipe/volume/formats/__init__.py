"""File formats: one module each, and what they share. ``open`` finds the format by content.

Imports `space`, `info` and `source`. File-format libraries are imported here and in `export`, when a file needs them.
"""

__all__: list[str] = []
