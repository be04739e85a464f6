"""DALI's operators on sound: each reads the arguments of a call, and applies a function of :mod:`seqpipe.ops.audio`."""

from __future__ import annotations

import wave
from collections.abc import Callable
from functools import cache, partial
from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np

from ...array import Array, to_numpy
from ...core.json_text import parse_json
from ...core.threads import parallel_for
from ...errors import ManifestError, ParameterError, SeqpipeError, UnreadableSourceError
from ...ops import Run, audio
from ..data_node import Compute, DataNode, outputs_of
from ..declared import DaliCall, Kind, operator
from ..dtypes import converted
from ..value import Value
from .files import READER_ACCEPTS, lines_of, reader_nodes

__all__: list[str] = []


def _each(
    call: DaliCall, function: Callable[..., Array], layout: Callable[[Value], str] | None = None
) -> DataNode:
    """Return a node that applies a function to each sample in main memory and to the settings that may differ."""

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0].on_host()

        def result(n: int) -> Array:
            settings = zip(call.settings, values[1:], strict=True)
            return function(value[n], **{name: np.ravel(setting[n])[0].item() for name, setting in settings})

        return _results(value, result, layout(value) if layout else value.layout)

    return _host_node(call, compute)


def _host_node(call: DaliCall, compute: Compute) -> DataNode:
    """Return the node of a computation in main memory, on the call's device."""
    node = call.node(compute, inputs=[call.input().cpu()])
    node.device = "cpu"
    return node.gpu() if call.device == "gpu" else node


def _results(value: Value, result: Callable[[int], Array], layout: str) -> Value:
    """Return the results of a function of the samples' numbers, which threads compute."""
    first = result(0)
    results: Any = [first] * len(value)
    if value.dense:  # most results have one shape, too: they are written where they stay
        results = np.empty((len(value), *first.shape), first.dtype)
        results[0] = first
    others: dict[int, Array] = {}

    def compute(n: int) -> None:
        made = result(n + 1)
        if value.dense and (made.shape, made.dtype) != (first.shape, first.dtype):
            others[n + 1] = made
        else:
            results[n + 1] = made

    parallel_for(compute, len(value) - 1)
    if others or not value.dense:
        arrays = [np.ascontiguousarray(others.get(n, array)) for n, array in enumerate(results)]
        return Value.of(arrays, layout, value.sources)
    return Value(results, layout, value.sources)


def _signal(array: Array) -> Array:
    """Return the only channel of a sample."""
    if array.ndim > 1 and max(array.shape, default=0) != array.size:
        raise ParameterError(f"a signal of the shape {array.shape}", allowed="one channel")
    return array.reshape(-1)


@operator("spectrogram")
def _spectrogram(
    call: DaliCall,
    *,
    layout: Any = "ft",
    window_fn: Any = None,
    window_length: int = 512,
    window_step: int = 256,
    nfft: Any = None,
    power: int = 2,
    center_windows: bool = True,
    reflect_padding: bool = True,
) -> DataNode:
    if layout not in ("ft", "tf"):
        raise call.wrong(f"layout={layout!r}", allowed="'ft', 'tf'")

    def computed(array: Array) -> Array:
        made = audio.spectrogram(
            _signal(array),
            window=None if window_fn is None or not np.size(window_fn) else np.asarray(window_fn, np.float32),
            window_length=window_length,
            window_step=window_step,
            nfft=nfft,
            power=power,
            center=center_windows,
            reflect=reflect_padding,
        )
        return made if layout == "ft" else made.T

    return _each(call, computed, lambda _: layout)


@operator("power_spectrum")
def _power_spectrum(call: DaliCall, *, nfft: int | None = None, axis: int = -1, power: int = 2) -> DataNode:
    length = None if nfft is None else int(nfft)
    return _each(call, partial(audio.power_spectrum, axis=axis, nfft=length, power=power))


@operator("mel_filter_bank")
def _mel_filter_bank(
    call: DaliCall,
    *,
    mel_formula: Any = "slaney",
    sample_rate: float = 44100.0,
    nfilter: int = 128,
    freq_low: float = 0.0,
    freq_high: float = 0.0,
    normalize: bool = True,
) -> DataNode:
    """``fn.mel_filter_bank``: along the axis ``f`` of the layout, or the last but one."""
    if mel_formula not in ("slaney", "htk"):
        raise call.wrong(f"mel_formula={mel_formula!r}", allowed="'slaney', 'htk'")
    htk = mel_formula == "htk"
    bands = cache(
        lambda bins: audio.bands_of(
            audio.mel_filters(bins, sample_rate, nfilter, freq_low, freq_high, htk=htk, normalize=normalize)
        )
    )

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0].on_host()
        axis = value.layout.index("f") if "f" in value.layout else max(value.ndim - 2, 0)

        def products(n: int) -> Array:
            return audio.band_products(value[n], bands(value[n].shape[axis]), axis)

        return _results(value, products, value.layout)

    return _host_node(call, compute)


@operator("to_decibels")
def _to_decibels(
    call: DaliCall, *, multiplier: float = 10.0, reference: float = 0.0, cutoff_db: float = -200.0
) -> DataNode:
    options = {"multiplier": multiplier, "reference": reference, "cutoff_db": cutoff_db}
    return _each(call, partial(audio.to_decibels, **options))


@operator("mfcc")
def _mfcc(
    call: DaliCall,
    *,
    axis: int = 0,
    n_mfcc: int = 20,
    dct_type: int = 2,
    normalize: bool = False,
    lifter: float = 0.0,
) -> DataNode:
    if axis < 0:
        raise call.wrong(f"Provided axis cannot be negative: {axis}")
    made = partial(audio.mfcc, axis=axis, count=n_mfcc, dct_type=dct_type, normalize=normalize, lifter=lifter)
    return _each(call, made)


@operator("preemphasis_filter", each={"preemph_coeff": None})
def _preemphasis_filter(call: DaliCall, *, dtype: Kind = "float32", border: Any = "clamp") -> DataNode:
    def applied(array: Array, preemph_coeff: float = 0.97) -> Array:
        return converted(audio.preemphasis(array, preemph_coeff, border), dtype)

    return _each(call, applied)


@operator("nonsilent_region", each=dict.fromkeys(("cutoff_db", "reference_power", "window_length")))
def _nonsilent_region(call: DaliCall, *, reset_interval: Any = None) -> tuple[DataNode, ...]:  # noqa: ARG001
    """``fn.nonsilent_region``: start and length, int32."""

    def region(array: Array, **options: Any) -> Array:
        return np.asarray(audio.nonsilent_region(_signal(array), **options), np.int32)

    node = _each(call, region, lambda _: "")

    def both(values: list[Value], _: Run) -> tuple[Value, ...]:
        begin, length = (values[0].each(partial(np.take, indices=n), "") for n in (0, 1))
        return begin, length

    return outputs_of(DataNode(call.row.name, [node], both), 2)


@operator("audio_resample", each=dict.fromkeys(("scale", "in_rate", "out_rate", "out_length")))
def _resample(call: DaliCall, *, dtype: Kind = None, quality: float = 50.0) -> DataNode:
    """``fn.audio_resample``: by ``scale``, ``in_rate`` and ``out_rate``, or ``out_length``."""
    known = call.settings.keys()
    if ("scale" in known) + ({"in_rate", "out_rate"} <= known) + ("out_length" in known) != 1:
        raise call.wrong("how much?", allowed="one of scale, in_rate with out_rate, and out_length")

    def made(array: Array, **numbers: float) -> Array:
        length = int(numbers["out_length"]) if "out_length" in numbers else None
        numbers = {name: float(np.float32(number)) for name, number in numbers.items()}  # as DALI takes them
        scale = numbers.get("scale", numbers.get("out_rate", 0) / numbers.get("in_rate", 1))
        if length is not None:
            scale = length / max(len(array), 1)
        source = array  # whole numbers become floats from -1 to 1
        if array.dtype.kind != "f":
            source = array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max)
        return _from_unit(audio.resampled(source, scale, length, quality), dtype or array.dtype.name)

    return _each(call, made)


def _from_unit(array: Array, kind: str) -> Array:
    return array.astype(kind) if np.dtype(kind).kind == "f" else converted(array * np.iinfo(kind).max, kind)


@operator("decoders.audio", each={"sample_rate": None})
def _decode_audio(
    call: DaliCall, *, dtype: Kind = "float32", downmix: bool = False, quality: float = 50.0
) -> tuple[DataNode, ...]:
    """``fn.decoders.audio``: samples ``(n, channels)``, or ``(n,)`` with ``downmix``; and the sample rate."""

    def compute(values: list[Value], _: Run) -> tuple[Value, Value]:
        value = values[0].on_host()
        rates = np.empty(len(value), np.float32)

        def sound(n: int) -> Array:
            wanted = float(np.ravel(values[1][n])[0]) if call.settings else 0.0
            source = value.sources[n] if value.sources else f"sample {n}"
            signal, rates[n] = _sound(to_numpy(value[n]).tobytes(), source, wanted, downmix, quality, dtype)
            return signal

        return _results(value, sound, ""), Value(rates)

    return call.outputs(compute, 2)


def _sound(
    data: Any,
    source: str,
    wanted: float,
    downmix: bool,
    quality: float,
    kind: str,
    offset: float = 0.0,
    duration: float = 0.0,
) -> tuple[Array, float]:
    """Return the sound of an encoded file from an offset in seconds on, and its rate; all of it without a duration."""
    signal, rate = _pulses(data) or _decoded(data, source)
    begin = round(offset * rate)
    signal = signal[begin : begin + round(duration * rate) if duration > 0 else None]
    if downmix:
        signal = signal[:, 0] if signal.shape[1] == 1 else signal.mean(axis=1)
    if wanted > 0 and wanted != rate:
        signal, rate = audio.resampled(signal, wanted / rate, quality=quality), wanted
    elif not downmix and np.dtype(kind).kind != "f":  # the numbers of the file, whose range is not symmetric
        return converted(signal * (np.float64(np.iinfo(kind).max) + 1), kind), rate
    return _from_unit(signal, kind), rate


def _pulses(data: Any) -> tuple[Array, float] | None:
    """Return the sound of a whole WAV file of 16-bit PCM, float32, and its rate: 20 times faster than a demuxer."""
    try:
        with wave.open(data if isinstance(data, str) else BytesIO(data)) as file:
            width, channels, count = file.getsampwidth(), file.getnchannels(), file.getnframes()
            pulses = np.frombuffer(file.readframes(count), "<i2") if width == 2 else np.zeros(0, np.int16)
            rate = float(file.getframerate())
    except (wave.Error, EOFError, OSError):  # another format, or no file, of which the demuxer tells
        return None
    if not count or len(pulses) != count * channels:
        return None
    return pulses.reshape(-1, channels) * np.float32(1 / 32768), rate


def _decoded(data: Any, source: str) -> tuple[Array, float]:
    """Return the sound of an encoded file, float32, and its rate."""
    from ...video.audio.reader import AudioReader

    try:
        with AudioReader(data) as reader:
            sound = reader.audio()
    except SeqpipeError as error:
        raise UnreadableSourceError(f"no sound that can be decoded: {error.fact}", source=source) from error
    return sound.samples.T, float(sound.sample_rate)


@operator("readers.nemo_asr", passes=True, accept=READER_ACCEPTS)
def _nemo_asr_reader(
    call: DaliCall,
    *,
    manifest_filepaths: Any = None,
    sample_rate: float = -1.0,
    quality: float = 50.0,
    downmix: bool = True,
    dtype: Kind = "float32",
    min_duration: float = 0.0,
    max_duration: float = 0.0,
    read_sample_rate: bool = True,
    read_text: bool = True,
    read_idxs: bool = False,
) -> Any:
    """``fn.readers.nemo_asr``: sound, its rate, its text (UTF-8) and its number, of manifests with JSON lines."""
    manifests = manifest_filepaths
    manifests = [manifests] if isinstance(manifests, (str, PathLike)) else list(manifests or ())
    entries = [entry for manifest in manifests for entry in _entries(manifest)]
    chosen = [
        entry
        for entry in entries
        if entry["duration"] >= min_duration and not 0 < max_duration < entry["duration"]
    ]
    if not chosen:
        raise call.wrong("no entry to read", allowed="manifest_filepaths of manifests with entries")

    def read(number: int) -> tuple[Any, ...]:
        entry = chosen[number]
        path, span = entry["audio_filepath"], (entry["offset"], entry["duration"])
        signal, rate = _sound(path, path, sample_rate, downmix, quality, dtype, *span)
        text = np.frombuffer(entry["text"].encode(), np.uint8)
        each = (
            (True, signal),
            (read_sample_rate, np.float32(rate)),
            (read_text, text),
            (read_idxs, np.array([number], np.int64)),
        )
        return tuple(value for wanted, value in each if wanted)

    told = {"sound": True, "sample_rate": read_sample_rate, "text": read_text, "idxs": read_idxs}
    names = [name for name, wanted in told.items() if wanted]
    facts = {"entries": chosen, "options": [sample_rate, quality, downmix, dtype]}
    nodes = reader_nodes(call, names, [entry["audio_filepath"] for entry in chosen], facts, read)
    return nodes if len(nodes) > 1 else nodes[0]


def _entries(manifest: Any) -> list[dict[str, Any]]:
    """Return the entries of a manifest of NeMo's format."""
    found = []
    for number, line in lines_of(manifest, "manifest"):
        try:
            entry = parse_json(line)
            found.append(
                {
                    "audio_filepath": str(entry["audio_filepath"]),
                    "text": str(entry.get("text", "")),
                    "offset": float(entry.get("offset", 0.0)),
                    "duration": float(entry.get("duration", 0.0)),
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ManifestError(
                f"line {number}: {line!r}",
                source=str(manifest),
                allowed='a JSON object such as {"audio_filepath": "a.wav", "duration": 1.5, "text": "…"}',
            ) from error
    return found
