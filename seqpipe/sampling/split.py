"""Random split of a dataset into parts that keeps groups together, and repetition of small groups."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable
from collections.abc import Sequence as Seq

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from .params import SEED

__all__ = ["balanced_items", "split_groups"]


def split_groups(
    groups: Seq[str], strata: Seq[Hashable], shares: Seq[float], seed: int, name: str = "split"
) -> IntArray:
    """Return the part of each item, counted from 0; ``len(shares)`` for items in none.

    Groups are sorted by a hash of (seed, name, group) and fill one part after the other. A group across a border goes
    to the part that contains its middle.
    """
    if not shares or not all(0 < share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise ParameterError(
            f"shares={list(shares)!r} is not valid", allowed="positive numbers with a sum of at most 1"
        )
    seed = SEED.check(seed)
    stratum_of: dict[str, Hashable] = {}
    for group, stratum in zip(groups, strata, strict=True):
        if stratum_of.setdefault(group, stratum) != stratum:
            raise ParameterError(
                f"the group {group} has items of {stratum_of[group]!r} and of {stratum!r}",
                advice="Groups of several classes cannot be divided class by class: leave stratified out",
            )
    counts = Counter(groups)
    borders = np.cumsum(shares)
    part: dict[str, int] = {}
    for stratum in dict.fromkeys(strata):
        members = (group for group, own in stratum_of.items() if own == stratum)
        ordered = sorted(members, key=lambda group: _sort_key(seed, name, group))
        sizes = np.array([counts[group] for group in ordered], dtype=np.int64)
        middles = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
        part |= dict(zip(ordered, np.searchsorted(borders, middles, side="right").tolist(), strict=True))
    return np.array([part[group] for group in groups], dtype=np.int64)


def balanced_items(groups: Seq[str], keys: Seq[str], seed: int) -> IntArray:
    """Return the numbers of all items, followed by repetitions until every group has as many as the largest.

    Each item of a group occurs equally often, give or take one; a hash of (seed, key) decides who occurs once more.
    """
    seed = SEED.check(seed)
    members: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    most = max(map(len, members.values()), default=0)
    repeated: list[int] = []
    for numbers in members.values():
        times, more = divmod(most, len(numbers))
        chosen = sorted(numbers, key=lambda number: _sort_key(seed, "balanced", keys[number]))[:more]
        repeated += numbers * (times - 1) + sorted(chosen)
    return np.array([*range(len(groups)), *repeated], dtype=np.int64)


def _sort_key(seed: int, name: str, group: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name} {group}".encode(), digest_size=8).digest()
