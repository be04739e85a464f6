"""What an export will do, decided before a frame is decoded: options, selection, file names, plan of each source.

Imports `terminal`, `input` and `output`.
"""

__all__: list[str] = []
