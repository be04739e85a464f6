"""Resampling and mixing of channels by libswresample, of which any range equals that range of the whole.

A resampler's filter has a phase, which is zero at every common multiple of the two rates. A range is resampled from
such a point on, some of the filter's length before it, and what precedes the range is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Final, cast

import av
import av.filter
import numpy as np

from .samples import SampleArray

__all__ = ["default_layout", "resampled", "resampled_length"]

_LAYOUTS: Final = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")
_CHUNK: Final = 1 << 20
# libswresample's filter has 32 taps at the lower of the two rates.
_TAPS: Final = 64


def default_layout(channels: int) -> str:
    """Return FFmpeg's name of the usual layout of 1 to 8 channels."""
    return _LAYOUTS[channels - 1]


def resampled_length(length: int, rate: int, to_rate: int) -> int:
    """Return the number of samples that ``length`` samples become."""
    return floor(Fraction(length * to_rate, rate) + Fraction(1, 2))


def resampled(
    read: Callable[[int, int], SampleArray],
    length: int,
    begin: int,
    end: int,
    *,
    rate: int,
    to_rate: int,
    layout: str,
    to_layout: str,
) -> SampleArray:
    """Return samples ``begin`` to ``end`` of a resampled track."""
    if rate == to_rate:
        return _filtered(read(begin, end), rate, to_rate, layout, to_layout)
    step, to_step = rate // gcd(rate, to_rate), to_rate // gcd(rate, to_rate)
    margin = _TAPS * ceil(max(1.0, rate / to_rate))
    block = max(0, floor((begin * rate // to_rate - margin) / step))
    last = min(length, ceil(Fraction(end * rate, to_rate)) + margin)
    values = _filtered(read(block * step, last), rate, to_rate, layout, to_layout)
    wanted = values[:, begin - block * to_step : end - block * to_step]
    short = end - begin - wanted.shape[1]
    return np.pad(wanted, [(0, 0), (0, short)]) if short > 0 else wanted


def _filtered(samples: SampleArray, rate: int, to_rate: int, layout: str, to_layout: str) -> SampleArray:
    """Return samples at another rate and with other channels."""
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add_abuffer(sample_rate=rate, format="fltp", layout=layout, time_base=Fraction(1, rate))
    resample = graph.add("aresample", str(to_rate))
    form = graph.add("aformat", f"sample_fmts=fltp:channel_layouts={to_layout}")
    sink = graph.add("abuffersink")
    source.link_to(resample)
    resample.link_to(form)
    form.link_to(sink)
    graph.configure()
    parts: list[SampleArray] = []
    for at in range(0, samples.shape[1], _CHUNK):
        chunk = np.ascontiguousarray(samples[:, at : at + _CHUNK])
        frame = av.AudioFrame.from_ndarray(chunk, format="fltp", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
        source.push(frame)
        parts += _pulled(sink)
    source.push(None)
    parts += _pulled(sink)
    channels = av.AudioLayout(to_layout).nb_channels
    return np.concatenate(parts, axis=1) if parts else np.zeros((channels, 0), np.float32)


def _pulled(sink: av.filter.FilterContext) -> list[SampleArray]:
    """Return what a graph has ready."""
    parts: list[SampleArray] = []
    while True:
        try:
            frame = sink.pull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return parts
        parts.append(cast("av.AudioFrame", frame).to_ndarray().astype(np.float32, copy=False))
