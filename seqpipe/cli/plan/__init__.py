"""Planning of exports before a frame is decoded: options, frame selection, file names, the plan of each source.

Imports ``terminal``, ``input`` and ``output``.
"""

__all__: list[str] = []
