"""Packet indexes: built, ordered, cached on disk, registered, verified.

Imports `source`, `probe`, `bitstream`, `tables`, `plan`, `decode`.
"""

__all__: list[str] = []
