"""The commands and their options, one module each.

Imports every other package of `cli`; a command imports heavy modules when it runs.
"""

__all__: list[str] = []
