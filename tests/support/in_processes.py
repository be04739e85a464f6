"""Functions that worker processes call: a process that imports a module of tests with all it needs starts slowly."""

from __future__ import annotations

import os

__all__ = ["darker", "dies"]


def darker(parts):
    return {**parts, "image": parts["image"].numpy() // 2, "process": os.getpid()}


def dies(parts):
    os._exit(3 if parts["index"] == 1 else 0)
