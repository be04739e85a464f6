"""Readers of the published annotation files of action recognition datasets; each function returns a listing.

======================================== ==========================================================================
function                                 reads
======================================== ==========================================================================
:func:`kinetics`                         Kinetics' CSV files, with their time ranges
:func:`video_list`                       lists without a header, ``path label``, as in SlowFast and mmaction2
:func:`rawframes`                        mmaction2's lists of folders of frames, for ``seqpipe.folders``
:func:`ucf101`                           UCF101's ``trainlist01.txt`` and ``testlist01.txt``
:func:`hmdb51`                           HMDB51's folder of splits
:func:`something_something`              Something-Something's JSON files
:func:`ava`                              AVA's CSV files of boxes with actions
======================================== ==========================================================================

train = published.kinetics("kinetics400/train.csv", root="/data/kinetics400/train", missing="skip")
clips = seqpipe.videos(train, seqpipe.Clip(16, stride=4, per_video=1), shuffle=True)

Published lists name many videos that are no longer available: ``missing="skip"`` leaves them out, and a warning counts
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..core.param import check_path
from ..errors import ManifestError, ParameterError, SourceNotFoundError
from ..video.source.names import is_video
from .entry import Entry, Listing, Range
from .labels import NO_LABEL, LabelParser
from .manifest import fields_of
from .published_file import Missing, PublishedFile, listing_of_files

__all__ = ["ava", "hmdb51", "kinetics", "rawframes", "something_something", "ucf101", "video_list"]

_Path: TypeAlias = str | os.PathLike[str]

_RENAMED: Final = str.maketrans(" ()", "_--")


def kinetics(
    path: _Path,
    root: _Path | None = None,
    *,
    classes: Iterable[str] | None = None,
    missing: Missing = "raise",
) -> Listing:
    """List Kinetics-400, -600 or -700: a CSV file with the columns label, youtube_id, time_start, time_end, split.

    Videos are trimmed files ``{label}/{id}_{start:06d}_{end:06d}.mp4``, with or without the folder; or whole videos
    ``{id}.mp4``, of which the range from time_start to time_end is used. Other video extensions are found as well, and
    folders named as by mmaction2's scripts, with ``_`` for blanks and ``-`` for parentheses.
    """
    file = PublishedFile(path, root, missing)
    rows = list(file.table(("youtube_id", "time_start", "time_end")))
    named = [row["label"] for _, row in rows if row.get("label")]
    labels = LabelParser(classes if classes is not None else sorted(set(named)) or None)
    fields = fields_of([{k: v for k, v in row.items() if k != "label"} for _, row in rows])
    entries = []
    for (line, row), known in zip(rows, fields, strict=True):
        known["youtube_id"] = row["youtube_id"]  # a string even if all of the column are digits
        start, end = (file.float(line, row[name]) for name in ("time_start", "time_end"))
        trimmed = f"{row['youtube_id']}_{int(start):06d}_{int(end):06d}"
        folder = row.get("label", "")
        folders = [f"{name}/" for name in dict.fromkeys((folder, folder.translate(_RENAMED))) if name]
        names = [f"{above}{name}" for name in (trimmed, row["youtube_id"]) for above in (*folders, "")]
        file_path = file.find(line, names)
        if file_path is None:
            continue
        with file.naming(line):
            label = labels(folder) if folder else NO_LABEL
            whole = not file_path.removesuffix(Path(file_path).suffix).endswith(trimmed)
            part = Range(start_s=start, end_s=end) if whole else None
        entries.append(file.entry(line, file_path, label, part, known))
    return listing_of_files([file], entries, labels)


def video_list(
    path: _Path,
    root: _Path | None = None,
    *,
    separator: str | None = None,
    several: bool = False,
    classes: Iterable[str] | None = None,
    missing: Missing = "raise",
) -> Listing:
    """List a file without a header, with a path and its label in each line, as in SlowFast and mmaction2.

    Args:
        path: path of the file.
        root: folder that relative paths start at; by default that of the file.
        separator: separator of path and label; by default the last tab, comma or blank of a line. Paths may contain
            blanks. A line that ends in a video's extension has no label.
        several: whether a video has several labels, so that ``label_type`` is "classes".
        classes: class names; labels may then be names too.
        missing: policy for missing videos: "raise" or "skip".
    """
    file = PublishedFile(path, root, missing)
    labels = LabelParser(classes, "classes" if several else "class")
    entries: list[Entry] = []
    for line, text in file.lines():
        between = separator or next((mark for mark in reversed(text) if mark in "\t, "), " ")
        name, *fields = [text] if is_video(text) else _split_labels(text, between, several=several)
        if not entries and not file.lost and _is_header(name, fields):
            raise file.bad(
                line,
                f"{text!r} seems to be a header",
                allowed="a path and its label",
                advice="Lists with a header are manifests, files that end in .csv, with the column path",
            )
        if not several and len(fields) == 1 and _ends_with_number(name, between):
            raise file.bad(
                line,
                f"two numbers follow the path, {text!r}",
                advice="A list of folders of frames is read by rawframes(), for seqpipe.folders; where these are "
                "several labels, give several=True",
            )
        file_path = file.find(line, [name], exact=True)
        if file_path is None:
            continue
        with file.naming(line):
            label = labels(fields if several else fields[0]) if fields else NO_LABEL
        entries.append(file.entry(line, file_path, label))
    return listing_of_files([file], entries, labels)


def rawframes(
    path: _Path,
    root: _Path | None = None,
    *,
    several: bool = False,
    classes: Iterable[str] | None = None,
    missing: Missing = "raise",
) -> Listing:
    """A list of folders of frames, as mmaction2 and TSN have them: lines ``folder total_frames label``.

    The label may be missing, as in lists of test sets. :func:`seqpipe.folders` reads such lists.
    """
    file = PublishedFile(path, root, missing)
    labels = LabelParser(classes, "classes" if several else "class")
    entries = []
    for line, text in file.lines():
        words = re.fullmatch(
            r"(.+?)\s+([0-9]+)((?:\s+[0-9]+)*)" if several else r"(.+?)\s+([0-9]+)(\s+[0-9]+)?", text
        )
        if words is None or not int(words[2]):
            raise file.bad(
                line,
                f"{text!r} is no folder of frames",
                allowed="folder total_frames label, of 1 frame or more",
            )
        names = (words[3] or "").split()
        folder_path = file.find(line, [words[1].rstrip("/")], exact=True)
        if folder_path is None:
            continue
        with file.naming(line):
            label = labels(names) if several else labels(names[0]) if names else NO_LABEL
            entries.append(
                file.entry(line, folder_path, label, Range(start_frame=0, end_frame=int(words[2])))
            )
    return listing_of_files([file], entries, labels)


def ucf101(
    path: _Path, root: _Path | None = None, *, index: _Path | None = None, missing: Missing = "raise"
) -> Listing:
    """List UCF101: ``trainlist01.txt`` or ``testlist01.txt``; the folder of a video is its class."""
    file = PublishedFile(path, root, missing)
    index = file.folder / "classInd.txt" if index is None else index
    if not Path(index).is_file():
        raise SourceNotFoundError(
            f"there is no file {index}", source=file.path, advice="Give index=…, the path of classInd.txt"
        )
    numbered = PublishedFile(index, None, missing)
    classes = [text.partition(" ")[2].strip() for _, text in numbered.lines()]
    labels = LabelParser(classes)
    entries = []
    for line, text in file.lines():
        name = re.sub(r"\s+[0-9]+$", "", text)
        file_path = file.find(line, [name], exact=True)
        if file_path is None:
            continue
        with file.naming(line):
            label = labels(name.replace("\\", "/").split("/")[0])
        numbers = re.search(r"_g([0-9]+)_c([0-9]+)", name)
        known = {"group": int(numbers[1]), "clip": int(numbers[2])} if numbers else {}
        entries.append(file.entry(line, file_path, label, None, known))
    return listing_of_files([file], entries, labels)


def hmdb51(
    splits: _Path,
    root: _Path,
    *,
    number: int = 1,
    part: Literal["train", "test", "unused"] = "train",
    missing: Missing = "raise",
) -> Listing:
    """List HMDB51: files ``{class}_test_split{number}.txt``, whose lines are a video and 1 (train), 2 (test) or 0."""
    marks = {"train": "1", "test": "2", "unused": "0"}
    if part not in marks:
        raise ParameterError(f"part={part!r} is not valid", allowed=", ".join(map(repr, marks)))
    ending = f"_test_split{number}.txt"
    paths = sorted(Path(check_path("splits", splits)).glob(f"*{ending}"))
    if not paths:
        raise SourceNotFoundError(f"there is no file *{ending}", source=str(splits), advice="Check the path")
    labels = LabelParser([path.name.removesuffix(ending) for path in paths])
    entries: list[Entry] = []
    files = [PublishedFile(path, root, missing) for path in paths]
    for file, name in zip(files, labels.classes, strict=True):
        for line, text in file.lines():
            video, _, mark = text.rpartition(" ")
            if mark not in marks.values() or not video:
                raise file.bad(line, f"{text!r} is not a video followed by 0, 1 or 2")
            if mark != marks[part]:
                continue
            video_path = file.find(line, [f"{name}/{video.strip()}"], exact=True)
            if video_path is not None:
                entries.append(file.entry(line, video_path, labels(name)))
    return listing_of_files(files, entries, labels)


def something_something(
    path: _Path, root: _Path, *, index: _Path | None = None, missing: Missing = "raise"
) -> Listing:
    """List Something-Something: a JSON file with an object for each video, and one that numbers the templates."""
    file = PublishedFile(path, root, missing)
    numbers = _templates(file, index)
    labels = LabelParser(sorted(numbers, key=numbers.__getitem__))
    rows = file.json()
    if not isinstance(rows, list):
        raise ManifestError("the file holds no list", source=file.path, allowed='[{"id": …}, …]')
    entries = []
    for line, row in enumerate(rows, 1):
        if not isinstance(row, dict) or "id" not in row:
            raise file.bad(line, "there is no id", allowed='an object, {"id": …}')
        file_path = file.find(line, [str(row["id"])])
        if file_path is None:
            continue
        with file.naming(line):
            label = labels(_unbracketed(str(row["template"]))) if "template" in row else NO_LABEL
        known = {
            "id": str(row["id"]),
            "text": row.get("label", ""),
            "placeholders": row.get("placeholders", []),
        }
        entries.append(file.entry(line, file_path, label, None, known))
    return listing_of_files([file], entries, labels)


def ava(
    path: _Path,
    root: _Path,
    *,
    duration_s: float = 2.0,
    starts_at_s: float = 0.0,
    classes: int = 80,
    excluded: _Path | None = None,
    missing: Missing = "raise",
) -> Listing:
    """List AVA: lines ``video,second,x1,y1,x2,y2,action,person`` without a header; an entry for each annotated second.

    ``Clip(length, per_video=1, starts="even")`` takes a clip around the key frame of each entry. The label
    of an entry has all actions of the second (``label_type="classes"``; class ``n - 1`` is action ``n``).

    Returns:
        A listing with the fields timestamp (the second, on AVA's clock), boxes (float32 ``(boxes, 4)``: left, top,
        right, bottom from 0 to 1), actions (float32 ``(boxes, classes)`` of 0 and 1) and persons (int64 ``(boxes,)``).
    """
    file = PublishedFile(path, root, missing)
    left_out: set[tuple[str, float]] = set()
    if excluded is not None:
        other = PublishedFile(excluded, None, missing)
        left_out = {(row[0], other.float(line, row[1])) for line, row in other.rows(2)}
    seconds: dict[tuple[str, float], list[tuple[int, list[float]]]] = {}
    for line, row in file.rows(8, 7, 2):
        key = row[0], file.float(line, row[1])
        numbers = [file.float(line, text) for text in row[2:]]
        if numbers and not 1 <= numbers[4] <= classes:
            raise file.bad(line, f"the action {row[6]}", allowed=f"1 to {classes}")
        if key not in left_out:
            seconds.setdefault(key, []).append((line, numbers))
    labels = LabelParser([f"{number}" for number in range(1, classes + 1)], "classes")
    entries = []
    for (video, second), found_rows in seconds.items():
        line = found_rows[0][0]
        file_path = file.find(line, [video])
        if file_path is None:
            continue
        middle = second - starts_at_s
        part = Range(start_s=max(0.0, middle - duration_s / 2), end_s=middle + duration_s / 2)
        fields = {"timestamp": second, **_boxes([numbers for _, numbers in found_rows if numbers], classes)}
        label = tuple(np.flatnonzero(fields["actions"].any(axis=0)).tolist())
        hint = f"; AVA's clock reads {starts_at_s:g} s where the file begins (starts_at_s)"
        entries.append(file.entry(line, file_path, label, part, fields, hint))
    return listing_of_files([file], entries, labels)


def _is_header(name: str, fields: list[str]) -> bool:
    """Return whether a line of a list without a header names columns."""
    return name.lower() in ("path", "video", "filename", "file", "video_path", "video_name", "name") and all(
        not re.fullmatch("-?[0-9]+", field) for field in fields
    )


def _boxes(rows: list[list[float]], classes: int) -> dict[str, Any]:
    """Return the distinct boxes of a second, with all actions of each."""
    numbers: dict[tuple[float, ...], int] = {}
    for row in rows:
        numbers.setdefault((*row[:4], *row[5:]), len(numbers))
    actions = np.zeros((len(numbers), classes), dtype=np.float32)
    for row in rows:
        actions[numbers[(*row[:4], *row[5:])], int(row[4]) - 1] = 1
    boxes = np.array([box[:4] for box in numbers], dtype=np.float32).reshape(-1, 4)
    persons = np.array([box[4] if len(box) > 4 else -1 for box in numbers], dtype=np.int64)
    return {"boxes": boxes, "actions": actions, "persons": persons}


def _templates(file: PublishedFile, index: _Path | None) -> dict[str, int]:
    """Return the number of each template."""
    if index is None:
        candidates = sorted(file.folder.glob("*labels.json"))
        if len(candidates) != 1:
            raise SourceNotFoundError(
                f"the folder of the list has {len(candidates)} files *labels.json",
                source=file.path,
                advice="Give index=…, the file that numbers the templates",
            )
        index = candidates[0]
    templates = PublishedFile(index, None, "raise").json()
    allowed = '{"Holding something": "0", …}, with the numbers 0, 1, …'
    try:
        numbers = {_unbracketed(name): int(number) for name, number in templates.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ManifestError(
            "the file does not number templates", source=str(index), allowed=allowed
        ) from error
    if sorted(numbers.values()) != list(range(len(templates))):  # a label is the number of its template
        raise ManifestError(
            f"the numbers of the templates are not 0 to {len(templates) - 1}, each once",
            source=str(index),
            allowed=allowed,
        )
    return numbers


def _unbracketed(template: str) -> str:
    """Return a template without its brackets."""
    return template.replace("[", "").replace("]", "")


def _split_labels(text: str, between: str, *, several: bool) -> list[str]:
    """Split a line into the path and its labels; labels are at the end, so the path may contain the separator."""
    parts = [part.strip() for part in text.split(between)]
    if not several:
        name, _, label = text.rpartition(between)
        return [name.strip(), label.strip()] if name else [text.strip()]
    count = next(
        (n for n, part in enumerate(reversed(parts)) if not re.fullmatch("[0-9]+", part)), len(parts)
    )
    return [between.join(parts[: len(parts) - count]), *parts[len(parts) - count :]]


def _ends_with_number(name: str, between: str) -> bool:
    """Return whether the text before a label ends with another number instead of a file name."""
    before, _, last = name.rpartition(between)
    return bool(before) and last.strip().isdigit()
