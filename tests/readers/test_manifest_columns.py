"""The documented list of a manifest's columns, against the declaration."""

from __future__ import annotations

import re
from pathlib import Path

from seqpipe.readers import manifest


def test_the_documented_columns_are_those_that_are_read() -> None:
    text = manifest.__doc__ or ""
    rows = re.findall(r"^``([a-z_, ]+)``", text, re.MULTILINE)
    assert [name for row in rows for name in row.split(", ")] == list(manifest._KNOWN)


def test_the_documentation_lists_them_too() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guide" / "lists.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^A manifest .*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`([a-z]+(?:_[a-z]+)?)`", line.partition("Other columns")[0]) == list(manifest._KNOWN)
