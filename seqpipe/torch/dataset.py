"""Dataset: a reader as a torch ``IterableDataset``, whose workers divide the batches among themselves."""

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

    With ``num_workers=W``, worker w reads batches w, w + W, …, so that the loader returns each batch once, in the order
    of a single process. A reader with a GPU device requires ``num_workers=0``; with workers, read on the CPU and copy
    the loader's pinned batches to the GPU in the training loop.

    Keys are ``pixels``, ``label``, ``timestamps``, ``frames`` and ``index``.

    Args:
        reader: the reader.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch; see :func:`seqpipe.pipeline.read`.
        layout: axes of the pixels: "NFHWC", "NFCHW" or "NCFHW"; None keeps the reader's.

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
        """Number of batches of the current epoch."""
        return self._source.batches(self._clips.reader.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next ``iter()``; call it before the workers start."""
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
        """Return the number of this worker, and the number of workers.

        Raises:
            BackendError: this is a worker process, and the reader's device is a GPU.
        """
        info = torch.utils.data.get_worker_info()
        if info is None:
            return 0, 1
        if self._clips.reader.device != "cpu":
            raise BackendError(
                f"a reader of {self._clips.reader.device} in a worker of a DataLoader",
                source="torch.Dataset",
                advice="Set num_workers=0, as the reader has its own threads; or read with device='cpu'",
            )
        return int(info.id), int(info.num_workers)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of returned batches: of the whole iteration in one process, of this worker in a worker."""
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
        """Continue from a state.

        Raises:
            StateError: the state belongs to another dataset, batch size or number of workers.
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
        # the position is that of the worker's last batch; its next batch is `count` batches later
        self._start = given if count == 1 else (given - 1 - worker + count if given else 0)
