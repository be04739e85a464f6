"""Text of the C and CUDA sources in the package, with their includes inlined."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["source_text"]

_INCLUDE: Final = re.compile(r'^#include "(\w+\.(?:cuh|c))"$', re.MULTILINE)


def source_text(package: str, name: str, folder: str = "") -> str:
    """Return a source with its ``#include "…"`` lines replaced by those files, since compilers get no include paths.

    Args:
        package: the package that holds the file.
        name: file name of the source.
        folder: folder below the package, of the file and of those it includes.
    """
    from importlib import (
        resources,  # not at the top: its import is slow, and compiled kernels need none of it
    )

    text = resources.files(package).joinpath(folder, name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: source_text(package, match[1], folder), text)
