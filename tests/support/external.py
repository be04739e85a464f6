"""A program of external sources as an iterator over arrays, one value for each output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seqpipe.core.closing import Closing
from seqpipe.dali import fn, pipeline_def


class Program(Closing):
    """A DALI pipeline on the CPU; dense outputs are arrays ``(N, …)``, others lists of arrays."""

    def __init__(
        self, define: Callable[[], Any], batch_size: int, *, prefetch: int = 2, **options: Any
    ) -> None:
        self.pipe = pipeline_def(define)(
            batch_size=batch_size,
            num_threads=1,
            device_id=None,
            seed=options.pop("seed", 17),
            prefetch_queue_depth=prefetch,
            exec_async=prefetch > 0,
            **options,
        )
        self.pipe.build()

    def __iter__(self) -> Program:
        return self

    def __next__(self) -> tuple[Any, ...]:
        outputs = self.pipe.run()
        return tuple(
            one.as_array() if one.is_dense_tensor() else [np.asarray(one.at(n)) for n in range(len(one))]
            for one in outputs
        )

    def close(self) -> None:
        """Stop the threads."""
        self.pipe.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pipe, name)


def program(
    source: Any, batch_size: int = 3, *, prefetch: int = 2, workers: int = 1, **options: Any
) -> Program:
    """The program of one external source, whose values are its outputs."""
    start = {"py_num_workers": workers, "py_start_method": options.pop("start_method", "fork")}

    def define() -> Any:
        result = fn.external_source(source, name="source", **options)
        return tuple(result) if isinstance(result, list) else result

    return Program(define, batch_size, prefetch=prefetch, **start)
