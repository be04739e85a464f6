"""Content of a folder with a published dataset of volumes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..core.param import check_path
from ..errors import SourceNotFoundError
from .volumes.listing import LABEL, Case, Cases

__all__ = ["PublicDataset", "folder_of", "several"]

_SHOWN: Final = 10


@dataclass(frozen=True)
class PublicDataset:
    """The content of a folder with a published dataset.

    Attributes:
        name: name of the dataset.
        home: URL of its publisher, or "".
        folder: the folder.
        files: name → path for each complete case, for ``seqpipe.cases(files=…)``.
        subjects: subject of each case.
        test: the cases without published labels.
        classes: number of a label → its meaning.
        missing: expected files that do not exist.
        unexpected: volumes that the description does not name.
        notes: further differences from the publisher's description.
        regions: name of a region → the labels it consists of, where they overlap; of the channels of ``label`` if the
            function was asked for regions.
        ignore: the label of voxels without annotation, or None.
    """

    name: str
    home: str
    folder: str
    files: tuple[dict[str, Any], ...]
    subjects: tuple[str, ...]
    test: tuple[dict[str, str], ...] = ()
    classes: Mapping[int, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    regions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ignore: int | None = None

    @property
    def cases(self) -> Cases:
        """The complete cases, for :func:`seqpipe.volumes`."""
        entries = (
            Case(dict(parts), str(next(iter(parts.values()))), subject)
            for parts, subject in zip(self.files, self.subjects, strict=True)
        )
        labels = (LABEL,) if self.files and LABEL in self.files[0] else ()
        return Cases(tuple(entries), labels)

    def checked(self) -> PublicDataset:
        """Return the dataset itself, if it is complete."""
        if self.missing or not self.files:
            from_home = f" from {self.home}" if self.home else ""
            what = f"{len(self.missing)} files are missing: {several(self.missing)}"
            raise SourceNotFoundError(
                what if self.missing else "there is no complete case",
                source=self.folder,
                advice=f"Download {self.name} again{from_home}, or use the complete cases in .files",
            )
        return self

    def __str__(self) -> str:
        parts = ", ".join(self.files[0]) if self.files else "none complete"
        lines = [f"{self.name}: {len(self.files)} cases ({parts})"]
        lines += [f"{len(self.test)} cases for testing"] if self.test else []
        lines += (
            [f"classes: {', '.join(f'{n} {name}' for n, name in self.classes.items())}"]
            if self.classes
            else []
        )
        lines += (
            [f"{len(self.missing)} missing: {several(self.missing)}"]
            if self.missing
            else ["nothing is missing"]
        )
        lines += [f"{len(self.unexpected)} unexpected: {several(self.unexpected)}"] if self.unexpected else []
        return "\n".join([*lines, *self.notes])


def folder_of(folder: Any) -> Path:
    """Return the path of a folder that exists."""
    root = Path(check_path("folder", folder))
    if not root.is_dir():
        raise SourceNotFoundError("no such folder", source=str(root), advice="Give the unpacked folder")
    return root


def several(names: Seq[str]) -> str:
    """Return the first of many names, and the number of the others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
