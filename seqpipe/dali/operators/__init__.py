"""Operators of DALI that are no plain call of one of ours: each function builds the nodes of a call, for the table.

May import calls, nodes and types of :mod:`seqpipe.dali`; the table alone imports this package.
"""

from __future__ import annotations

__all__: list[str] = []
