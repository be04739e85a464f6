"""Division of groups into parts by a seed: arithmetic only."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable
from collections.abc import Sequence as Seq

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from .params import SEED

__all__ = ["split_groups"]


def split_groups(
    groups: Seq[str], strata: Seq[Hashable], shares: Seq[float], seed: int, name: str = "split"
) -> IntArray:
    """The part that each item is in, from 0 on; -1 for items that are in none.

    Groups stand in an order that (seed, group) decides, and fill one part after the other; the group that reaches over
    a border is in the part that has more of it.

    Args:
        groups: of each item; those of one group are in one part.
        strata: of each item; each is divided by itself.
        shares: of the items in each part.
        seed: of the order.
        name: keeps apart divisions of one seed.

    Raises:
        ParameterError: shares are not positive, or are more than all; or a group has items of several strata.
    """
    if not shares or not all(0 < share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise ParameterError(
            f"shares={list(shares)!r} is not valid", allowed="positive numbers with a sum of at most 1"
        )
    seed = SEED.check(seed)
    home: dict[str, Hashable] = {}
    for group, stratum in zip(groups, strata, strict=True):
        if home.setdefault(group, stratum) != stratum:
            raise ParameterError(
                f"the group {group} has items of {home[group]!r} and of {stratum!r}",
                advice="Groups of several classes cannot be divided class by class: leave stratified out",
            )
    counts = Counter(groups)
    borders = np.cumsum(shares)
    part: dict[str, int] = {}
    for stratum in dict.fromkeys(strata):
        ordered = sorted((g for g, of in home.items() if of == stratum), key=lambda g: _key(seed, name, g))
        sizes = np.array([counts[group] for group in ordered], dtype=np.int64)
        middles = (np.cumsum(sizes) - sizes / 2) / max(1, sizes.sum())
        places = np.searchsorted(borders, middles, side="right")
        part |= dict(zip(ordered, places.tolist(), strict=True))
    found = np.array([part[group] for group in groups], dtype=np.int64)
    return np.where(found < len(shares), found, -1)


def _key(seed: int, name: str, group: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name} {group}".encode(), digest_size=8).digest()
