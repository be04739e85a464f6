"""The same calls by DALI and by seqpipe.dali: types, layouts, shapes and values of every output."""

from __future__ import annotations

import os
import pickle
import subprocess
from typing import Any

import numpy as np
import pytest

from tests.peers import dali
from tests.programs.conftest import WRITTEN

pytestmark = pytest.mark.peers

NEAR = {
    ("reductions", 8): 0.01,
    ("matrices", 2): 0.01,
    ("volumes", 5): 3,
}
"""How far values may be apart where that is more than a level: squares and places in float32; filters whose
weights DALI takes from a table."""
REFUSED = ("python",)
"""Cases that DALI refuses on a machine without a driver."""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> dict[str, Any]:
    python = os.environ.get(dali.PYTHON)
    if not python:
        pytest.skip(dali.ADVICE)
    path = tmp_path_factory.mktemp("door") / "theirs.pickle"
    subprocess.run([python, "-W", "ignore", str(WRITTEN / "door.py"), str(path)], check=True, timeout=300)
    return pickle.loads(path.read_bytes())


def _door() -> dict[str, Any]:
    path = WRITTEN / "door.py"
    space: dict[str, Any] = {"__name__": "door", "__file__": str(path)}
    text = path.read_text(encoding="utf-8").replace("nvidia.dali", "seqpipe.dali")
    exec(compile(text, str(path), "exec"), space)
    return space


DOOR = _door()


@pytest.mark.parametrize("name", DOOR["cases"])
def test_we_agree(theirs, name):
    mine, yours = DOOR["run"](DOOR["cases"][name]), theirs[name]
    if name in REFUSED:
        assert isinstance(yours, str)
        return
    assert not isinstance(yours, str), yours
    assert len(mine) == len(yours)
    for number, (one, other) in enumerate(zip(mine, yours, strict=True)):
        assert (one[0], one[1]) == (other[0], other[1].replace("*", ""))  # letters that stand for none
        assert [part.shape for part in one[2]] == [part.shape for part in other[2]]
        for found, wanted in zip(one[2], other[2], strict=True):
            near = NEAR.get((name, number), 1 if found.dtype.kind in "iu" else 1e-3)
            assert np.abs(found.astype(float) - wanted.astype(float)).max(initial=0) <= near
