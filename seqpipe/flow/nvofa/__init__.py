"""NVIDIA's optical-flow engine (NVOFA) through the driver's library. May import flow and the vocabulary.

``library`` loads the library and declares its structures, ``session`` wraps a session with its buffers and reuses idle
ones, ``engine`` computes the flow of pairs.
"""

from __future__ import annotations

from .engine import check_engine, engine_caps, flow_on_gpu
from .library import interface
from .session import MOST_IDLE

__all__ = ["MOST_IDLE", "check_engine", "engine_caps", "flow_on_gpu", "interface"]
