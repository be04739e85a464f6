"""A trainer of nnU-Net v2 that augments with seqpipe.

nnU-Net finds it in ``nnunetv2/training/nnUNetTrainer``: ``nnUNetv2_train DATASET 3d_fullres 0 -tr SeqpipeTrainer``.
"""

from typing import Any

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from seqpipe.recipes import NnunetTransform, nnunet


class SeqpipeTrainer(nnUNetTrainer):
    """nnU-Net's trainer with seqpipe's implementation of its augmentation."""

    @staticmethod
    def get_training_transforms(
        patch_size: Any, _: Any, deep_supervision_scales: Any, mirror_axes: Any, dummy_2d: bool, **__: Any
    ) -> NnunetTransform:
        """Return the transform that nnU-Net's data loaders call with tensors by name."""
        mirror = [axis in (mirror_axes or ()) for axis in range(len(patch_size))]
        return NnunetTransform(nnunet(patch_size, dummy_2d=dummy_2d, mirror=mirror), deep_supervision_scales)
