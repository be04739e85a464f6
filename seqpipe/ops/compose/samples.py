"""Samples of a batch in any form that calls accept: counting, selecting and merging them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import numpy as np

from ...array import Array, FloatArray, namespace
from ...errors import ParameterError
from ...layout import DEFAULT_LAYOUTS
from ...parts import Image, Metadata, Part, Sample, as_part
from ...sequence import Batch, Sequence
from ..call.inputs import like_container

__all__ = ["affine_of", "count_of", "layout_of", "merged", "reference_of", "selected", "zeros_like"]


def reference_of(x: Any) -> Any:
    """Return the images that determine the samples: the first image of a sample of several parts, else ``x``."""
    if isinstance(x, Mapping):
        parts = (as_part(value) for value in x.values())
        return next((one.data for one in parts if isinstance(one, Image)), None)
    return x


def layout_of(x: Any, layout: str | None) -> str | None:
    """Return the layout of images: their own, the argument, or the default for the number of axes."""
    x = reference_of(x)
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    if isinstance(first, (Sequence, Batch)):
        return first.layout
    return layout or DEFAULT_LAYOUTS.get(getattr(first, "ndim", 0))


def count_of(x: Any, layout: str | None) -> int | None:
    """Return the number of samples of an input; None without an axis of samples."""
    x = reference_of(x)
    if isinstance(x, (Batch, list, tuple)):
        return len(x)
    letters = layout_of(x, layout) or ""
    return len(x) if letters.startswith("N") and not isinstance(x, Sequence) else None


def selected(x: Any, positions: Seq[int]) -> Any:
    """Return some samples of a batch, in the form of the batch.

    Args:
        x: a batch of several samples, as :func:`count_of` counts them.
        positions: positions of the samples.
    """
    if isinstance(x, Mapping):
        return {name: selected(value, positions) for name, value in x.items()}
    if isinstance(x, Part):
        return x.with_data(selected(x.data, positions))
    if isinstance(x, (list, tuple)):
        return [x[position] for position in positions]
    if not isinstance(x, Batch):
        return x[list(positions)]
    known = {
        name: None if (values := getattr(x, name)) is None else values[list(positions)]
        for name in ("labels", "indices", "mask")
    }
    sequences = [x.sequences[position] for position in positions]
    if x.stacked is None:
        return Batch(tuple(sequences), **known)
    stacked = x.stacked[list(positions)]
    views = tuple(one.with_pixels(data, one.layout) for one, data in zip(sequences, stacked, strict=True))
    return Batch(views, stacked=stacked, **known)


def merged(whole: Any, parts: Iterable[tuple[Seq[int], Any]], source: str) -> Any:
    """Merge groups of samples into a batch in the original order."""
    pairs = list(parts)
    if isinstance(whole, Mapping):
        merged_parts = {
            name: merged(value, [(positions, result[name]) for positions, result in pairs], source)
            for name, value in whole.items()
        }
        return Sample(merged_parts, getattr(whole, "history", ()))
    if isinstance(whole, Metadata):
        return whole
    if isinstance(whole, Part):
        return whole.with_data(
            merged(whole.data, [(positions, result.data) for positions, result in pairs], source)
        )
    if isinstance(whole, Batch):
        return _batch(whole, pairs)
    if isinstance(whole, (list, tuple)):
        return like_container(whole, _in_order(pairs))
    kinds = {(tuple(result.shape[1:]), str(result.dtype)) for _, result in pairs}
    if len(kinds) > 1:
        listed = " and ".join(f"{dtype} {shape}" for shape, dtype in sorted(kinds))
        raise ParameterError(
            f"parts return samples of one array with different shapes or types, {listed}",
            source=source,
            allowed="one shape and one type",
            advice="Pass the samples as a list or a Batch, or end all parts with a resize or a cast",
        )
    return _array(pairs)


def _in_order(pairs: Seq[tuple[Seq[int], Any]]) -> list[Any]:
    by_position = {
        position: one for positions, result in pairs for position, one in zip(positions, result, strict=True)
    }
    return [by_position[position] for position in sorted(by_position)]


def _array(pairs: Seq[tuple[Seq[int], Array]]) -> Array:
    first = pairs[0][1]
    out = namespace(first).empty(
        (sum(len(positions) for positions, _ in pairs), *first.shape[1:]), first.dtype
    )
    for positions, result in pairs:
        out[list(positions)] = result
    return out


def _batch(whole: Batch, pairs: Seq[tuple[Seq[int], Batch]]) -> Batch:
    sequences = _in_order(pairs)
    masks = [(positions, result.mask) for positions, result in pairs if result.mask is not None]
    alike = {tuple(mask.shape[1:]) for _, mask in masks}
    known: dict[str, Any] = {"labels": whole.labels, "indices": whole.indices}
    if masks and len(alike) == 1:
        return Batch.of(sequences, mask=_array(masks), **known)
    if masks:
        return Batch(tuple(sequences), **known)
    return Batch.of(sequences, **known)


def zeros_like(labels: Sequence | Batch) -> Image:
    """Return an image of zeros, of the shape and with the metadata of labels."""
    zeros = namespace(labels.data).zeros(labels.data.shape, np.uint8)
    if isinstance(labels, Sequence):
        return Image(labels.with_pixels(zeros, labels.layout))
    pairs = zip(labels.sequences, zeros, strict=True)
    sequences = tuple(one.with_pixels(data, one.layout) for one, data in pairs)
    return Image(replace(labels, sequences=sequences, stacked=zeros))


def affine_of(value: Any, sample: int = 0) -> FloatArray | None:
    """Return the affine of a sample of an image."""
    one = value[sample] if isinstance(value, Batch) else value
    return one.affine if isinstance(one, Sequence) else None
