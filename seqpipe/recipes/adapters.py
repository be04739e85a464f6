"""Adapters: chains as transforms of nnU-Net and MONAI (dictionaries) and TorchIO (subjects).

None of these libraries is imported: their values are recognized by their attributes.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ..array import Array, as_native, namespace, to_torch
from ..errors import ParameterError
from ..ops import Chain
from ..parts import Image, Labels
from ..sequence import Sequence

__all__ = ["DictionaryTransform", "NnunetTransform", "deep_supervision", "on_subject"]


class _Indices:
    """Indices for samples without one: consecutive numbers, distinct in each process."""

    def __init__(self) -> None:
        self._process, self._next = os.getpid(), 0

    def of(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the epoch and the index that parameters are sampled for."""
        if "index" in data:
            return {"epoch": int(data.get("epoch", 0)), "index": int(data["index"])}
        # a forked process continues the count of its parent, so its id takes the place of the epoch
        own = os.getpid()
        number, self._next = self._next, self._next + 1
        return {"epoch": 0 if own == self._process else own, "index": number}


def deep_supervision(labels: Any, scales: Seq[Seq[float]]) -> list[Any]:
    """Return labels on the grids of a network's outputs, by the nearest voxel, as nnU-Net does.

    Args:
        labels: an array or a tensor whose last axes are slices, rows and columns, or rows and columns.
        scales: for each output, its size relative to the labels along each of these axes.

    Returns:
        An array for each output, of the library of the labels.
    """
    scaled = []
    for scale in scales:
        out = labels
        for axis, part in zip(range(-len(scale), 0), scale, strict=True):
            n = labels.shape[axis]
            few = max(1, round(n * part))
            if few != n:
                out = _picked(out, axis, ((np.arange(few) + 0.5) * n / few).astype(np.int64))
        scaled.append(out)
    return scaled


def _picked(labels: Any, axis: int, indices: Any) -> Any:
    """Return the labels at indices along an axis."""
    if hasattr(labels, "index_select"):
        return labels.index_select(labels.ndim + axis, labels.new_tensor(indices.tolist()).long())
    return labels.take(namespace(labels).asarray(indices), axis=axis)


class NnunetTransform:
    """A chain as a transform of nnU-Net v2's data loader, which passes tensors ``(C, D, H, W)`` or ``(C, H, W)``.

    Args:
        chain: the chain, such as :func:`nnunet` returns.
        deep_supervision_scales: for each of the network's outputs its size relative to the patch; None for one
            target.
    """

    def __init__(self, chain: Chain, deep_supervision_scales: Seq[Seq[float]] | None = None) -> None:
        self.chain, self.scales = chain, deep_supervision_scales
        self._indices = _Indices()

    def __call__(self, **data: Any) -> dict[str, Any]:
        """Augment a sample.

        Args:
            **data: ``image`` and ``segmentation``; ``index`` and ``epoch`` to sample parameters for. Other values are
                passed on.

        Raises:
            ParameterError: there is no image.
        """
        if "image" not in data:
            raise ParameterError(
                f"a sample of {', '.join(data)}", source="NnunetTransform", allowed="image, segmentation"
            )
        flat = data["image"].ndim == len("CHW")
        image, labels = (
            array[:, None] if flat and array is not None else array
            for array in (data["image"], data.get("segmentation"))
        )
        sample: dict[str, Any] = {"image": Image(image)}
        if labels is not None:
            sample["segmentation"] = Labels(labels)
        augmented = self.chain(sample, layout="CDHW", **self._indices.of(data))
        parts = {name: part.data[:, 0] if flat else part.data for name, part in augmented.items()}
        result = {**data, **parts}
        if self.scales is not None and "segmentation" in sample:
            result["segmentation"] = deep_supervision(result["segmentation"], self.scales)
        return result


class DictionaryTransform:
    """A chain as a transform of dictionaries, as in MONAI: arrays ``(C, D, H, W)`` by name.

    Args:
        chain: the chain.
        images: names of images.
        labels: names of labels.
        layout: layout of the arrays, CDHW or DHW.
    """

    def __init__(
        self,
        chain: Chain,
        images: Seq[str] = ("image",),
        labels: Seq[str] = ("label",),
        layout: str = "CDHW",
    ) -> None:
        self.chain, self.images, self.labels, self.layout = chain, tuple(images), tuple(labels), layout
        self._indices = _Indices()

    def __call__(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Augment a sample.

        Args:
            data: arrays by name, with an attribute ``affine`` (array axes to mm, RAS+) if it is known, like
                MetaTensors, whose other metadata are kept; ``index`` and ``epoch`` to sample parameters for. Other
                values are passed on.

        Returns:
            A new dictionary, with ``history``: the operators and their parameters as JSON, because loaders collate
            strings into lists. ``seqpipe.ops.replay(json.loads(text), sample)`` repeats them.

        Raises:
            ParameterError: an image is missing.
        """
        names = [name for name in (*self.images, *self.labels) if name in data]
        missing = [name for name in self.images if name not in data]
        if missing or not names:
            raise ParameterError(
                f"a sample of {', '.join(map(str, data))}",
                source="DictionaryTransform",
                allowed=f"with {', '.join(self.images)}",
            )
        sample = {name: self._part(name, data[name]) for name in names}
        augmented: Any = self.chain(sample, **self._indices.of(data))
        augmented_arrays = {name: self._back(data[name], augmented[name].data) for name in names}
        return {**data, **augmented_arrays, "history": json.dumps(augmented.history)}

    def _part(self, name: str, value: Any) -> Any:
        """Return a value as a part of a sample."""
        kind: Callable[[Any], Any] = Labels if name in self.labels else Image
        return kind(_as_sequence(value, self.layout))

    def _back(self, value: Any, augmented: Sequence) -> Any:
        """Return an augmented part as what was given."""
        data = _to_layout(augmented.data, self.layout)
        affine = getattr(value, "affine", None)
        result = _like(value, data)
        if affine is not None and hasattr(result, "affine") and augmented.affine is not None:
            own = augmented.affine
            result.affine = affine.new_tensor(own.tolist()) if hasattr(affine, "new_tensor") else own
        return result


def on_subject(chain: Chain, subject: Any, *, epoch: int = 0, index: int = 0) -> Any:
    """Augment a subject of TorchIO: the data ``(C, W, H, D)`` and affines of its images, label maps as labels.

    Args:
        chain: the chain; its axes are those of TorchIO's data, in their order.
        subject: a ``torchio.Subject``.
        epoch: epoch that parameters are sampled for.
        index: index of the sample.

    Returns:
        A copy of the subject.
    """
    result = copy.copy(subject)
    images = {
        name: value
        for name, value in subject.items()
        if hasattr(value, "set_data") and hasattr(value, "affine")
    }
    sample = {}
    for name, image in images.items():
        kind: Callable[[Any], Any] = Labels if getattr(image, "type", None) == "label" else Image
        sample[name] = kind(_as_sequence(image.data, "CDHW", image.affine))
    augmented = chain(sample, epoch=epoch, index=index)
    for name, image in images.items():
        part = copy.deepcopy(image)
        part.set_data(_like(image.data, _to_layout(augmented[name].data.data, "CDHW")))
        part.affine = augmented[name].data.affine
        result[name] = part
    if hasattr(result, "update_attributes"):  # TorchIO sets subject.t1 for subject["t1"]
        result.update_attributes()
    return result


def _as_sequence(value: Any, layout: str, affine: Any = None) -> Sequence:
    """Return an array with its affine as a sequence DHWC."""
    affine = getattr(value, "affine", None) if affine is None else affine
    plain = value.as_tensor() if hasattr(value, "as_tensor") else value
    array = as_native(plain)
    array = namespace(array).moveaxis(array, 0, 3) if layout == "CDHW" else array
    return Sequence(
        array, "DHWC"[: array.ndim], affine=None if affine is None else np.asarray(affine, np.float64)
    )


def _to_layout(data: Array, layout: str) -> Array:
    """Return an array in another layout."""
    xp = namespace(data)
    return xp.ascontiguousarray(xp.moveaxis(data, 3, 0)) if layout == "CDHW" else data


def _like(value: Any, data: Array) -> Any:
    """Return an array as the type of a value: a tensor of the same class for a tensor."""
    if not hasattr(value, "new_tensor"):
        return data
    tensor = to_torch(data)
    if not hasattr(value, "as_tensor"):
        return tensor
    result = type(value)(tensor)
    if hasattr(result, "copy_meta_from"):  # MONAI writes files by the name in a MetaTensor's metadata
        result.copy_meta_from(value)
    return result
