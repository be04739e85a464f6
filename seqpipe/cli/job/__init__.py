"""Coordination of exports to one folder: locks, claimed files, recorded options, ``--resume``.

Imports ``terminal``, ``input``, ``output`` and ``plan``.
"""

__all__: list[str] = []
