"""The commands and their options, one module each.

Imports every other package of `cli`; what a command needs only when it runs is imported then.
"""

__all__: list[str] = []
