"""fn.pyi is what the registry says."""

from __future__ import annotations

from pathlib import Path

import seqpipe
from seqpipe.ops._stub import stub


def test_the_stub_is_up_to_date():
    written = Path(seqpipe.__file__).with_name("fn.pyi").read_text(encoding="utf-8")
    assert written == stub(), "run: python -m seqpipe.ops"
