"""Adapters to torch: data sets as iterables of tensors or by index, loaders of others, and a loss of segmentation.

loader = torch.utils.data.DataLoader(ds.torch(), batch_size=None, num_workers=4)       # ds has batch()

A data set gives one rank's share: call ``ds.shard(rank, world, even=True)``, and disable the distributed samplers of
frameworks, as below (``ds`` and ``model`` are yours).

Lightning::

    class Clips(lightning.LightningDataModule):
        def train_dataloader(self):
            clips = ds.batch(4).torch(layout="NCFHW")
            clips.set_epoch(self.trainer.current_epoch)
            return DataLoader(clips, batch_size=None, pin_memory=torch.cuda.is_available())

    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="auto",
        use_distributed_sampler=False,         # the shard is the data set's
        reload_dataloaders_every_n_epochs=1,   # so that each epoch has its own order
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, datamodule=Clips())

Accelerate::

    accelerator = accelerate.Accelerator()
    clips = ds.batch(4).torch(layout="NCFHW")
    loader = DataLoader(clips, batch_size=None, num_workers=2)   # not prepared: the shard is the data set's
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for epoch in clips.epochs(2):
        for batch in loader:
            scores = model(batch["image"].to(accelerator.device).float())
            loss = torch.nn.functional.cross_entropy(scores, batch["label"].to(accelerator.device))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import import_optional, renamed

import_optional("torch", "torch")  # in front of what imports it, so that the error names the extra

from .batches import TensorBatches  # noqa: E402
from .items import AugmentedLoader, TensorItems, lerobot_items  # noqa: E402
from .losses import dice_ce  # noqa: E402
from .tensors import tensors_of  # noqa: E402
from .video_loaders import register_transformers, register_vllm  # noqa: E402

__all__ = [
    "AugmentedLoader",
    "TensorBatches",
    "TensorItems",
    "dice_ce",
    "lerobot_items",
    "register_transformers",
    "register_vllm",
    "tensors_of",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__, {"Dataset": "ds.torch() of a data set with batch()", "Iterator": "ds.torch()"}
    )
