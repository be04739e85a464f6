"""What takes the driver's place in the tests of this folder."""

from __future__ import annotations

import pytest

from seqpipe.video.nvdec import session
from seqpipe.video.nvdec.feeder import native
from tests.video.nvdec.fake_cuvid import FakeCuvid


@pytest.fixture
def cuvid(monkeypatch: pytest.MonkeyPatch) -> FakeCuvid:
    """The driver's library."""
    if native() is None:
        pytest.skip("no C compiler")
    fake = FakeCuvid()
    monkeypatch.setattr(session, "load", lambda: fake)
    return fake
