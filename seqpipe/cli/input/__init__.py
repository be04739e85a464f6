"""Input files of commands: paths to videos and volumes, and their indexes.

Imports ``terminal``.
"""

__all__: list[str] = []
