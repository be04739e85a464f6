"""fn.pyi is what the registry says."""

from __future__ import annotations

import pydoc
from pathlib import Path

import seqpipe
from seqpipe import fn
from seqpipe.ops.call.functions import stub


def test_the_stub_is_up_to_date():
    written = Path(seqpipe.__file__).with_name("fn.pyi").read_text(encoding="utf-8")
    assert written == stub(), "run: python -m seqpipe.ops"


def test_help_lists_every_function():
    """The guide to operators says so."""
    listed = pydoc.plain(pydoc.render_doc(fn)).partition("FUNCTIONS")[2]
    assert {"flip", "reductions", "warp_affine"} <= set(fn.__all__) <= set(dir(fn))
    assert [name for name in fn.__all__ if f"\n    {name}" not in listed] == []
