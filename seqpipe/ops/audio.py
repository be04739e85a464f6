"""Operators on sound and spectra: windows, filter banks, decibels, resampling. Arrays are of NumPy, values float32.

Definitions are those of NVIDIA DALI, which defines the defaults; the mel scales are those of Slaney's Auditory Toolbox
and of HTK.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..errors import ParameterError

__all__ = [
    "band_products",
    "bands_of",
    "mel_filters",
    "mfcc",
    "nonsilent_region",
    "power_spectrum",
    "preemphasis",
    "resampled",
    "spectrogram",
    "to_decibels",
]

_BAND: Final = 8
"""Filters that are multiplied at once: neighbors share most of their bins."""
_WINDOWS: Final = 32
"""Windows that are transformed at once, whose values stay in a core's cache."""


def spectrogram(
    signal: Array,
    *,
    window_length: int = 512,
    window_step: int = 256,
    window: Array | None = None,
    nfft: int | None = None,
    power: int = 2,
    center: bool = True,
    reflect: bool = True,
) -> Array:
    """Return the spectrogram of a signal, ``(nfft // 2 + 1, windows)``."""
    size = window_length if nfft is None else int(nfft)
    factors = np.asarray(_hann(window_length) if window is None else window, np.float32)
    if len(factors) != window_length or size < window_length or power not in (1, 2):
        raise ParameterError(
            f"a window of {len(factors)} samples, window_length={window_length}, nfft={size}, power={power}",
            source="spectrogram",
            allowed="window_length factors, nfft of at least window_length, power 1 or 2",
        )
    if center:
        half = window_length // 2
        mode: Any = "reflect" if reflect and len(signal) > 1 else "constant"
        signal = np.pad(signal, (half, window_length - half), mode=mode)
    count = (len(signal) - window_length) // window_step + 1
    if count < 1:
        raise ParameterError(
            f"a signal of {len(signal)} samples", source="spectrogram", allowed=f"{window_length} or more"
        )
    import cv2

    views = np.lib.stride_tricks.sliding_window_view(signal, window_length)[::window_step]
    powers = np.empty((count, size // 2 + 1), np.float32)
    windows = np.zeros((_WINDOWS, size), np.float32)
    for first in range(0, count, _WINDOWS):
        some = views[first : first + _WINDOWS]
        np.multiply(some, factors, windows[: len(some), :window_length])
        # by rows in float32: 7 times as fast as NumPy's
        transform = cv2.dft(windows[: len(some)], flags=cv2.DFT_ROWS | cv2.DFT_COMPLEX_OUTPUT)
        powers[first : first + _WINDOWS] = _powers(transform.view(np.complex64)[:, : size // 2 + 1, 0], power)
    return np.asarray(cv2.transpose(powers))


@lru_cache(maxsize=16)
def _hann(length: int) -> Array:
    """Return a Hann window; it is shared, so it must not be changed."""
    return 0.5 * (1 - np.cos(2 * np.pi / length * (np.arange(length) + 0.5)))


def _powers(transform: Array, power: int) -> Array:
    return np.asarray(transform.real**2 + transform.imag**2 if power == 2 else abs(transform), np.float32)


def power_spectrum(signal: Array, *, axis: int = -1, nfft: int | None = None, power: int = 2) -> Array:
    """Return the magnitudes of a transform along an axis, or their squares."""
    return _powers(np.fft.rfft(signal, nfft, axis=axis), power)


def mel_filters(
    bins: int,
    sample_rate: float,
    count: int = 128,
    low: float = 0.0,
    high: float = 0.0,
    *,
    htk: bool = False,
    normalize: bool = True,
) -> Array:
    """Return triangular filters on the mel scale, ``(count, bins)``."""
    high = high if high > 0 else sample_rate / 2
    edges = _hertz(np.linspace(_mel(low, htk), _mel(high, htk), count + 2), htk)
    frequencies = np.arange(bins) * sample_rate / (2 * (bins - 1))
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(rising, falling))
    if normalize:
        filters *= 2 / (edges[2:] - edges[:-2])[:, None]
    return filters.astype(np.float32)


def bands_of(filters: Array) -> tuple[tuple[slice, Array], ...]:
    """Return groups of neighboring filters: the bins that they use, and their weights for these bins."""
    groups = []
    for first in range(0, len(filters), _BAND):
        weights = filters[first : first + _BAND]
        used = np.flatnonzero(weights.any(axis=0))
        bins = slice(used[0], used[-1] + 1) if len(used) else slice(0, 1)
        groups.append((bins, np.ascontiguousarray(weights[:, bins])))
    return tuple(groups)


def band_products(spectrum: Array, bands: Iterable[tuple[slice, Array]], axis: int = 0) -> Array:
    """Return the products of filters, by :func:`bands_of`, with a spectrum along an axis.

    Products this small stay on the calling thread, where one of the whole matrix wakes the threads of BLAS.
    """
    moved = np.moveaxis(spectrum, axis, 0)
    lines = moved.reshape(len(moved), -1)
    products = np.concatenate([weights @ lines[bins] for bins, weights in bands])
    return np.moveaxis(products.reshape(-1, *moved.shape[1:]), 0, axis)


def _mel(hertz: float, htk: bool) -> Any:
    if htk:
        return 1127 * np.log1p(hertz / 700)
    return hertz * 3 / 200 if hertz < 1000 else 15 + np.log(hertz / 1000) * 27 / np.log(6.4)


def _hertz(mel: Array, htk: bool) -> Array:
    if htk:
        return np.asarray(700 * np.expm1(mel / 1127))
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


def to_decibels(
    values: Array, multiplier: float = 10.0, reference: float = 0.0, cutoff_db: float = -200.0
) -> Array:
    """Return ``multiplier * log10(values / reference)``, but not less than ``cutoff_db``."""
    level = float(reference) or float(values.max(initial=0)) or 1.0
    ratio = np.maximum(np.asarray(values, np.float32) / np.float32(level), 10 ** (cutoff_db / multiplier))
    return np.asarray(np.log(ratio, ratio) * np.float32(multiplier / np.log(10)), np.float32)


def mfcc(
    spectrum: Array,
    *,
    axis: int = 0,
    count: int = 20,
    dct_type: int = 2,
    normalize: bool = False,
    lifter: float = 0.0,
) -> Array:
    """Return the first coefficients of a cosine transform along an axis, such as those of a mel spectrogram."""
    if axis >= spectrum.ndim:
        raise ParameterError(f"Axis {axis} is out of bounds [0,{spectrum.ndim})", source="mfcc")
    size = spectrum.shape[axis]
    k, n = np.arange(count)[:, None], np.arange(size)[None]
    if dct_type not in (1, 2, 3, 4) or (dct_type == 1 and (normalize or size < 2)):
        raise ParameterError(
            f"dct_type={dct_type}, normalize={normalize} of {size} values",
            source="mfcc",
            allowed="1 of two values or more, not normalized; 2, 3, 4",
        )
    if dct_type == 1:
        table = np.cos(np.pi / (size - 1) * n * k)
        table[:, 0], table[:, -1] = 0.5, 0.5 * (-1.0) ** np.arange(count)
    elif dct_type == 2:
        table = np.cos(np.pi / size * (n + 0.5) * k)
    elif dct_type == 3:
        table = np.cos(np.pi / size * n * (k + 0.5))
        table[:, 0] = 0.5
    else:
        table = np.cos(np.pi / size * (n + 0.5) * (k + 0.5))
    if normalize:
        table *= np.sqrt(2 / size)
        if dct_type == 2:
            table[0] *= np.sqrt(0.5)
        elif dct_type == 3:
            table[:, 0] *= np.sqrt(2)
    if lifter:
        table *= 1 + lifter / 2 * np.sin(np.pi / lifter * (k + 1))
    return np.moveaxis(np.tensordot(table, spectrum, (1, axis)), 0, axis).astype(np.float32)


def preemphasis(signal: Array, coefficient: float = 0.97, border: str = "clamp") -> Array:
    """Return each sample less the one before it times a coefficient."""
    if border not in ("zero", "clamp", "reflect"):
        raise ParameterError(f"border={border!r}", source="preemphasis", allowed="'zero', 'clamp', 'reflect'")
    values = signal.astype(np.float32)
    if not len(values):
        return values
    first = {"zero": np.zeros_like(values[:1]), "clamp": values[:1]}.get(border, values[1:2])
    before = np.concatenate([first if len(first) else values[:1], values[:-1]])
    return np.asarray(values - np.float32(coefficient) * before)


def nonsilent_region(
    signal: Array, cutoff_db: float = -60.0, reference_power: float = 0.0, window_length: int = 2048
) -> tuple[int, int]:
    """Return start and length of the region between the first and the last window that are not silent."""
    if not len(signal):
        return 0, 0
    size = min(int(window_length), len(signal))
    sums = np.concatenate([[0.0], np.cumsum(np.square(signal.astype(np.float64)))])
    powers = np.maximum(sums[size:] - sums[:-size], 0) / size
    level = float(reference_power) or float(powers.max())
    loud = np.flatnonzero(powers >= level * 10 ** (cutoff_db / 10))
    if not loud.size or level == 0:
        return 0, 0
    return int(loud[0]), int(loud[-1] - loud[0]) + size


def _positions(count: int, step: float) -> npt.NDArray[np.float64]:
    """Return the places of a result's samples in a signal, which advance in float32 for 256 samples, as in DALI."""
    starts = np.arange(0, count, 256) * step
    moves = np.full((len(starts), 256), step, np.float32)
    moves[:, 0] = starts - np.floor(starts)
    within = np.cumsum(moves, axis=1, dtype=np.float32)
    return np.asarray((np.floor(starts)[:, None] + within).reshape(-1)[:count], np.float64)


def resampled(signal: Array, scale: float, length: int | None = None, quality: float = 50.0) -> Array:
    """Return a signal at another sample rate, by a sinc filter with a Hann window."""
    if not 0 <= quality <= 100 or scale <= 0:
        raise ParameterError(
            f"quality={quality}, scale={scale}", source="audio_resample", allowed="0 to 100, more than 0"
        )
    lobes = round(0.007 * quality * quality - 0.09 * quality + 3)
    count = int(np.ceil(len(signal) * scale)) if length is None else int(length)
    positions = _positions(count, 1 / scale)
    nearest = np.floor(positions).astype(np.int64)
    offsets = np.arange(1 - lobes, lobes + 1)
    entries = lobes * 64 + 1  # as in DALI, factors are interpolated in a table
    steps = np.arange(entries) - (entries - 1) / 2
    table_at = steps * (2 * lobes / (entries - 1))
    table = np.sinc(table_at) * 0.5 * (1 + np.cos(np.pi * steps * 2 / entries))
    result = np.empty((count, *signal.shape[1:]), np.float32)
    for start in range(0, count, 1 << 15):  # parts of the result, for the memory of the factors
        part = slice(start, start + (1 << 15))
        places = nearest[part, None] + offsets
        distances = places - positions[part, None]
        factors = np.interp(distances, table_at, table, left=0, right=0)
        factors[(places < 0) | (places >= len(signal))] = 0
        taken = signal[np.clip(places, 0, max(len(signal) - 1, 0))].astype(np.float32)
        result[part] = np.einsum("nk,nk...->n...", factors.astype(np.float32), taken)
    return result
