"""Several operators as one: chains, fusion into one kernel, one mapping of several.

Imports every package but `policies`.
"""

__all__: list[str] = []
