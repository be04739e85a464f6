"""Iterator: the batches of a pipeline as dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from ..errors import ParameterError
from ..pipeline import Pipeline
from .tensors import PixelLayout, check_layout, tensor_of

__all__ = ["Iterator"]


class Iterator:
    """The batches of a pipeline as dictionaries of tensors; it goes on, ends and begins anew as the pipeline does.

    Trainers that save their loaders (torchdata's StatefulDataLoader protocol, Lightning) find ``state_dict`` and
    ``load_state_dict`` here.

    Args:
        pipeline: the pipeline; it may have names of its own.
        names: a name for each output, unless the pipeline has them.
        device: where tensors are to be, such as "cuda:0"; None leaves them where they are.
        layout: of videos: "NFHWC", "NFCHW" or "NCFHW"; None leaves them as they are.
        pin_memory: whether tensors in main memory are pinned.

    Raises:
        ParameterError: names do not fit the outputs, or there is no such layout.
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
                f"pipeline is a {type(pipeline).__name__}",
                source="torch.Iterator",
                allowed="a seqpipe.pipeline.Pipeline",
            )
        self._pipe, self._names = pipeline, pipeline.named(names)
        self._device, self._layout = device, check_layout(layout, "torch.Iterator")
        self._pinned = pin_memory

    def __iter__(self) -> Iterator:
        iter(self._pipe)
        return self

    def __next__(self) -> dict[str, Any]:
        values = next(self._pipe)
        found = values.values() if isinstance(values, dict) else values
        return {
            name: tensor_of(value, name, self._layout, self._device, pinned=self._pinned)
            for name, value in zip(self._names, found, strict=True)
        }

    def __len__(self) -> int:
        """Batches of the current epoch.

        Raises:
            TypeError: that is not known of an external source.
        """
        return len(self._pipe)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next ``iter()`` goes through."""
        self._pipe.set_epoch(epoch)

    def state_dict(self) -> Mapping[str, Any]:
        """Where it stands, as plain values."""
        return self._pipe.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with exactly the batches that would have come.

        Raises:
            StateError: it is of another pipeline.
        """
        self._pipe.load_state_dict(state)

    def close(self) -> None:
        """Close the pipeline."""
        self._pipe.close()
