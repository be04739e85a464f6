"""What every package builds on: declared parameters, random numbers, C and CUDA sources, limits, files, signals.

Imports the modules ``errors``, ``array``, ``layout`` and ``random`` only.
"""

__all__: list[str] = []
