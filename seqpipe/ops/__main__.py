"""``python -m seqpipe.ops``: write the type stubs that follow from the registry of operators."""

from __future__ import annotations

from pathlib import Path

from .call.functions import stub

__all__: list[str] = []

if __name__ == "__main__":
    Path(__file__).parents[1].joinpath("fn.pyi").write_text(stub(), encoding="utf-8")
