"""``nvidia.dali.experimental``: its dynamic mode, which is not available."""

from __future__ import annotations

from . import dynamic

__all__ = ["dynamic"]
