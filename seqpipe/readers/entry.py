"""Entry and Listing: the videos of a dataset before they are opened, and random splits of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from ..errors import ParameterError
from ..sampling.split import balanced_items, split_groups
from .labels import NO_LABEL, LabelParser, LabelType
from .ranges import Range

__all__ = ["Entry", "Listing"]

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
                (max(one.label, default=-1) for one in labeled), default=-1
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
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                raise ParameterError(
                    f"{name} of the listings differ: {_brief(one)} and {_brief(two)}",
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
