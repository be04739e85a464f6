"""Listing of a dataset's videos: a folder, a manifest, a video, or a list of videos."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ..core.param import check_path
from ..errors import ParameterError, described_type
from .entry import Listing
from .files import list_files, list_folder
from .labels import LabelParser, LabelType
from .manifest import read_manifest
from .params import one_source
from .ranges import Range

__all__ = ["listing", "source_kind"]

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
        return {"file_root": text} if Path(text).is_dir() else {"files": [text]}
    if isinstance(source, Iterable):
        return {"files": source}
    raise ParameterError(
        f"source is {described_type(source)}",
        allowed="a folder, a manifest (.csv, .tsv, .jsonl), a video, a list of videos, or seqpipe.listing(…)",
    )
