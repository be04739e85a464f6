"""``fn.external_source``: data of the user's code; and ``fn.experimental.inputs.video``, of videos that are fed."""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...array import Array, as_native, namespace, to_numpy
from ...errors import ParameterError
from ...ops import Type
from ...pipeline.source import BatchSamples, BatchSource, Fetched, Ticket, nodes_of
from ...sampling.params import BATCH_SIZE, SEQUENCE_LENGTH
from ...video.reader import VideoReader
from ..data_node import DataNode, current
from ..declared import DaliCall, operator
from ..dtypes import dtype_name
from ..sources.external import External, external_spec
from ..sources.pushed import PushedBatches, PushSource, StarvedError
from ..value import Value

__all__ = ["VideoInput"]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _FedVideo:
    """A video in the queue.

    Attributes:
        encoded: the bytes of its file.
        next_frame: number of the first frame that no batch has yet.
        reader: the open video; None before its first batch and after its last one.
    """

    encoded: bytes
    next_frame: int = 0
    reader: VideoReader | None = None

    def close(self) -> None:
        """Close the reader; a later batch opens it again."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None


class VideoInput(PushSource):
    """A queue of encoded videos, which are decoded batch by batch; a batch has sequences of one video only.

    Args:
        name: name for ``feed``.
        batch_size: number of sequences in a batch; the last one of a video may have fewer.
        sequence_length: number of frames in a sequence.
        pads: whether black frames complete the last sequence of a video, which has fewer frames otherwise.
        device: device of the frames.
        threads: decoding threads; None for one for each core.
    """

    parts = ("frames",)
    in_thread = True  # decoding overlaps with the operators

    def __init__(
        self,
        name: str,
        batch_size: int,
        *,
        sequence_length: int,
        pads: bool = False,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.name, self._batch_size = name, BATCH_SIZE.check(batch_size)
        self._length, self._pads = SEQUENCE_LENGTH.check(sequence_length), pads
        self._device, self._threads = device, threads
        self._videos: deque[_FedVideo] = deque()

    @property
    def starved(self) -> bool:
        """Whether no video has frames for the next run."""
        return not self._videos

    def feed(self, batch: Any, layout: str | None = None) -> None:  # noqa: ARG002  bytes have one axis
        """Append a video to the queue.

        Args:
            batch: the bytes of its file, uint8: a list with one array, an array ``(1, count)`` or ``(count,)``, or
                bytes.
            layout: accepted and ignored.

        Raises:
            ParameterError: it is not one sample of bytes.
        """
        if isinstance(batch, bytes):
            batch = np.frombuffer(batch, np.uint8)
        samples = [as_native(item) for item in ([batch] if getattr(batch, "ndim", 2) == 1 else batch)]
        if len(samples) != 1 or samples[0].ndim != 1 or samples[0].dtype != np.uint8:
            described = ", ".join(f"{sample.dtype}{tuple(sample.shape)}" for sample in samples[:4])
            raise ParameterError(
                f"a batch of {len(samples)} samples: {described}",
                source=self.name,
                allowed="the bytes of one video: a list with one array of uint8",
                advice="Call feed_input once for each video",
            )
        self._videos.append(_FedVideo(to_numpy(samples[0]).tobytes()))

    def begin(self) -> Ticket:
        """See :meth:`BatchSource.begin`.

        Raises:
            StarvedError: there is no video with further frames.
            UnreadableSourceError: the next video cannot be decoded; it is left out.
        """
        if self.starved:
            raise StarvedError(
                "the source has no video for this run",
                source=self.name,
                advice=f"Pass one when the frames of the last are used up: pipe.feed_input({self.name!r}, [bytes])",
            )
        video = self._videos[0]
        if video.reader is None:
            try:
                video.reader = VideoReader(video.encoded, device=self._device, threads=self._threads)
            except Exception:
                self._videos.popleft()
                raise
        start, count = video.next_frame, len(video.reader)
        video.next_frame = end = min(start + self._batch_size * self._length, count)
        if end == count:
            self._videos.popleft()
        sequences = -(-(end - start) // self._length)
        ticket = Ticket(self._epoch, self._position, self._position + sequences, (video, start, end))
        self._position = ticket.end
        return ticket

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`.

        Raises:
            DamagedSourceError: a frame cannot be decoded.
        """
        video, first, end = ticket.work
        starts = range(first, end, self._length)
        last = end == len(video.reader)
        try:
            samples = [self._sequence(video.reader, n, min(n + self._length, end)) for n in starts]
        finally:
            if last:
                video.close()
        indices = np.arange(ticket.position, ticket.end, dtype=np.int64)
        return Fetched((Value.of(samples, "FHWC"),), BatchSamples(ticket.epoch, indices, len(indices)))

    def _sequence(self, reader: VideoReader, start: int, end: int) -> Array:
        frames = [reader[number].data for number in range(start, end)]
        if self._pads:
            frames += [namespace(frames[0]).zeros_like(frames[0])] * (self._length - len(frames))
        sequence: Array = namespace(frames[0]).stack(frames)
        return sequence

    def cancel(self, ticket: Ticket) -> None:
        """Return the frames of the batch to the queue."""
        video, video.next_frame, _ = ticket.work
        if self.starved or self._videos[0] is not video:
            self._videos.appendleft(video)

    def type_of(self, part: int) -> Type:  # noqa: ARG002  there is one
        """See :meth:`BatchSource.type_of`."""
        return Type("images", "FHWC", "uint8")

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Nothing is known of the videos."""
        return {"video_input": [self.name, self._length, self._pads]}

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it is fed by hand
        """See :meth:`BatchSource.go_to`."""
        self._epoch, self._position = epoch, position

    def close(self) -> None:
        """Close the videos."""
        for video in self._videos:
            video.close()


@operator(
    "experimental.inputs.video",
    accept=("affine", "blocking", "no_copy"),
    note="feed_input refuses several videos at once, of which DALI decodes the first and drops the others",
)
def _video_input(
    call: DaliCall, *, sequence_length: Any = None, last_sequence_policy: Any = "partial"
) -> DataNode:
    """``fn.experimental.inputs.video``: sequences ``FHWC`` of a video that ``feed_input`` passes as bytes.

    Consecutive runs return consecutive sequences; the last batch of a video has the remaining ones, and the next run
    starts with the next video.
    """
    pipe = current()
    name, length, policy = _source_name(call, "inputs.video"), sequence_length, last_sequence_policy
    if length is None:
        raise call.wrong("sequence_length is missing")
    if policy not in ("partial", "pad"):
        raise call.wrong(f"last_sequence_policy={policy!r} is not valid", allowed="'partial', 'pad'")
    gpu = pipe.gpu_index() if call.requested_device in ("mixed", "gpu") else None
    source = VideoInput(
        name,
        pipe.batch_size,
        sequence_length=int(length),
        pads=policy == "pad",
        device="cpu" if gpu is None else f"cuda:{gpu}",
        threads=pipe.num_threads,
    )
    pipe.register_source(name, source)
    (node,) = nodes_of(source)
    return DataNode(
        name, [node], lambda v, _: v[0], device="cpu" if gpu is None else "gpu", is_passthrough=True
    )


def _source_name(call: DaliCall, kind: str) -> str:
    """Return the name of a call's source: the argument ``name``, or a kind with a number."""
    pipe = current()
    number, pipe.anonymous = pipe.anonymous, pipe.anonymous + 1
    return call.name or f"{kind}_{number}"


@operator(
    "external_source",
    positional=("source", "num_outputs"),
    accept=("cuda_stream", "use_copy_kernel", "blocking", "prefetch_queue_depth"),
)
def _external_source(
    call: DaliCall,
    *,
    source: Any = None,
    num_outputs: Any = None,
    dtype: Any = None,
    layout: Any = None,
    ndim: Any = None,
    parallel: bool = False,
    batch: Any = None,
    no_copy: bool = False,
    repeat_last: bool = False,
    batch_info: bool = False,
    cycle: Any = None,
) -> Any:
    """``fn.external_source`` in all its forms; a list of nodes with ``num_outputs``."""
    pipe = current()
    if call.inputs:
        raise call.wrong("external_source acts on no node", advice="Give the source by name: source=…")
    name = _source_name(call, "external_source")
    kinds = [dtype_name(item) for item in dtype] if isinstance(dtype, (list, tuple)) else dtype
    kind = dtype_name(kinds) if kinds is not None and not isinstance(kinds, list) else kinds
    form = external_spec(f"external_source {name!r}", num_outputs, kind, layout, ndim)
    if batch is None:
        batch = not parallel or not callable(source)  # iterables give batches, also with parallel=True
    result: BatchSource
    if source is None:
        result = PushedBatches(form, pipe.batch_size, name=name, repeat_last=repeat_last, copies=not no_copy)
    else:
        options: dict[str, Any] = {"batch": bool(batch), "cycle": cycle, "batch_info": batch_info}
        options["name"] = f"external_source {name!r}"
        if parallel:
            from ..sources.processes import ParallelExternal

            result = ParallelExternal(
                source,
                form,
                pipe.batch_size,
                workers=pipe.py_num_workers,
                start_method=_start_method(source, pipe.py_start_method),
                **options,
            )
        else:
            result = External(source, form, pipe.batch_size, copies=not no_copy, **options)
    pipe.register_source(name, result)
    nodes = [DataNode(name, [node], lambda v, _: v[0], is_passthrough=True) for node in nodes_of(result)]
    if call.device == "gpu":
        nodes = [node.gpu() for node in nodes]
    return nodes if form.several else nodes[0]


def _start_method(source: Any, requested: Literal["fork", "spawn"]) -> Literal["fork", "spawn"]:
    """Return the start method of a source's processes: "fork" for one that cannot be pickled, with a log message."""
    if requested == "spawn":
        try:
            pickle.dumps(source)
        except Exception as error:  # pickling runs the user's code, which may raise anything
            _log.warning("py_start_method='spawn' becomes 'fork', as the source cannot be pickled: %s", error)
            return "fork"
    return requested
