"""Members: the files that a sample consists of, and its values that fit into JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, Final, TypeVar

import numpy as np

from ..array import DEFAULT_LAYOUTS, axis, frame_axis, to_numpy
from ..errors import ParameterError, described_type
from ..parts import Boxes, Flow, Image, Labels, Metadata, Part, Points
from ..sequence import Sequence
from ..video.device import parse_device
from .encoders import Content, Encoder, EncoderSetup, encoder

__all__ = ["MemberEncoder", "SampleFiles", "SampleMember"]

ResultT = TypeVar("ResultT")

_INLINE: Final = 256
"""Largest number of values of an array that becomes JSON; larger ones are files."""
_KNOWN: Final = frozenset(("index",))  # parts that the row of a sample has anyway
_PACKED: Final = ("npy", "nii.gz")


@dataclass(frozen=True, eq=False)
class SampleMember:
    """A file of a sample.

    Attributes:
        part: name of the part.
        position: number of the frame within the part; None for a file of the whole part.
        ending: file extension without the dot.
        content: the frame, the part, or an array.
    """

    part: str
    position: int | None
    ending: str
    content: Any


@dataclass(frozen=True, eq=False)
class SampleFiles:
    """A sample, divided into files and values.

    Attributes:
        index: index in the data set; -1 for samples that have none.
        source: path or URL, "" if unknown.
        members: its files; the first part's come first.
        values: values that JSON can represent, by name of the part.
        error: reason why the sample was left out, or "".
    """

    index: int
    source: str = ""
    members: Seq[SampleMember] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def lead(self) -> str:
        """The part whose files have the plain names."""
        return self.members[0].part if self.members else ""


class MemberEncoder:
    """Divides samples into members, and encodes these: images lossy or not, labels always lossless.

    Args:
        ending: format of images and volumes: jpg, png, webp, tiff, npy or nii.gz.
        quality: of jpg and webp, 1 to 100; None for 95.
        parts: names of the parts to write; None for all.
        device: device of the samples.
        threads: threads that encode.

    Attributes:
        on_host: whether it takes frames in main memory; else where they are.
        together: number of files for one call.
        threads: number of threads worth using.

    Raises:
        ParameterError: the format has no quality.
    """

    def __init__(
        self, ending: str, quality: int | None, parts: Seq[str] | None, device: str, threads: int
    ) -> None:
        self._format, self._parts = ending, None if parts is None else frozenset(parts)
        self._encoder: Encoder = encoder(ending, quality, dtype="uint8")
        self._setup: EncoderSetup = self._encoder.setup(parse_device(device), threads)
        self._lossless = encoder("png", None, dtype="uint8")
        self.on_host, self.together, self.threads = (
            self._setup.host,
            self._setup.together,
            self._setup.threads,
        )

    def divided(self, parts: Mapping[str, Any], index: int, source: str) -> SampleFiles:
        """Return a sample as members and values."""
        chosen = {
            name: value
            for name, value in parts.items()
            if name not in _KNOWN and (self._parts is None or name in self._parts)
        }
        if self._parts is not None and (missing := sorted(self._parts - set(parts))):
            raise ParameterError(
                f"the samples have no part {', '.join(map(repr, missing))}",
                source="write",
                allowed=", ".join(parts),
            )
        members, values = list[SampleMember](), dict[str, Any]()
        for name, value in chosen.items():
            files = list(self._members(name, value))
            if files:
                members += files
            else:
                values[name] = _plain(name, value.data if isinstance(value, Part) else value)
        return SampleFiles(index, source, members, values)

    def encoded(
        self, samples: Seq[SampleFiles], deliver: Callable[[SampleFiles, SampleMember, Content], ResultT]
    ) -> list[tuple[SampleFiles, list[ResultT]]]:
        """Encode samples, and hand the contents of their files on."""
        contents = iter(self._contents([member for sample in samples for member in sample.members]))
        return [
            (sample, [deliver(sample, member, next(contents)) for member in sample.members])
            for sample in samples
        ]

    def _contents(self, members: Seq[SampleMember]) -> list[Content]:
        """Return the content of the file of each member, in order; several frames at a time where a GPU encodes."""
        pictures = [
            member
            for member in members
            if member.ending == self._format and isinstance(member.content, Sequence)
        ]
        encoded = iter(self._setup.contents([member.content for member in pictures]) if pictures else ())
        return [
            next(encoded)
            if member.ending == self._format and isinstance(member.content, Sequence)
            else partial(self._lossless, member.content)
            if member.ending == "png"
            else partial(_save_array, member.content)
            for member in members
        ]

    def _members(self, name: str, value: Any) -> Iterator[SampleMember]:
        """Return the files of a part; none for one whose values go into the sample's row."""
        if isinstance(value, Flow):
            yield SampleMember(name, None, "npy", value.array)
            return
        is_label = isinstance(value, Labels)
        if isinstance(value, (Image, Labels)):
            value = value.data
            if not isinstance(value, Sequence):
                value = Sequence(value, DEFAULT_LAYOUTS[value.ndim])
        if isinstance(value, Sequence):
            yield from self._of_sequence(name, value, is_label=is_label or value.kind == "labels")
            return
        data = value.array if isinstance(value, (Points, Boxes)) else value
        data = data.data if isinstance(data, Metadata) else data
        if getattr(data, "size", 0) > _INLINE and hasattr(data, "dtype") and data.dtype.kind in "biuf":
            yield SampleMember(name, None, "npy", data)

    def _of_sequence(self, name: str, sequence: Sequence, *, is_label: bool) -> Iterator[SampleMember]:
        """Yield the files of a part of frames or volumes."""
        if self._format == "nii.gz" and axis(sequence.layout, "D") is not None:
            yield SampleMember(name, None, "nii.gz", sequence)
            return
        if self._format in _PACKED:
            yield SampleMember(name, None, "npy", sequence)
            return
        ending = self._format
        if is_label:
            fits = sequence.dtype in (np.uint8, np.uint16, np.bool_)
            if not fits or sequence.layout == "FDHWC":
                yield SampleMember(name, None, "npy", sequence)
                return
            ending = "png"
        else:
            self._check(name, sequence)
        frames = frame_axis(sequence.layout)
        if frames is None or (sequence.layout[frames] == "F" and len(sequence) == 1):
            yield SampleMember(name, None, ending, _as_picture(sequence if frames is None else sequence[0]))
            return
        for position, frame in enumerate(sequence):
            yield SampleMember(name, position, ending, _as_picture(frame))

    def _check(self, name: str, sequence: Sequence) -> None:
        """Check that the format holds a part's frames."""
        where, deep = f"part {name!r}", self._encoder.deep
        if sequence.layout == "FDHWC":
            raise ParameterError(
                f"{self._format} does not hold a series of volumes", source=where, allowed="nii.gz, npy"
            )
        if sequence.dtype != np.uint8 and not (deep and sequence.dtype == np.uint16):
            raise ParameterError(
                f"{self._format} does not hold {sequence.dtype}",
                source=where,
                allowed=f"uint8{' or uint16' if deep else ''}, or the formats npy and, for volumes, nii.gz",
                advice="Map the values to uint8 first, or leave the part out with parts=…",
            )
        channel = axis(sequence.layout, "C")
        channels = 1 if channel is None else sequence.shape[channel]
        most = (1, 3) if self._format == "jpg" else (1, 3, 4)
        if channels not in most:
            raise ParameterError(
                f"{self._format} does not hold {channels} channels",
                source=where,
                allowed=f"{', '.join(map(str, most))} channels, or the format npy",
            )
        height, width = (sequence.shape[sequence.layout.index(letter)] for letter in "HW")
        self._encoder.check_size(width, height, sequence.source or where)


def _as_picture(frame: Sequence) -> Sequence:
    """Return a frame as ``HWC``."""
    data = frame.data
    if frame.layout == "CHW":
        data = data.transpose(1, 2, 0)
    elif frame.layout == "HW":
        data = data[..., None]
    if data.dtype == np.bool_:
        data = data.astype(np.uint8)
    return replace(frame, data=data, layout="HWC", affine=None)


def _save_array(value: Any, file: BinaryIO) -> None:
    """Write an array."""
    np.save(file, value.numpy() if isinstance(value, Sequence) else to_numpy(value), allow_pickle=False)


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON represents it; NaN becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    elif hasattr(value, "dtype") and hasattr(value, "ndim"):
        value = to_numpy(value).tolist()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    raise ParameterError(
        f"{described_type(value)} cannot be written",
        source=f"part {name!r}",
        allowed="images, labels, arrays, numbers, texts, and lists and dictionaries of these",
        advice="Leave the part out with parts=…",
    )
