"""What takes the driver's place in the tests of this folder."""

from __future__ import annotations

import pytest

from seqpipe.video.nvdec import session
from seqpipe.video.nvdec.native_feeder import native
from tests.video.nvdec.fake_cuvid import FakeCuvid


@pytest.fixture(params=["python", "native"])
def cuvid(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> FakeCuvid:
    """The driver's library; with the callbacks in Python and in C."""
    if request.param == "python":
        monkeypatch.setattr(session, "native", lambda: None)
    elif native() is None:
        pytest.skip("no C compiler")
    fake = FakeCuvid()
    monkeypatch.setattr(session, "load", lambda: fake)
    return fake
