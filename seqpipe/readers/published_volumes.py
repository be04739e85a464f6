"""Published datasets of volumes in a local folder: complete cases, and missing or unexpected files.

spleen = seqpipe.readers.published_volumes.decathlon("/data/Task09_Spleen").checked()
train = seqpipe.volumes(spleen.cases.fold(0, 5), Patch(96, around="balanced"))

============================ ======================================================================================
function                     reads
============================ ======================================================================================
:func:`decathlon`            a task of the Medical Segmentation Decathlon, by its ``dataset.json``
:func:`nnunet_raw`           a folder of ``nnUNet_raw``, by its ``dataset.json``
:func:`nnunet_preprocessed`  a configuration's folder of ``nnUNet_preprocessed``
:func:`brats`                a folder of BraTS with a folder a case, 2017 to 2025
:func:`bids`                 a data set by the layout of BIDS
:func:`dicom`                a folder of DICOM files, or a DICOMDIR: patients, studies and series
:func:`idc`                  series of the Imaging Data Commons, by a manifest of idc-index
:func:`ixi`                  IXI
============================ ======================================================================================
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.json_text import parse_json
from ..core.param import check_list
from ..errors import ManifestError, ParameterError, SourceNotFoundError, described_type
from ..volume.formats.label_files import LabelFiles
from .published_dataset import PublicDataset, folder_of
from .published_dicom import dicom, idc
from .volumes.listing import IMAGE, LABEL, subject_of

__all__ = [
    "PublicDataset",
    "bids",
    "brats",
    "decathlon",
    "dicom",
    "idc",
    "ixi",
    "nnunet_preprocessed",
    "nnunet_raw",
]

_DECATHLON: Final = "http://medicaldecathlon.com"
_NNUNET: Final = "https://github.com/MIC-DKFZ/nnUNet"
_BRATS_HOME: Final = "https://www.synapse.org/brats"
_BRATS: Final = re.compile(r"[_-](t1|t1ce|t2|flair|t1n|t1c|t2w|t2f|seg)\.nii(?:\.gz)?", re.IGNORECASE)
_IXI: Final = "https://brain-development.org/ixi-dataset"
_IXI_NAME: Final = re.compile(r"(IXI\d{3}-[A-Za-z]+-\d+)-(\w+)\.nii(\.gz)?")
_IXI_COUNTS: Final[Mapping[str, int]] = {"T1": 581, "T2": 578, "PD": 578, "MRA": 570}
"""Number of files of each modality in the publisher's archives."""


def decathlon(folder: str | os.PathLike[str]) -> PublicDataset:
    """List a task of the Medical Segmentation Decathlon, such as ``Task09_Spleen``.

    Its ``dataset.json`` names the images, labels and classes, and their numbers. Images of several modalities, such as
    those of ``Task01_BrainTumour``, are series ``FDHWC``; ``Prepare(series_as_channels=True)`` makes them channels.
    """
    root = folder_of(folder)
    description = _description(root / "dataset.json")
    try:
        training = [(str(case["image"]), str(case["label"])) for case in description["training"]]
        testing = [
            str(case["image"] if isinstance(case, Mapping) else case) for case in description.get("test", [])
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

    The modalities of a subject are on different grids: ``Prepare(align="first")`` resamples them to the first's.
    """
    root = folder_of(folder)
    wanted = check_list("modalities", modalities, "a list of names")
    if not wanted or not all(isinstance(modality, str) and modality in _IXI_COUNTS for modality in wanted):
        raise ParameterError(f"modalities={modalities!r} is not valid", allowed=", ".join(_IXI_COUNTS))
    subjects: dict[str, dict[str, str]] = {}
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    for path in (path for each in folders for path in sorted(each.iterdir())):
        match = _IXI_NAME.fullmatch(path.name)
        if match is not None and match[2] in wanted:
            subjects.setdefault(match[1], {})[match[2]] = str(path)
    complete = {subject: images for subject, images in subjects.items() if len(images) == len(set(wanted))}
    missing = [
        f"{subject}-{modality}.nii.gz"
        for subject, images in subjects.items()
        for modality in wanted
        if modality not in images
    ]
    counts = {modality: sum(modality in images for images in subjects.values()) for modality in wanted}
    notes = tuple(
        f"{count} files of {modality}, and {_IXI_COUNTS[modality]} in the publisher's archive"
        for modality, count in counts.items()
        if count != _IXI_COUNTS[modality]
    )
    files = tuple({modality.lower(): images[modality] for modality in wanted} for images in complete.values())
    return PublicDataset("IXI", _IXI, str(root), files, tuple(complete), missing=tuple(missing), notes=notes)


def nnunet_raw(folder: str | os.PathLike[str], *, regions: bool = False) -> PublicDataset:
    """List a folder of ``nnUNet_raw``, such as ``Dataset001_BrainTumour``.

    Its ``dataset.json`` names channels, labels and file endings. Images of one channel are the part ``image``, of
    several the names of the channels. Labels that are lists are regions, which overlap; ``ignore`` is the label of
    voxels without annotation.
    """
    root = folder_of(folder)
    description = _description(root / "dataset.json")
    try:
        channels = {int(n): str(name) for n, name in description["channel_names"].items()}
        ending = str(description["file_ending"])
        labels = {str(name): value for name, value in description["labels"].items()}
        listed = description.get("dataset")
        declared = int(description.get("numTraining", -1))
        found = {
            name: tuple(int(n) for n in np.atleast_1d(value))
            for name, value in labels.items()
            if name != "ignore"
        }
        ignore = int(labels["ignore"]) if "ignore" in labels else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(
            f"it does not describe a data set ({type(error).__name__}: {error})",
            source=str(root / "dataset.json"),
            allowed="nnU-Net's channel_names, labels, file_ending and numTraining",
        ) from error
    names = {n: IMAGE if len(channels) == 1 else name for n, name in channels.items()}
    several = {name: values for name, values in found.items() if name != "background"}
    overlap = {**several} if any(len(values) > 1 for values in several.values()) else {}
    classes = {values[0]: name for name, values in found.items() if len(values) == 1}
    if isinstance(listed, dict):
        cases = [
            {
                **dict(zip(names.values(), (str(root / image) for image in case["images"]), strict=True)),
                LABEL: str(root / case["label"]),
            }
            for case in listed.values()
        ]
        subjects = [*listed]
    else:
        subjects = [name.removesuffix(ending) for name in _names(root / "labelsTr") if name.endswith(ending)]
        cases = [
            {
                **{part: str(root / "imagesTr" / f"{subject}_{n:04d}{ending}") for n, part in names.items()},
                LABEL: str(root / "labelsTr" / f"{subject}{ending}"),
            }
            for subject in subjects
        ]
    tests = sorted({name[: -len(ending) - 5] for name in _names(root / "imagesTs") if name.endswith(ending)})
    test = [
        {part: str(root / "imagesTs" / f"{test}_{n:04d}{ending}") for n, part in names.items()}
        for test in tests
    ]
    notes = [f"dataset.json declares {declared} cases for training, and there are {len(cases)}"]
    result = _compared(
        root.name, _NNUNET, root, cases, test, classes, notes if declared not in (-1, len(cases)) else []
    )
    kept = {case[LABEL]: subject for case, subject in zip(cases, subjects, strict=True)}
    return replace(
        _with_regions(result, overlap, used=regions),
        subjects=tuple(kept[case[LABEL]] for case in result.files),
        ignore=ignore,
    )


def nnunet_preprocessed(folder: str | os.PathLike[str]) -> PublicDataset:
    """List a folder of preprocessed cases of nnU-Net, such as ``Dataset001_X/nnUNetPlans_3d_fullres``.

    Images are z-scored, cropped and resampled; their channels are those of nnU-Net. Labels of -1 are outside of the
    image's foreground.
    """
    root = folder_of(folder)
    names = [name.removesuffix(".pkl") for name in _names(root) if name.endswith(".pkl")]
    cases = [{IMAGE: str(root / f"{name}.b2nd"), LABEL: str(root / f"{name}_seg.b2nd")} for name in names]
    file, classes = root.parent / "dataset.json", {}
    if file.is_file():
        labels = _description(file).get("labels", {})
        classes = {int(value): str(name) for name, value in labels.items() if isinstance(value, int)}
    found = _compared(f"{root.parent.name}, {root.name}", _NNUNET, root, cases, [], classes, [])
    return replace(found, unexpected=tuple(name for name in found.unexpected if not name.endswith(".pkl")))


def brats(folder: str | os.PathLike[str], *, regions: bool = False) -> PublicDataset:
    """List a folder of BraTS, of 2017 or later: a folder a case, with four modalities and their labels.

    Parts are the modalities by the names of their files: ``t1``, ``t1ce``, ``t2`` and ``flair``, or from 2023 on
    ``t1n``, ``t1c``, ``t2w`` and ``t2f``. Cases without labels are those for testing. Regions are the whole tumor, the
    tumor core and the enhancing tumor, whose label is 4, or from 2023 on 3.
    """
    root = folder_of(folder)
    cases: list[dict[str, str]] = []
    tests: list[dict[str, str]] = []
    enhancing = 4
    for path in sorted(path for path in root.rglob("*") if path.is_dir()):
        found = {
            match[1].lower(): str(file)
            for file in sorted(path.iterdir())
            if (match := _BRATS.fullmatch(file.name.removeprefix(path.name))) is not None
        }
        newer = "t1n" in found or "t2f" in found
        wanted = ("t1n", "t1c", "t2w", "t2f") if newer else ("t1", "t1ce", "t2", "flair")
        if not found:
            continue
        enhancing = 3 if newer else 4
        expected = {
            name: found.get(name, str(path / f"{path.name}{'-' if newer else '_'}{name}.nii.gz"))
            for name in wanted
        }
        if "seg" in found:
            cases.append({**expected, LABEL: found["seg"]})
        else:
            tests.append(expected)
    classes = {1: "necrotic core", 2: "edema", enhancing: "enhancing tumor"}
    result = _compared("BraTS", _BRATS_HOME, root, cases, tests, classes, [])
    overlap = {"WT": (1, 2, enhancing), "TC": (1, enhancing), "ET": (enhancing,)}
    subjects = (re.sub(r"(-\d{5})-\d{3}$", r"\1", Path(case[LABEL]).parent.name) for case in result.files)
    return replace(_with_regions(result, overlap, used=regions), subjects=tuple(subjects))


def bids(
    folder: str | os.PathLike[str],
    images: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
) -> PublicDataset:
    """List a data set by the layout of BIDS, with its derivatives; each session of a subject is a case.

    lesions = bids("ds", {"t1": "T1w", "flair": "acq-3d_FLAIR"}, {"label": "desc-lesion_mask"})

    Args:
        folder: the folder, which holds ``sub-…``.
        images: name of a part → its suffix, with the entities that distinguish it from other files of the suffix in
            front, such as ``"desc-lesion_mask"``. Volumes of one run only are one part; name the run if there are
            several.
        labels: likewise, of labels, which are looked for in ``derivatives``, too. The part is named ``label`` for
            :func:`seqpipe.volumes`, or its name is given as ``cases(…, label_names=…)``.
    """
    root = folder_of(folder)
    queries = {**dict(images), **dict(labels or {})}
    if not queries or not all(isinstance(query, str) and query for query in queries.values()):
        raise ParameterError(f"images={images!r} is not valid", source="bids", allowed="names → suffixes")
    pipelines = sorted(path for path in (root / "derivatives").glob("*") if path.is_dir())
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name, query in queries.items():
        for path in [root, *(pipelines if labels and name in labels else [])]:
            for file in _bids_files(path, query):
                session = found.setdefault(_bids_session(file), {})
                if name in session:
                    raise ManifestError(
                        f"{session[name]} and {file} are both {name!r}",
                        source=str(root),
                        allowed="one file for each part of a session",
                        advice=f"Name an entity that differs in front of the suffix, such as 'run-1_{query}'",
                    )
                session[name] = str(file)
    complete = {
        key: {n: parts[n] for n in queries} for key, parts in found.items() if len(parts) == len(queries)
    }
    missing = [
        f"{'_'.join(filter(None, key))}: {name}"
        for key, parts in found.items()
        for name in queries
        if name not in parts
    ]
    return PublicDataset(
        f"BIDS, {root.name}",
        "https://bids.neuroimaging.io",
        str(root),
        tuple(complete[key] for key in sorted(complete)),
        tuple(subject for subject, _ in sorted(complete)),
        missing=tuple(missing),
    )


def _bids_files(root: Path, query: str) -> Iterable[Path]:
    """Yield the volumes of a BIDS folder whose names have a suffix and entities."""
    *entities, suffix = query.split("_")
    for path in sorted(root.glob(f"sub-*/**/sub-*_{suffix}.nii*")):
        if set(entities) <= set(path.name.split("_")) and path.name.endswith((".nii", ".nii.gz")):
            yield path


def _bids_session(path: Path) -> tuple[str, str]:
    """Return the subject and session of a file, by its name."""
    entities = path.name.split("_")
    return entities[0], next((entity for entity in entities if entity.startswith("ses-")), "")


def _with_regions(
    found: PublicDataset, regions: Mapping[str, tuple[int, ...]], *, used: bool
) -> PublicDataset:
    """Return a data set with its regions, which are the channels of its labels if they are used."""
    if used and not regions:
        raise ParameterError("the data set has no regions", source=found.folder, allowed="regions=False")
    if not used:
        return replace(found, regions=regions)
    files = tuple({**case, LABEL: LabelFiles(case[LABEL], regions=regions)} for case in found.files)
    return replace(found, regions=regions, files=files)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder that are not hidden; none if it does not exist."""
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []


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
        tuple(subject_of(next(iter(case.values()))) for case in complete),
        tuple(case for case in tests if set(case.values()) <= existing),
        dict(classes),
        tuple(os.path.relpath(path, root) for path in named if path not in existing),
        tuple(sorted(os.path.relpath(path, root) for path in present - set(named))),
        tuple(notes),
    )


def _description(path: Path) -> dict[str, Any]:
    """Return the content of a description in JSON."""
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
