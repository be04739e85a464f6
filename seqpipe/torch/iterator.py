"""Iterator: the batches of a pipeline as dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from ..core.turns import TakesTurns
from ..dataset.arrays import PixelLayout, check_pixel_layout
from ..errors import ParameterError, described_type
from ..pipeline import Pipeline
from .tensors import tensors_of

__all__ = ["Iterator"]


class Iterator(TakesTurns):
    """The batches of a pipeline as dictionaries of tensors; ``iter()`` behaves as the pipeline's.

    ``state_dict`` and ``load_state_dict`` follow the protocol of torchdata's StatefulDataLoader and Lightning.

    Args:
        pipeline: the pipeline, with or without names.
        names: one name for each output, unless the pipeline has names.
        device: device of the tensors, such as "cuda:0"; None keeps the device of each output.
        layout: axes of videos: "NFHWC", "NFCHW" or "NCFHW"; None keeps the pipeline's.
        pin_memory: whether to pin tensors in main memory.

    Raises:
        ParameterError: names do not fit the outputs, or the layout is not one of these.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        names: Seq[str] | None = None,
        *,
        device: Any = None,
        layout: PixelLayout | None = None,
        pin_memory: bool = False,
    ) -> None:
        if not isinstance(pipeline, Pipeline):
            raise ParameterError(
                f"pipeline is {described_type(pipeline)}",
                source="torch.Iterator",
                allowed="a seqpipe.pipeline.Pipeline",
            )
        self._pipe, self._names = pipeline, pipeline.named(names)
        self._device, self._layout = device, check_pixel_layout(layout, "torch.Iterator")
        self._pinned = pin_memory

    def __iter__(self) -> Iterator:
        iter(self._pipe)
        return self

    def __next__(self) -> dict[str, Any]:
        values = next(self._pipe)
        outputs = values.values() if isinstance(values, dict) else values
        named = dict(zip(self._names, outputs, strict=True))
        return tensors_of(named, self._layout, self._device, pinned=self._pinned)

    def __len__(self) -> int:
        """Number of batches of the current epoch.

        Raises:
            TypeError: the pipeline has an external source, whose length is unknown.
        """
        return len(self._pipe)

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next ``iter()``."""
        self._pipe.set_epoch(epoch)

    def state_dict(self) -> Mapping[str, Any]:
        """Return the pipeline's position as plain values."""
        return self._pipe.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state with exactly the batches that would have followed.

        Raises:
            StateError: the state belongs to another pipeline.
        """
        self._pipe.load_state_dict(state)

    def close(self) -> None:
        """Close the pipeline."""
        self._pipe.close()
