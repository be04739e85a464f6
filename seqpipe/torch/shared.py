"""SharedChoice: the epoch that a dataset's process has chosen, for the workers of its DataLoaders."""

from __future__ import annotations

import os
from typing import Any

import torch

__all__ = ["SharedChoice"]


class SharedChoice:
    """The arguments of the last ``set_epoch``, in memory that worker processes share.

    A worker has a copy of the dataset as it was when the worker started. A persistent worker learns here what its
    dataset has chosen since then. Copies of a dataset, in this process or in another one that is no worker, choose for
    themselves.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._own()

    def _own(self) -> None:
        # the number of choices, epoch, start, and the pass that used start, -1 for none
        self._cells: Any = torch.tensor([self._seen, 0, 0, -1], dtype=torch.int64).share_memory_()
        self._pid = os.getpid()

    def publish(self, epoch: int, start: int) -> None:
        """Store a choice; running workers find it at their next ``iter()``."""
        if self._pid != os.getpid():  # forked: the memory is that of the process that this one comes from
            self._own()
        self._seen += 1
        self._cells.copy_(torch.tensor([self._seen, epoch, start, -1]))

    def changed(self) -> tuple[int, int] | None:
        """Return epoch and start if they were chosen since the last call, or since this copy was created; else None."""
        number, epoch, start, _ = self._cells.tolist()
        if number == self._seen:
            return None
        self._seen = number
        return epoch, start

    def use_start(self, pass_seed: int) -> bool:
        """Return whether a pass over the data begins at the chosen start: the first one that asks, in all its workers.

        Args:
            pass_seed: the seed that the workers of one pass have in common.
        """
        used = int(self._cells[3])
        if used == -1:
            self._cells[3] = pass_seed
        return used in (-1, pass_seed)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._cells.is_shared():  # copied by pickle or copy, not passed to a worker
            self._own()
