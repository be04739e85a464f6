"""What every command shares with the terminal: options, times, progress, error messages.

Imports nothing else of `cli`.
"""

__all__: list[str] = []
