"""Table of all operators, for documentation and the terminal."""

from __future__ import annotations

import re
from textwrap import shorten
from typing import Final

from .declaration import REGISTRY, Declaration
from .fields import COMMON

__all__ = ["table"]

_MARKUP: Final = re.compile(r":[a-z]+:(?=`)|`")
_WIDTH: Final = 100  # columns of a terminal


def table(*, markdown: bool = False) -> str:
    """Return a table of all built-in operators, one line for each.

    Args:
        markdown: whether to format it as Markdown, with parameters, dtypes, channels and backends.
    """
    own = [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]
    if markdown:
        head = "| operator | what it does | parameters | types | channels | backends |\n" + "|---" * 6 + "|\n"
        return head + "".join(map(_row, own))
    wide = max(len(cls.name) for cls in own)
    plain = (_MARKUP.sub("", cls.summary.partition("\n")[0]) for cls in own)
    lines = (shorten(line, _WIDTH - wide - 2, placeholder=" …") for line in plain)
    return "\n".join(f"{cls.name:<{wide}}  {line}" for cls, line in zip(own, lines, strict=True))


def _row(cls: type[Declaration]) -> str:
    parameters = ", ".join(f"`{q.name}={q.default!r}`" for q in cls.parameters if q.name not in COMMON)
    channels = " or ".join(map(str, cls.traits.channels)) or "any"
    what = cls.summary.partition("\n")[0]
    backends = "CPU, CUDA" if cls.traits.body or cls.traits.composed else "CPU, CuPy"
    if cls.traits.takes not in ("images", "batches"):
        channels, backends = (
            cls.traits.takes,
            "CPU" if cls.traits.takes in ("boxes", "nothing") else "CPU, CuPy",
        )
    return f"| `{cls.name}` | {what} | {parameters} | {', '.join(cls.traits.dtypes)} | {channels} | {backends} |\n"
