"""Dataset: a reader, or a reader with a chain, as a torch ``IterableDataset`` whose workers share the batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import torch.utils.data

from ..core.param import Param
from ..core.passed_errors import as_passed_by_text
from ..core.turns import TakesTurns
from ..core.workers import Workers
from ..errors import BackendError, ParameterError, StateError, described_type
from ..pipeline.augmented import Augmented
from ..pipeline.datasets import Clips
from ..pipeline.source import EmptyBatchError, Indexed, PipelineLastBatch
from ..readers import Video
from ..sampling import check_count, check_state
from ..sequence import Batch
from .shared import SharedChoice
from .tensors import PixelLayout, check_layout, tensor_of

__all__ = ["Dataset"]

_PENDING: Final = 3  # batches that are read concurrently, including the next one to return
_START: Final = Param(name="start", doc="Number of the first batch", lo=0)


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # torch need not be installed
    """The batches of a reader as dictionaries of tensors, for a DataLoader with ``batch_size=None``.

    With ``num_workers=W``, worker w reads batches w, w + W, …, so that the loader returns each batch once, in the order
    of a single process. A reader with a GPU device requires ``num_workers=0``; with workers, read on the CPU and copy
    the loader's pinned batches to the GPU in the training loop. Workers divide the cores among themselves, unless the
    reader has ``threads``.

    Call :meth:`set_epoch` before each epoch: the order and the augmentation of an epoch depend on its number. To resume
    within an epoch, store the number of batches that the loop has used, and pass it as ``start``. The state of one
    process, or of torchdata's ``StatefulDataLoader`` with the same number of workers, does so by itself.

    Keys are ``pixels``, ``label``, ``timestamps``, ``frames``, ``index``, ``video`` (the position of the video in
    the dataset), and the further columns of the dataset. Strings, and arrays of different shapes, are lists.

    Args:
        reader: a :class:`seqpipe.readers.Video`, or an :class:`seqpipe.pipeline.Augmented`, whose chain runs in the
            workers.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch; see :func:`seqpipe.pipeline.read`.
        layout: axes of the pixels: "NFHWC", "NFCHW" or "NCFHW"; None keeps the reader's.
        device: device of the tensors, such as "cuda:0"; None keeps the reader's. Not supported in workers.
        pin_memory: whether to pin tensors in main memory. Not supported in workers: set it in the DataLoader.

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(
        self,
        reader: Video | Augmented,
        batch_size: int,
        *,
        last_batch: PipelineLastBatch = "partial",
        layout: PixelLayout | None = None,
        device: Any = None,
        pin_memory: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(reader, (Video, Augmented)):
            raise ParameterError(
                f"reader is {described_type(reader)}",
                source="torch.Dataset",
                allowed="a readers.Video, or a pipeline.Augmented",
            )
        self._reader = reader
        parts = reader.parts if isinstance(reader, Augmented) else None
        source = reader.reader if isinstance(reader, Augmented) else reader
        self._clips = Clips(source, None if parts is None else parts.head)
        self._tail = None if parts is None else parts.tail
        self._source = Indexed(self._clips, batch_size, last_batch)
        self._layout = check_layout(layout, "torch.Dataset")
        self._device, self._pinned = device, pin_memory
        self._start = self._returned = 0
        self._chosen, self._loaded = SharedChoice(), False

    def __repr__(self) -> str:
        return f"torch.Dataset({self._reader!r}, batch_size={self._source.batch_size}; {len(self)} batches)"

    def __len__(self) -> int:
        """Number of batches of the current epoch."""
        return self._source.batches(self._reader.epoch)

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._reader.epoch

    def set_epoch(self, epoch: int, *, start: int | None = None) -> None:
        """Select the epoch of the next ``iter()``, also for workers that are running (``persistent_workers=True``).

        Args:
            epoch: the epoch.
            start: number of the batch that the next ``iter()`` begins with, to resume with any number of workers; by
                default the position of a loaded state of this epoch, else 0.

        Raises:
            ParameterError: ``epoch`` is negative, or ``start`` exceeds the epoch's number of batches.
        """
        kept = self._start if epoch == self._reader.epoch else 0
        self._reader.set_epoch(epoch)
        if start is not None:
            kept = replace(_START, hi=len(self)).check(start)
        self._start = self._returned = kept
        self._chosen.publish(self._reader.epoch, self._start)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker, count = self._worker()
        info = torch.utils.data.get_worker_info()
        if info is not None and not self._loaded:
            if (
                chosen := self._chosen.changed()
            ):  # a persistent worker, which began before set_epoch() was called
                epoch, self._start = chosen
                self._reader.set_epoch(epoch)
            if not self._chosen.use_start(info.seed - info.id):
                self._start = 0
        self._loaded = False
        numbers = range(self._start + worker, len(self), count)
        self._returned, self._start = self._start, 0
        return _Pass(self, numbers)

    def _worker(self) -> tuple[int, int]:
        """Return the number of this worker, and the number of workers.

        Raises:
            BackendError: this is a worker process, and the reader or the tensors use a GPU or pinned memory.
        """
        info = torch.utils.data.get_worker_info()
        if info is None:
            return 0, 1
        device = self._clips.reader.device
        if device != "cpu" or self._device is not None or self._pinned:
            what = f"a reader of {device}" if device != "cpu" else "device or pin_memory"
            raise BackendError(
                f"{what} in a worker of a DataLoader",
                source="torch.Dataset",
                advice="Set num_workers=0, as the reader has its own threads; or read with device='cpu', and set "
                "pin_memory in the DataLoader",
            )
        self._clips.reader.fetcher.engine.share_cores(info.num_workers)
        return int(info.id), int(info.num_workers)

    @property
    def _fingerprint(self) -> str:
        return f"{self._reader.fingerprint} batch={self._source.batch_size}"

    def state_dict(self) -> dict[str, Any]:
        """Return the number of returned batches: of the whole iteration in one process, of this worker in a worker."""
        worker, count = self._worker()
        return {
            "epoch": self._reader.epoch,
            "position": self._returned,
            "fingerprint": self._fingerprint,
            "workers": count,
            "worker": worker,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            StateError: the state belongs to another dataset, batch size or number of workers.
        """
        checked = check_state(state, self._fingerprint, length=self._source.batches)
        worker, count = self._worker()
        if check_count("workers", state.get("workers")) != count:
            raise StateError(
                f"the state is of {state['workers']} workers, and there are {count}",
                source="torch.Dataset",
                allowed="as many",
                advice="Or count the batches of an epoch, and resume by set_epoch(epoch, start=COUNT)",
            )
        if check_count("worker", state.get("worker"), count - 1) != worker:
            raise StateError(f"the state is of worker {state['worker']}, and this is {worker}")
        self._reader.set_epoch(checked["epoch"])
        returned = checked["position"]
        # the position is that of the worker's last batch; its next batch is `count` batches later
        self._start = returned if count == 1 else (returned - 1 - worker + count if returned else 0)
        self._returned = returned
        if torch.utils.data.get_worker_info() is None:
            self._chosen.publish(self._reader.epoch, self._start)
        else:
            self._loaded = True

    def _values(self, work: Any, epoch: int) -> dict[str, Any]:
        """Wait for a batch, apply the rest of the chain to it, and return its values by name."""
        values, _, _ = self._clips.finish(work)
        named = dict(zip(self._clips.parts, values, strict=True))
        if self._tail is not None:
            result = self._tail(named["pixels"], epoch=epoch, index=named["index"])
            named |= {"pixels": result, **_metadata(result)}
        return named

    def _tensors(self, named: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: tensor_of(
                value, name, self._layout if name == "pixels" else None, self._device, pinned=self._pinned
            )
            for name, value in named.items()
        }


def _metadata(result: Any) -> dict[str, Any]:
    """Return the metadata that operators may change: timestamps and frames (optical flow), labels (Mixup)."""
    parts = result if isinstance(result, tuple) else (result,)
    batch = next((part for part in parts if isinstance(part, Batch)), None)
    if batch is None:
        return {}
    return {"label": np.asarray(batch.labels), "timestamps": batch.timestamps, "frames": batch.frames}


class _Pending(NamedTuple):
    """A batch that was begun.

    Attributes:
        number: its number within the epoch.
        size: size of its pixels in bytes, before the rest of the chain.
        engine: the engine that reads it.
        values: waits for it, and returns its values by name.
    """

    number: int
    size: int
    engine: Any
    values: Callable[[], dict[str, Any]]


class _Pass(TakesTurns, Iterator[dict[str, Any]]):
    """An iterator over an epoch; after an error it continues with the next batch.

    Batches that are read ahead hold at most the reader's ``prefetch_gib``. The rest of a chain runs on a thread of its
    own, while the consumer uses earlier batches.
    """

    def __init__(self, dataset: Dataset, numbers: range) -> None:
        self._dataset, self._numbers = dataset, deque(numbers)
        self._epoch = dataset._reader.epoch
        self._cut = dataset._source.cut(self._epoch)
        self._pending: deque[_Pending] = deque()
        self._workers = None if dataset._tail is None else Workers(1, "seqpipe-compute")

    def __next__(self) -> dict[str, Any]:
        while True:
            if self._pending and self._pending[0].engine is not self._engine:
                self._begin_again()
            self._read_ahead()
            if not self._pending:
                raise StopIteration
            try:
                named = self._pending[0].values()
            except EmptyBatchError:
                self._returned()
                continue
            except Exception as error:  # an interrupt, which is none, leaves the batch to the next call
                self._returned()
                if (
                    torch.utils.data.get_worker_info() is None
                    or (passed := as_passed_by_text(error)) is error
                ):
                    raise
                raise passed from error
            self._returned()
            return self._dataset._tensors(named)

    @property
    def _engine(self) -> Any:
        return self._dataset._clips.reader.fetcher.engine.get()

    def _begin_again(self) -> None:
        """Forget pending batches: the reader was closed, or this is a forked process, where they never finish."""
        self._numbers.extendleft(pending.number for pending in reversed(self._pending))
        self._pending.clear()
        if self._workers is not None:
            self._workers = Workers(1, "seqpipe-compute")

    def _returned(self) -> None:
        self._dataset._returned = self._pending.popleft().number + 1

    def _read_ahead(self) -> None:
        clips, epoch = self._dataset._clips, self._epoch
        while self._numbers and len(self._pending) < _PENDING:
            number = self._numbers[0]
            positions, _ = self._cut.positions(number * self._cut.batch_size)
            size = clips.size(epoch, positions)
            pending_bytes = sum(pending.size for pending in self._pending)
            if self._pending and pending_bytes + size > clips.limit_bytes:
                return
            compute = partial(self._dataset._values, clips.begin(epoch, positions), epoch)
            values = compute if self._workers is None else self._workers.submit(compute).result
            self._numbers.popleft()
            self._pending.append(_Pending(number, size, self._engine, values))
