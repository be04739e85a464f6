"""Options, times, progress and error messages, which all commands share. Imports nothing else of ``cli``."""

__all__: list[str] = []
