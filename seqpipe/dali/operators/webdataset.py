"""``fn.readers.webdataset``: samples of several files each from tar archives."""

from __future__ import annotations

import itertools
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...array import Array
from ...errors import ManifestError, SourceNotFoundError, UnreadableSourceError
from ..call import DaliCall
from ..data_node import DataNode
from ..dtypes import dtype_name
from ..reading import Items
from ..value import Value
from .sources import started

__all__ = ["texts", "webdataset_reader"]

_MISSING = ("", "empty", "skip", "error")
_FIELDS = {"v1.1": 3, "v1.2": 4}
"""Fields of a component in an index file, by the version of its format."""


class _Component(NamedTuple):
    """A file within an archive.

    Attributes:
        extension: the text after the first dot of its name.
        archive: path of the archive; "" for a component that its sample lacks.
        offset: position of its bytes in the archive.
        size: number of its bytes.
        name: its path within the archive; "" if the index file does not tell.
    """

    extension: str
    archive: str = ""
    offset: int = 0
    size: int = 0
    name: str = ""

    @property
    def source(self) -> str:
        """``source_info`` as in DALI; "" for a component that its sample lacks."""
        named = f":{self.name}" if self.name else ""
        return f"{self.archive}:{self.offset}{named}" if self.archive else ""


class _Read(NamedTuple):
    """The values of a component, and its ``source_info``."""

    values: Array
    source: str


def webdataset_reader(call: DaliCall) -> Any:
    """``fn.readers.webdataset``: for each entry of ``ext``, the bytes of one file of a sample, as an array of a dtype.

    Consecutive files of an archive whose paths agree up to the first dot of the name are a sample. Directories, links
    and files whose names begin with a dot are left out. An entry of ``ext`` may list several extensions, separated by
    semicolons; the first file with one of them is taken. A sample without such a file has an empty array, or is left
    out with ``missing_component_behavior="skip"``.
    """
    paths, indexes = texts(call.take("paths")), texts(call.take("index_paths"))
    extensions = [text.split(";") for text in texts(call.take("ext"))]
    dtypes = call.take("dtypes")
    kinds = [dtypes] if dtypes is not None and not isinstance(dtypes, (list, tuple)) else dtypes
    kinds = ["uint8"] * len(extensions) if kinds is None else [dtype_name(kind) for kind in kinds]
    missing = call.take("missing_component_behavior", "")
    exact = bool(call.take("case_sensitive_extensions", True))
    if not paths or not extensions:
        raise call.wrong(
            "which files?", allowed="paths of archives, and ext with an extension for each output"
        )
    if indexes and len(indexes) != len(paths):
        raise call.wrong(
            f"{len(indexes)} index_paths for {len(paths)} paths", allowed="one for each, or none"
        )
    if len(kinds) != len(extensions):
        raise call.wrong(
            f"{len(kinds)} dtypes for {len(extensions)} outputs", allowed="one for each, or none"
        )
    if missing not in _MISSING:
        allowed = ", ".join(map(repr, _MISSING[1:]))
        raise call.wrong(f"missing_component_behavior={missing!r} is not valid", allowed=allowed)
    samples = []
    for path, index in itertools.zip_longest(paths, indexes):
        for files in _samples_of_archive(path) if index is None else _samples_of_index(index, path):
            chosen = [_first(files, names, exact) for names in extensions]
            if all(component.archive for component in chosen) or missing in ("", "empty"):
                samples.append(chosen)
            elif missing == "error":
                lacking = next(component for component in chosen if not component.archive)
                raise UnreadableSourceError(
                    f"a sample has no file with the extension {lacking.extension!r}",
                    source=files[0].source,
                    advice="missing_component_behavior='skip' leaves such samples out",
                )
    if not samples:
        raise SourceNotFoundError("the archives have no samples", source=", ".join(paths))
    for sample, (number, kind) in itertools.product(samples, enumerate(kinds)):
        if sample[number].size % np.dtype(kind).itemsize:
            raise UnreadableSourceError(
                f"{sample[number].size} bytes are no array of {kind}", source=sample[number].source
            )
    return _nodes(call, samples, kinds)


def _nodes(call: DaliCall, samples: list[list[_Component]], kinds: list[str]) -> Any:
    """Return the nodes of a reader: one for each output."""

    def read(number: int) -> tuple[_Read, ...]:
        return tuple(_read(component, kind) for component, kind in zip(samples[number], kinds, strict=True))

    dataset = Items.of(
        read,
        "webdataset",
        tuple(f"component_{number}" for number in range(len(kinds))),
        {"webdataset": [[one.source for one in sample] for sample in samples], "dtypes": kinds},
        [next((one.source for one in sample if one.archive), "") for sample in samples],
        lambda items, _: Value.of([one.values for one in items], "", tuple(one.source for one in items)),
    )
    label = call.name or call.row.name
    nodes = tuple(
        DataNode(label, [node], lambda v, _: v[0]) for node in started(call, dataset, dataset.names)
    )
    return nodes if len(nodes) > 1 else nodes[0]


def _read(component: _Component, kind: str) -> _Read:
    """Read a component; one that its sample lacks is empty."""
    if not component.archive:
        return _Read(np.zeros(0, kind), "")
    try:
        left = max(0, Path(component.archive).stat().st_size - component.offset)
        size = min(component.size, left)
        data = np.fromfile(component.archive, np.uint8, size, offset=component.offset)
    except OSError as error:
        raise UnreadableSourceError(
            f"cannot be read: {error.strerror or error}", source=component.source
        ) from error
    if len(data) < component.size:
        raise UnreadableSourceError(
            f"the archive ends after {len(data)} of {component.size} bytes", source=component.source
        )
    return _Read(data.view(kind), component.source)


def texts(value: Any) -> list[str]:
    """Return a text, or a list of texts, as a list; an empty one for None."""
    if value is None:
        return []
    return [str(value)] if isinstance(value, (str, os.PathLike)) else [str(one) for one in value]


def _first(files: list[_Component], extensions: list[str], exact: bool) -> _Component:
    """Return the first of a sample's files that has one of the extensions; if none has, one without an archive."""
    wanted = extensions if exact else [extension.lower() for extension in extensions]
    matches = (
        component
        for component in files
        if (component.extension if exact else component.extension.lower()) in wanted
    )
    return next(matches, _Component(";".join(extensions)))


def _samples_of_archive(path: str) -> Iterator[list[_Component]]:
    """Iterate over the samples of an archive: lists of the files that have one key."""
    if not Path(path).is_file():
        raise SourceNotFoundError("there is no such archive", source=path)
    try:
        with tarfile.open(path, "r:") as archive:
            members = [one for one in archive if one.isfile()]
    except (tarfile.TarError, OSError) as error:
        raise UnreadableSourceError(
            f"not an uncompressed tar archive: {error}",
            source=path,
            advice="Unpack compressed archives first",
        ) from error
    for key, group in itertools.groupby(members, lambda one: _key(one.name)):
        if key.rpartition("/")[2]:
            yield [
                _Component(one.name[len(key) + 1 :], path, one.offset_data, one.size, one.name)
                for one in group
            ]


def _key(name: str) -> str:
    """Return the path of a file up to the first dot of its name."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{file.partition('.')[0]}"


def _samples_of_index(index: str, archive: str) -> Iterator[list[_Component]]:
    """Iterate over the samples of an archive by its index file, made by DALI's ``wds2idx``."""
    for path in (archive, index):
        if not Path(path).is_file():
            raise SourceNotFoundError("there is no such file", source=path)
    head, *lines = Path(index).read_text(encoding="utf-8").splitlines() or [""]
    allowed = "v1.1 or v1.2 and the number of samples, then a line for each sample, as by wds2idx"
    version, _, count = head.partition(" ")
    if version not in _FIELDS or not count.strip().isdigit() or int(count) != len(lines):
        raise ManifestError(
            f"line 1: {head!r}, and {len(lines)} further lines", source=index, allowed=allowed
        )
    for number, line in enumerate(lines, 2):
        fields, width = line.split(), _FIELDS[version]
        try:
            rows = [fields[n : n + width] for n in range(0, len(fields), width)]
            if any(int(row[1]) < 0 or int(row[2]) < 0 for row in rows):
                raise ValueError(line)
            yield [_Component(row[0], archive, int(row[1]), int(row[2]), *row[3:width]) for row in rows]
        except (IndexError, ValueError) as error:
            raise ManifestError(f"line {number}: {line!r}", source=index, allowed=allowed) from error
