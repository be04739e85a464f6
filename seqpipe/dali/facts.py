"""Properties of a pipeline that its arguments and its outputs determine."""

from __future__ import annotations

from typing import Any

from ..errors import ParameterError
from .data_node import DataNode, pop_pipeline, push_pipeline

__all__ = ["PipelineFacts"]


class PipelineFacts:
    """The properties of :class:`seqpipe.dali.Pipeline`, as far as they do not depend on its state."""

    _batch_size: int
    _num_threads: int
    _device_id: int | None
    _seed: int
    _depth: Any
    _checkpoint: str | None
    _output_dtype: Any
    _output_ndim: Any
    _outputs: tuple[DataNode, ...]

    @property
    def batch_size(self) -> int:
        """Maximum number of samples in a batch.

        Raises:
            ParameterError: the batch size was not given.
        """
        if self._batch_size == -1:
            raise ParameterError(
                "batch_size is missing",
                source="Pipeline",
                advice="Pass it to the pipeline: pipe(batch_size=8)",
            )
        return self._batch_size

    @property
    def max_batch_size(self) -> int:
        """Maximum number of samples in a batch."""
        return self.batch_size

    @property
    def num_threads(self) -> int | None:
        """Number of decoding threads; None for one per core."""
        return None if self._num_threads == -1 else self._num_threads

    @property
    def device_id(self) -> int | None:
        """Number of the GPU; None for a pipeline on the CPU."""
        return self._device_id

    @property
    def seed(self) -> int:
        """Seed of operators without their own."""
        return self._seed

    @property
    def prefetch_queue_depth(self) -> Any:
        """The argument ``prefetch_queue_depth``."""
        return self._depth

    @property
    def cpu_queue_size(self) -> int:
        """Number of batches that are made ahead on the CPU."""
        return int(self._depth["cpu_size"] if isinstance(self._depth, dict) else self._depth)

    @property
    def gpu_queue_size(self) -> int:
        """Number of batches that are made ahead on a GPU."""
        return int(self._depth["gpu_size"] if isinstance(self._depth, dict) else self._depth)

    @property
    def exec_separated(self) -> bool:
        """Whether the queues of the CPU and of a GPU have depths of their own."""
        return isinstance(self._depth, dict)

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether the pipeline continues from a checkpoint."""
        return bool(self._checkpoint)

    @property
    def output_count(self) -> int:
        """Number of outputs."""
        return len(self._outputs)

    def output_dtype(self) -> list[Any]:
        """Return the required type of each output; None for any."""
        return self._by_output(self._output_dtype)

    def output_ndim(self) -> list[int | None]:
        """Return the required number of axes of each output's samples; None for any."""
        return self._by_output(self._output_ndim)

    def _by_output(self, wanted: Any) -> list[Any]:
        return list(wanted) if isinstance(wanted, (list, tuple)) else [wanted] * self.output_count

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return self.output_count

    def input_feed_count(self, input_name: str) -> int:  # noqa: ARG002  the same for each
        """Return how many batches an input needs before the first run: as many as are made ahead."""
        return self.cpu_queue_size

    @classmethod
    def push_current(cls, pipeline: Any) -> None:
        """Begin the definition of a pipeline, as ``with pipeline:`` does."""
        push_pipeline(pipeline)

    @classmethod
    def pop_current(cls) -> None:
        """End the definition that :meth:`push_current` began."""
        pop_pipeline()
