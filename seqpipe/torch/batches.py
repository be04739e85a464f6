"""TensorBatches: a data set as a torch ``IterableDataset``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Any

import torch.utils.data

from ..core.passed_errors import as_passed_by_text
from ..core.turns import TakesTurns
from ..dataset.arrays import PixelLayout, check_pixel_layout
from ..dataset.dataset import Dataset
from ..dataset.epoch import Epoch
from ..dataset.state import as_text, loaded
from ..errors import BackendError, ParameterError, StateError, described_type
from ..sampling.dealing import History, joined_history
from ..sampling.params import EPOCH
from ..sampling.state import check_count
from .choice import EpochChoice
from .tensors import tensors_of

__all__ = ["TensorBatches"]


class TensorBatches(TakesTurns, torch.utils.data.IterableDataset):  # type: ignore[misc]  # torch need not be installed
    """The batches of a data set as dictionaries of tensors, for a DataLoader with ``batch_size=None``.

    clips = ds.torch(layout="NCFHW")
    loader = DataLoader(clips, batch_size=None, num_workers=4, persistent_workers=True)
    for epoch in clips.epochs(10, resume=saved):      # tells running workers
        for batch in loader:
            step(batch["image"], batch["label"])
            saved = batch["state"]

    With ``num_workers=W``, worker w reads batches w, w + W, …, so that the loader returns each batch once, in the order
    of a single process. A data set on a GPU requires ``num_workers=0``; with workers, read on the CPU and copy the
    loader's pinned batches to the GPU in the training loop. Workers divide the cores among themselves, unless the
    source has ``threads``.

    ``batch["state"]`` is a JSON text of the position after that batch, whatever workers have read ahead; it loads on
    any number of workers and ranks. Strings, and arrays of different shapes, are lists.

    Args:
        dataset: a data set with ``batch``.
        layout: axes of videos: "NFHWC", "NFCHW" or "NCFHW"; None keeps them.
        device: device of the tensors, such as "cuda:0"; None keeps the data set's. Not supported in workers.
        pin_memory: whether to pin tensors in main memory. Not supported in workers: set it in the DataLoader.

    Raises:
        ParameterError: an argument is not valid.
    """

    in_turn = ("epochs",)

    def __init__(
        self,
        dataset: Dataset,
        layout: PixelLayout | None = None,
        device: Any = None,
        *,
        pin_memory: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(dataset, Dataset) or dataset.is_single:
            what = (
                described_type(dataset) if not isinstance(dataset, Dataset) else "a data set without batch()"
            )
            raise ParameterError(
                f"dataset is {what}",
                source="torch",
                allowed="a data set with batch()",
                advice="Call batch(size)",
            )
        self._dataset, self._layout = dataset, check_pixel_layout(layout, "torch")
        self._device, self._pinned = device, pin_memory
        self._choice = EpochChoice()
        self._passes = count()
        self._running: tuple[Epoch, History] | None = None  # with what had been read of it before
        self._loaded: tuple[int, History, int] | None = None

    @property
    def dataset(self) -> Dataset:
        """The data set."""
        return self._dataset

    @property
    def epoch(self) -> int:
        """The epoch that the next ``iter()`` reads."""
        return self._choice.epoch

    def __repr__(self) -> str:
        return f"{self._dataset!r}\n    .torch(); epoch {self.epoch}"

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return len(self._dataset)

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next ``iter()``, also for workers that are running (``persistent_workers=True``).

        Raises:
            ParameterError: ``epoch`` is negative.
        """
        epoch = EPOCH.check(epoch)
        if self._loaded is None or self._loaded[0] != epoch:
            self._choose(epoch, ())

    def _choose(self, epoch: int, history: History) -> None:
        """Select what the next ``iter()`` reads, whose beginning is the state until then."""
        self._choice.publish(epoch, history)
        self._running = self._loaded = None

    def epochs(self, stop: int, *, resume: Any = None, allow: Collection[str] = ()) -> Iterator[int]:
        """Select the epochs up to ``stop`` one after the other, and yield their numbers; loaders read the selected one.

        Args:
            stop: number of epochs.
            resume: ``batch["state"]``; None begins at epoch 0.
            allow: parts of the data set that may differ from the state's, such as "chain".

        Raises:
            StateError: the state belongs to another data set, or is not one.
        """
        first: tuple[int, History] = (0, ())
        if resume is not None:
            state = resume[0] if isinstance(resume, (list, tuple)) and len(resume) == 1 else resume
            epoch, history, _ = loaded(state, self._dataset.fingerprint, allow)
            first = epoch, history
        return self._select(first, EPOCH.check(stop))

    def _select(self, first: tuple[int, History], stop: int) -> Iterator[int]:
        self._choose(*first)
        yield first[0]
        for epoch in range(first[0] + 1, stop):
            self._choose(epoch, ())
            yield epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        turn = self._turn()
        info = torch.utils.data.get_worker_info()
        if self._loaded is not None:
            (number, history, position), self._loaded = self._loaded, None
        else:
            number, history = self._choice.chosen(next(self._passes) if info is None else info.seed - info.id)
            position = -1
        epoch = Epoch(self._dataset, number, history, None, turn)
        if position >= 0:
            epoch.move(position)
        self._running = epoch, history
        return _Tensors(self, epoch, in_worker=info is not None)

    def _turn(self) -> tuple[int, int]:
        """Return the number of this worker, and the number of workers."""
        info = torch.utils.data.get_worker_info()
        if info is None:
            return 0, 1
        device = self._dataset.device
        if device != "cpu" or self._device is not None or self._pinned:
            what = f"a data set on {device}" if device != "cpu" else "device or pin_memory"
            raise BackendError(
                f"{what} in a worker of a DataLoader",
                source="torch",
                advice="Set num_workers=0, as the data set has its own threads; or read with device='cpu', and set "
                "pin_memory in the DataLoader",
            )
        share = getattr(self._dataset.source, "share_cores", None)
        if share is not None:
            share(info.num_workers)
        return int(info.id), int(info.num_workers)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, in a worker that of this worker, for torchdata's ``StatefulDataLoader``.

        It is that after the last batch; after ``set_epoch``, ``epochs`` or ``load_state_dict`` that of the next
        ``iter()``.
        """
        number, workers = self._turn()
        if self._loaded is not None:
            epoch, history, position = self._loaded
        else:
            running, history = self._running or self._next()
            state = running.state_dict()
            epoch, position = state["epoch"], joined_history(state["history"])[-1][1]
        return {
            "epoch": epoch,
            "history": [list(pair) for pair in history],
            "position": position,
            "fingerprint": self._dataset.fingerprint,
            "batch_size": self._dataset.batch_size,
            "workers": workers,
            "worker": number,
        }

    def _next(self) -> tuple[Epoch, History]:
        """Return the epoch that the next ``iter()`` reads, and what has been read of it."""
        epoch, history = self._choice.pending
        return Epoch(self._dataset, epoch, history), history

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of :meth:`state_dict`.

        Raises:
            StateError: the state belongs to another data set, batch size or number of workers, or is past the end.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"{described_type(state)} is not a state", allowed="what state_dict() returns")
        if missing := [name for name in ("position", "workers", "batch_size") if name not in state]:
            raise StateError(
                f"the state has no {' and no '.join(missing)}", allowed="what state_dict() returns"
            )
        fields = {"version": 2, "sources": None, **state}
        epoch, history, _ = loaded(fields, self._dataset.fingerprint)
        position = check_count("position", state["position"])
        _, workers = self._turn()
        for name, here in (("workers", workers), ("batch_size", self._dataset.batch_size)):
            if check_count(name, state[name]) != here:
                raise StateError(
                    f"the state is of {name}={state[name]}, and here {name} is {here}",
                    source="torch",
                    allowed="the same",
                    advice='Or keep batch["state"], and resume by epochs(stop, resume=…), which takes any number',
                )
        Epoch(self._dataset, epoch, history).move(position)  # raises past the end of the epoch
        self._choose(epoch, history)
        self._loaded = epoch, history, position


class _Tensors(TakesTurns, Iterator[dict[str, Any]]):
    """An iterator over an epoch; after an error it continues with the next batch."""

    def __init__(self, batches: TensorBatches, epoch: Epoch, *, in_worker: bool) -> None:
        self._batches, self._epoch, self._in_worker = batches, epoch, in_worker

    def __next__(self) -> dict[str, Any]:
        try:
            samples = next(self._epoch)
        except Exception as error:
            if self._in_worker and not isinstance(error, StopIteration):
                raise as_passed_by_text(error) from None
            raise
        batches = self._batches
        tensors = tensors_of(samples, batches._layout, batches._device, pinned=batches._pinned)
        return {**tensors, "state": as_text(samples.state or {})}
