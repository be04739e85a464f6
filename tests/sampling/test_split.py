"""Splits by groups: the same in every version, whole groups, and what is left over."""

from __future__ import annotations

import pytest

from seqpipe.sampling.split import split_groups


def test_a_split_stays_the_same_from_version_to_version():
    groups = [str(number) for number in range(12)]
    found = split_groups(groups, [None] * 12, (0.5, 0.25), seed=3)
    assert found.tolist() == [2, 0, 1, 1, 2, 2, 1, 0, 0, 0, 0, 0], "2 is what no share takes"
    assert split_groups(groups, [None] * 12, (0.5, 0.25), seed=3, name="other").tolist() != found.tolist()


@pytest.mark.parametrize(("shares", "part"), [((0.4, 0.6), 1), ((0.6, 0.4), 0), ((0.5, 0.5), 1), ((0.4,), 1)])
def test_a_group_goes_to_the_part_that_holds_its_middle(shares, part):
    groups = ["a", "b", "b", "c"]
    assert split_groups(groups, groups, shares, seed=0).tolist() == [part] * 4, "each is all of its stratum"
