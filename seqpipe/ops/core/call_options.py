"""CallOptions: options that the calls of operators and compositions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.kernel import KernelDevice
from .spec import Backend

__all__ = ["CallOptions"]


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Options of a call.

    Attributes:
        layout: layout of arrays; None for the default by the number of axes.
        epoch: the epoch that parameters are sampled for.
        index: indices of the samples within their dataset, or the index of the first.
        backend: implementation to run; None for kernels on a GPU and the fast forms on the CPU.
        device: device that kernels run on; None for the GPU that holds the data.
    """

    layout: str | None = None
    epoch: int = 0
    index: Any = None
    backend: Backend | None = None
    device: KernelDevice | None = None
