"""Composition of operators: chains, choices, fusion into one kernel, and geometric operators as one mapping.

Imports every package but `policies`.
"""

__all__: list[str] = []
