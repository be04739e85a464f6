"""Indexes by both ways: by the container's tables, and by a scan."""

from __future__ import annotations

import pytest

from seqpipe.video.tables import facts


@pytest.fixture(autouse=True)
def nothing_remembered():
    """No test leans on the facts of another one's files."""
    facts.forget()
