"""Adapters to torch: readers and pipelines as iterables of tensors. Imports pipeline and readers.

batches = seqpipe.torch.Iterator(pipe, names=("pixels", "label"), device="cuda")
loader = torch.utils.data.DataLoader(reader.as_torch(batch_size=8), batch_size=None, num_workers=4)

A dataset is one rank's share: create readers with ``shard=(rank, world)`` and ``even_shards=True``, and disable the
distributed samplers of frameworks, as below (``reader`` and ``model`` are yours).

Lightning::

    class Clips(lightning.LightningDataModule):
        def train_dataloader(self):
            self.clips = reader.as_torch(batch_size=4, layout="NCFHW")
            self.clips.set_epoch(self.trainer.current_epoch)
            return DataLoader(self.clips, batch_size=None, pin_memory=torch.cuda.is_available())

    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="auto",
        use_distributed_sampler=False,         # the shard is the reader's
        reload_dataloaders_every_n_epochs=1,   # so that each epoch has its own order
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, datamodule=Clips())

Accelerate::

    accelerator = accelerate.Accelerator()
    clips = reader.as_torch(batch_size=4, layout="NCFHW")
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for epoch in range(2):
        clips.set_epoch(epoch)
        for batch in DataLoader(clips, batch_size=None, num_workers=2):   # not prepared: the shard is the reader's
            scores = model(batch["pixels"].to(accelerator.device).float())
            loss = torch.nn.functional.cross_entropy(scores, batch["label"].to(accelerator.device))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
"""

from __future__ import annotations

from .batches import TensorBatches
from .dataset import Dataset
from .iterator import Iterator
from .tensors import tensors_of

__all__ = ["Dataset", "Iterator", "TensorBatches", "tensors_of"]
