"""Published recipes of augmentation as plain chains, which print, go to JSON, and can be edited.

``nnunet()`` is that of nnU-Net v2 (batchgeneratorsv2), ``monai_btcv()`` and ``monai_brats()`` those of MONAI's
tutorials. The adapters put a chain where these libraries have their transforms. May import ``ops`` and the vocabulary.
"""

from __future__ import annotations

from .adapters import DictionaryTransform, NnunetTransform, deep_supervision, on_subject
from .monai import monai_brats, monai_btcv
from .nnunet import is_anisotropic, nnunet

__all__ = [
    "DictionaryTransform",
    "NnunetTransform",
    "deep_supervision",
    "is_anisotropic",
    "monai_brats",
    "monai_btcv",
    "nnunet",
    "on_subject",
]
