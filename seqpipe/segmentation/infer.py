"""infer: a model's labels or scores for a whole volume, from overlapping patches, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from ..array import (
    Array,
    IntArray,
    as_native,
    is_torch,
    namespace,
    to_cupy,
    to_numpy,
    to_torch,
    without_gradients,
)
from ..core.keywords import refuses_unknown
from ..core.param import Param
from ..errors import ParameterError
from ..ops import Chain
from ..readers.volumes.options import Grid, Prepare
from ..sequence import Sequence
from ..video.device import parse_device
from ..volume.info import VolumeInfo
from ..volume.patches.cutting import cut_patch
from ..volume.patches.grid import WEIGHTS, Weighting, starts_of, window_weights, without_margins
from ..volume.reader import VolumeReader
from ..volume.regrid import resample
from ..volume.source import Box
from ..volume.space import moved

__all__ = ["infer"]

_AXES: Final = "dhw"
_BATCH: Final = Param(name="batch_size", doc="Patches of a batch", lo=1, hi=4096)


@refuses_unknown("seqpipe.infer")
def infer(
    model: Callable[[Any], Any],
    volume: Any,
    patch: int | Seq[int],
    *,
    overlap: float | Seq[float] = 0.5,
    margin: int | Seq[int] = 0,
    tta: str = "",
    weights: Weighting = "gaussian",
    batch_size: int = 1,
    prepare: Prepare | None = None,
    head: Any = None,
    regions: Mapping[int, float] | None = None,
    scores: bool = False,
    device: str = "cpu",
) -> Sequence:
    """Return a model's labels for a whole volume, on the volume's own grid.

    labels = seqpipe.infer(net, "case.nii.gz", patch=128, tta="dhw", head=normalization, device="cuda")
    seqpipe.volume.save(labels, "case_seg.nii.gz")

    Patches are read and summed slab by slab, in the order of slices: in memory are the scores of as many slices as a
    patch has, and one label a voxel. A torch module is run in evaluation mode and without gradients, and its mode is
    restored.

    Args:
        model: a torch module, given tensors ``NCDHW`` and returning ``NCDHW``, of which the first is taken if there are
            several (deep supervision); or a function of arrays ``NDHWC`` (NumPy or CuPy) that returns ``NDHWC``.
        volume: a path or another origin of :func:`seqpipe.open`, a reader, or a sequence ``DHWC``. Series are
            channels, and so are several images of one grid in a dictionary, such as those of a case, which are read
            into memory.
        patch: slices, rows and columns, or one number for all axes.
        overlap: least share of a patch, without its margin, that neighbors have in common.
        margin: voxels on each side of a patch whose output is left out; the volume is padded with 0 by them. The model
            may return outputs that are smaller than patches by their margins.
        tta: axes along which patches are mirrored, of ``"dhw"``; the scores of all combinations are averaged, so that
            ``"dhw"`` takes 8 times as long.
        weights: weight of a voxel by its position in the patch: "gaussian", "hann" or "constant".
        batch_size: patches of a batch.
        prepare: orientation and spacing of the volumes that the model was trained on; labels are brought back by vote.
        head: operator or chain of the whole volume before patches are cut, such as a normalization.
        regions: for models of overlapping regions: label → least score, one for each channel in its order. A voxel has
            the label of the last channel that reaches it, else 0. By default it has the channel of the greatest score.
        scores: whether to return the scores, float32 with the model's channels, on the prepared grid.
        device: "cpu", "cuda", "cuda:N", or "auto": where patches and scores are.

    Returns:
        ``DHWC``, uint8 or int16 labels with the volume's affine; or scores.

    Raises:
        SourceError: the volume cannot be read.
        ParameterError: an argument is out of bounds, or the model's output has another shape.
        BackendError: the device is not available.
    """
    grid, found = Grid(patch, overlap, "constant", margin), parse_device(device)
    if not isinstance(tta, str) or len(set(tta)) < len(tta) or set(tta) - set(_AXES):
        raise ParameterError(f"tta={tta!r} is not valid", source="infer", allowed="letters of 'dhw'")
    source, own = _opened(volume, prepare or Prepare(), head)
    window = window_weights(grid.patch, WEIGHTS.check(weights), grid.margins)
    tiles = _Tiles(
        source, grid, window, _BATCH.check(batch_size), tta, found.number if found.kind == "cuda" else None
    )
    slabs = []
    with _evaluating(model) as run:
        for slab in tiles.slabs(run):
            slabs.append(to_numpy(slab if scores else _labels(slab, regions)))
    result = Sequence(np.concatenate(slabs), "DHWC", source.info.source, affine=source.info.affine)
    if scores:
        return result
    result = result.of_kind("labels")
    if not source.info.same_grid(own):
        result = resample(result, like=own, interp="vote", fill_value=0)
    return result


@dataclass(frozen=True, eq=False)
class _Source:
    """A volume that windows are read of: a reader, or a sequence in memory."""

    info: VolumeInfo
    reader: VolumeReader | None
    whole: Sequence | None

    def read(self, box: Box) -> Sequence:
        if self.whole is not None:
            data = self.whole.data[(*box.slices, slice(None))]
            return replace(self.whole, data=data, affine=moved(self.info.affine, box.start))
        if self.reader is None:
            raise ParameterError("there is no volume", source="infer")
        return _as_channels(self.reader.sequence(box))


def _opened(volume: Any, prepare: Prepare, head: Any) -> tuple[_Source, VolumeInfo]:
    """Return the prepared volume, and the facts of its own grid."""
    if isinstance(volume, Sequence):
        if volume.layout not in ("DHWC", "FDHWC"):
            raise ParameterError(
                f"a sequence {volume.layout} is not a volume", source="infer", allowed="DHWC, FDHWC"
            )
        reader, whole = None, _as_channels(volume)
        own = info = _info_of(whole)
        if prepare.orientation is not None or prepare.spacing_mm is not None:
            raise ParameterError(
                "prepare is for files",
                source="infer",
                allowed="a path or reader",
                advice="Resample the sequence first: seqpipe.volume.resample",
            )
    else:
        images = volume if isinstance(volume, Mapping) else {"image": volume}
        readers = {name: _reader(image, prepare) for name, image in images.items()}
        own, reader = next(iter(readers.values()))
        info, whole = reader.info, None
        if len(readers) > 1:
            whole = _joined({name: view for name, (_, view) in readers.items()})
    if head is not None:
        chain = head if isinstance(head, Chain) else Chain(head)
        values = _as_channels(reader.sequence()) if whole is None and reader is not None else whole
        made: Any = chain(values, epoch=0, index=0)
        whole = made
        if made.shape[:3] != info.grid:
            raise ParameterError(
                f"head makes {'×'.join(map(str, info.grid))} voxels {'×'.join(map(str, made.shape[:3]))}",
                source="infer",
                allowed="operators that keep the grid",
                advice="Spacing and orientation are changed by prepare",
            )
    return _Source(info, reader, whole), own


def _reader(image: Any, prepare: Prepare) -> tuple[VolumeInfo, VolumeReader]:
    """Return the facts of an image's own grid, and the image in the prepared orientation and spacing."""
    reader = image if isinstance(image, VolumeReader) else VolumeReader(image)
    own = reader.info
    if prepare.orientation is not None:
        reader = reader.reorient(prepare.orientation)
    if prepare.spacing_mm is not None:
        reader = reader.resample(prepare.spacing_mm, interp=prepare.interp, antialias=prepare.antialias)
    return own, reader


def _joined(readers: Mapping[str, VolumeReader]) -> Sequence:
    """Return several images of one grid as the channels of one."""
    first, *others = readers
    for name in others:
        if not readers[name].info.same_grid(readers[first].info):
            raise ParameterError(
                f"{name!r} has another grid than {first!r}: {readers[name]}, not {readers[first]}",
                source="infer",
                allowed="images of one grid",
                advice="seqpipe.volume.align brings them to the first one's",
            )
    images = [_as_channels(reader.sequence()) for reader in readers.values()]
    return replace(images[0], data=np.concatenate([image.data for image in images], axis=3))


def _info_of(sequence: Sequence) -> VolumeInfo:
    """Return the facts of a sequence."""
    affine = np.eye(4)[:, [2, 1, 0, 3]] if sequence.affine is None else sequence.affine
    return VolumeInfo(
        source=sequence.source,
        format="sequence",
        shape=tuple(sequence.shape),
        layout="DHWC",
        dtype=np.dtype(sequence.data.dtype),
        affine=affine,
        space="sequence",
    )


def _as_channels(sequence: Sequence) -> Sequence:
    """Return a volume whose channels are the volumes of a series."""
    sequence = sequence.scaled()
    if sequence.layout == "DHWC":
        return sequence
    data = namespace(sequence.data).moveaxis(sequence.data, 0, 3)
    return Sequence(data.reshape(*data.shape[:3], -1), "DHWC", sequence.source, affine=sequence.affine)


@dataclass(frozen=True, eq=False)
class _Tiles:
    """Overlapping patches of a volume, in the order of slices, and the sums of a model's output for them."""

    source: _Source
    grid: Grid
    window: Any
    batch_size: int
    mirror: str
    gpu: int | None

    def slabs(self, run: Callable[[Array], Array]) -> Iterator[Array]:
        """Yield the weighted mean of the outputs, slab by slab: ``DHWC``, as soon as no patch follows in it."""
        size = self.source.info.grid
        starts = starts_of(size, self.grid.patch, self.grid.overlaps, self.grid.margins) + self.grid.margins
        kept = self.window.shape[0]
        planes = [*dict.fromkeys(starts[:, 0].tolist())]
        sums: Array | None = None
        begin = 0
        for number, plane in enumerate(planes):
            rows = starts[starts[:, 0] == plane]
            top = max(0, plane)
            height = min(size[0], plane + kept) - top
            for first in range(0, len(rows), self.batch_size):
                chosen = rows[first : first + self.batch_size]
                output = self._outputs(run, self._patches(chosen - self.grid.margins))
                if sums is None:
                    # the last channel is the sum of the weights
                    sums = namespace(output).zeros((height, *size[1:], output.shape[-1] + 1), np.float32)
                self._add(sums, top - begin, chosen, output)
            if sums is None:
                continue
            end = max(0, planes[number + 1]) if number + 1 < len(planes) else size[0]
            done = end - begin
            yield sums[:done, ..., :-1] / sums[:done, ..., -1:]
            if end < size[0]:
                xp, following = namespace(sums), min(size[0], end + kept) - end
                rest = xp.zeros((following, *sums.shape[1:]), np.float32)
                common = min(sums.shape[0] - done, following)
                rest[:common] = sums[done : done + common]
                sums, begin = rest, end

    def _patches(self, starts: IntArray) -> Array:
        """Read patches: ``NDHWC``, padded with zeros where the volume is smaller."""
        found = []
        for start in starts.tolist():
            spans = [
                (max(0, s), min(n, s + p))
                for s, p, n in zip(start, self.grid.patch, self.source.info.grid, strict=True)
            ]
            box = Box(spans[0], spans[1], spans[2])
            inner = [s - b for s, b in zip(start, box.start, strict=True)]
            found.append(cut_patch(self.source.read(box), inner, self.grid.patch, self.grid.pad).data)
        batch = namespace(found[0]).stack(found)
        return batch if self.gpu is None else to_cupy(batch, self.gpu)

    def _outputs(self, run: Callable[[Array], Array], patches: Array) -> Array:
        """Return the model's output, averaged over the mirrored patches."""
        axes = [_AXES.index(letter) + 1 for letter in self.mirror]
        total: Any = 0
        count = 0
        for size in range(len(axes) + 1):
            for flipped in combinations(axes, size):
                xp = namespace(patches)
                output = run(xp.flip(patches, flipped) if flipped else patches)
                output = without_margins(output, self.grid.margins, self.window.shape)
                if output.ndim != 5 or output.shape[:4] != (len(patches), *self.window.shape):
                    raise ParameterError(
                        f"the model's output for patches of the shape {tuple(patches.shape)} NDHWC has the shape "
                        f"{tuple(output.shape)}",
                        source="infer",
                        allowed=f"({', '.join(map(str, patches.shape[:4]))}, channels)",
                    )
                back = namespace(output).flip(output, flipped) if flipped else output
                total = back.astype(np.float32) + total
                count += 1
        return total / np.float32(count)

    def _add(self, sums: Array, top: int, starts: IntArray, output: Array) -> None:
        """Add weighted outputs to the sums."""
        weights = namespace(output).asarray(self.window)[..., None]
        for start, values in zip(starts.tolist(), output, strict=True):
            target, inner = [], []
            for s, p, n in zip(start, self.window.shape, self.source.info.grid, strict=True):
                first, end = max(0, s), min(n, s + p)
                target.append(slice(first, end))
                inner.append(slice(first - s, end - s))
            height = inner[0].stop - inner[0].start
            place = (slice(top, top + height), *target[1:])
            weight = weights[tuple(inner)]
            sums[(*place, slice(0, -1))] += values[tuple(inner)] * weight
            sums[(*place, slice(-1, None))] += weight


def _labels(scores: Array, regions: Mapping[int, float] | None) -> Array:
    """Return the label of each voxel, ``DHW1``: the channel of the greatest score, or that of the last region."""
    xp = namespace(scores)
    if regions is None:
        kind = np.uint8 if scores.shape[-1] <= 256 else np.int16
        return xp.argmax(scores, axis=-1).astype(kind)[..., None]
    if len(regions) != scores.shape[-1]:
        raise ParameterError(
            f"there are {len(regions)} regions, and the model has {scores.shape[-1]} channels", source="infer"
        )
    labels = xp.zeros(scores.shape[:-1], np.uint8 if max(regions) < 256 else np.int16)
    for channel, (label, least) in enumerate(regions.items()):
        labels[scores[..., channel] >= least] = label
    return labels[..., None]


class _Evaluating(AbstractContextManager[Callable[[Array], Array]]):
    """Runs a torch module in evaluation mode and without gradients; its mode is restored at the end."""

    def __init__(self, module: Any) -> None:
        self._module, self._was_training = module, bool(module.training)
        self._context = without_gradients()

    def __enter__(self) -> Callable[[Array], Array]:
        self._module.eval()
        self._context.__enter__()
        return self._run

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        self._module.train(self._was_training)

    def _run(self, patches: Array) -> Array:
        """Return the module's output for patches ``NDHWC``."""
        given = to_torch(namespace(patches).ascontiguousarray(patches)).movedim(-1, 1)
        dtypes = (weights.dtype for weights in self._module.parameters() if weights.is_floating_point())
        dtype = next(dtypes, None)  # bfloat16 and float16 of models of half precision
        output = self._module(given.float() if dtype is None else given.to(dtype))
        first = output[0] if isinstance(output, (list, tuple)) else output
        return as_native(first.float().movedim(1, -1))


def _evaluating(model: Any) -> AbstractContextManager[Callable[[Array], Array]]:
    """Return a context of a function of arrays ``NDHWC``."""
    if is_torch(model) and hasattr(model, "eval") and hasattr(model, "training"):
        return _Evaluating(model)

    def run(patches: Array) -> Array:
        return as_native(model(patches))

    return nullcontext(run)
