"""Calls of operators, from the user's values to arrays and back: inputs, dispatch, backends, threads.

Imports `core` and `cuda`.
"""

__all__: list[str] = []
