"""``nvidia.dali.experimental.dynamic`` is not available; every name raises an error with an alternative."""

from __future__ import annotations

from ..absent import absent

__all__: list[str] = []

__getattr__ = absent(
    "experimental.dynamic",
    "operators without a pipeline",
    "Call seqpipe.fn on arrays, and iterate over seqpipe.readers",
)
