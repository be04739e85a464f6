"""Fingerprints that are stable and tell what differs, and states that only fit where they came from."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError, StateError
from seqpipe.sampling import check_state, fingerprint

PARTS = {
    "files": ["a.mp4", "b ü.mp4"],
    "seed": 3,
    "sampler": "Windows(sequence_length=4)",
    "sizes": {"a": 1.5, "b": None},
}

text = st.text('ab"\\\0 \u00fc\u2603\U0001f600')
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | text | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


def test_a_fingerprint_is_stable_over_processes_versions_and_the_order_of_its_parts():
    # the digests of the JSON texts by coreutils' b2sum -l 64
    assert fingerprint(a=1, b=[2.5, "x", None]) == "a=f6fc42039fba3776 b=0cad38aa2fcf2fc9"
    assert fingerprint(**PARTS) == fingerprint(**dict(reversed(PARTS.items())))
    code = f"from seqpipe.sampling import fingerprint; print(fingerprint(**{PARTS!r}))"
    command = [sys.executable, "-X", "utf8", "-c", code]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"}
    ).stdout
    assert out.strip() == fingerprint(**PARTS)


@given(plain, plain)
def test_equal_parts_and_only_they_have_equal_fingerprints(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (fingerprint(part=one) == fingerprint(part=other)) == same


def test_a_tuple_is_a_list_because_states_go_through_files():
    assert fingerprint(shard=(0, 2)) == fingerprint(shard=[0, 2])


def test_a_state_comes_back_through_json():
    mark = fingerprint(**PARTS)
    state = {"epoch": 2, "position": 17, "fingerprint": mark}
    assert check_state(json.loads(json.dumps(state)), mark) == state


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"seed": 4}, "seed differs"),
        ({"seed": 4, "files": ["a.mp4"]}, "files, seed differ"),
        ({"extra": 1}, "extra differs"),
    ],
)
def test_a_state_of_something_else_is_refused_by_the_name_of_what_differs(changes, names):
    state = {"epoch": 0, "position": 0, "fingerprint": fingerprint(**PARTS)}
    with pytest.raises(StateError, match=rf"does not belong to this dataset: {names}\. Load it with"):
        check_state(state, fingerprint(**{**PARTS, **changes}))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"epoch": 0, "position": 0}, "the state has no fingerprint; allowed: a dictionary with epoch"),
        ({}, "has no epoch and no position and no fingerprint"),
        ([1, 2], "a list is not a state"),
        (
            {"epoch": -1, "position": 0, "fingerprint": "x"},
            "epoch=-1 is not valid in a state",
        ),
        ({"epoch": 0, "position": 1.5, "fingerprint": "x"}, "position=1.5 is not valid"),
        ({"epoch": 0, "position": 0, "fingerprint": 7}, "fingerprint=7 is not valid in a state"),
        ({"epoch": True, "position": 1, "fingerprint": "x"}, "epoch=True"),
        ({"epoch": 0, "position": 0, "fingerprint": ""}, "seed differs"),
    ],
)
def test_what_is_no_state_is_refused(state, message):
    with pytest.raises(StateError, match=message):
        check_state(state, fingerprint(seed=1))


def test_parts_that_are_not_plain_are_refused():
    with pytest.raises(
        ParameterError, match=r"rng=.* cannot be part of a fingerprint; allowed: plain values"
    ):
        fingerprint(rng=object())
    with pytest.raises(ParameterError, match=r"speed=nan cannot be part"):
        fingerprint(speed=float("nan"))
