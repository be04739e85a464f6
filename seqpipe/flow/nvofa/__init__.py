"""NVIDIA's optical-flow engine (NVOFA) through the driver's library. May import flow and the vocabulary.

``abi`` declares the library's structures, ``library`` loads it, ``session`` wraps a session with its buffers, ``pool``
reuses idle sessions, ``engine`` computes the flow of pairs.
"""

from __future__ import annotations

from .engine import check_engine, engine_caps, flow_on_gpu
from .library import interface
from .pool import MOST_IDLE

__all__ = ["MOST_IDLE", "check_engine", "engine_caps", "flow_on_gpu", "interface"]
