"""``fn.experimental.inputs.video``: sequences of the videos whose bytes are fed with ``feed_input``."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...array import Array, as_native, namespace, to_numpy
from ...errors import ParameterError
from ...ops import Type
from ...pipeline.nodes import nodes_of
from ...pipeline.source import BatchSamples, Fetched, Ticket
from ...sampling.params import BATCH_SIZE, SEQUENCE_LENGTH
from ...video.reader import VideoReader
from ..call import DaliCall
from ..data_node import DataNode, current
from ..sources.pushed import PushSource, StarvedError
from ..value import Value
from .sources import source_name

__all__ = ["VideoInput", "video_input"]


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
        samples = [as_native(one) for one in ([batch] if getattr(batch, "ndim", 2) == 1 else batch)]
        if len(samples) != 1 or samples[0].ndim != 1 or samples[0].dtype != np.uint8:
            described = ", ".join(f"{one.dtype}{tuple(one.shape)}" for one in samples[:4])
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


def video_input(call: DaliCall) -> DataNode:
    """``fn.experimental.inputs.video``: sequences ``FHWC`` of a video that ``feed_input`` passes as bytes.

    Consecutive runs return consecutive sequences; the last batch of a video has the remaining ones, and the next run
    starts with the next video.
    """
    pipe = current()
    name = source_name(call, "inputs.video")
    length, policy = call.take("sequence_length"), call.take("last_sequence_policy", "partial")
    call.done()
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
    return DataNode(name, [node], lambda v, _: v[0], device="cpu" if gpu is None else "gpu", passes=True)
