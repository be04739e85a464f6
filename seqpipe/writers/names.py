"""Names of the files of samples: one name for each sample of a data set, whichever run writes it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from .members import SampleFiles, SampleMember
from .pattern import Pattern

__all__ = ["SAMPLE_FIELDS", "SampleNames"]

SAMPLE_FIELDS: Final[Mapping[str, str]] = {
    "sample": "the sample's index in the data set",
    "index": "number of the sample among those of its source",
    "name": "the source's name",
    "stem": "the source's name without its ending",
    "parent": "name of the source's folder",
    "position": "number of the frame within its sample",
    "part": "name of the part, such as image",
    "ext": "the format's ending",
}
"""The fields of a pattern for samples and what they stand for."""
_BY_SAMPLE: Final = "{sample:08d}"
_OF_FILES: Final = ("position", "part", "ext")
_FOR_SOURCES: Final = ("name", "stem", "parent")


class SampleNames:
    """Names samples and their files.

    Args:
        text: a pattern over :data:`SAMPLE_FIELDS`; None for the default, ``{stem}/{index:06d}.{ext}``, or, where stems
            are not unique, with ``{parent}/`` in front, and else ``{sample:08d}``.
        paths: path or URL of each source; empty if samples do not belong to sources.
        owner: source of each sample, ascending; empty without sources.
        shards: whether the names are keys of samples in shards, ``{sample:08d}`` by default.

    Attributes:
        text: the pattern.

    Raises:
        ParameterError: the pattern is invalid, or gives two samples one name.
    """

    def __init__(self, text: str | None, paths: Seq[str], owner: IntArray, *, shards: bool) -> None:
        self._owner = owner
        self._first = np.unique(owner, return_index=True)[1] if len(owner) else owner
        self._sources = [_facts_of(path) for path in paths] if len(owner) else []
        self.text = text if text is not None else self._default(shards=shards)
        self._pattern = Pattern(self.text, sequences=True, known=SAMPLE_FIELDS)
        fields = self._pattern.fields
        if shards and (misplaced := sorted(fields.intersection(_OF_FILES))):
            raise ParameterError(
                f"pattern={text!r} has {{{misplaced[0]}}}, and names samples in shards, not files",
                allowed=", ".join(f"{{{name}}}" for name in SAMPLE_FIELDS if name not in _OF_FILES),
            )
        if not self._sources and (missing := sorted(fields.intersection((*_FOR_SOURCES, "index")))):
            raise ParameterError(
                f"pattern={text!r} has {{{missing[0]}}}, and these samples do not belong to files",
                allowed="{sample}, {position}, {part}, {ext}",
            )
        if "sample" not in fields:
            self._check_unique(fields)
        self._has_position, self._has_part = "position" in fields, "part" in fields
        self._shards = shards

    def _default(self, *, shards: bool) -> str:
        """Return the shortest pattern whose names tell the samples apart."""
        if shards:
            return _BY_SAMPLE
        for fields in (("stem",), ("parent", "stem")):
            if self._sources and self._tells_apart(fields):
                return "/".join(f"{{{field}}}" for field in fields) + "/{index:06d}.{ext}"
        return f"{_BY_SAMPLE}.{{ext}}"

    def _tells_apart(self, fields: Seq[str]) -> bool:
        """Return whether fields differ between all sources."""
        return len({tuple(source[field] for field in fields) for source in self._sources}) == len(
            self._sources
        )

    def _check_unique(self, fields: frozenset[str]) -> None:
        """Check that fields differ between all sources."""
        used = [field for field in _FOR_SOURCES if field in fields]
        one_each = len(self._first) == len(self._owner)
        if "index" in fields or one_each:
            if used and self._tells_apart(used):
                return
            twice = "two sources have the same " + " and ".join(used) if used else "it names no source"
        else:
            twice = "a source has several samples"
        raise ParameterError(
            f"pattern={self.text!r} gives two samples one name: {twice}",
            advice="Add {sample}, which is different for each",
        )

    def key(self, sample: SampleFiles) -> str:
        """Return the name of a sample in shards."""
        return self._pattern.name(self._values(sample.index), sample.source)

    def file(self, sample: SampleFiles, member: SampleMember) -> str:
        """Return the name of a file, relative to the output folder.

        Without ``{position}`` in the pattern, the frames of a sample are files in a folder; without ``{part}``, the
        name of every part but the first stands before the ending.
        """
        values = self._values(sample.index)
        name = self._pattern.name(
            {**values, "position": member.position or 0, "part": member.part, "ext": member.ending},
            sample.source,
        )
        position = None if self._has_position else member.position
        part = "" if self._has_part or member.part == sample.lead else f".{member.part}"
        if position is None and not part:
            return name
        stem = name.removesuffix(f".{member.ending}")
        folder = "" if position is None else f"/{position:06d}"
        return f"{stem}{folder}{part}.{member.ending}"

    def _values(self, index: int) -> dict[str, Any]:
        """Return the fields of a sample."""
        values: dict[str, Any] = {"sample": index}
        if self._sources:
            owner = int(self._owner[index])
            number = int(np.searchsorted(self._first, index, side="right")) - 1
            values |= {**self._sources[owner], "index": index - int(self._first[number])}
        return values


def _facts_of(path: str) -> dict[str, str]:
    """Return the name, stem and folder of a path or URL."""
    whole = PurePosixPath(unquote(urlsplit(path).path) if "://" in path else path)
    name = whole.name or "source"
    bare = name.removesuffix(".gz") if name.lower().endswith(".nii.gz") else name
    return {"name": name, "stem": PurePosixPath(bare).stem, "parent": whole.parent.name or "_"}
