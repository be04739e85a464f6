"""The work of ``seqpipe export`` and ``seqpipe flow``: sources are decoded, encoded and written.

Imports every package of `cli` but `commands`.
"""

__all__: list[str] = []
