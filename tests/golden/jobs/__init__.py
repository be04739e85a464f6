"""Jobs of data sets, chains over them, pipelines and torch: the one place that builds them.

When their API changes, the modules here are rewritten and the recorded hashes stay. Each job is a generator of
``(epoch, parts)`` for two epochs; ``common`` turns what a batch holds into plain arrays.
"""

from __future__ import annotations

from . import chain, pipeline, video, volume

__all__ = ["chain", "pipeline", "video", "volume"]
