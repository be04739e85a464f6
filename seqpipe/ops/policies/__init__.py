"""Augmentation policies: RandAugment, TrivialAugment, AutoAugment, and their published tables.

Imports every family.
"""

from __future__ import annotations

__all__: list[str] = []
