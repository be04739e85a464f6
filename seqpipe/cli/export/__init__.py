"""Execution of ``seqpipe export`` and ``seqpipe flow``: decoding, encoding and writing.

Imports every package of ``cli`` but ``commands``.
"""

__all__: list[str] = []
