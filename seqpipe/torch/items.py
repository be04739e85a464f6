"""Samples by index for loaders of others, LeRobot's data sets read by seqpipe, and operators behind a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch.utils.data

from ..dataset.dataset import Dataset
from ..dataset.stages import chain_of
from ..errors import ParameterError, described_type
from ..sources.lerobot import lerobot
from ..sources.options import Decode
from ..video.convert.output import OutputSpec
from .tensors import tensors_of

__all__ = ["AugmentedLoader", "TensorItems", "lerobot_items"]


class TensorItems(torch.utils.data.Dataset):  # type: ignore[misc]  # torch need not be installed
    """The samples of a data set by index, as dictionaries of tensors, for samplers and loaders of others.

    loader = DataLoader(TensorItems(ds), batch_size=8, sampler=sampler, num_workers=4)

    A DataLoader's fetch of a batch is planned as one, so that frames that its samples share are decoded once.

    Args:
        dataset: a data set without ``batch``.
        epoch: epoch of its draws.

    Raises:
        ParameterError: ``dataset`` is not a data set, or has ``batch``.
    """

    def __init__(self, dataset: Dataset, epoch: int = 0) -> None:
        super().__init__()
        if not isinstance(dataset, Dataset) or not dataset.is_single:
            what = "a data set with batch()" if isinstance(dataset, Dataset) else described_type(dataset)
            raise ParameterError(
                f"dataset is {what}", source="TensorItems", allowed="a data set without batch()"
            )
        self.dataset, self.epoch = dataset, epoch

    def __len__(self) -> int:
        return self.dataset.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sample."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Seq[int]) -> list[dict[str, Any]]:
        """Return samples, read together."""
        batch = tensors_of(self.dataset.read(indices, self.epoch), None)
        return [{name: value[row] for name, value in batch.items()} for row in range(len(indices))]


class _LeRobotItems(TensorItems):
    """A LeRobotDataset whose items are read by seqpipe; everything else is its own."""

    def __init__(self, dataset: Dataset, own: Any) -> None:
        super().__init__(dataset)
        self._own = own

    def __getitems__(self, indices: Seq[int]) -> list[dict[str, Any]]:
        items = super().__getitems__([int(index) for index in indices])
        transforms = getattr(self._own, "image_transforms", None)
        if transforms is not None:
            for item in items:
                for camera in self.dataset.source.cameras:  # type: ignore[attr-defined]  # RecordingSource
                    item[camera] = transforms(item[camera])
        return items

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in (
            "_own",
            "dataset",
            "epoch",
        ):  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self._own, name)


def lerobot_items(dataset: Any, *, device: str = "cpu", decode: Decode | None = None) -> Any:
    """Return a LeRobotDataset whose items are read by seqpipe, a drop-in for what LeRobot's ``make_dataset`` returns.

    dataset = seqpipe.torch.lerobot_items(lerobot.datasets.factory.make_dataset(cfg))

    Items, episodes, padding flags, tolerance and ``image_transforms`` are the data set's; other attributes, such as
    ``meta``, are passed through. A DataLoader's fetch of a batch is planned as one.

    Args:
        dataset: a LeRobotDataset, with ``root``, ``delta_timestamps``, ``episodes`` and ``tolerance_s``.
        device: device of the frames; on a GPU the loader needs ``num_workers=0``.
        decode: backend, stream, threads and indexes; by default one thread, as a loader's workers are processes.

    Raises:
        ParameterError: ``dataset`` has not these attributes.
        SourceError: as for :func:`seqpipe.lerobot`.
    """
    missing = [
        name for name in ("root", "delta_timestamps", "episodes", "tolerance_s") if not hasattr(dataset, name)
    ]
    if missing:
        raise ParameterError(
            f"dataset is {described_type(dataset)}, without {', '.join(missing)}",
            source="lerobot_items",
            allowed="a LeRobotDataset",
        )
    integers = bool(getattr(dataset, "_return_uint8", getattr(dataset, "return_uint8", False)))
    read = lerobot(
        dataset.root,
        dataset.delta_timestamps,
        dataset.episodes,
        tolerance_s=dataset.tolerance_s,
        output=OutputSpec(layout="FCHW", dtype="uint8" if integers else "float32"),
        decode=decode or (Decode(threads=1) if device == "cpu" else None),
        device=device,
    )
    return _LeRobotItems(read, dataset)


class AugmentedLoader:
    """Applies operators to the batches of another loader, such as LeRobot's, on a device.

    for batch in AugmentedLoader(loader, ops.Brightness(brightness=(0.8, 1.2)), parts=cameras, device="cuda"):
        …

    Every part gets the same draws, which depend on the epoch and on the index of each sample.

    Args:
        loader: iterates over dictionaries of tensors.
        *operators: operators and chains.
        parts: names of the image tensors, (N, C, H, W) or (N, F, C, H, W).
        device: device that they are copied to; None leaves them where they are.
        index: name of the tensor of sample indices; where there is none, samples are numbered in their order.

    Raises:
        ParameterError: there are no operators or parts.
    """

    def __init__(
        self,
        loader: Iterable[Mapping[str, Any]],
        *operators: Any,
        parts: Iterable[str],
        device: Any = None,
        index: str = "index",
    ) -> None:
        self._loader, self._device, self._index = loader, device, index
        self._parts = [parts] if isinstance(parts, str) else list(parts)
        if not operators or not self._parts:
            raise ParameterError("nothing to apply", source="AugmentedLoader", allowed="operators, and parts")
        self._chain: Any = chain_of(operators)
        self.epoch = 0

    def __len__(self) -> int:
        loader: Any = self._loader
        return len(loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the batches of the next epoch."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        read = 0
        for batch in self._loader:
            count = len(batch[self._parts[0]])
            known = batch.get(self._index)
            index = np.arange(read, read + count) if known is None else np.asarray(known.cpu()).reshape(-1)
            read += count
            yield {**batch, **{name: self._augmented(batch[name], epoch, index) for name in self._parts}}

    def _augmented(self, images: Any, epoch: int, index: Any) -> Any:
        if self._device is not None:
            images = images.to(self._device, non_blocking=True)
        layout = "NFCHW" if images.ndim == 5 else "NCHW"
        return self._chain(images, layout=layout, epoch=epoch, index=index)
