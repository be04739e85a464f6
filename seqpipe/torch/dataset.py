"""Dataset: a reader as torch's IterableDataset, whose workers share its batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch.utils.data

from ..errors import BackendError, StateError
from ..pipeline.datasets import Clips
from ..pipeline.source import Indexed, PipelineLastBatch
from ..readers import Video
from ..sampling import check_state
from .tensors import PixelLayout, check_layout, tensor_of

__all__ = ["Dataset"]

_AHEAD: Final = 2


class Dataset(torch.utils.data.IterableDataset):  # type: ignore[misc]  # torch need not be installed
    """The batches of a reader as dictionaries of tensors, for a DataLoader with ``batch_size=None``.

    With ``num_workers`` W, worker w makes batches w, w + W, …, so that the loader gives each batch once, and in the
    order of one process. Frames that are to be on a GPU are brought there by the trainer, from memory that the loader
    pins: a reader of a GPU is iterated without workers.

    Keys are ``pixels``, ``label``, ``timestamps``, ``frames`` and ``index``.

    Args:
        reader: the reader.
        batch_size: samples in a batch.
        last_batch: what becomes of a rest that fills no batch.
        layout: of the pixels: "NFHWC", "NFCHW" or "NCFHW"; None leaves them as they are.

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(
        self,
        reader: Video,
        batch_size: int,
        *,
        last_batch: PipelineLastBatch = "partial",
        layout: PixelLayout | None = None,
    ) -> None:
        super().__init__()
        self._clips = Clips(reader)
        self._source = Indexed(self._clips, batch_size, last_batch)
        self._layout = check_layout(layout, "torch.Dataset")
        self._start = self._given = 0

    def __len__(self) -> int:
        """Batches of the current epoch."""
        return self._source.batches(self._clips.reader.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next ``iter()`` goes through; call it before the workers start."""
        self._clips.reader.set_epoch(epoch)
        self._start = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker, count = self._worker()
        epoch = self._clips.reader.epoch
        numbers = range(self._start + worker, len(self), count)
        self._given, self._start = self._start, 0
        waiting: deque[tuple[int, Any]] = deque()
        cut = self._source.cut(epoch)
        ahead = iter(numbers)

        def begin() -> None:
            number = next(ahead, None)
            if number is not None:
                positions, _ = cut.positions(number * self._source.batch_size)
                waiting.append((number, self._clips.begin(epoch, positions)))

        for _ in range(_AHEAD):
            begin()
        while waiting:
            number, work = waiting.popleft()
            values, _, _ = self._clips.finish(work)
            begin()
            self._given = number + 1
            yield {
                name: tensor_of(value, name, self._layout if name == "pixels" else None)
                for name, value in zip(self._clips.parts, values, strict=True)
            }

    def _worker(self) -> tuple[int, int]:
        """The number of this worker, and how many there are.

        Raises:
            BackendError: it is one of several processes, and the reader is one of a GPU.
        """
        info = torch.utils.data.get_worker_info()
        if info is None:
            return 0, 1
        if self._clips.reader.device != "cpu":
            raise BackendError(
                f"a reader of {self._clips.reader.device} in a worker of a DataLoader",
                source="torch.Dataset",
                advice="Give num_workers=0: the reader has threads of its own; or read by device='cpu'",
            )
        return int(info.id), int(info.num_workers)

    def state_dict(self) -> dict[str, Any]:
        """How many batches were given out: of one process, the state of it all; of a worker, that of the worker."""
        worker, count = self._worker()
        reader = self._clips.reader
        return {
            "epoch": reader.epoch,
            "position": self._given,
            "fingerprint": f"{reader.fingerprint} batch={self._source.batch_size}",
            "workers": count,
            "worker": worker,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            StateError: it is of another dataset, or of another number of workers.
        """
        reader = self._clips.reader
        found = check_state(state, f"{reader.fingerprint} batch={self._source.batch_size}")
        worker, count = self._worker()
        if state.get("workers") != count:
            raise StateError(
                f"the state is of {state.get('workers')} workers, and there are {count}",
                source="torch.Dataset",
                allowed="as many",
            )
        reader.set_epoch(found["epoch"])
        given = found["position"]
        # what a worker has given out is its last batch; its next one is as many behind it as there are workers
        self._start = given if count == 1 else (given - 1 - worker + count if given else 0)
