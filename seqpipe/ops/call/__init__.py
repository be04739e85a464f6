"""From what the user holds to arrays and back: inputs, dispatch, backends, threads.

Imports `core` and `cuda`.
"""

__all__: list[str] = []
