"""Published augmentation recipes as chains, which can be printed, converted to JSON, and edited.

``nnunet()`` is the recipe of nnU-Net v2 (batchgeneratorsv2), ``monai_btcv()`` and ``monai_brats()`` are those of
MONAI's tutorials. The adapters use a chain as a transform of these libraries. Imports ``ops`` and the vocabulary.
"""

from __future__ import annotations

from .adapters import DictionaryTransform, NnunetTransform, deep_supervision, on_subject
from .monai import monai_brats, monai_btcv
from .nnunet import is_anisotropic, nnunet, nnunet_normalization

__all__ = [
    "DictionaryTransform",
    "NnunetTransform",
    "deep_supervision",
    "is_anisotropic",
    "monai_brats",
    "monai_btcv",
    "nnunet",
    "nnunet_normalization",
    "on_subject",
]
