"""All golden jobs, and the file of their hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import jobs, operators, programs
from .hashing import JOBS

__all__ = ["FILE", "JOBS", "read", "write"]

FILE = Path(__file__).with_name("hashes.json")
_DECLARED_IN = (jobs, operators, programs)  # imported for the jobs that they declare


def read() -> dict[str, Any]:
    """The recorded hashes: ``machine``, and an entry for each job; empty without a file."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
    return found


def write(entries: dict[str, Any], machine: str) -> None:
    """Write the hashes; a line for each name of an epoch, so that a difference of the file can be read."""
    FILE.write_text(
        json.dumps({"machine": machine, "jobs": entries}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
