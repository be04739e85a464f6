"""Data sets, chains, operators and programs give what was recorded by ``python -m tests.golden --record``."""

from __future__ import annotations

import numpy as np
import pytest

from . import media
from .hashing import Job, differences, entry_of, machine
from .table import JOBS, read

RECORDED = read()


@pytest.fixture(scope="module")
def place():
    return media.folder()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("name", JOBS)
def test_a_job_gives_what_was_recorded(name, place):
    one = JOBS[name]
    if one.needs:
        pytest.importorskip(one.needs, reason=f"{one.needs} is not installed")
    assert name in RECORDED["jobs"], "it is new: python -m tests.golden --record"
    found = entry_of(one, place)
    said = differences(RECORDED["jobs"][name]["hashes"], found, same_machine=RECORDED["machine"] == machine())
    assert said == [], f"changes foreseen: {one.changes}" if one.changes else "no change is foreseen"


def test_no_job_is_recorded_that_is_gone():
    assert RECORDED["jobs"].keys() <= JOBS.keys()


def test_a_difference_says_what_differs(tmp_path):
    clip = np.arange(2 * 8 * 9 * 3, dtype=np.uint8).reshape(2, 8, 9, 3)

    def entry(image, index):
        return entry_of(Job("x", lambda: iter([(0, {"image": image, "index": index})])), tmp_path)

    before = entry(clip, np.array([1, 2]))
    assert differences(before, entry(clip, np.array([1, 2])), same_machine=True) == []
    assert differences(before, entry(clip, np.array([2, 1])), same_machine=True) == [
        "epoch 0, index: other values"
    ]
    (said,) = differences(before, entry(clip[:1], np.array([1, 2])), same_machine=True)
    assert said == "epoch 0, image: was 1×uint8[2, 8, 9, 3], is 1×uint8[1, 8, 9, 3]"
    near = np.clip(clip.astype(int) + 1, 0, 255).astype(np.uint8)
    assert differences(before, entry(near, np.array([1, 2])), same_machine=False) == []
    (said,) = differences(before, entry(near, np.array([1, 2])), same_machine=True)
    assert said.startswith("epoch 0, image: other bytes; 0% of the samples differ")
    (said,) = differences(before, entry(clip[:, :, ::-1], np.array([1, 2])), same_machine=False)
    assert said.endswith("of the samples differ by more than 4.66")
