"""Choice: the epoch that a data set's process has chosen, and what has been read of it, for running workers."""

from __future__ import annotations

import json
import os
from typing import Any, Final

import torch

from ..errors import StateError
from ..sampling.dealing import History

__all__ = ["EpochChoice"]

_BYTES: Final = 1 << 16  # of a history as text; a pair takes some twenty


class EpochChoice:
    """Epoch and history, in memory that worker processes share.

    A worker has a copy of the data set as it was when the worker started. A persistent worker learns here what its data
    set has chosen since then. Copies in this process, or in another one that is no worker, choose for themselves.
    """

    def __init__(self) -> None:
        self._own()

    def _own(self, choice: tuple[int, History] = (0, ())) -> None:
        # epoch, length of the text, the pass that has used the history, -1 for none, and the number of choices
        self._cells: Any = torch.tensor([0, 0, -1, 0], dtype=torch.int64).share_memory_()
        self._text: Any = torch.zeros(_BYTES, dtype=torch.uint8).share_memory_()
        self._pid, self._used = os.getpid(), 0  # number of the choice that this copy has read last
        self._write(*choice)

    def publish(self, epoch: int, history: History) -> None:
        """Store a choice; running workers find it at their next ``iter()``."""
        if self._pid != os.getpid():  # forked: the memory is that of the process that this one comes from
            self._own()
        self._write(epoch, history)

    def _write(self, epoch: int, history: History) -> None:
        text = json.dumps(history).encode()
        if len(text) > _BYTES:
            raise StateError(f"a history of {len(history)} numbers of ranks", allowed=f"{_BYTES} characters")
        self._text[: len(text)] = torch.tensor(list(text), dtype=torch.uint8)
        self._cells.copy_(torch.tensor([epoch, len(text), -1, int(self._cells[3]) + 1]))

    def chosen(self, pass_seed: int) -> tuple[int, History]:
        """Return epoch and history for a pass over the data; later passes of the same choice read the whole epoch."""
        epoch, length, used, number = self._cells.tolist()
        if used not in (-1, pass_seed) or self._used == number:
            return epoch, ()
        self._cells[2], self._used = pass_seed, number
        return epoch, self._history(length)

    def _history(self, length: int) -> History:
        pairs = json.loads(bytes(self._text[:length].tolist()))
        return tuple((int(world), int(count)) for world, count in pairs)

    @property
    def epoch(self) -> int:
        """The chosen epoch."""
        return int(self._cells[0])

    @property
    def pending(self) -> tuple[int, History]:
        """Epoch and history of the next pass; the history is empty if a pass has used it."""
        epoch, length, used, _ = self._cells.tolist()
        return epoch, self._history(length) if used == -1 else ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._cells.is_shared():  # copied by pickle or copy, not passed to a worker
            epoch, length, *_ = self._cells.tolist()
            self._own((epoch, self._history(length)))
