"""Listing of a dataset's videos: a folder, a manifest, a video, or a list of videos."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Final, NoReturn

from ..core.files.file_system import is_folder
from ..core.param import check_list, check_path
from ..errors import ParameterError, SourceError, SourceNotFoundError, UnreadableSourceError, described_type
from ..video.source.names import VIDEO_ENDINGS, SkippedFiles, is_video, leads_back
from .entry import Entry, Listing, Range
from .labels import NO_LABEL, LabelParser, LabelType
from .manifest import read_manifest
from .params import one_source

__all__ = ["list_files", "list_folder", "listing", "source_kind"]

_Path = str | os.PathLike[str]
_MANIFESTS: Final = (".csv", ".tsv", ".jsonl")


def listing(
    source: Any = None,
    *,
    files: Iterable[Any] | None = None,
    file_root: _Path | None = None,
    manifest: _Path | None = None,
    labels: Iterable[Any] | None = None,
    classes: Iterable[str] | None = None,
    label_type: LabelType = "class",
    ranges: Iterable[Range | None] | None = None,
) -> Listing:
    """List videos, before they are read: for labels, classes, ranges and splits.

    train, held_out = seqpipe.listing("videos").split((0.9, 0.1), seed=0, stratified=True)

    Args:
        source: a folder, a manifest (.csv, .tsv, .jsonl), a video, or a list of videos; or one of the next three.
        files: paths and URLs.
        file_root: a folder whose subfolders, sorted by name, are the classes; or a folder of videos without labels.
        manifest: a CSV, TSV or JSONL file.
        labels: for a list: one label for each video, an integer or a name from ``classes``.
        classes: names of the classes; a name's position is its label.
        label_type: type of the labels: "class", "classes", "number", "vector" or "text".
        ranges: for a list: the part of each video to use.

    Raises:
        ParameterError: not exactly one source is given, or arguments exclude one another.
        ManifestError: a line of the manifest is not valid.
    """
    named: dict[str, Any] = {"files": files, "file_root": file_root, "manifest": manifest}
    if source is not None:
        named = {**named, **source_kind(source)}
    kind = one_source(named)
    given = named[kind]
    parser = LabelParser(classes, label_type)
    if kind == "files":
        return list_files(given, labels, ranges, parser)
    for name, value in (("labels", labels), ("ranges", ranges)):
        if value is not None:
            advice = "A manifest has columns for them" if kind == "manifest" else "The folders are the labels"
            raise ParameterError(
                f"{name} and {kind} exclude one another", allowed=f"{name} with files", advice=advice
            )
    return (list_folder if kind == "file_root" else read_manifest)(check_path(kind, given), parser)


def source_kind(source: Any) -> dict[str, Any]:
    """Return what a source of videos is: ``file_root``, ``manifest`` or ``files``."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if not isinstance(text, str):
            raise ParameterError(f"source={text!r} is bytes", allowed="a path as text, or a list")
        if text.lower().endswith(_MANIFESTS):
            return {"manifest": text}
        return {"file_root": text} if is_folder(text) else {"files": [text]}
    if isinstance(source, Iterable):
        return {"files": source}
    raise ParameterError(
        f"source is {described_type(source)}",
        allowed="a folder, a manifest (.csv, .tsv, .jsonl), a video, a list of videos, or seqpipe.listing(…)",
    )


def list_files(
    files: Iterable[Any],
    values: Iterable[Any] | None,
    ranges: Iterable[Range | None] | None,
    labels: LabelParser,
) -> Listing:
    """List videos by path or URL."""
    if isinstance(files, (str, bytes, os.PathLike)):
        raise ParameterError(
            f"files={files!r} is one file", allowed="a list of paths and URLs", advice="Write files=[…]"
        )
    names = [_name(file) for file in check_list("files", files, "a list of paths and URLs")]
    if not names:
        raise ParameterError("files is empty", allowed="at least one path or URL")
    parsed = [NO_LABEL] * len(names) if values is None else _labels(values, names, labels)
    parts = _ranges([None] * len(names) if ranges is None else ranges, names)
    entries = (Entry(name, name, label, part) for name, label, part in zip(names, parsed, parts, strict=True))
    return Listing.of(entries, labels)


def list_folder(root: str, labels: LabelParser) -> Listing:
    """List the videos of class folders.

    The subfolders of ``root``, sorted by name, are the classes 0, 1, …; all videos below a class folder, at any depth,
    have its label. A class list, if given, determines the numbers, and other folders are left out. In a folder of
    videos without subfolders, all videos have the label -1. Names that begin with a dot are skipped.
    """
    if labels.label_type != "class":
        raise ParameterError(
            f"label_type={labels.label_type!r} and file_root exclude one another",
            advice="The folders are the classes; give files and labels, or a manifest",
        )
    _require_folder(root)
    root = root.rstrip("/")
    passed = SkippedFiles()
    folders, videos = _look_into(root or "/", passed)
    if videos and any(_videos_below(f"{root}/{folder}") for folder in folders):
        raise SourceError(
            f"the folder contains both class folders and videos ({videos[0]!r}, …)",
            source=root,
            advice="Move the videos into a class folder, or list all of them with files=[…] or manifest=…",
        )
    if videos:
        return Listing(tuple(_entries(root, videos, NO_LABEL)), labels.classes, dict(passed))
    classes = labels.classes or tuple(folders)
    entries: list[Entry] = []
    for number, name in enumerate(classes):
        entries += _class(root, name, folders, number, passed, named=bool(labels.classes))
    if not entries:
        _refuse_empty(root)
    return Listing(tuple(entries), classes, dict(passed))


def _require_folder(root: str) -> None:
    """Check that a root is a folder."""
    try:
        fact = "" if S_ISDIR(Path(root).stat().st_mode) else "this is a file"
    except OSError as error:
        fact = f"no such folder ({error.strerror})"
    except ValueError:  # such as an embedded null character
        fact = "no such folder"
    if fact:
        advice = "For single files use files=[…]; for URLs, manifest=…"
        raise SourceNotFoundError(fact, source=root, advice=advice)


def _class(
    root: str, name: str, folders: list[str], number: int, passed: SkippedFiles, *, named: bool
) -> Iterator[Entry]:
    """Videos of one class; a class found as a folder must have a video."""
    if name not in folders:
        raise SourceNotFoundError(
            f"there is no folder for the class {name!r}",
            source=root,
            allowed=", ".join(folders) or "no folder is there",
        )
    videos = _videos_below(f"{root}/{name}", inside := SkippedFiles())
    passed.update(inside)
    if not videos and not named:
        if not any(_videos_below(f"{root}/{other}") for other in folders):
            _refuse_empty(root)
        raise UnreadableSourceError(
            f"there is no video in the class folder {name!r}{_others(inside)}",
            source=root,
            allowed=f"files that end in {', '.join(VIDEO_ENDINGS)}",
            advice="Remove the folder, or name the classes that you want with classes=[…]",
        )
    return _entries(root, [f"{name}/{video}" for video in videos], number)


def _entries(root: str, videos: Iterable[str], label: int) -> Iterator[Entry]:
    return (Entry(f"{root}/{video}", video, label) for video in videos)


def _videos_below(folder: str, passed: SkippedFiles | None = None) -> list[str]:
    """Videos at any depth below a folder, relative to it, sorted folder by folder, without links to folders above."""
    folders, videos = _look_into(folder, passed)
    for name in folders:
        if leads_back(f"{folder}/{name}"):
            continue
        below = _videos_below(f"{folder}/{name}", passed)
        videos += [f"{name}/{video}" for video in below]
    return videos


def _look_into(folder: str, passed: SkippedFiles | None = None) -> tuple[list[str], list[str]]:
    """Subfolders and videos of a folder, sorted, without hidden ones; other files are counted in ``passed``."""
    try:
        with os.scandir(folder) as entries:
            seen = sorted((item.name, item.is_dir()) for item in entries if not item.name.startswith("."))
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", source=folder) from error
    files = [name for name, is_folder in seen if not is_folder]
    videos = [name for name in files if is_video(name)]
    if passed is not None:
        for name in set(files).difference(videos):
            passed.note(name)
    return [name for name, is_folder in seen if is_folder], videos


def _refuse_empty(root: str) -> NoReturn:
    """Raise the error for a folder without videos, which counts its other files."""
    _videos_below(root, passed := SkippedFiles())
    raise UnreadableSourceError(
        f"there is no video in this folder{_others(passed)}",
        source=root,
        allowed=f"files that end in {', '.join(VIDEO_ENDINGS)}",
        advice="If the videos have other extensions, list them; seqpipe.folders reads folders of frames",
    )


def _others(passed: SkippedFiles) -> str:
    return f", only {passed}" if passed else ""


def _name(file: Any) -> str:
    """Return a path or URL as text."""
    name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else file
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(f"{file!r} is not a path or URL", allowed="paths and URLs")
    return name


def _labels(values: Iterable[Any], names: list[str], parser: LabelParser) -> list[Any]:
    """Return the parsed labels of files."""
    labels = []
    values = values.tolist() if hasattr(values, "tolist") else values  # tensors are made of tensors
    for number, value in enumerate(_one_per_file("labels", values, names)):
        try:
            labels.append(parser(value))
        except ParameterError as error:
            error.fact = f"labels[{number}]: {error.fact}"
            error.source = names[number]
            raise
    return labels


def _ranges(ranges: Iterable[Any], names: list[str]) -> list[Range | None]:
    """Return the checked ranges of files."""
    checked = _one_per_file("ranges", ranges, names)
    for number, span in enumerate(checked):
        if span is not None and not isinstance(span, Range):
            raise ParameterError(
                f"ranges[{number}]={span!r} is not valid",
                source=names[number],
                allowed="readers.Range(start_s=…, end_s=…), readers.Range(start_frame=…, end_frame=…) or None",
            )
    return checked


def _one_per_file(name: str, values: Iterable[Any], files: list[str]) -> list[Any]:
    """Return the entries of a list, checked to be as many as files."""
    entries = check_list(name, values, "a list with one for each file")
    if len(entries) != len(files):
        raise ParameterError(
            f"{name} has {len(entries)} entries, but there are {len(files)} files",
            allowed="one for each file",
        )
    return entries
