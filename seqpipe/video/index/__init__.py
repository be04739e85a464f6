"""Packet indexes: building, presentation order, cache on disk, registers, verification.

Imports `source`, `probe`, `bitstream`, `tables`, `plan`, `decode`.
"""

__all__: list[str] = []
