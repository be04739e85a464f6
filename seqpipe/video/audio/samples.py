"""Samples of sound with their rate and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["AudioSamples", "SampleArray"]

SampleArray: TypeAlias = npt.NDArray[np.float32]
"""Samples of shape (channels, samples)."""


@dataclass(frozen=True, eq=False)
class AudioSamples:
    """A range of sound.

    Attributes:
        samples: float32 of shape (channels, samples); full scale is -1 to 1, which decoders of lossy codecs and mixes
            of channels may exceed.
        sample_rate: samples per second of each channel.
        start_s: time of the first sample in seconds, on the clock of the container, as the timestamps of frames.
        source: name of the source.
    """

    samples: SampleArray
    sample_rate: int
    start_s: float
    source: str = ""

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.samples.shape[0])

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return float(self.samples.shape[1] / self.sample_rate)

    @property
    def end_s(self) -> float:
        """Time in seconds at which the last sample ends."""
        return self.start_s + self.duration_s

    def __repr__(self) -> str:
        count = self.samples.shape[1]
        span = f"{self.start_s:.3f}…{self.end_s:.3f} s"
        return f"AudioSamples({self.channels} × {count} samples, {self.sample_rate} Hz, {span})"
