"""``nvidia.dali.auto_aug``: the published policies, by the operators of :mod:`seqpipe.ops` that have their names.

They draw by seed, epoch and sample, take the magnitudes that torchvision publishes, and need no conditionals.
May import the rest of :mod:`seqpipe.dali`.
"""

from __future__ import annotations

from . import auto_augment, rand_augment, trivial_augment

__all__ = ["auto_augment", "rand_augment", "trivial_augment"]
