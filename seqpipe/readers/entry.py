"""Entry, Range and Listing: the videos of a dataset and their parts before they are opened, and splits of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, overload

from ..array import FloatArray
from ..core.param import Param
from ..errors import FrameRangeError, ParameterError
from ..sampling import Span, span_between
from ..sampling.split import balanced_items, split_groups
from .labels import NO_LABEL, LabelParser, LabelType

__all__ = ["COLUMNS", "Entry", "Listing", "Range"]

_FRAME = {"lo": 0, "unit": "frames", "optional": True}
_TIME = {"kind": float, "unit": "s", "optional": True}

COLUMNS: Final[dict[str, Param]] = {
    param.name: param
    for param in (
        Param(name="start_frame", doc="First frame of the range", **_FRAME),  # type: ignore[arg-type]  # mixed values
        Param(name="end_frame", doc="Frame after the last one of the range", **_FRAME),  # type: ignore[arg-type]  # same
        Param(name="start_s", doc="Start of the range", **_TIME),  # type: ignore[arg-type]  # same
        Param(name="end_s", doc="End of the range; a frame that begins there is left out", **_TIME),  # type: ignore[arg-type]  # same
    )
}
"""The parameters of a range, which are also the columns of a manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The part of a video that samples are taken from; half-open, in frames or in seconds.

    Seconds are on the video's own clock, like ``Sequence.timestamps``, and need not begin at 0. None leaves an end
    open. A range in seconds may end after the end of the video; a range in frames may not.

    Attributes:
        start_frame: the first frame, counted from 0.
        end_frame: the frame after the last one.
        start_s: start in seconds; a frame that begins there belongs to the range.
        end_s: end in seconds; a frame that begins there does not belong to the range.

    Raises:
        ParameterError: frames and seconds are mixed, the end is not after the start, or a value is not a number.
    """

    start_frame: int | None = None
    end_frame: int | None = None
    start_s: float | None = None
    end_s: float | None = None

    def __post_init__(self) -> None:
        for name, param in COLUMNS.items():
            object.__setattr__(self, name, param.check(getattr(self, name)))
        ends = [name for name in COLUMNS if getattr(self, name) is not None]
        if len({name.rpartition("_")[2] for name in ends}) > 1:
            raise ParameterError(
                f"{' and '.join(ends)} cannot be mixed in one range",
                allowed="a range in frames, or one in seconds",
            )
        if len(ends) == 2 and not getattr(self, ends[0]) < getattr(self, ends[1]):
            values = ", ".join(f"{name}={getattr(self, name):g}" for name in ends)
            raise ParameterError(f"{values} is an empty range", allowed=f"{ends[0]} < {ends[1]}")

    @property
    def in_seconds(self) -> bool:
        """Whether the range is given in seconds, so that its frames follow from timestamps."""
        return self.start_s is not None or self.end_s is not None

    def of(self, frames: int, timestamps: FloatArray | None) -> Span:
        """Return the span of a video's frames that the range selects.

        Args:
            frames: number of frames of the video.
            timestamps: presentation times of all frames in seconds; required for a range in seconds.

        Raises:
            FrameRangeError: the range lies outside of the video, or no frame begins in it.
        """
        if self.in_seconds and timestamps is not None:
            return span_between(timestamps, self.start_s, self.end_s)
        first = self.start_frame or 0
        end = frames if self.end_frame is None else self.end_frame
        if first >= frames or end > frames:
            raise FrameRangeError(
                f"the range from frame {first} to {end} is not in the video",
                allowed=f"0 to {frames}, its end",
            )
        return Span(first, end, timestamps)


_NONE: Mapping[str, Any] = MappingProxyType({})


class Entry(NamedTuple):
    """A video, or a range of it, that samples are taken from.

    Attributes:
        name: path or URL.
        key: name in the fingerprint, which stays the same if the whole dataset is moved.
        label: the label, as :class:`seqpipe.readers.labels.LabelParser` returns it; -1 for none.
        part: the range to use; None for the whole video.
        listed_at: the line that lists the video, as a sentence for messages, or "".
        fields: values of further columns by name: numbers, strings, arrays.
    """

    name: str
    key: str
    label: Any = NO_LABEL
    part: Range | None = None
    listed_at: str = ""
    fields: Mapping[str, Any] = _NONE


@dataclass(frozen=True, repr=False)
class Listing:
    """The listed videos, as :func:`seqpipe.listing` and :mod:`seqpipe.readers.published` return them.

    :func:`seqpipe.videos` reads them; a listing can be divided first:

    train, held_out = seqpipe.listing("videos").split((0.9, 0.1), seed=0, by="subject")
    clips = seqpipe.videos(train.balanced(), seqpipe.Clip(16, per_video=1), shuffle=True)

    ``listing[:100]`` is a listing of the first entries, and ``listing + other`` has those of both.

    Attributes:
        entries: the videos, in the order of the dataset.
        classes: class names; a name's position is its label. Empty if labels are plain integers.
        skipped: number of files of a folder that are not videos, by file extension.
        label_type: type of the labels; see :mod:`seqpipe.readers.labels`.
        width: number of classes, or length of a label vector; 0 for other types of labels.
    """

    entries: tuple[Entry, ...]
    classes: tuple[str, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    label_type: LabelType = "class"
    width: int = 0

    @classmethod
    def of(
        cls, entries: Iterable[Entry], labels: LabelParser, skipped: Mapping[str, int] | None = None
    ) -> Listing:
        """Return a listing of entries whose labels were parsed by ``labels``.

        Raises:
            ParameterError: vectors differ in length.
        """
        entries = tuple(entries)
        width = 0
        labeled = [entry for entry in entries if isinstance(entry.label, tuple)]
        if labels.label_type == "classes":
            width = len(labels.classes) or 1 + max(
                (max(entry.label, default=-1) for entry in labeled), default=-1
            )
        elif labels.label_type == "vector":
            full = [entry for entry in labeled if entry.label]
            width = len(full[0].label) if full else 0
            if odd := next((entry for entry in full if len(entry.label) != width), None):
                raise ParameterError(
                    f"a label of {len(odd.label)} numbers, after one of {width}",
                    source=odd.name,
                    allowed="vectors of one length",
                )
        return cls(entries, labels.classes, dict(skipped or {}), labels.label_type, width)

    def __repr__(self) -> str:
        kind = "" if self.label_type == "class" else f", label_type={self.label_type!r}"
        return f"Listing({len(self)} videos, {_brief(self.classes) if self.classes else 'no classes'}{kind})"

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @overload
    def __getitem__(self, key: int) -> Entry: ...
    @overload
    def __getitem__(self, key: slice) -> Listing: ...
    def __getitem__(self, key: int | slice) -> Entry | Listing:
        """Return an entry by its number, or a listing of the entries in a slice."""
        return replace(self, entries=self.entries[key]) if isinstance(key, slice) else self.entries[key]

    def __add__(self, other: Listing) -> Listing:
        """Return a listing of the entries of both; labels of both must have the same meaning."""
        if not isinstance(other, Listing):
            return NotImplemented
        for name in ("label_type", "classes", "width"):
            own, others = getattr(self, name), getattr(other, name)
            if own != others:
                raise ParameterError(
                    f"{name} of the listings differ: {_brief(own)} and {_brief(others)}",
                    allowed="listings whose labels have the same meaning",
                    advice="Create both with the same classes=[…]",
                )
        passed = Counter(self.skipped) + Counter(other.skipped)
        return replace(self, entries=self.entries + other.entries, skipped=dict(passed))

    def where(self, keep: Callable[[Entry], bool]) -> Listing:
        """Return a listing of the entries for which a function is true, in their order."""
        return replace(self, entries=tuple(filter(keep, self.entries)))

    def split(
        self,
        shares: Seq[float],
        *,
        seed: int = 0,
        by: str | Callable[[Entry], Any] | None = None,
        stratified: bool = False,
    ) -> tuple[Listing, ...]:
        """Split the listing at random into parts that share no group.

        The part of a group depends only on the seed and the group, except near the borders between parts. So adding,
        removing or reordering other videos changes few assignments.

        Args:
            shares: fraction of the videos in each part, positive; their sum is at most 1.
            seed: seed of the split.
            by: key of the groups: the name of a field, ``"label"``, ``"path"``, or a function of an entry; by default
                each path is a group.
            stratified: whether to split each class separately, so that all parts have the same distribution of classes.

        Raises:
            ParameterError: the shares are invalid, a field does not exist, or ``stratified`` is set and a group has
                several classes.
        """
        groups = [self._group(entry, by) for entry in self.entries]
        strata = [entry.label if stratified else None for entry in self.entries]
        part_of_entry = split_groups(groups, strata, shares, seed)
        pairs = list(zip(self.entries, part_of_entry.tolist(), strict=True))
        return tuple(
            replace(self, entries=tuple(entry for entry, part in pairs if part == number))
            for number in range(len(shares))
        )

    def subset(
        self,
        share: float,
        *,
        seed: int = 0,
        by: str | Callable[[Entry], Any] | None = None,
        stratified: bool = False,
    ) -> Listing:
        """Return a random share of the videos; arguments and errors are those of :meth:`split`."""
        return self.split((share,), seed=seed, by=by, stratified=stratified)[0]

    def balanced(self, *, seed: int = 0, by: str | Callable[[Entry], Any] = "label") -> Listing:
        """Return a listing in which every class occurs equally often: videos of smaller classes are repeated.

        Each occurrence is a video of its own, with its own random clips. Balance the training part after :meth:`split`.

        Args:
            seed: seed of the choice of the videos that occur once more.
            by: what to balance: ``"label"``, the name of a field, or a function of an entry.

        Raises:
            ParameterError: a field does not exist.
        """
        groups = [self._group(entry, by) for entry in self.entries]
        numbers = balanced_items(groups, [entry.key for entry in self.entries], seed)
        return replace(self, entries=tuple(self.entries[number] for number in numbers.tolist()))

    def _group(self, entry: Entry, by: str | Callable[[Entry], Any] | None) -> str:
        """Return the key of the group that an entry belongs to."""
        if by is None or by == "path":
            return entry.key
        if by == "label":
            return repr(entry.label)
        if callable(by):
            return repr(by(entry))
        if by not in entry.fields:
            allowed = ", ".join(("label", "path", *entry.fields))
            raise ParameterError(f"by={by!r} is no field", source=entry.name, allowed=allowed)
        return repr(entry.fields[by])


def _brief(value: Any) -> str:
    """Return a value for a message; of classes the number and the first ones."""
    if isinstance(value, tuple) and value:
        some = ", ".join(map(repr, value[:3])) + (", …" if len(value) > 3 else "")
        return f"{len(value)} classes ({some})"
    return repr(value)
