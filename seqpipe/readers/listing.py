"""Listing of a dataset's videos from ``files``, ``file_root`` or ``manifest``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..core.param import check_path
from ..errors import ParameterError
from .entry import Listing
from .files import list_files, list_folder
from .labels import LabelParser, LabelType
from .manifest import read_manifest
from .params import one_source
from .ranges import Range

__all__ = ["list_videos"]

_Path = str | os.PathLike[str]


def list_videos(
    *,
    files: Iterable[Any] | None = None,
    file_root: _Path | None = None,
    manifest: _Path | None = None,
    labels: Iterable[Any] | None = None,
    classes: Iterable[str] | None = None,
    label_type: LabelType = "class",
    ranges: Iterable[Range | None] | None = None,
) -> Listing:
    """List videos from one of ``files``, ``file_root`` and ``manifest``, for splits before reading.

    train, held_out = list_videos(file_root="videos").split((0.9, 0.1), seed=0, stratified=True)
    clips = seqpipe.videos(train, seqpipe.Clip(16))

    Args:
        files: paths and URLs; these and the other arguments are those of :func:`seqpipe.listing`.
        file_root: a folder of class folders or videos.
        manifest: a CSV, TSV or JSONL file.
        labels: for ``files``: their labels.
        classes: class names.
        label_type: type of the labels; see :mod:`seqpipe.readers.labels`.
        ranges: for ``files``: their ranges.

    Raises:
        ParameterError: not exactly one source is given, or labels or ranges are given without ``files``.
        ManifestError: a line of the manifest is not valid.
    """
    source = one_source({"files": files, "file_root": file_root, "manifest": manifest})
    parser = LabelParser(classes, label_type)
    if files is not None:
        return list_files(files, labels, ranges, parser)
    for name, value in (("labels", labels), ("ranges", ranges)):
        if value is not None:
            advice = (
                "A manifest has columns for them" if manifest is not None else "The folders are the labels"
            )
            raise ParameterError(
                f"{name} and {source} exclude one another", allowed=f"{name} with files", advice=advice
            )
    if file_root is not None:
        return list_folder(check_path("file_root", file_root), parser)
    return read_manifest(check_path("manifest", manifest), parser)
