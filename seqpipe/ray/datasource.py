"""Datasource of references; the only module that needs Ray to be imported."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from .planning import ReferenceBlock

__all__ = ["SampleReferences"]

_SCHEMA = pa.schema(
    [("sample_id", pa.string()), ("index", pa.int64()), ("epoch", pa.int64()), ("source", pa.string())]
)


class SampleReferences(Datasource):  # type: ignore[misc]  # Ray is untyped here
    """References to samples in blocks, one read task each, so that Ray's checkpoint drops rows before they are decoded.

    Args:
        blocks: the blocks.
    """

    def __init__(self, blocks: list[ReferenceBlock]) -> None:
        super().__init__()
        self._blocks = blocks

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "SampleReferences"

    def estimate_inmemory_data_size(self) -> int:
        """Return the size of the references in bytes, about."""
        return 128 * sum(block.size for block in self._blocks)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[Any]:
        """Return a task for each block, whatever parallelism Ray asks for: files stay together."""
        del parallelism, data_context
        return [
            ReadTask(
                partial(_tables, block),
                BlockMetadata(block.size, 128 * block.size, None, None),
                _SCHEMA,
                per_task_row_limit,
            )
            for block in self._blocks
        ]


def _tables(block: ReferenceBlock) -> list[Any]:
    return [pa.table(block.columns(), schema=_SCHEMA)]
