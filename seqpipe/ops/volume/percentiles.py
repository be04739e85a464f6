"""Percentiles of the values of a channel; a GPU computes them for its next step, and the host does not wait."""

from __future__ import annotations

import struct
from collections.abc import Sequence as Seq
from typing import Final

import numpy as np

from ...array import Array, FloatArray, address_of, namespace, to_numpy
from ...core.kernel import CudaSource, KernelDevice
from ..call.backends import cuda_device_of

__all__ = ["percentile_lines", "percentiles"]

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "percentiles.cu")
_JOB: Final = struct.Struct("4Qq2i")  # as percentiles.cu declares it
_THREADS: Final = 256
_MAX_BLOCKS: Final = 4096


def percentiles(x: Array, ends: Seq[float]) -> FloatArray:
    """Return percentiles of values, float64; NaN and infinity do not count, and without others they go from 0 to 1."""
    if not isinstance(x, np.ndarray):
        lines = to_numpy(percentile_lines(x, ends, ends, cuda_device_of(x)))
        return lines[: len(ends)].astype(np.float64)
    finite = x[np.isfinite(x)]
    return np.percentile(finite, ends).astype(np.float64) if finite.size else np.linspace(0, 1, len(ends))


def percentile_lines(x: Array, ends: Seq[float], results: Seq[float], device: KernelDevice) -> Array:
    """Return the lines on which percentiles of a channel become given results.

    Args:
        x: values of the channel, float32.
        ends: percentages, ascending.
        results: the result of each percentile.
        device: the device of the kernels.

    Returns:
        float32, on the device: the percentiles as :func:`percentiles` defines them, then the slope from each to the
        next one.
    """
    xp = namespace(x)
    values, keys = xp.ascontiguousarray(x), xp.empty(x.size, np.uint32)
    wanted = xp.asarray(np.array([ends, results], np.float64))
    lines = xp.empty(2 * len(ends) - 1, np.float32)
    addresses = [address_of(array) for array in (values, keys, wanted, lines)]
    job = bytearray(_JOB.pack(*addresses, x.size, len(ends), 0))
    argument = np.ndarray((), np.dtype((np.void, len(job))), job)
    defines = {"THREADS": _THREADS}
    blocks = min(_MAX_BLOCKS, -(-x.size // _THREADS))
    device.launch(_SOURCE, "sortable", defines, (blocks, 1, 1), _THREADS, argument, None)
    keys.sort()
    device.launch(_SOURCE, "lines", defines, (1, 1, 1), _THREADS, argument, None)
    return lines
