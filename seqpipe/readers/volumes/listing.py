"""Listing of volumes: the images and labels of each case, and its subject."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.files.content import VOLUME_ENDINGS
from ...core.files.file_system import is_folder
from ...core.json_text import parse_json
from ...core.keywords import refuses_unknown
from ...core.param import check_list, check_path
from ...errors import (
    ManifestError,
    ParameterError,
    SourceNotFoundError,
    UnreadableSourceError,
    described_type,
)
from ...volume.formats.label_files import LabelFiles
from ..manifest import bad_line, text_of
from ..params import one_source

__all__ = ["IMAGE", "LABEL", "Case", "Cases", "cases", "in_fold", "subject_of"]

IMAGE: Final = "image"
LABEL: Final = "label"
_SUBJECT: Final = "subject"
_ENDINGS: Final = tuple(
    sorted(
        {f"{ending}{packed}" for ending in VOLUME_ENDINGS for packed in ("", ".gz", ".bz2", ".xz")}
        | {".zarr"}
    )
)
_SHOWN_ENDINGS: Final = ", ".join((*VOLUME_ENDINGS, ".zarr"))
_MANIFESTS: Final = (".csv", ".tsv", ".jsonl")
_IMAGES: Final = ("images", "imagesTr")
_LABELS: Final = ("labels", "labelsTr")
_CHANNEL: Final = re.compile(r"_\d{4}$")  # of nnU-Net: case_0000 and case_0001 are images of the label case


class Case(NamedTuple):
    """Images and labels of one acquisition of a subject.

    Attributes:
        parts: path or URL of each image and label, by name; or its :class:`seqpipe.volume.LabelFiles`.
        key: name in the fingerprint and in messages.
        subject: the subject; all cases of a subject are in the same fold.
    """

    parts: dict[str, Any]
    key: str
    subject: str


@dataclass(frozen=True)
class Cases:
    """Volumes before they are read: images and labels of each case, with its subject.

    ``cases[10:]``, ``cases[rank::world]`` and :meth:`fold` are parts of it.

    Attributes:
        entries: the cases.
        label_names: names of the parts that hold labels, in the order of the parts.
    """

    entries: tuple[Case, ...]
    label_names: tuple[str, ...]

    def __len__(self) -> int:
        """The number of cases."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.entries)

    def __getitem__(self, part: slice) -> Cases:
        return replace(self, entries=self.entries[part])

    def fold(self, number: int, count: int, *, validation: bool = False) -> Cases:
        """Return the cases outside of a fold, or with ``validation`` those in it; a subject is in one fold.

        Args:
            number: number of the fold.
            count: number of folds.
            validation: whether to return the cases of the fold itself.

        Raises:
            ParameterError: the fold does not exist, or leaves no case.
        """
        are_whole = all(isinstance(n, (int, np.integer)) for n in (number, count))
        if not are_whole or not 0 <= number < count:
            raise ParameterError(
                f"fold({number!r}, {count!r}) is not valid",
                source="cases",
                allowed="whole numbers, 0 ≤ number < count",
            )
        chosen = tuple(case for case in self.entries if in_fold(case.subject, (number, count)) == validation)
        if not chosen:
            raise ParameterError(
                f"fold({number}, {count}) leaves no volume of {len(self)}",
                source="cases",
                advice="Use fewer folds, or more subjects",
            )
        return replace(self, entries=chosen)


@refuses_unknown("seqpipe.cases")
def cases(
    source: Any = None,
    *,
    files: Iterable[Any] | None = None,
    file_root: str | os.PathLike[str] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    labels: Iterable[str | os.PathLike[str]] | None = None,
    label_names: Iterable[str] = (LABEL,),
    subjects: Iterable[str] | None = None,
) -> Cases:
    """List volumes with their labels and subjects, before they are read.

    Args:
        source: a folder, a CSV, TSV or JSONL manifest, one volume, or a list of paths or of mappings of names to paths;
            or one of the next three.
        files: paths and URLs of images; or mappings of names to these, such as ``{"t1": …, "t2": …, "label": …}``.
            Labels may be :class:`seqpipe.volume.LabelFiles`, or a mapping of structures to files.
        file_root: a folder with the subfolders ``images`` and ``labels`` (or ``imagesTr`` and ``labelsTr``), in which
            files of the same name belong together, or, as in nnU-Net's folders, ``case_0000`` and the label ``case``;
            if there is a ``case_0001``, the parts are ``image_0000`` and ``image_0001``. Or a folder of images.
        manifest: a CSV or TSV file; its columns are the parts, such as ``image`` and ``label``, and ``subject``. Or a
            JSONL file, with an object of these a line; a part that is an object itself has a file for each structure.
        labels: for a list of paths: the labels of each.
        label_names: names of the parts that hold labels: whole numbers, resampled by vote, padded with 0, and marked as
            labels (:attr:`seqpipe.Sequence.kind`), so that no operator computes new classes. Floats within 0.01, or
            half a step of the file's slope, of a whole number are rounded, and reported. The name ``"label"`` may be
            absent from the parts, others may not.
        subjects: for a list: the subject of each, for folds; by default the name of its first file.

    Raises:
        ParameterError: not exactly one source is given, lists have different lengths, or a label has no part.
        ManifestError: a line of the manifest is not valid.
        SourceError: the folder does not exist or contains no volume.
    """
    named = {"source": source, "files": files, "file_root": file_root, "manifest": manifest}
    given = one_source(named)
    if given == "source":
        ((given, value),) = _kind_of(source).items()
        named[given] = value
    if given != "files" and (labels is not None or subjects is not None):
        name = "labels" if labels is not None else "subjects"
        raise ParameterError(f"{name} and {given} exclude one another", allowed=f"{name} with files")
    if given == "files":
        found = _of_files(named["files"], labels, subjects)
    elif given == "file_root":
        found = _of_folder(check_path("file_root", named["file_root"]))
    else:
        found = _of_manifest(check_path("manifest", named["manifest"]))
    first = found[0].parts
    for case in found:
        if set(case.parts) != set(first):
            raise ParameterError(
                f"the parts {', '.join(case.parts)} differ from those of the first volume",
                source=case.key,
                allowed=", ".join(first),
                advice="Every volume needs the same images and labels",
            )
    names = check_list("label_names", label_names, "a list of names")
    if unknown := [name for name in names if name not in first and name != LABEL]:
        raise ParameterError(f"label_names has {unknown[0]!r}, which is not a part", allowed=", ".join(first))
    return Cases(tuple(found), tuple(name for name in first if name in names))


def _kind_of(source: Any) -> dict[str, Any]:
    """Return the argument of :func:`cases` that a source stands for."""
    if isinstance(source, Mapping):
        return {"files": [source]}
    if isinstance(source, (str, os.PathLike)):
        text = str(os.fspath(source))
        if text.lower().endswith(_MANIFESTS):
            return {"manifest": text}
        is_root = is_folder(text) and not text.rstrip("/").lower().endswith(".zarr")
        return {"file_root": text} if is_root else {"files": [text]}
    if isinstance(source, Iterable):
        return {"files": source}
    raise ParameterError(
        f"source is {described_type(source)}",
        source="volumes",
        allowed="a folder, a manifest, a volume, a list of paths or of mappings, or seqpipe.cases(…)",
    )


def in_fold(subject: str, fold: tuple[int, int]) -> bool:
    """Return whether a subject belongs to a fold, by a hash of its name, so that adding subjects moves no other."""
    digest = hashlib.blake2b(subject.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % fold[1] == fold[0]


def _of_files(
    files: Iterable[Any], labels: Iterable[Any] | None, subjects: Iterable[str] | None
) -> list[Case]:
    """Return the cases of a list of files."""
    allowed = "a list of paths and URLs, or of mappings of names to these"
    items = [files] if isinstance(files, Mapping) else check_list("files", files, allowed)
    if not items:
        raise ParameterError("files is empty", allowed="at least one volume")
    label_files = (
        None
        if labels is None
        else check_list("labels", labels, "a list of paths and URLs, one for each file")
    )
    owners = (
        None if subjects is None else check_list("subjects", subjects, "a list of names, one for each file")
    )
    for name, values in (("labels", label_files), ("subjects", owners)):
        if values is not None and len(values) != len(items):
            raise ParameterError(
                f"{name} has {len(values)} entries, but there are {len(items)} files",
                allowed="one for each file",
            )
    cases = []
    for number, item in enumerate(items):
        parts = {n: _name(f) for n, f in item.items()} if isinstance(item, Mapping) else {IMAGE: _name(item)}
        if not parts or not all(isinstance(name, str) and name for name in parts):
            raise ParameterError(f"files[{number}]={item!r} names no files", allowed="names → paths")
        if label_files is not None:
            parts[LABEL] = _name(label_files[number])
        key = str(next(iter(parts.values())))
        cases.append(Case(parts, key, str(owners[number]) if owners is not None else subject_of(key)))
    return cases


def _of_folder(root: str) -> list[Case]:
    """List ``images`` and ``labels`` folders with files of the same names, or of nnU-Net's, or a folder of images."""
    if not is_folder(root):
        raise SourceNotFoundError("no such folder", source=root, advice="For single files use files=[…]")
    images = next((name for name in _IMAGES if (Path(root) / name).is_dir()), "")
    labels = next((name for name in _LABELS if (Path(root) / name).is_dir()), "")
    volumes = _volumes(Path(root) / images)
    if not volumes:
        raise UnreadableSourceError(
            "there is no volume in this folder",
            source=str(Path(root) / images),
            allowed=f"files that end in {_SHOWN_ENDINGS}",
            advice="List volumes with other extensions with files=[…], and series of DICOM files by "
            "seqpipe.readers.published_volumes.dicom(folder)",
        )
    if not labels:
        return [
            Case({IMAGE: path}, os.path.relpath(path, root), subject_of(path)) for path in volumes.values()
        ]
    masks = _volumes(Path(root) / labels)
    of_label: dict[str, list[str]] = {}
    for stem, path in volumes.items():
        name = stem if stem in masks else _CHANNEL.sub("", stem)
        if name not in masks:
            raise SourceNotFoundError(
                f"there is no label for the image {stem!r}",
                source=str(Path(root) / labels),
                allowed=f"{stem} with one of the endings {_SHOWN_ENDINGS}",
            )
        of_label.setdefault(name, []).append(path)
    cases = []
    for name, paths in of_label.items():
        several = len(paths) > 1
        parts = {IMAGE + (_stem(Path(path).name)[len(name) :] if several else ""): path for path in paths}
        subject = name if several else subject_of(paths[0])
        cases.append(Case({**parts, LABEL: masks[name]}, os.path.relpath(paths[0], root), subject))
    return cases


def _volumes(folder: Path) -> dict[str, str]:
    """Return the volumes of a folder by their names without extensions."""
    names = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return {_stem(path.name): str(path) for path in names if path.name.lower().endswith(_ENDINGS)}


def _stem(name: str) -> str:
    """Return a file's name without the extension of its format."""
    ending = max((e for e in _ENDINGS if name.lower().endswith(e)), key=len, default="")
    return name[: len(name) - len(ending)]


def subject_of(path: str) -> str:
    """Return the default subject of a file: its name without the extension."""
    return _stem(path.rstrip("/").rpartition("/")[2])


def _of_manifest(path: str) -> list[Case]:
    """List the lines of a manifest with columns, or fields, for parts and, optionally, ``subject``."""
    if path.lower().endswith(".jsonl"):
        return [*_of_json_lines(path)]
    rows = _rows_of(path)
    if len(rows) < 2:
        raise ManifestError(
            "the manifest lists no volume", source=path, allowed="a header and at least one line"
        )
    line, header = rows[0]
    names = [name for name in header if name != _SUBJECT]
    if not names or not all(header) or len(set(header)) < len(header):
        columns = ", ".join(map(repr, header))
        allowed = "different names, such as image, label and subject"
        raise bad_line(path, line, f"the columns are {columns}", allowed=allowed)
    cases = []
    for line, row in rows[1:]:
        if len(row) != len(header) or not all(row):
            raise bad_line(path, line, f"{row} does not fill {len(header)} columns")
        fields = dict(zip(header, row, strict=True))
        parts = {name: _relative_to(path, fields[name]) for name in names}
        cases.append(Case(parts, fields[names[0]], fields.get(_SUBJECT) or subject_of(fields[names[0]])))
    return cases


def _of_json_lines(path: str) -> Iterator[Case]:
    """Yield the cases of a JSONL manifest."""
    lines = [(n, line) for n, line in enumerate(text_of(path, Path(path)).splitlines(), 1) if line.strip()]
    if not lines:
        raise ManifestError("the manifest lists no volume", source=path, allowed="an object a line")
    for number, line in lines:
        try:
            fields = parse_json(line)
        except ValueError as error:
            raise bad_line(path, number, f"the line is no JSON ({error})") from error
        parts: dict[str, Any] = {}
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if name == _SUBJECT:
                continue
            files = value if isinstance(value, dict) else {name: value}
            if not files or not all(isinstance(file, str) and file for file in files.values()):
                raise bad_line(path, number, f"{name} is {value!r}", allowed="a path, or structures → paths")
            found = {structure: _relative_to(path, file) for structure, file in files.items()}
            parts[name] = LabelFiles(found) if isinstance(value, dict) else found[name]
        if not parts:
            raise bad_line(
                path, number, f"{line[:60]} names no volume", allowed="an object with a path a part"
            )
        first = next(iter(parts))
        key = fields[first] if isinstance(fields[first], str) else str(parts[first])
        yield Case(parts, key, str(fields.get(_SUBJECT) or subject_of(key)))


def _rows_of(path: str) -> list[tuple[int, list[str]]]:
    """Return the rows that are not blank, with the numbers of their lines."""
    delimiter = "\t" if path.lower().endswith(".tsv") else ","
    reader = csv.reader(io.StringIO(text_of(path, Path(path)), newline=""), delimiter=delimiter)
    rows = []
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if any(fields):
                rows.append((reader.line_num, fields))
    except csv.Error as error:
        raise bad_line(path, reader.line_num, f"the line cannot be read ({error})") from error
    return rows


def _relative_to(manifest: str, name: str) -> str:
    """Return a path of a manifest, relative to the manifest's folder."""
    return name if "://" in name else str(Path(manifest).parent / name)


def _name(file: Any) -> Any:
    """Return a file as text, or as what stands for several files."""
    if isinstance(file, (Mapping, LabelFiles)):
        return file if isinstance(file, LabelFiles) else LabelFiles({**file})
    name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else file
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(f"{file!r} is not a path or URL", allowed="paths and URLs")
    return name
