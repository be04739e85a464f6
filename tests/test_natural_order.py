"""Sorting of file names by their numbers."""

from __future__ import annotations

from itertools import permutations

import pytest

from seqpipe.core.natural_order import natural_order


@pytest.mark.parametrize(
    "names",
    [
        ["S1.png", "s9.png", "s10.png"],
        ["1.png", "2.png", "10.png", "a.png"],
        ["a1b2.png", "a1b10.png", "a02.png", "a.png"],
        [
            "IMG1.png",
            "img01.png",
            "img1.png",
        ],  # equal but for their text: the same order on every file system
        ["2.png", "x2\N{SUPERSCRIPT TWO}.png", "\N{SUPERSCRIPT TWO}"],
    ],
)
def test_numbers_count_whatever_their_width(names):
    assert {tuple(natural_order(given)) for given in permutations(names)} == {tuple(names)}
