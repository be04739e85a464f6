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
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...parts import Image, Labels, Part, Sample, as_part
from ...sequence import Batch, Sequence
from ..call.backends import check_backend, cuda_device_of, on_device_of
from ..call.dispatch import indices_of
from ..call.inputs import Given, admitted, gathered, given, like
from ..core.blocks import Block, resolve, values_of_each
from ..core.declaration import Declaration
from ..core.deferred import or_node
from ..core.nodes import DataNode, parts_of
from ..core.parameters import param
from ..core.rounding import put
from ..core.spec import Backend
from ..core.views import view_of
from ..cuda.kernel import Item, run_kernel, widened, with_fields

__all__ = ["Mixed", "Mixing"]


class Mixed(NamedTuple):
    """What is left of a batch that was mixed.

    Attributes:
        data: of the type that was given.
        labels: floats ``(N, classes)``; None where there were none.
    """

    data: Any
    labels: Any


class Mixing(Declaration, register=False):
    """An operator that mixes each sample of a batch with the one before it, and the first with the last.

    That is torchvision's pairing: at random, as long as the order of samples is, and no sample meets itself. A batch of
    one sample stays as it is.
    """

    num_classes: int | None = param(
        None, "number of classes, for integer labels", kind=int, lo=1, drawn=False
    )
    per_sample: bool = param(
        False,
        "whether each sample has a draw of its own; otherwise one, of its first sample, is for the batch",
        drawn=False,
    )

    takes = "batches"
    by_backend = "mixed"
    by_frame = False
    takes_raw = True
    alone: ClassVar[dict[int, str]] = {2: "HW", 3: "HWC", 4: "FHWC"}
    softens: ClassVar[bool] = False
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("weight",)

    @or_node
    def __call__(
        self, x: Any, labels: Any = None, *, layout: str | None = None, epoch: int = 0, index: Any = None
    ) -> Mixed:
        """The batch and its labels, mixed.

        Args:
            x: an array whose layout has N, a Batch, or a list of arrays, sequences or samples of one shape. Samples are
                dictionaries of images and labels of voxels (see :mod:`seqpipe.parts`), all mixed by the same draws.
            labels: numbers of classes ``(N,)``, if there is ``num_classes``, or floats ``(N, classes)``. By default
                those of a Batch. Numbers on a GPU are not looked at: one that is none gives zeros.
            layout: of arrays; by default NFHWC. Of arrays in a list, that of each.
            epoch: the epoch that it is drawn for.
            index: the index of the first sample within its dataset, or of each one; draws depend on it. By default
                those that a Batch knows, else from 0 on.

        Returns:
            The batch, of the type that came in and in memory of its own, and labels as floats. Numbers and times of
            frames, affines and histories are those that each sample had.

        Raises:
            ParameterError: this is not a batch of one shape, or labels do not fit it.
            BackendError: the data is on a GPU that cannot be used.
        """
        return self.mixed(x, labels, layout=layout, epoch=epoch, index=index)

    def results(self, node: DataNode) -> Mixed:
        """A node for the data, and one for the labels."""
        return Mixed(*parts_of(node, Mixed._fields))

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
        """The same, done as is asked for.

        Args:
            x: as for a call, as all others.
            labels: of the samples.
            layout: of arrays.
            epoch: the epoch that it is drawn for.
            index: the samples' indices, or that of the first.
            backend: who does it; None for the kernel on a GPU, and for the fast form on the CPU.
            device: what the kernel runs on; None for the GPU that holds the images.

        Raises:
            ParameterError: as a call does, or there is no such backend.
            BackendError: the data is on a GPU that cannot be used.
        """
        check_backend(backend, self.name)
        options: dict[str, Any] = {"epoch": epoch, "backend": backend, "device": device}
        if isinstance(x, Batch):
            return self._batch(x, labels, layout, index, options)
        if isinstance(x, (list, tuple)):
            return self._list(x, labels, layout, index, options)
        part = given(self, x, layout)
        out, block = self._array(part, index, **options)
        return Mixed(part.back(out), self._labels(labels, block, part.samples))

    @abstractmethod
    def label_maps(self, part: Labels, values: Array, other: Array, p: Any) -> Array:
        """Labels of voxels, mixed.

        Args:
            part: the sample's.
            values: its labels, ``(F, H, W, 1)``.
            other: those of the other sample.
            p: the parameters.

        Returns:
            ``(F, H, W, 1)``, or floats ``(F, H, W, classes)`` where :attr:`softens`.
        """

    @abstractmethod
    def masked(self, mask: Array, other: Array, p: Any) -> Array:
        """Which pixels of a result are real.

        Args:
            mask: those of the sample that are, ``(F, H, W)``.
            other: those of the other sample that are.
            p: the parameters.
        """

    def _batch(self, batch: Batch, labels: Any, layout: str | None, index: Any, options: Any) -> Mixed:
        if layout not in (None, batch.layout) or batch.stacked is None:
            raise ParameterError(
                f"a batch of layout {batch.layout} of {'one shape' if layout else 'different shapes'}",
                source=self.name,
                allowed=f"layout={layout!r}" if layout else "one shape for all samples",
            )
        part = given(self, batch.stacked, batch.layout)
        out, block = self._array(part, batch.indices if index is None else index, **options)
        pairs = zip(batch.sequences, out, strict=True)
        changed = {"sequences": tuple(replace(one, data=data) for one, data in pairs), "stacked": out}
        if batch.mask is not None:
            masks = [
                self.masked(batch.mask[n], batch.mask[n - 1], p) if p.acts else batch.mask[n]
                for n, p in enumerate(values_of_each(block.rows))
            ]
            changed["mask"] = namespace(batch.mask).stack(masks)
        found = self._labels(batch.labels if labels is None else labels, block, len(batch))
        return Mixed(replace(batch, **changed), found)

    def _list(
        self, x: list[Any] | tuple[Any, ...], labels: Any, layout: str | None, index: Any, options: Any
    ) -> Mixed:
        if x and all(isinstance(one, Mapping) for one in x):
            return self._samples(x, labels, layout, index, options)
        if x and all(isinstance(one, Sequence) for one in x):
            data, found = self._batch(Batch.of(x), labels, layout and f"N{layout}", index, options)
            return Mixed(gathered(x, list(data.sequences)), found)
        out, block = self._stacked(x, layout, index, options)
        done = [like(one, data) for one, data in zip(x, out, strict=True)]
        return Mixed(gathered(x, done), self._labels(labels, block, len(x)))

    def _stacked(self, x: Seq[Any], layout: str | None, index: Any, options: Any) -> tuple[Array, Block]:
        """Arrays of one shape, mixed, and what was drawn."""
        arrays = [given(self, one, layout).array for one in x]
        shapes = {(array.shape, array.dtype.name, device_of(array)) for array in arrays}
        if len(shapes) != 1:
            seen = ", ".join(f"{dtype} {shape} on {where}" for shape, dtype, where in sorted(shapes)[:3])
            raise ParameterError(
                f"a list of {seen or 'nothing'}",
                source=self.name,
                allowed="one shape, one type and one device for all, since samples are mixed pixel by pixel",
            )
        with on_device_of(arrays[0]):
            stacked = namespace(arrays[0]).stack(arrays)
        letters = self._letters(as_part(arrays[0]), layout)
        return self._array(given(self, stacked, f"N{letters}"), index, **options)

    def _samples(
        self, x: list[Any] | tuple[Any, ...], labels: Any, layout: str | None, index: Any, options: Any
    ) -> Mixed:
        """Samples of images and labels of voxels, each part mixed by the same draws."""
        self._check_samples(x)
        every = {name: [as_part(sample[name]) for sample in x] for name in x[0]}
        block: Block | None = None
        letters = ""
        made: dict[str, list[Part]] = {}
        for name, parts in every.items():
            if isinstance(parts[0], Image):
                letters = self._letters(parts[0], layout)
                out, block = self._stacked([part.array for part in parts], letters, index, options)
                made[name] = [_with(part, data, letters) for part, data in zip(parts, out, strict=True)]
        if block is None:
            raise ParameterError(
                f"samples of {', '.join(every)}", source=self.name, allowed="one image at least"
            )
        drawn, voxels = list(values_of_each(block.rows)), letters.replace("C", "")
        for name, parts in every.items():
            if isinstance(parts[0], Labels):
                alone = voxels if parts[0].array.ndim == len(voxels) else letters
                made[name] = [self._voxels(parts[n], parts[n - 1], alone, p) for n, p in enumerate(drawn)]
        done = [
            Sample(
                {
                    name: made[name][n] if isinstance(sample[name], Part) else made[name][n].data
                    for name in every
                },
                getattr(sample, "history", ()),
            )
            for n, sample in enumerate(x)
        ]
        return Mixed(gathered(x, done), self._labels(labels, block, len(x)))

    def _check_samples(self, x: Seq[Mapping[str, Any]]) -> None:
        """See that all samples have the same parts, which are images and labels.

        Raises:
            ParameterError: they do not.
        """
        first = {name: type(as_part(value)) for name, value in x[0].items()}
        for sample in x:
            kinds = {name: type(as_part(value)) for name, value in sample.items()}
            if kinds != first or not set(kinds.values()) <= {Image, Labels}:
                said = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
                raise ParameterError(
                    f"a sample of {said}",
                    source=self.name,
                    allowed="images and labels of voxels, of the same names in every sample",
                )

    def _letters(self, part: Part, layout: str | None) -> str:
        """The layout of a part of a sample."""
        known = part.data.layout if isinstance(part.data, Sequence) else layout
        return known or self.alone.get(part.array.ndim, "")

    def _voxels(self, part: Any, other: Any, letters: str, p: Any) -> Part:
        """The labels of a sample's voxels, mixed with another one's."""
        letters = self._letters(part, letters)
        own, theirs = (view_of(letters, one.array.ndim)(one.array)[0] for one in (part, other))
        if own.shape != theirs.shape or own.shape[3] != 1:
            raise ParameterError(
                f"labels of shape {part.array.shape} and {other.array.shape}",
                source=self.name,
                allowed="one label for each voxel, and one shape for all samples",
            )
        with on_device_of(own):
            found = self.label_maps(part, own, theirs, p)
            wanted = f"{letters}C" if self.softens and "C" not in letters else letters
            axes = ["FHWC".index("F" if letter == "D" else letter) for letter in wanted]
            rest = [axis for axis in range(4) if axis not in axes]
            array = found.transpose(*axes, *rest).reshape([found.shape[axis] for axis in axes])
            mixed = _with(part, namespace(array).ascontiguousarray(array), wanted)
        return Image(mixed.data) if self.softens else mixed

    def _array(
        self, part: Given, index: Any, epoch: int, backend: Backend | None, device: KernelDevice | None
    ) -> tuple[Array, Block]:
        """The result for the images of a batch, and what was drawn, a row for each sample."""
        if not part.view.batched:
            raise ParameterError(
                f"one sample of shape {part.array.shape}", source=self.name, allowed="a batch: layouts with N"
            )
        samples = part.samples
        indices = indices_of(self, index, samples)
        if self.per_sample or self.tabled:
            drawn = indices if self.per_sample else [indices[0]] * samples
            block = resolve(self, [part.spec] * samples, epoch, drawn)
        else:
            one = resolve(self, [part.spec], epoch, indices[:1])
            block = Block(one.rows.repeat(samples), tuple(range(samples)), 0)
        if samples == 1:
            rows = block.rows.copy()
            rows["acts"] = 0
            block = block._replace(rows=rows)
        with on_device_of(part.array):
            out = part.result(part.spec.dtype, part.spec[:3])
            item = Item(part.five, part.seen(out), 0)
            on_gpu = backend == "cuda" or (backend is None and device_of(part.array) != "cpu")
            if on_gpu and self.traits.body is not None:
                run_kernel(self, [item], self._with_steps(block), device or cuda_device_of(part.array))
            else:
                self._on_host(item, block, fast=backend != "reference")
        return out, block

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """A row of the block, and how many samples away the other one is."""
        return with_fields(cls.block_dtype(), ("step", np.int32))

    def _with_steps(self, block: Block) -> Block:
        rows = widened(block.rows, self.kernel_dtype())
        rows["step"] = -1
        rows["step"][0] = len(rows) - 1
        return Block(rows, block.first, 0)

    def _on_host(self, item: Item, block: Block, *, fast: bool) -> None:
        for n, p in enumerate(values_of_each(block.rows)):
            x, out = item.x[n], item.out[n]
            if not p.acts:
                out[...] = x
            else:
                self._mix(x, item.x[n - 1], out, p, fast=fast)

    def _mix(self, x: Array, others: Array, out: Array, p: Any, *, fast: bool) -> None:
        """A sample, frame by frame, so that what is between stays in the cache."""
        for frame, other, into in zip(x[:, None], others[:, None], out, strict=True):
            p.other = other if fast else other.astype(np.float32)
            found = self.cpu(frame, p) if fast else self.reference(frame.astype(np.float32), p)
            put(into, found[0])

    def _labels(self, labels: Any, block: Block, samples: int) -> Any:
        """Labels as floats, mixed as the samples are."""
        if labels is None:
            return None
        values = self._array_of(labels) if isinstance(labels, (list, tuple)) else admitted(self, labels)
        with on_device_of(values):
            chances = self._chances(values, samples)
            weights = np.where(block.rows["acts"] != 0, block.rows["weight"], 1)
            own = namespace(values).asarray(weights.astype(chances.dtype))[:, None]
            return like(labels, chances * own + namespace(values).roll(chances, 1, axis=0) * (1 - own))

    def _array_of(self, labels: list[Any] | tuple[Any, ...]) -> Array:
        try:
            return np.asarray(labels)
        except ValueError as error:
            raise ParameterError(
                f"labels that are no array ({error})",
                source=self.name,
                allowed="as many numbers for each sample",
            ) from error

    def _chances(self, values: Array, samples: int) -> Array:
        """Labels as floats ``(N, classes)``.

        Raises:
            ParameterError: these are not labels of so many samples.
        """
        numbers = values.dtype.kind in "iu" and values.shape == (samples,)
        floats = values.dtype.kind == "f" and values.ndim == 2 and len(values) == samples
        if numbers and self.num_classes is None:
            raise ParameterError(
                "labels are numbers of classes, and num_classes is not given",
                source=self.name,
                advice=f"{type(self).__name__}(num_classes=…), or give them as floats (N, classes)",
            )
        if not (numbers or floats) or (floats and values.shape[1] != (self.num_classes or values.shape[1])):
            allowed = f"whole numbers ({samples},) or floats ({samples}, {self.num_classes or 'classes'})"
            raise ParameterError(
                f"labels of {values.dtype} of shape {values.shape}", source=self.name, allowed=allowed
            )
        if floats:
            return values
        if isinstance(values, np.ndarray):
            self._check_numbers(values)
        classes = namespace(values).arange(self.num_classes)
        chances: Array = (values[:, None] == classes).astype(np.float32)
        return chances

    def _check_numbers(self, values: npt.NDArray[Any]) -> None:
        most = (self.num_classes or 0) - 1
        wrong = values[(values < 0) | (values > most)]
        if wrong.size:
            raise ParameterError(
                f"labels has {wrong[0]}", source=self.name, allowed=f"whole numbers from 0 to {most}"
            )


def _with(part: Part, array: Array, layout: str | None) -> Part:
    """A part with another array, as what it held: an array, a tensor or a sequence."""
    if isinstance(part.data, Sequence):
        return part.with_data(replace(part.data, data=array, layout=layout or part.data.layout))
    return part.with_data(like(part.data, array))
