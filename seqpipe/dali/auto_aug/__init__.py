"""``nvidia.dali.auto_aug``: the published policies, by the operators of :mod:`seqpipe.ops` that have their names.

They draw by seed, epoch and sample, take the magnitudes that torchvision publishes, and need no conditionals. Policies
of one's own are made of the functions that ``@augmentation`` decorates.
May import the rest of :mod:`seqpipe.dali`.
"""

from __future__ import annotations

from . import augmentations, auto_augment, core, rand_augment, trivial_augment

__all__ = ["augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"]
