"""Dataset: a reader, or a reader and a chain, as torch's IterableDataset, whose workers share its batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch.utils.data

from ..errors import BackendError, ParameterError, StateError
from ..pipeline.augmented import Augmented
from ..pipeline.datasets import Clips
from ..pipeline.source import EmptyBatchError, Indexed, PipelineLastBatch
from ..readers import Video
from ..sampling import check_state
from .tensors import PixelLayout, check_layout, tensor_of

__all__ = ["Dataset"]

_AHEAD: Final = 3  # batches begun, with the one that is waited for


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # torch need not be installed
    """The batches of a reader as dictionaries of tensors, for a DataLoader with ``batch_size=None``.

    With ``num_workers`` W, worker w makes batches w, w + W, …, so that the loader gives each batch once, and in the
    order of one process. Frames that are to be on a GPU are brought there by the trainer, from memory that the loader
    pins: a reader of a GPU is iterated without workers.

    Keys are ``pixels``, ``label``, ``timestamps``, ``frames``, ``index``, ``video`` (the place of a sample's video in
    the dataset: views of one share it), and the further columns of the dataset. Texts, and arrays that differ in shape,
    are lists.

    Args:
        reader: a :class:`seqpipe.readers.Video`, or an :class:`seqpipe.pipeline.Augmented`, whose chain is done in the
            workers.
        batch_size: samples in a batch.
        last_batch: what becomes of a rest that fills no batch.
        layout: of the pixels: "NFHWC", "NFCHW" or "NCFHW"; None leaves them as they are.
        device: where tensors are to be, such as "cuda:0"; None leaves them where they are. Not for workers.
        pin_memory: whether tensors in main memory are pinned. Not for workers: give it to the DataLoader then.

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
                f"reader is a {type(reader).__name__}",
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
        self._start = self._given = 0

    def __len__(self) -> int:
        """Batches of the current epoch."""
        return self._source.batches(self._reader.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next ``iter()`` goes through; call it before the workers start."""
        self._reader.set_epoch(epoch)
        self._start = self._given = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker, count = self._worker()
        numbers = range(self._start + worker, len(self), count)
        self._given, self._start = self._start, 0
        return _Pass(self, numbers)

    def _worker(self) -> tuple[int, int]:
        """The number of this worker, and how many there are.

        Raises:
            BackendError: it is one of several processes, and the reader is one of a GPU, or tensors are to be there.
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
                advice="Give num_workers=0: the reader has threads of its own; or read by device='cpu', and give "
                "pin_memory to the DataLoader",
            )
        return int(info.id), int(info.num_workers)

    @property
    def _fingerprint(self) -> str:
        return f"{self._reader.fingerprint} batch={self._source.batch_size}"

    def state_dict(self) -> dict[str, Any]:
        """How many batches were given out: of one process, the state of it all; of a worker, that of the worker."""
        worker, count = self._worker()
        return {
            "epoch": self._reader.epoch,
            "position": self._given,
            "fingerprint": self._fingerprint,
            "workers": count,
            "worker": worker,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            StateError: it is of another dataset, or of another number of workers.
        """
        found = check_state(state, self._fingerprint)
        worker, count = self._worker()
        if state.get("workers") != count:
            raise StateError(
                f"the state is of {state.get('workers')} workers, and there are {count}",
                source="torch.Dataset",
                allowed="as many",
            )
        self._reader.set_epoch(found["epoch"])
        given = found["position"]
        # what a worker has given out is its last batch; its next one is as many behind it as there are workers
        self._start = given if count == 1 else (given - 1 - worker + count if given else 0)
        self._given = given

    def _made(self, values: tuple[Any, ...], epoch: int) -> dict[str, Any]:
        """A batch as it is given out."""
        named = dict(zip(self._clips.parts, values, strict=True))
        if self._tail is not None:
            named["pixels"] = self._tail(named["pixels"], epoch=epoch, index=named["index"])
        return {
            name: tensor_of(
                value, name, self._layout if name == "pixels" else None, self._device, pinned=self._pinned
            )
            for name, value in named.items()
        }


class _Pass(Iterator[dict[str, Any]]):
    """A way through an epoch: it goes on behind an error."""

    def __init__(self, dataset: Dataset, numbers: range) -> None:
        self._dataset, self._numbers = dataset, iter(numbers)
        self._epoch = dataset._reader.epoch
        self._cut = dataset._source.cut(self._epoch)
        self._waiting: deque[tuple[int, Any]] = deque()

    def __next__(self) -> dict[str, Any]:
        while True:
            while len(self._waiting) < _AHEAD and (number := next(self._numbers, None)) is not None:
                positions, _ = self._cut.positions(number * self._cut.batch_size)
                self._waiting.append((number, self._dataset._clips.begin(self._epoch, positions)))
            if not self._waiting:
                raise StopIteration
            number, work = self._waiting.popleft()
            self._dataset._given = number + 1
            try:
                values, _, _ = self._dataset._clips.finish(work)
            except EmptyBatchError:
                continue
            return self._dataset._made(values, self._epoch)
