"""DALI's operators on sound: each reads the arguments of a call, and applies a function of :mod:`seqpipe.ops.audio`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...array import Array, to_numpy
from ...errors import ParameterError, SeqpipeError, UnreadableSourceError
from ...ops import Run, audio
from ..call import DaliCall
from ..data_node import DataNode, node_of, outputs_of
from ..dtypes import converted, dtype_name
from ..value import Value

__all__ = [
    "decode_audio",
    "mel_filter_bank",
    "mfcc",
    "nonsilent_region",
    "power_spectrum",
    "preemphasis_filter",
    "resample",
    "spectrogram",
    "to_decibels",
]


def _each(
    call: DaliCall,
    function: Callable[..., Array],
    layout: Callable[[Value], str] | None = None,
    **settings: Any,
) -> DataNode:
    """Return a node that applies a function to each sample and to its settings, which may be nodes."""
    call.done()
    named = {name: one for name, one in settings.items() if one is not None}
    nodes = [node_of(one).cpu() for one in named.values()]

    def compute(values: list[Value], _: Run) -> Value:
        value, parts = values[0].on_host(), []
        for n, part in enumerate(value):
            numbers = {name: np.ravel(one[n])[0].item() for name, one in zip(named, values[1:], strict=True)}
            parts.append(np.ascontiguousarray(function(part, **numbers)))
        return Value.of(parts, layout(value) if layout else value.layout, value.sources)

    summary = f"{getattr(function, 'keywords', '')} {list(named)}"
    node = call.node(compute, *nodes, inputs=[call.input().cpu()], summary=summary)
    node.device = "cpu"
    return node.gpu() if call.device == "gpu" else node


def _signal(part: Array) -> Array:
    """Return the only channel of a sample."""
    if part.ndim > 1 and max(part.shape, default=0) != part.size:
        raise ParameterError(f"a signal of the shape {part.shape}", allowed="one channel")
    return part.reshape(-1)


def spectrogram(call: DaliCall) -> DataNode:
    """``fn.spectrogram``."""
    layout, window = call.take("layout", "ft"), call.take("window_fn")
    options = {
        "window": None if window is None or not np.size(window) else np.asarray(window, np.float32),
        "window_length": int(call.take("window_length", 512)),
        "window_step": int(call.take("window_step", 256)),
        "nfft": call.take("nfft"),
        "power": int(call.take("power", 2)),
        "center": bool(call.take("center_windows", True)),
        "reflect": bool(call.take("reflect_padding", True)),
    }
    if layout not in ("ft", "tf"):
        raise call.wrong(f"layout={layout!r}", allowed="'ft', 'tf'")

    def one(part: Array, **_: Any) -> Array:
        made = audio.spectrogram(_signal(part), **options)
        return made if layout == "ft" else made.T

    return _each(call, partial(one, **options), lambda _: layout)


def power_spectrum(call: DaliCall) -> DataNode:
    """``fn.power_spectrum``."""
    nfft, axis = call.take("nfft"), int(call.take("axis", -1))
    return _each(
        call,
        partial(
            audio.power_spectrum,
            axis=axis,
            nfft=None if nfft is None else int(nfft),
            power=int(call.take("power", 2)),
        ),
    )


def mel_filter_bank(call: DaliCall) -> DataNode:
    """``fn.mel_filter_bank``: along the axis ``f`` of the layout, or the last but one."""
    formula = call.take("mel_formula", "slaney")
    if formula not in ("slaney", "htk"):
        raise call.wrong(f"mel_formula={formula!r}", allowed="'slaney', 'htk'")
    options = {
        "sample_rate": float(call.take("sample_rate", 44100.0)),
        "count": int(call.take("nfilter", 128)),
        "low": float(call.take("freq_low", 0.0)),
        "high": float(call.take("freq_high", 0.0)),
        "htk": formula == "htk",
        "normalize": bool(call.take("normalize", True)),
    }
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0].on_host()
        axis = value.layout.index("f") if "f" in value.layout else max(value.ndim - 2, 0)
        parts = []
        for part in value:
            filters = audio.mel_filters(part.shape[axis], **options)
            parts.append(np.moveaxis(np.tensordot(filters, part, (1, axis)), 0, axis).astype(np.float32))
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, summary=f"{options}")


def to_decibels(call: DaliCall) -> DataNode:
    """``fn.to_decibels``."""
    options = {
        name: float(call.take(name, d))
        for name, d in (("multiplier", 10), ("reference", 0), ("cutoff_db", -200))
    }
    return _each(call, partial(audio.to_decibels, **options))


def mfcc(call: DaliCall) -> DataNode:
    """``fn.mfcc``."""
    options = {
        "axis": int(call.take("axis", 0)),
        "count": int(call.take("n_mfcc", 20)),
        "dct_type": int(call.take("dct_type", 2)),
        "normalize": bool(call.take("normalize", False)),
        "lifter": float(call.take("lifter", 0.0)),
    }
    if options["axis"] < 0:
        raise call.wrong(f"Provided axis cannot be negative: {options['axis']}")
    return _each(call, partial(audio.mfcc, **options))  # type: ignore[arg-type]


def preemphasis_filter(call: DaliCall) -> DataNode:
    """``fn.preemphasis_filter``."""
    kind, border = dtype_name(call.take("dtype", "float32")), call.take("border", "clamp")

    def one(part: Array, coefficient: float = 0.97) -> Array:
        return converted(audio.preemphasis(part, coefficient, border), kind)

    return _each(call, partial(one), coefficient=call.take("preemph_coeff"))


def nonsilent_region(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.nonsilent_region``: start and length, int32."""
    settings = {name: call.take(name) for name in ("cutoff_db", "reference_power", "window_length")}
    call.take("reset_interval")

    def region(part: Array, **options: Any) -> Array:
        return np.asarray(audio.nonsilent_region(_signal(part), **options), np.int32)

    node = _each(call, region, lambda _: "", **settings)

    def both(values: list[Value], _: Run) -> tuple[Value, ...]:
        begin, length = (values[0].each(partial(np.take, indices=n), "") for n in (0, 1))
        return begin, length

    return outputs_of(DataNode(call.row.name, [node], both), 2)


def resample(call: DaliCall) -> DataNode:
    """``fn.audio_resample``: by ``scale``, ``in_rate`` and ``out_rate``, or ``out_length``."""
    rates = {name: call.take(name) for name in ("scale", "in_rate", "out_rate", "out_length")}
    kind, quality = call.take("dtype"), float(call.take("quality", 50.0))
    by_rates = rates["in_rate"] is not None and rates["out_rate"] is not None
    if (rates["scale"] is not None) + by_rates + (rates["out_length"] is not None) != 1:
        raise call.wrong("how much?", allowed="one of scale, in_rate with out_rate, and out_length")

    def one(part: Array, **numbers: float) -> Array:
        length = int(numbers["out_length"]) if "out_length" in numbers else None
        numbers = {name: float(np.float32(one)) for name, one in numbers.items()}  # as DALI takes them
        scale = numbers.get("scale", numbers.get("out_rate", 0) / numbers.get("in_rate", 1))
        if length is not None:
            scale = length / max(len(part), 1)
        source = _to_unit(part)
        made = audio.resampled(source, scale, length, quality)
        return _from_unit(made, part.dtype.name if kind is None else dtype_name(kind))

    return _each(call, partial(one), **rates)


def _to_unit(part: Array) -> Array:
    """Return whole numbers as floats from -1 to 1."""
    return part if part.dtype.kind == "f" else part.astype(np.float32) / np.float32(np.iinfo(part.dtype).max)


def _from_unit(part: Array, kind: str) -> Array:
    return part.astype(kind) if np.dtype(kind).kind == "f" else converted(part * np.iinfo(kind).max, kind)


def decode_audio(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.decoders.audio``: samples ``(n, channels)``, or ``(n,)`` with ``downmix``; and the sample rate."""
    kind, downmix = dtype_name(call.take("dtype", "float32")), bool(call.take("downmix", False))
    rate, quality = call.take("sample_rate"), float(call.take("quality", 50.0))
    call.done()
    from ...video.audio.reader import AudioReader

    def compute(values: list[Value], _: Run) -> tuple[Value, Value]:
        value, signals, found = values[0].on_host(), [], []
        for n, data in enumerate(value):
            try:
                with AudioReader(to_numpy(data).tobytes()) as reader:
                    sound = reader.audio()
            except SeqpipeError as error:
                raise UnreadableSourceError(
                    f"no sound that can be decoded: {error.fact}",
                    source=value.sources[n] if value.sources else f"sample {n}",
                ) from error
            signal, own = sound.samples.T, float(sound.sample_rate)
            wanted = float(np.ravel(values[1][n])[0]) if rate is not None else 0.0
            if downmix:
                signal = signal.mean(axis=1)
            if wanted > 0 and wanted != own:
                signal, own = audio.resampled(signal, wanted / own, quality=quality), wanted
            signals.append(_from_unit(signal, kind))
            found.append(own)
        return Value.of(signals, "", value.sources), Value(np.asarray(found, np.float32))

    nodes = [] if rate is None else [node_of(rate).cpu()]
    return outputs_of(call.node(compute, *nodes, summary=f"{kind} {downmix} {quality}"), 2)
