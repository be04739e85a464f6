"""Operators on sound, judged by SciPy, by definitions, and by values of DALI 2.4."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
from scipy import fft

import seqpipe.dali.experimental.dynamic as ndd
from seqpipe.errors import ParameterError, UnreadableSourceError
from seqpipe.ops import audio

SIGNAL = np.random.default_rng(0).normal(size=3000).astype(np.float32)


@pytest.mark.parametrize(("power", "layout"), [(2, "ft"), (1, "tf")])
def test_spectrogram_is_the_transform_of_each_window(power: int, layout: str) -> None:
    made = ndd.spectrogram(SIGNAL, window_length=300, window_step=100, nfft=400, power=power, layout=layout)
    padded = np.pad(SIGNAL, 150, mode="reflect")
    hann = 0.5 * (1 - np.cos(2 * np.pi * (np.arange(300) + 0.5) / 300))
    windows = np.stack([padded[n : n + 300] * hann for n in range(0, len(padded) - 299, 100)])
    expected = abs(np.fft.rfft(windows, 400)) ** power
    found = np.asarray(made).T if layout == "ft" else np.asarray(made)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    assert made.layout == layout


@pytest.mark.parametrize(("kind", "normalize"), [(1, False), (2, False), (2, True), (3, True), (4, False)])
def test_mfcc_is_scipys_transform(kind: int, normalize: bool) -> None:
    values = SIGNAL[:600].reshape(30, 20)
    expected = fft.dct(values, kind, axis=0, norm="ortho" if normalize else None)[:13] / (
        1 if normalize else 2
    )
    found = ndd.mfcc(values, dct_type=kind, normalize=normalize, n_mfcc=13)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4)


def test_filters_decibels_and_preemphasis() -> None:
    filters = audio.mel_filters(129, 16000, 20)
    assert filters.shape == (20, 129)
    # each filter has the area 1 over frequencies in Hz
    np.testing.assert_allclose(filters.sum(axis=1)[8:] * 16000 / 256, 1, atol=0.05)
    spectrum = abs(SIGNAL[:258]).reshape(129, 2)
    banked = ndd.mel_filter_bank(ndd.tensor(spectrum, layout="ft"), nfilter=20, sample_rate=16000)
    np.testing.assert_allclose(np.asarray(banked), filters @ spectrum, rtol=1e-5)
    decibels = np.asarray(ndd.to_decibels(np.float32([1, 10, 1e-9]), cutoff_db=-60))
    np.testing.assert_allclose(decibels, [-10, 0, -60], atol=1e-5)
    emphasized = np.asarray(ndd.preemphasis_filter(np.float32([1, 2, 4]), preemph_coeff=0.5, border="zero"))
    np.testing.assert_allclose(emphasized, [1, 1.5, 3])


def test_region_that_is_not_silent() -> None:
    quiet = np.zeros(1000, np.float32)
    loud = np.concatenate([quiet, np.ones(500, np.float32), quiet])
    start, length = ndd.nonsilent_region(loud, window_length=100, cutoff_db=-3.02)
    # windows of which half is loud, from the first to the last
    assert (start.item(), length.item()) == (950, 600)
    assert [one.item() for one in ndd.nonsilent_region(quiet)] == [0, 0]


def test_resampling_keeps_a_tone() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000).astype(np.float32)
    made = np.asarray(ndd.audio_resample(tone, in_rate=8000, out_rate=16000))
    assert made.shape == (16000,)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    np.testing.assert_allclose(made[200:-200], expected[200:-200], atol=3e-3)
    with pytest.raises(ParameterError, match="one of scale, in_rate with out_rate, and out_length"):
        ndd.audio_resample(tone)


def test_decoding(tmp_path: Any) -> None:
    samples = (SIGNAL[:800].reshape(400, 2) * 4000).astype(np.int16)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
    data = np.frombuffer(buffer.getvalue(), np.uint8)
    decoded, rate = ndd.decoders.audio(data)
    np.testing.assert_allclose(np.asarray(decoded), samples / 32768, atol=1e-6)
    assert rate.item() == 8000
    mixed, rate = ndd.decoders.audio(data, downmix=True, sample_rate=16000)
    assert (mixed.shape, rate.item()) == ((800,), 16000)
    with pytest.raises(UnreadableSourceError, match="no sound that can be decoded"):
        ndd.decoders.audio(np.zeros(10, np.uint8))


def test_resampling_advances_as_dali_does() -> None:
    # values that DALI 2.4 gives for this signal
    signal = np.sin(np.arange(4000, dtype=np.float32) ** 1.3 * 0.02).astype(np.float32)
    made = np.asarray(ndd.audio_resample(signal, scale=0.37))
    judged = [0.5074651, -0.9882473, -0.9099768, -0.9571206, 0.6346430, -0.6439588]
    assert len(made) == 1481
    assert np.abs(made[1000:1480:80] - judged).max() < 1e-5
