"""Transfer functions: HDR signals (PQ, HLG) to SDR by method A of ITU-R BT.2446-1, and signals to linear light.

Pixels are RGB of 16 bits, as the conversion gives them. Sources: PQ is that of SMPTE ST 2084 and BT.2100-2 (table 4),
HLG that of BT.2100-2 (table 5) with the OOTF of a display of 1000 cd/m²; SDR is shown by BT.1886 (gamma 2.4, black of
0); white of 203 cd/m² is the reference of BT.2408; the matrix to BT.709 is that of BT.2087.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from .mix import statistics
from .output import OutputSpec
from .surface import Plane

__all__ = ["HLG", "PQ", "ToneMap", "tone_code"]

PQ: Final = 16
HLG: Final = 18

_PEAK: Final = 65535
_PEAK_NITS, _SDR_NITS, _WHITE_NITS = 1000.0, 100.0, 203.0
_GAMMA: Final = 2.4
_LUMA: Final = np.array([0.2627, 0.6780, 0.0593], np.float32)
_TO_BT709: Final = np.array(
    [
        [1.660491, -0.587641, -0.072850],
        [-0.124550, 1.132900, -0.008349],
        [-0.018151, -0.100579, 1.118730],
    ],
    np.float32,
)


def tone_code(transfer: int, wanted: str) -> int:
    """Return what the kernels call a change of a stream's transfer function: 0 for none.

    Args:
        transfer: transfer characteristics of H.273.
        wanted: as in ``OutputSpec.transfer``.
    """
    if wanted == "linear":
        return {PQ: 3, HLG: 4}.get(transfer, 5)
    return {PQ: 1, HLG: 2}.get(transfer, 0) if wanted == "sdr" else 0


class ToneMap:
    """Changes the transfer function of frames of RGB in 16 bits.

    Args:
        code: as :func:`tone_code` gives it.
        output: color, dtype and layout of the result.
    """

    def __init__(self, code: int, output: OutputSpec) -> None:
        self._code, self._output = code, output
        self._statistics = [
            np.array(values, np.float32) for values in zip(*statistics(output, 3), strict=True)
        ]

    def __call__(self, pixels: Plane, out: Plane) -> None:
        """Convert a frame ``(H, W, 3)`` of uint16 RGB into an array of the output's shape and dtype."""
        values = self._linear(pixels) if self._code >= 3 else self._sdr(pixels)
        output = self._output
        values = values[..., ::-1] if output.color == "BGR" else values
        if output.is_float:
            mean, std = self._statistics
            values = (values - mean) / std
        else:
            values = np.rint(values * np.iinfo(output.dtype).max)
        out[...] = values.transpose(2, 0, 1) if output.layout == "FCHW" else values

    def _linear(self, pixels: Plane) -> npt.NDArray[np.float32]:
        """Return light in units of 203 cd/m²; of SDR streams, in units of their white."""
        if self._code == 5:
            return _at("gamma", pixels)
        if self._code == 3:
            return _at("pq", pixels) * np.float32(1 / _WHITE_NITS)
        scene = _at("hlg", pixels)
        return scene * (_PEAK_NITS / _WHITE_NITS * (scene @ _LUMA)[..., None] ** np.float32(0.2))

    def _sdr(self, pixels: Plane) -> npt.NDArray[np.float32]:
        """Return SDR signals of BT.709 by method A of BT.2446-1."""
        if self._code == 1:
            signals = _at("pq root", pixels)
        else:
            luma = (_at("hlg", pixels) @ _LUMA)[..., None]
            signals = _at("hlg root", pixels) * luma ** np.float32(0.2 / _GAMMA)
        luma = signals @ _LUMA
        level = np.rint(luma * _PEAK).astype(np.uint16)
        mapped, gain = _at("luma", level), _at("gain", level)
        blue, red = (signals[..., 2] - luma) * gain, (signals[..., 0] - luma) * gain
        mapped -= np.maximum(red * np.float32(0.1 / 1.4746), 0)
        green = mapped - np.float32(0.0593 / 0.6780) * blue - np.float32(0.2627 / 0.6780) * red
        wide = np.stack([mapped + red, green, mapped + blue], -1)
        light = _at("gamma", np.rint(np.clip(wide, 0, 1) * _PEAK).astype(np.uint16)) @ _TO_BT709.T
        return _at("root", np.rint(np.sqrt(np.clip(light, 0, 1)) * _PEAK).astype(np.uint16))


def _at(name: str, signals: Plane) -> npt.NDArray[np.float32]:
    """Return a table's values at signals of 16 bits."""
    values: npt.NDArray[np.float32] = _table(name)[signals]
    return values


@cache
def _table(name: str) -> npt.NDArray[np.float32]:
    """Return a function of signals of 16 bits as float32; of "root", whose argument is a square root."""
    signal = np.arange(_PEAK + 1) / _PEAK
    with np.errstate(divide="ignore", invalid="ignore"):
        tables: dict[str, Callable[[], FloatArray]] = {
            "gamma": lambda: signal**_GAMMA,
            "root": lambda: signal ** (2 / _GAMMA),
            "pq": lambda: _pq(signal),
            "pq root": lambda: np.minimum(_pq(signal) / _PEAK_NITS, 1) ** (1 / _GAMMA),
            "hlg": lambda: _hlg(signal),
            "hlg root": lambda: _hlg(signal) ** (1 / _GAMMA),
            "luma": lambda: _mapped(signal),
            "gain": lambda: np.concatenate([[0], _mapped(signal[1:]) / (1.1 * signal[1:])]),
        }
        result = tables[name]().astype(np.float32)
    result.flags.writeable = False  # the cache shares it
    return result


def _pq(signal: FloatArray) -> FloatArray:
    """Return light in cd/m²."""
    power = signal ** (32 / 2523)
    ratio = np.maximum(power - 3424 / 4096, 0) / (2413 / 128 - 2392 / 128 * power)
    light: FloatArray = 10_000 * ratio ** (8192 / 1305)
    return light


def _hlg(signal: FloatArray) -> FloatArray:
    """Return light of the scene, 0 to 1."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)


def _mapped(luma: FloatArray) -> FloatArray:
    """Return luma of SDR for luma of HDR, by the three steps of method A."""
    hdr, sdr = (1 + 32 * (nits / 10_000) ** (1 / _GAMMA) for nits in (_PEAK_NITS, _SDR_NITS))
    perceptual = np.log(1 + (hdr - 1) * luma) / np.log(hdr)
    middle = (-1.1510 * perceptual + 2.7811) * perceptual - 0.6302
    knee = np.where(perceptual < 0.9909, middle, 0.5 * perceptual + 0.5)
    compressed = np.where(perceptual <= 0.7399, 1.0770 * perceptual, knee)
    mapped: FloatArray = (sdr**compressed - 1) / (sdr - 1)
    return mapped
