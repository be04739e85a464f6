"""Base class of operators that mix the samples of a batch, and their labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, device_of, namespace
from ...core.kernel import KernelDevice
from ...parts import Image, Labels, Part, Sample, as_part, is_labels, unmarked_labels
from ...sequence import Batch, Sequence
from ..call.backends import check_backend, cuda_device_of, on_device_of
from ..call.inputs import (
    CallInput,
    as_array,
    as_input,
    check_marked,
    check_value_type,
    like_container,
    like_library,
)
from ..core.blocks import Block, resolve, values_of_each
from ..core.declaration import Declaration
from ..core.deferred import or_node
from ..core.nodes import DataNode, parts_of
from ..core.parameters import param
from ..core.sampling import indices_of
from ..core.spec import Backend, put, view_of
from ..core.types import Type
from ..cuda.kernel import Item, run_kernel, widened

__all__ = ["Mixed", "Mixing"]


class Mixed(NamedTuple):
    """A mixed batch.

    Attributes:
        data: the data, of the type of the input.
        labels: floats ``(N, classes)``; None if there are no labels.
    """

    data: Any
    labels: Any


class Mixing(Declaration, register=False):
    """Base of operators that mix each sample of a batch with the preceding one, and the first with the last.

    torchvision pairs samples in the same way: pairs are as random as the order of samples, and no sample is mixed with
    itself. A batch of one sample stays unchanged.
    """

    num_classes: int | None = param(
        None, "number of classes, for integer labels", kind=int, lo=1, drawn=False
    )
    per_sample: bool = param(
        False,
        "whether parameters are sampled for each sample; otherwise once for the batch, by its first sample",
        drawn=False,
    )

    takes = "batches"
    call_method = "mixed"
    by_frame = False
    takes_raw = True
    sample_layouts: ClassVar[dict[int, str]] = {2: "HW", 3: "HWC", 4: "FHWC"}
    softens: ClassVar[bool] = False
    kernel_fields = (("step", np.int32),)  # offset of the other sample
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("weight",)

    @or_node
    def __call__(
        self, x: Any, labels: Any = None, *, layout: str | None = None, epoch: int = 0, index: Any = None
    ) -> Mixed:
        """Mix a batch and its labels.

        Args:
            x: an array whose layout has N, a Batch, or a list of arrays, sequences or samples of one shape. Samples are
                dictionaries of images and labels of voxels (see :mod:`seqpipe.parts`), mixed by the same parameters.
            labels: class indices ``(N,)``, which need ``num_classes``, or floats ``(N, classes)``. By default those of
                a Batch. Class indices on a GPU are not checked: invalid ones give zeros.
            layout: layout of arrays, by default NFHWC; for a list, the layout of each array.
            epoch: epoch that parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it. By
                default the indices of a Batch, else from 0.

        Returns:
            The batch, of the same type as ``x`` and in its own memory, and labels as floats. Frame numbers, timestamps,
            affines and histories stay those of each sample.

        Raises:
            ParameterError: the input is not a batch of one shape, or labels do not fit it.
            BackendError: the data is on a GPU that cannot be used.
        """
        return self.mixed(x, labels, layout=layout, epoch=epoch, index=index)

    def results(self, node: DataNode) -> Mixed:
        """Return a node for the data, and one for the labels."""
        return Mixed(*parts_of(node, Mixed._fields))

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        check_value_type(self, inputs[0])
        return inputs[0], Type("labels", "", "float32", inputs[0].device)

    def mixed(
        self,
        x: Any,
        labels: Any = None,
        *,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> Mixed:
        """Mix a batch on a given backend.

        Args:
            x: see :meth:`__call__`.
            labels: labels of the samples.
            layout: layout of arrays.
            epoch: epoch that parameters are sampled for.
            index: indices of the samples, or the index of the first.
            backend: implementation; None for the kernel on a GPU, and for the fast implementation on the CPU.
            device: device that runs the kernel; None for the GPU that holds the images.

        Raises:
            ParameterError: see :meth:`__call__`; or the backend is unknown.
            BackendError: the data is on a GPU that cannot be used.
        """
        check_backend(backend, self.name)
        options: dict[str, Any] = {"epoch": epoch, "backend": backend, "device": device}
        if is_labels(x):
            raise self.refusal(
                "labels of voxels without their images",
                allowed="a list of samples, each of images and labels",
                advice="Pass labels.of_kind('image') to mix them as an image",
            )
        if isinstance(x, Batch):
            return self._batch(x, labels, layout, index, options)
        if isinstance(x, (list, tuple)):
            return self._list(x, labels, layout, index, options)
        part = as_input(self, x, layout)
        out, block = self._array(part, index, **options)
        return Mixed(part.like_value(out), self._labels(labels, block, part.samples))

    @abstractmethod
    def mixed_voxel_labels(self, part: Labels, values: Array, other: Array, p: Any) -> Array:
        """Return mixed labels of voxels.

        Args:
            part: labels of the sample.
            values: their values, ``(F, H, W, 1)``.
            other: values of the other sample.
            p: the parameters.

        Returns:
            ``(F, H, W, 1)``, or floats ``(F, H, W, classes)`` if :attr:`softens`.
        """

    @abstractmethod
    def mixed_mask(self, mask: Array, other: Array, p: Any) -> Array:
        """Return the mask of valid pixels of a result.

        Args:
            mask: mask of the sample, ``(F, H, W)``.
            other: mask of the other sample.
            p: the parameters.
        """

    def _batch(self, batch: Batch, labels: Any, layout: str | None, index: Any, options: Any) -> Mixed:
        if layout not in (None, batch.layout) or batch.stacked is None:
            raise self.refusal(
                f"a batch of layout {batch.layout} of {'one shape' if layout else 'different shapes'}",
                allowed=f"layout={layout!r}" if layout else "one shape for all samples",
            )
        part = as_input(self, batch.stacked, batch.layout)
        out, block = self._array(part, batch.indices if index is None else index, **options)
        pairs = zip(batch.sequences, out, strict=True)
        changed = {
            "sequences": tuple(replace(sequence, data=data) for sequence, data in pairs),
            "stacked": out,
        }
        if batch.mask is not None:
            masks = [
                self.mixed_mask(batch.mask[n], batch.mask[n - 1], p) if p.acts else batch.mask[n]
                for n, p in enumerate(values_of_each(block.rows))
            ]
            changed["mask"] = namespace(batch.mask).stack(masks)
        result = self._labels(batch.labels if labels is None else labels, block, len(batch))
        return Mixed(replace(batch, **changed), result)

    def _list(
        self, x: list[Any] | tuple[Any, ...], labels: Any, layout: str | None, index: Any, options: Any
    ) -> Mixed:
        if x and all(isinstance(sample, Mapping) for sample in x):
            return self._samples(x, labels, layout, index, options)
        if x and all(isinstance(sample, Sequence) for sample in x):
            data, result = self._batch(Batch.of(x), labels, layout and f"N{layout}", index, options)
            return Mixed(like_container(x, list(data.sequences)), result)
        out, block = self._stacked(x, layout, index, options)
        mixed = [like_library(sample, data) for sample, data in zip(x, out, strict=True)]
        return Mixed(like_container(x, mixed), self._labels(labels, block, len(x)))

    def _stacked(self, x: Seq[Any], layout: str | None, index: Any, options: Any) -> tuple[Array, Block]:
        """Mix arrays of one shape; return the result and the parameters."""
        arrays = [as_input(self, sample, layout).array for sample in x]
        shapes = {(array.shape, array.dtype.name, device_of(array)) for array in arrays}
        if len(shapes) != 1:
            seen = ", ".join(f"{dtype} {shape} on {where}" for shape, dtype, where in sorted(shapes)[:3])
            raise self.refusal(
                f"a list of {seen or 'nothing'}",
                allowed="one shape, one type and one device for all, since samples are mixed pixel by pixel",
            )
        with on_device_of(arrays[0]):
            stacked = namespace(arrays[0]).stack(arrays)
        letters = self._letters(as_part(arrays[0]), layout)
        return self._array(as_input(self, stacked, f"N{letters}"), index, **options)

    def _samples(
        self, x: list[Any] | tuple[Any, ...], labels: Any, layout: str | None, index: Any, options: Any
    ) -> Mixed:
        """Mix samples of images and labels of voxels, each part by the same parameters."""
        self._check_samples(x)
        every = {name: [as_part(sample[name]) for sample in x] for name in x[0]}
        block: Block | None = None
        letters = ""
        mixed: dict[str, list[Part]] = {}
        for name, parts in every.items():
            if isinstance(parts[0], Image):
                letters = self._letters(parts[0], layout)
                out, block = self._stacked([part.array for part in parts], letters, index, options)
                mixed[name] = [_with(part, data, letters) for part, data in zip(parts, out, strict=True)]
        if block is None:
            raise self.refusal(f"samples of {', '.join(every)}", allowed="one image at least")
        rows, voxels = list(values_of_each(block.rows)), letters.replace("C", "")
        for name, parts in every.items():
            if isinstance(parts[0], Labels):
                own = voxels if parts[0].array.ndim == len(voxels) else letters
                mixed[name] = [self._voxels(parts[n], parts[n - 1], own, p) for n, p in enumerate(rows)]
        samples = [
            Sample(
                {
                    name: mixed[name][n] if isinstance(sample[name], Part) else mixed[name][n].data
                    for name in every
                },
                getattr(sample, "history", ()),
            )
            for n, sample in enumerate(x)
        ]
        return Mixed(like_container(x, samples), self._labels(labels, block, len(x)))

    def _check_samples(self, x: Seq[Mapping[str, Any]]) -> None:
        """Check that all samples have the same parts, which are images and labels."""
        check_marked(self, unmarked_labels(x[0]))
        first = {name: type(as_part(value)) for name, value in x[0].items()}
        for sample in x:
            kinds = {name: type(as_part(value)) for name, value in sample.items()}
            if kinds != first or not set(kinds.values()) <= {Image, Labels}:
                said = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
                raise self.refusal(
                    f"a sample of {said}",
                    allowed="images and labels of voxels, of the same names in every sample",
                )

    def _letters(self, part: Part, layout: str | None) -> str:
        """Return the layout of a part of a sample."""
        known = part.data.layout if isinstance(part.data, Sequence) else layout
        return known or self.sample_layouts.get(part.array.ndim, "")

    def _voxels(self, part: Any, other: Any, letters: str, p: Any) -> Part:
        """Mix the labels of a sample's voxels with those of another sample."""
        letters = self._letters(part, letters)
        own, theirs = (view_of(letters, operand.array.ndim)(operand.array)[0] for operand in (part, other))
        if own.shape != theirs.shape or own.shape[3] != 1:
            raise self.refusal(
                f"labels of shape {part.array.shape} and {other.array.shape}",
                allowed="one label for each voxel, and one shape for all samples",
            )
        with on_device_of(own):
            result = self.mixed_voxel_labels(part, own, theirs, p)
            wanted = f"{letters}C" if self.softens and "C" not in letters else letters
            axes = ["FHWC".index("F" if letter == "D" else letter) for letter in wanted]
            rest = [axis for axis in range(4) if axis not in axes]
            array = result.transpose(*axes, *rest).reshape([result.shape[axis] for axis in axes])
            mixed = _with(part, namespace(array).ascontiguousarray(array), wanted)
        return Image(mixed.data) if self.softens else mixed

    def _array(
        self, part: CallInput, index: Any, epoch: int, backend: Backend | None, device: KernelDevice | None
    ) -> tuple[Array, Block]:
        """Mix the images of a batch; return the result and the parameters, a row for each sample."""
        if not part.view.batched:
            raise self.refusal(f"one sample of shape {part.array.shape}", allowed="a batch: layouts with N")
        samples = part.samples
        indices = indices_of(self, index, samples)
        if self.per_sample or self.tabled:
            own = indices if self.per_sample else [indices[0]] * samples
            block = resolve(self, [part.spec] * samples, epoch, own)
        else:
            block = resolve(self, [part.spec], epoch, indices[:1])
            block = Block(block.rows.repeat(samples), tuple(range(samples)), 0)
        if samples == 1:
            rows = block.rows.copy()
            rows["acts"] = 0
            block = block._replace(rows=rows)
        with on_device_of(part.array):
            out = part.result(part.spec.dtype, part.spec[:3])
            item = Item(part.nfhwc, part.result_nfhwc(out), 0)
            on_gpu = backend == "cuda" or (backend is None and device_of(part.array) != "cpu")
            if on_gpu and self.traits.body is not None:
                run_kernel(self, [item], self._with_steps(block), device or cuda_device_of(part.array))
            else:
                self._run_on_host(item, block, fast=backend != "reference")
        return out, block

    def _with_steps(self, block: Block) -> Block:
        rows = widened(block.rows, self.kernel_dtype())
        rows["step"] = -1
        rows["step"][0] = len(rows) - 1
        return Block(rows, block.first, 0)

    def _run_on_host(self, item: Item, block: Block, *, fast: bool) -> None:
        for n, p in enumerate(values_of_each(block.rows)):
            x, out = item.x[n], item.out[n]
            if not p.acts:
                out[...] = x
            else:
                self._mix(x, item.x[n - 1], out, p, fast=fast)

    def _mix(self, x: Array, others: Array, out: Array, p: Any, *, fast: bool) -> None:
        """Mix a sample frame by frame, so that temporaries stay in the cache."""
        for frame, other, into in zip(x[:, None], others[:, None], out, strict=True):
            p.other = other if fast else other.astype(np.float32)
            mixed = self.cpu(frame, p) if fast else self.reference(frame.astype(np.float32), p)
            put(into, mixed[0])

    def _labels(self, labels: Any, block: Block, samples: int) -> Any:
        """Return labels as floats, mixed like the samples."""
        if labels is None:
            return None
        values = self._array_of(labels) if isinstance(labels, (list, tuple)) else as_array(self, labels)
        with on_device_of(values):
            classes = self._probabilities(values, samples)
            weights = np.where(block.rows["acts"] != 0, block.rows["weight"], 1)
            own = namespace(values).asarray(weights.astype(classes.dtype))[:, None]
            return like_library(
                labels, classes * own + namespace(values).roll(classes, 1, axis=0) * (1 - own)
            )

    def _array_of(self, labels: list[Any] | tuple[Any, ...]) -> Array:
        try:
            return np.asarray(labels)
        except ValueError as error:
            raise self.refusal(
                f"labels that cannot be an array ({error})", allowed="equal shapes for all samples"
            ) from error

    def _probabilities(self, values: Array, samples: int) -> Array:
        """Return labels as floats ``(N, classes)``."""
        numbers = values.dtype.kind in "iu" and values.shape == (samples,)
        floats = values.dtype.kind == "f" and values.ndim == 2 and len(values) == samples
        if numbers and self.num_classes is None:
            raise self.refusal(
                "labels are numbers of classes, and num_classes is not given",
                advice=f"{type(self).__name__}(num_classes=…), or pass them as floats (N, classes)",
            )
        if not (numbers or floats) or (floats and values.shape[1] != (self.num_classes or values.shape[1])):
            allowed = f"whole numbers ({samples},) or floats ({samples}, {self.num_classes or 'classes'})"
            raise self.refusal(f"labels of {values.dtype} of shape {values.shape}", allowed=allowed)
        if floats:
            return values
        if isinstance(values, np.ndarray):
            self._check_numbers(values)
        classes = namespace(values).arange(self.num_classes)
        result: Array = (values[:, None] == classes).astype(np.float32)
        return result

    def _check_numbers(self, values: npt.NDArray[Any]) -> None:
        most = (self.num_classes or 0) - 1
        wrong = values[(values < 0) | (values > most)]
        if wrong.size:
            raise self.refusal(f"labels has {wrong[0]}", allowed=f"whole numbers from 0 to {most}")


def _with(part: Part, array: Array, layout: str | None) -> Part:
    """Return a part with another array, as the type of its data."""
    if isinstance(part.data, Sequence):
        return part.with_data(replace(part.data, data=array, layout=layout or part.data.layout))
    return part.with_data(like_library(part.data, array))
