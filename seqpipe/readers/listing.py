"""Listing: the videos of a dataset, from ``files``, ``file_root`` or ``manifest``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..errors import ParameterError
from ..param import check_path
from .entry import Listing
from .files import list_files, list_folder
from .labels import LabelParser
from .manifest import read_manifest
from .params import one_source
from .ranges import Range

__all__ = ["list_videos"]

_Path = str | os.PathLike[str]


def list_videos(
    turn: LabelParser,
    files: Iterable[Any] | None,
    file_root: _Path | None,
    manifest: _Path | None,
    labels: Iterable[Any] | None,
    ranges: Iterable[Range | None] | None,
) -> Listing:
    """The videos of the one argument that names them; all are as :class:`seqpipe.readers.Video` has them.

    Args:
        turn: makes numbers of labels.
        files: paths and URLs.
        file_root: a folder.
        manifest: a table.
        labels: for ``files``.
        ranges: for ``files``.

    Raises:
        ParameterError: none of them is given, several are, or labels or ranges for what has its own.
        ManifestError: a line of the manifest cannot be used.
    """
    source = one_source({"files": files, "file_root": file_root, "manifest": manifest})
    if files is not None:
        return list_files(files, labels, ranges, turn)
    for name, value in (("labels", labels), ("ranges", ranges)):
        if value is not None:
            advice = (
                "A manifest has columns for them" if manifest is not None else "The folders are the labels"
            )
            raise ParameterError(
                f"{name} and {source} exclude one another", allowed=f"{name} with files", advice=advice
            )
    if file_root is not None:
        return list_folder(check_path("file_root", file_root), turn)
    return read_manifest(check_path("manifest", manifest), turn)
