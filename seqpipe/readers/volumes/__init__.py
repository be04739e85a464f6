"""Patches of volumes: listing of cases, cached cases, reading ahead, batches, and the dataset of them all.

May import what other readers may, and modules of :mod:`seqpipe.readers` that serve videos and volumes alike.
"""

from __future__ import annotations

__all__: list[str] = []
