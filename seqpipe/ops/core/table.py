"""The table of operators, for documentation."""

from __future__ import annotations

import inspect

from .declaration import REGISTRY, Declaration

__all__ = ["table"]

_COMMON = {"p", "per_frame", "seed"}


def table() -> str:
    """All operators of seqpipe as a table in Markdown, by name."""
    own = [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]
    head = "| operator | what it does | parameters | types | channels | backends |\n" + "|---" * 6 + "|\n"
    return head + "".join(map(_row, own))


def _row(cls: type[Declaration]) -> str:
    parameters = ", ".join(f"`{q.name}={q.default!r}`" for q in cls.parameters if q.name not in _COMMON)
    channels = " or ".join(map(str, cls.channels)) or "any"
    what = (inspect.getdoc(cls) or "").partition("\n")[0]
    backends = "CPU, CUDA" if cls.body or cls.composed else "CPU, CuPy"
    if cls.takes not in ("images", "batches"):
        channels, backends = cls.takes, "CPU" if cls.takes in ("boxes", "nothing") else "CPU, CuPy"
    return f"| `{cls.name}` | {what} | {parameters} | {', '.join(cls.dtypes)} | {channels} | {backends} |\n"
