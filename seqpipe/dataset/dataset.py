"""Dataset: an immutable description of source, order, operators and batches; see :mod:`seqpipe.dataset`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.keywords import refuses_unknown
from ..core.param import check_list
from ..errors import ParameterError, StateError, described_type, warn_caller
from ..ops import Type
from ..pipeline.fusion import Fuse
from ..readers.params import TORCH_ADAPTER, check_index
from ..sampling.buckets import Bucket
from ..sampling.params import EPOCH, check_shard
from ..video.device import parse_device
from .arrays import ArrayBatches, PixelLayout, check_pixel_layout, jax_array, numpy_array
from .bucketing import shortened
from .by_index import sample_at, samples_at
from .calls import PROCESSES, CallPool, check_pickles
from .dealt import LAST, Last
from .definition import Definition
from .epoch import Epoch
from .params import BATCHES, EVEN, FUSE, GIB, RAGGED, SIZE, STICK, VIEWS, Ragged
from .samples import Samples
from .stages import (
    DatasetStage,
    Function,
    GraphStage,
    OperatorStage,
    TransferStage,
    chain_of,
    check_operators,
)
from .state import loaded

if TYPE_CHECKING:
    from ..ops import DataNode
    from ..writers.run import WriteReport

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Definition):
    """Samples of a source, operators on them, and their batches: an immutable description, without position or threads.

    Every method returns another data set, which shares the source. Samples and draws depend on (seed, epoch, index)
    only: not on ranks, batch size, workers, threads or interruptions.
    """

    # ---------------------------------------------------------------- description

    def map(self, *ops: Any) -> Dataset:
        """Apply operators, a chain, or a policy to every sample; after :meth:`batch`, to every batch.

        The parts decide what is done: geometry moves images, labels, boxes, points and flow together, and labels get no
        new classes; intensities of images alone change. Mixup and CutMix follow :meth:`batch`.

        Args:
            *ops: operators, chains, choices, and lists of these.

        Raises:
            ParameterError: an operator is not allowed here; the message says why.
        """
        if not ops:
            raise self._wrong("map() of no operators", allowed="one operator or more")
        chain = chain_of(ops)
        check_operators(chain, self.source.parts, is_batched=not self.is_single)
        return self._with_step(OperatorStage(chain))

    def graph(self, build: Callable[[Mapping[str, DataNode]], Mapping[str, Any]]) -> Dataset:
        """Apply a graph of operators, whose parameters may be computed from pixels, and that may have several outputs.

        Args:
            build: takes nodes of the parts by name, and returns nodes by name, which replace or join the parts.

        Raises:
            ParameterError: it uses a part that does not exist, returns no nodes, or an operator does not accept its
                input.

        Warns:
            UserWarning: a parameter is computed on a GPU and needed in main memory, so that each batch waits for it.
        """
        if not callable(build):
            raise self._wrong(
                f"graph() of {described_type(build)}",
                allowed="a function that takes nodes of the parts by name",
            )
        known = (
            self.types if not self.steps else dict.fromkeys(self.types, Type())
        )  # earlier steps change them
        stage = GraphStage.built(build, known)
        for line in stage.graph.waits:
            warn_caller(line)
        return self._with_step(stage)

    @refuses_unknown("Dataset.apply")
    def apply(self, function: Callable[[dict[str, Any]], Mapping[str, Any]], *, workers: int = 0) -> Dataset:
        """Apply the user's own function to every sample, a dictionary of parts; before :meth:`batch`.

        Args:
            function: takes and returns a dictionary of parts.
            workers: processes that call it, for Python code that needs several cores: function and parts are pickled. 0
                calls it in the data set's own thread, as does a worker of a DataLoader.

        Raises:
            ParameterError: it is not callable, ``workers`` is out of bounds, or :meth:`batch` was called before.
        """
        if not callable(function):
            raise self._wrong(
                f"apply() of {described_type(function)}", allowed="a function of a sample's parts"
            )
        if self.batch_size is not None:
            raise self._wrong(
                "apply() after batch()", allowed="apply() before batch()", advice="It takes single samples"
            )
        if count := PROCESSES.check(workers):
            check_pickles(function, "apply()")
        return self._with_step(Function(function, CallPool(count, "apply()") if count else None))

    @refuses_unknown(
        "Dataset.batch", {"batch_size": "Write .batch(size)", "drop_last": "Write .batch(size, last='drop')"}
    )
    def batch(
        self, size: int, *, last: Last = "partial", ragged: Ragged = "list", bucket: Bucket | None = None
    ) -> Dataset:
        """Join samples to batches, parts by name with the axis N in front.

        Args:
            size: samples in a batch.
            last: incomplete last batch: "partial" returns it short, "drop" leaves it out (on all ranks alike), "fill"
                completes it with the first samples of the rank's epoch, "pad" repeats its last sample.
            ragged: samples of different shapes: a "list", or "pad" to one size with a part ``mask``.
            bucket: plans batches of samples of one shape, or of a budget of tokens, before anything is decoded. The
                policy ``last`` then applies to the last batch of each bucket, and states count batches.
                ``ds.buckets.report()`` tells how full they are, and what is padded and cropped.

        Raises:
            ParameterError: an argument is out of bounds, :meth:`batch` was called before, or the sizes of samples are
                not known or fit no bucket.
        """
        if self.batch_size is not None:
            raise self._wrong(
                f"a second batch() after batch({self.batch_size})",
                allowed="one batch()",
                advice="Choose one size: the samples are batched once",
            )
        last, ragged = LAST.check(last), RAGGED.check(ragged)
        if not isinstance(bucket, Bucket | None):
            raise self._wrong(f"bucket is {described_type(bucket)}", allowed="seqpipe.Bucket(…)")
        result = self._replaced(
            batch_size=SIZE.check(size), batched_at=len(self.steps), last=last, ragged=ragged, bucket=bucket
        )
        if bucket is not None and hasattr(self.source, "dealt"):
            raise self._wrong("bucket= of a feed", advice="Its samples are not known beforehand; use items()")
        if bucket is None:
            return result
        if bucket.pack and last != "partial":
            raise self._wrong(f"last={last!r} of packed samples", allowed="'partial'")
        buckets = result.buckets  # raises now, not at the first batch
        assert buckets is not None
        return result._replaced(source=shortened(self.source, bucket, buckets))

    @refuses_unknown(
        "Dataset.shard",
        dict.fromkeys(("world_size", "num_shards"), "Write .shard(rank, world)"),
    )
    def shard(self, rank: int, world: int, *, even: bool = False, stick: bool = False) -> Dataset:
        """Read one of ``world`` disjoint parts of every epoch.

        Args:
            rank: number of this process.
            world: number of processes.
            even: whether all ranks get equally many samples, as training in lockstep needs: a rank with fewer repeats
                its first.
            stick: whether the rank reads the same samples in every epoch, so that it can cache their files; a state
                within an epoch then loads on the same number of ranks only.

        Raises:
            ParameterError: the rank is beyond the world; or ``even`` is set, and there are fewer samples than ranks.
        """
        rank, world = check_shard((rank, world))
        if EVEN.check(even) and getattr(self.source, "dealt", None) is None:
            self.order.share(
                0, rank, world, even=even, stick=STICK.check(stick)
            )  # raises now, not at the first batch
        return self._replaced(rank=rank, world=world, even=even, stick=STICK.check(stick))

    @refuses_unknown("Dataset.prefetch")
    def prefetch(self, batches: int = 2, gib: float | None = None) -> Dataset:
        """Read ahead.

        Args:
            batches: number of batches; 0 does everything in the thread that iterates.
            gib: memory limit of batches that are being read or wait to be returned; by default a quarter of the
                device's memory. Larger batches are read one at a time.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        return self._replaced(read_ahead=BATCHES.check(batches), gib=GIB.check(gib))

    def fuse(self, how: Fuse) -> Dataset:
        """Bound the difference of pixel values that fusing operators with decoding may make; no draw differs.

        The first operators become part of the color conversion of decoded surfaces, as far as it supports them; on a
        GPU that is one kernel, and batches at full size are never stored. Optical flow that comes next receives luma
        straight from the surface, with "surface": no colors are made. Batches with ``ragged="pad"`` are
        not fused, as their windows are drawn within padded frames; frames of another size than the video's first one
        may differ by more.

        Args:
            how: "exact": no value differs; crops and mirrors are part of the conversion, resampling is not. "surface",
                the default: by at most one of 255, as intermediate results are rounded once. "none": operators run
                after the conversion, to compare.

        Raises:
            ParameterError: ``how`` is none of these.
        """
        return self._replaced(fusing=FUSE.check(how))

    def to(self, device: str) -> Dataset:
        """Copy images, volumes and their labels to a device; the operators that follow run there.

        Decoding on the CPU and augmenting on a GPU: ``videos(…).batch(8).to("cuda").map(augment)``.

        Args:
            device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.

        Raises:
            BackendError: the device is not available.
            ParameterError: it is none of these.
        """
        return self._with_step(TransferStage(str(parse_device(device))))

    @refuses_unknown("Dataset.views")
    def views(self, size: tuple[int, int], *, count: int = 3) -> Dataset:
        """Cut windows that are spread evenly along the longer side, for evaluation.

        Every sample becomes ``count`` consecutive samples, which are decoded once where they are read together.

        Args:
            size: (height, width) of a window.
            count: windows of each sample; a single one is centered.

        Raises:
            ParameterError: an argument is not valid, or operators or :meth:`batch` come before.
        """
        from .views import Views, check_window

        if self.steps or self.batch_size is not None:
            raise self._wrong("views() after map() or batch()", allowed="views() first")
        return self._replaced(source=Views(self.source, check_window(size), VIEWS.check(count)))

    def _with_step(self, step: DatasetStage) -> Dataset:
        return self._replaced(steps=(*self.steps, step))

    def _replaced(self, **fields: Any) -> Dataset:
        result = replace(self, **fields)
        for shared in ("_open", "_told"):  # closing any of them stops all iterators of the source
            object.__setattr__(result, shared, getattr(self, shared))
        return result

    def _wrong(self, fact: str, *, allowed: str | None = None, advice: str | None = None) -> ParameterError:
        return ParameterError(fact, source="Dataset", allowed=allowed, advice=advice)

    # ---------------------------------------------------------------- iteration

    def epoch(self, number: int) -> Epoch:
        """Return an iterator over an epoch.

        Raises:
            ParameterError: ``number`` is not an integer of at least 0.
        """
        return Epoch(self, EPOCH.check(number))

    def __iter__(self) -> Epoch:
        """Iterate over epoch 0."""
        return self.epoch(0)

    @refuses_unknown("Dataset.epochs")
    def epochs(self, stop: int, *, resume: Any = None, allow: Collection[str] = ()) -> Iterator[Epoch]:
        """Yield the epochs 0 to ``stop - 1``; with a state, the rest of its epoch first.

        Args:
            stop: number of epochs.
            resume: ``batch.state``, or ``state_dict()`` of an epoch, or its JSON text; None begins at epoch 0.
            allow: parts of the data set that may differ from the state's, such as "chain" for other operators.

        Raises:
            StateError: the state belongs to another data set, or is not one.
        """
        first = None if resume is None else self.resume(resume, allow=allow)
        return self._epochs(EPOCH.check(stop), first)

    def _epochs(self, stop: int, first: Epoch | None) -> Iterator[Epoch]:
        number = 0
        if first is not None:
            number = first.number + 1
            yield first
        for later in range(number, stop):
            yield self.epoch(later)

    def resume(self, state: Any, *, allow: Collection[str] = ()) -> Epoch:
        """Return an iterator over what remains of a state's epoch: each remaining sample comes once.

        Args:
            state: ``batch.state``, or ``state_dict()`` of an epoch, or its JSON text.
            allow: parts of the data set that may differ from the state's, such as "chain" for other operators.

        Raises:
            StateError: the state belongs to another data set, or is not one.
        """
        number, history, own = loaded(state, self.fingerprint, allow)
        if self.stick and any(world != self.world for world, _ in history):
            raise StateError(
                f"the state is of {history[-1][0]} ranks that keep their samples, and there are {self.world}",
                source="Dataset",
                allowed=f"shard(rank, {history[-1][0]}, stick=True)",
                advice="Or begin the next epoch, which is dealt anew",
            )
        return Epoch(self, number, history, own)

    # ---------------------------------------------------------------- by index

    def sample(self, index: int, epoch: int = 0) -> Samples:
        """Read one sample by its index, which does not depend on rank and order.

        Args:
            index: 0 to ``size - 1``.
            epoch: selects random frames, patches and draws.

        Raises:
            ParameterError: ``index`` is out of range, or an operator does not accept the sample.
            SourceError: the sample cannot be read.
        """
        return sample_at(self, check_index(index, self.size), EPOCH.check(epoch))

    def read(self, indices: Any, epoch: int = 0) -> Samples:
        """Read samples by their indices as one batch, whatever rank, order and batch size are.

        Args:
            indices: 0 to ``size - 1``, such as ``range(a, b)``.
            epoch: selects random frames, patches and draws.

        Raises:
            ParameterError: an index is out of range, there is none, or an operator does not accept the samples.
            SourceError: a sample cannot be read.
        """
        given = check_list("indices", indices, f"a list of whole numbers from 0 to {self.size - 1}")
        wanted = np.array([check_index(index, self.size) for index in given], np.int64)
        if not wanted.size:
            raise self._wrong("read() of no indices", allowed="one index or more")
        return samples_at(self, wanted, EPOCH.check(epoch))

    # ---------------------------------------------------------------- adapters and files

    @refuses_unknown("Dataset.write")
    def write(
        self,
        folder: str | os.PathLike[str],
        format: str = "jpg",  # noqa: A002  the field's name
        *,
        pattern: str | None = None,
        parts: Iterable[str] | None = None,
        quality: int | None = None,
        image_format: str = "jpg",
        samples_per_shard: int = 1000,
        shard_mib: float | None = None,
        epoch: int = 0,
        threads: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> WriteReport:
        """Write every sample into files, in order of the indices; with :meth:`shard`, this rank's part of them.

        Each file appears when it is complete. ``manifest.jsonl`` lists the files and values of every sample once all
        are written. A run that was stopped is continued by the same call with ``resume=True``, also on another number
        of ranks: it writes what is missing. Ranks may write into one folder at once.

        Args:
            folder: a folder, or a URL such as ``s3://bucket/prefix`` (fsspec; extra ``s3``).
            format: "jpg", "png", "webp" or "tiff", a file for each frame; "npy", or "nii.gz" for volumes, a file for
                each part; or shards of samples: "webdataset" (tar) or "parquet" (extra ``parquet``). Labels are png
                or arrays, never lossy. Other values are in the manifest, and in shards.
            pattern: names of the files, or keys in shards, with the fields {sample}, {index}, {name}, {stem},
                {parent}, {position}, {part} and {ext}; by default {stem}/{index:06d}.{ext}, with {parent}/ in front or
                {sample:08d} where stems are not unique; in shards {sample:08d}.
            parts: names of the parts to write; by default all.
            quality: of jpg and webp, 1 to 100; 95 by default.
            image_format: format of images within shards, as for ``format``.
            samples_per_shard: samples in a shard.
            shard_mib: size from which on a shard is divided into several files.
            epoch: selects random frames, patches and draws.
            threads: threads that encode; by default one for each core.
            resume: whether to keep what an earlier run has written.
            overwrite: whether to replace it.

        Raises:
            ParameterError: an argument is out of bounds, or the format does not hold a part.
            OutputError: a file cannot be written, the folder holds other files, or another run writes into it.
            SourceError: a sample cannot be read, and ``on_error`` is "raise"; finished files stay.
        """
        from .write import WriteOptions, write_dataset

        options = WriteOptions(
            format=format,
            pattern=pattern,
            parts=None if parts is None else tuple(check_list("parts", parts, "names of parts")),
            quality=quality,
            image_format=image_format,
            samples_per_shard=samples_per_shard,
            shard_mib=shard_mib,
            epoch=epoch,
            threads=threads,
        )
        return write_dataset(self, folder, options, resume=resume, overwrite=overwrite)

    @refuses_unknown("Dataset.torch")
    def torch(self, layout: str | None = None, device: Any = None, *, pin_memory: bool = False) -> Any:
        """Return the batches as a torch ``IterableDataset`` of dictionaries; see :class:`seqpipe.torch.TensorBatches`.

        Args:
            layout: axes of videos: "NFHWC", "NFCHW" or "NCFHW"; None keeps them.
            device: device of the tensors; None keeps the data set's. Not supported in workers.
            pin_memory: whether to pin tensors in main memory. Not supported in workers.

        Raises:
            BackendError: torch is not installed.
            ParameterError: an argument is not valid.
        """
        return import_module(TORCH_ADAPTER).TensorBatches(self, layout, device, pin_memory=pin_memory)

    def numpy(self, layout: PixelLayout | None = None) -> ArrayBatches:
        """Return the batches as dictionaries of NumPy arrays, copied from a GPU.

        Args:
            layout: axes of videos: "NFHWC", "NFCHW" or "NCFHW"; None keeps them.

        Raises:
            ParameterError: the layout is not one of these.
        """
        return ArrayBatches(self, check_pixel_layout(layout, "numpy"), numpy_array)

    def jax(self, layout: PixelLayout | None = None) -> ArrayBatches:
        """Return the batches as dictionaries of JAX arrays on the same device; arguments as for :meth:`numpy`."""
        return ArrayBatches(self, check_pixel_layout(layout, "jax"), jax_array)
