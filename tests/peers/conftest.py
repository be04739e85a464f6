"""Tests beside other libraries: ``pytest -m peers``; unless the marker is named they are left out."""

from __future__ import annotations

import os

import pytest

from tests.peers import dali
from tests.peers.agreed import AGREED
from tests.peers.arrays import ARRAYS
from tests.peers.differences import DIFFERENCES, REFUSED
from tests.peers.drawn import DRAWN


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out unless they are asked for: they need what seqpipe's environment has not."""
    if "peers" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("peers")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("peers")]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dali.Answers:
    """What DALI makes of all cases, in one process."""
    if not os.environ.get(dali.PYTHON):
        pytest.skip(dali.ADVICE)
    cases = [
        *(case for _, some in AGREED for case in some),
        *(difference.case for difference in DIFFERENCES),
        *(case for case, _ in REFUSED),
    ]
    asked = {case.label: dali.asked(case) for case in cases}
    assert len(asked) == len(cases), "two cases are the same"
    arrays = {name: case.asked() for name, case in ARRAYS.items()}
    return dali.answered({**asked, **arrays, **DRAWN}, tmp_path_factory.mktemp("dali"))
