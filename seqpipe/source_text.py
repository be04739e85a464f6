"""Sources of other languages that lie beside the modules which use them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["source_text"]

_INCLUDE: Final = re.compile(r'^#include "(\w+\.(?:cuh|c))"$', re.MULTILINE)


def source_text(package: str, name: str, folder: str = "") -> str:
    """The text of a file, with the files in its place that it includes: compilers are given no folders to look in.

    Args:
        package: the package in whose folder it lies.
        name: its name.
        folder: where in there it lies, and what it includes.
    """
    from importlib import resources  # here: it takes longer than most of our modules

    text = resources.files(package).joinpath(folder, name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: source_text(package, found[1], folder), text)
