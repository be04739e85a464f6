"""Published datasets of volumes in a local folder: complete cases, and missing or unexpected files.

spleen = seqpipe.readers.published_volumes.decathlon("/data/Task09_Spleen").checked()
cases = seqpipe.cases(spleen.files, subjects=spleen.subjects)
train = seqpipe.volumes(cases.fold(0, 5), Patch(96, around="balanced"))
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..core.json_text import parse_json
from ..core.param import check_list, check_path
from ..errors import ManifestError, ParameterError, SourceNotFoundError, described_type
from .volumes.listing import IMAGE, LABEL, subject_of

__all__ = ["PublicDataset", "decathlon", "ixi"]

_SHOWN: Final = 10
_DECATHLON: Final = "http://medicaldecathlon.com"
_IXI: Final = "https://brain-development.org/ixi-dataset"
_IXI_NAME: Final = re.compile(r"(IXI\d{3}-[A-Za-z]+-\d+)-(\w+)\.nii(\.gz)?")
_IXI_COUNTS: Final[Mapping[str, int]] = {"T1": 581, "T2": 578, "PD": 578, "MRA": 570}
"""Number of files of each modality in the publisher's archives."""


@dataclass(frozen=True)
class PublicDataset:
    """The content of a folder with a published dataset.

    Attributes:
        name: name of the dataset.
        home: URL of its publisher.
        folder: the folder.
        files: name → path for each complete case, for ``Volume(files=…)``.
        subjects: subject of each case, for ``Volume(subjects=…)``.
        test: the cases without published labels.
        classes: number of a label → its meaning.
        missing: expected files that do not exist.
        unexpected: volumes that the description does not name.
        notes: further differences from the publisher's description.
    """

    name: str
    home: str
    folder: str
    files: tuple[dict[str, str], ...]
    subjects: tuple[str, ...]
    test: tuple[dict[str, str], ...] = ()
    classes: Mapping[int, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def checked(self) -> PublicDataset:
        """Return the dataset itself, if it is complete.

        Raises:
            SourceNotFoundError: a file is missing.
        """
        if self.missing or not self.files:
            what = f"{len(self.missing)} files are missing: {_several(self.missing)}"
            raise SourceNotFoundError(
                what if self.missing else "there is no complete case",
                source=self.folder,
                advice=f"Download {self.name} again from {self.home}, or use the complete cases in .files",
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
            [f"{len(self.missing)} missing: {_several(self.missing)}"]
            if self.missing
            else ["nothing is missing"]
        )
        lines += (
            [f"{len(self.unexpected)} unexpected: {_several(self.unexpected)}"] if self.unexpected else []
        )
        return "\n".join([*lines, *self.notes])


def decathlon(folder: str | os.PathLike[str]) -> PublicDataset:
    """List a task of the Medical Segmentation Decathlon, such as ``Task09_Spleen``.

    Its ``dataset.json`` names the images, labels and classes, and their numbers. Images of several modalities, such as
    those of ``Task01_BrainTumour``, are series ``FDHWC``; ``Volume(…, series_as_channels=True)`` makes them channels.

    Args:
        folder: the unpacked folder, which holds ``dataset.json``.

    Raises:
        SourceNotFoundError: the folder or its ``dataset.json`` does not exist.
        ManifestError: ``dataset.json`` is not in the publisher's format.
    """
    root = _folder(folder)
    description = _description(root / "dataset.json")
    try:
        training = [(str(one["image"]), str(one["label"])) for one in description["training"]]
        testing = [
            str(one["image"] if isinstance(one, Mapping) else one) for one in description.get("test", [])
        ]
        classes = {int(number): str(name) for number, name in description["labels"].items()}
        name = str(description["name"])
        counts = {"training": len(training), "test": len(testing)}
        declared = {"training": int(description["numTraining"]), "test": int(description["numTest"])}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(
            f"it does not describe a task ({type(error).__name__}: {error})",
            source=str(root / "dataset.json"),
            allowed="the publisher's name, labels, numTraining, numTest, training and test",
        ) from error
    cases = [{IMAGE: str(root / image), LABEL: str(root / label)} for image, label in training]
    tests = [{IMAGE: str(root / image)} for image in testing]
    notes = [
        f"dataset.json declares {declared[kind]} cases for {kind}, and lists {counts[kind]}"
        for kind in counts
        if declared[kind] != counts[kind]
    ]
    return _compared(
        f"Medical Segmentation Decathlon, {name}", _DECATHLON, root, cases, tests, classes, notes
    )


def ixi(folder: str | os.PathLike[str], modalities: Seq[str] = ("T1", "T2")) -> PublicDataset:
    """List IXI: brain MRI of healthy subjects, one file for each subject and modality, without labels.

    The modalities of a subject are on different grids: ``Volume(…, align="first")`` resamples them to the first's.

    Args:
        folder: the folder of the unpacked archives, such as ``IXI-T1`` and ``IXI-T2``, or of all files.
        modalities: required modalities of a case: "T1", "T2", "PD", "MRA"; in lower case, the names of its parts.

    Raises:
        SourceNotFoundError: the folder does not exist.
        ParameterError: a modality is not one of these.
    """
    root = _folder(folder)
    wanted = check_list("modalities", modalities, "a list of names")
    if not wanted or not all(isinstance(one, str) and one in _IXI_COUNTS for one in wanted):
        raise ParameterError(f"modalities={modalities!r} is not valid", allowed=", ".join(_IXI_COUNTS))
    subjects: dict[str, dict[str, str]] = {}
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    for path in (path for each in folders for path in sorted(each.iterdir())):
        match = _IXI_NAME.fullmatch(path.name)
        if match is not None and match[2] in wanted:
            subjects.setdefault(match[1], {})[match[2]] = str(path)
    complete = {subject: images for subject, images in subjects.items() if len(images) == len(set(wanted))}
    missing = [
        f"{subject}-{one}.nii.gz"
        for subject, images in subjects.items()
        for one in wanted
        if one not in images
    ]
    counts = {one: sum(one in images for images in subjects.values()) for one in wanted}
    notes = tuple(
        f"{count} files of {one}, and {_IXI_COUNTS[one]} in the publisher's archive"
        for one, count in counts.items()
        if count != _IXI_COUNTS[one]
    )
    files = tuple({one.lower(): images[one] for one in wanted} for images in complete.values())
    return PublicDataset("IXI", _IXI, str(root), files, tuple(complete), missing=tuple(missing), notes=notes)


def _compared(
    name: str,
    home: str,
    root: Path,
    cases: Seq[dict[str, str]],
    tests: Seq[dict[str, str]],
    classes: Mapping[int, str],
    notes: Iterable[str],
) -> PublicDataset:
    """Return a dataset whose description names its files, compared with the files that exist."""
    named = [path for case in (*cases, *tests) for path in case.values()]
    existing = {path for path in named if os.path.exists(path)}  # noqa: PTH110  of many
    present = {
        str(path)
        for folder in {Path(path).parent for path in named}
        if folder.is_dir()
        for path in folder.iterdir()
        if not path.name.startswith(".")  # such as the ._ files of archives made on macOS
    }
    complete = [case for case in cases if set(case.values()) <= existing]
    return PublicDataset(
        name,
        home,
        str(root),
        tuple(complete),
        tuple(subject_of(case[IMAGE]) for case in complete),
        tuple(case for case in tests if set(case.values()) <= existing),
        dict(classes),
        tuple(os.path.relpath(path, root) for path in named if path not in existing),
        tuple(sorted(os.path.relpath(path, root) for path in present - set(named))),
        tuple(notes),
    )


def _folder(folder: Any) -> Path:
    root = Path(check_path("folder", folder))
    if not root.is_dir():
        raise SourceNotFoundError("no such folder", source=str(root), advice="Give the unpacked folder")
    return root


def _description(path: Path) -> dict[str, Any]:
    try:
        description = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SourceNotFoundError(
            "there is no dataset.json",
            source=str(path.parent),
            advice="Give the folder of one task, such as Task09_Spleen",
        ) from error
    except (OSError, ValueError) as error:
        raise ManifestError(f"it cannot be read ({error})", source=str(path), allowed="JSON") from error
    if not isinstance(description, dict):
        raise ManifestError(
            f"it holds {described_type(description)}", source=str(path), allowed="a JSON object"
        )
    return description


def _several(names: Seq[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
