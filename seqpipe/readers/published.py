"""Annotations of action recognition data sets as they are published; each function makes a listing of them.

======================================== ==========================================================================
function                                 reads
======================================== ==========================================================================
:func:`kinetics`                         Kinetics' CSV files, with their time ranges
:func:`video_list`                       lists without a header, ``path label``, as SlowFast and mmaction2 have them
:func:`ucf101`                           UCF101's ``trainlist01.txt`` and ``testlist01.txt``
:func:`hmdb51`                           HMDB51's folder of splits
:func:`something_something`              Something-Something's JSON files
:func:`ava`                              AVA's CSV files of boxes with actions
======================================== ==========================================================================

train = published.kinetics("kinetics400/train.csv", root="/data/kinetics400/train", missing="skip")
reader = seqpipe.readers.Video(videos=train, sequence_length=16, stride=4, clips_per_video=1, shuffle=True)

Published lists name many videos that cannot be had any more: with ``missing="skip"`` they are left out, and a warning
counts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ..errors import ManifestError, ParameterError, SourceNotFoundError
from ..param import check_path
from .entry import Entry, Listing
from .fields import fields_of
from .labels import NO_LABEL, LabelParser
from .published_file import Missing, PublishedFile, listing_of_files
from .ranges import Range

__all__ = ["ava", "hmdb51", "kinetics", "rawframes", "something_something", "ucf101", "video_list"]

_Path: TypeAlias = str | os.PathLike[str]


def kinetics(
    path: _Path,
    root: _Path | None = None,
    *,
    classes: Iterable[str] | None = None,
    missing: Missing = "raise",
) -> Listing:
    """Kinetics-400, -600 or -700: a CSV file with the columns label, youtube_id, time_start, time_end, split.

    The videos may lie as ``{label}/{id}_{start:06d}_{end:06d}.mp4`` or without the folder, as the usual downloads cut
    them, or whole as ``{id}.mp4``, of which the range from time_start to time_end is used; with any ending of a video.

    Args:
        path: of the CSV file.
        root: the folder of the videos; by default that of the file.
        classes: the names of the classes in the order of their numbers; by default the labels of the file, sorted.
        missing: what becomes of videos that are not there.

    Returns:
        With the fields youtube_id, time_start, time_end (seconds in the original video), and split if there is one.

    Raises:
        SourceNotFoundError: there is no such file; or a video is missing and may not be.
        ManifestError: a line cannot be used.
    """
    file = PublishedFile(path, root, missing)
    rows = list(file.table(("youtube_id", "time_start", "time_end")))
    named = [row["label"] for _, row in rows if row.get("label")]
    labels = LabelParser(classes if classes is not None else sorted(set(named)) or None)
    fields = fields_of([{k: v for k, v in row.items() if k != "label"} for _, row in rows])
    entries = []
    for (line, row), known in zip(rows, fields, strict=True):
        known["youtube_id"] = row["youtube_id"]  # of digits alone, it is no number
        start, end = (file.float(line, row[name]) for name in ("time_start", "time_end"))
        trimmed = f"{row['youtube_id']}_{int(start):06d}_{int(end):06d}"
        folder = row.get("label", "")
        names = [f"{folder}/{trimmed}", trimmed, f"{folder}/{row['youtube_id']}", row["youtube_id"]]
        found = file.find(line, names if folder else names[1::2])
        if found is None:
            continue
        with file.naming(line):
            label = labels(folder) if folder else NO_LABEL
            whole = not found.removesuffix(Path(found).suffix).endswith(trimmed)
            part = Range(start_s=start, end_s=end) if whole else None
        entries.append(file.entry(line, found, label, part, known))
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
    """A list without a header, a video in each line and its label behind it, as SlowFast and mmaction2 have them.

    Args:
        path: of the file.
        root: the folder that relative paths start at; by default that of the file.
        separator: between path and label; by default the tab, comma or blank before the last word of a line. Paths
            may have blanks, for labels are at the end of lines.
        several: whether a video has several labels, so that labels are "classes".
        classes: names of classes; labels may then be names too.
        missing: what becomes of videos that are not there.

    Raises:
        SourceNotFoundError: there is no such file; or a video is missing and may not be.
        ManifestError: a line cannot be used.
    """
    file = PublishedFile(path, root, missing)
    labels = LabelParser(classes, "classes" if several else "class")
    entries = []
    for line, text in file.lines():
        between = separator or next((mark for mark in reversed(text) if mark in "\t, "), " ")
        name, *given = _from_the_end(text, between, several=several)
        if not several and len(given) == 1 and _is_count(name, between):
            raise file.bad(
                line,
                f"two numbers follow the path, {text!r}",
                advice="A list of folders of frames is read by rawframes(), for readers.FrameFolders; where these are "
                "several labels, give several=True",
            )
        found = file.find(line, [name], exact=True)
        if found is None:
            continue
        with file.naming(line):
            entries.append(file.entry(line, found, labels(given if several else given[0]) if given else -1))
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

    The label may be missing, as in lists of test sets. :class:`seqpipe.readers.FrameFolders` reads what comes of it.

    Args:
        path: of the file.
        root: the folder that relative paths start at; by default that of the file.
        several: whether a folder has several labels, so that labels are "classes".
        classes: names of the classes that labels number.
        missing: what becomes of folders that are not there.

    Raises:
        SourceNotFoundError: there is no such file; or a folder is missing and may not be.
        ManifestError: a line cannot be used.
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
        given = (words[3] or "").split()
        found = file.find(line, [words[1].rstrip("/")], exact=True)
        if found is None:
            continue
        with file.naming(line):
            label = labels(given) if several else labels(given[0]) if given else NO_LABEL
            entries.append(file.entry(line, found, label, Range(start_frame=0, end_frame=int(words[2]))))
    return listing_of_files([file], entries, labels)


def ucf101(
    path: _Path, root: _Path | None = None, *, index: _Path | None = None, missing: Missing = "raise"
) -> Listing:
    """UCF101: ``trainlist01.txt`` with labels, ``testlist01.txt`` without; the folder of a video is its class.

    Args:
        path: of the list.
        root: the folder of the class folders; by default that of the list.
        index: of ``classInd.txt``, which numbers the classes; by default beside the list.
        missing: what becomes of videos that are not there.

    Returns:
        With the fields group and clip, as file names have them: clips of one group are of one original video.

    Raises:
        SourceNotFoundError: there is no such file; or a video is missing and may not be.
        ManifestError: a line cannot be used.
    """
    file = PublishedFile(path, root, missing)
    numbered = PublishedFile(index if index is not None else file.folder / "classInd.txt", None, missing)
    classes = [text.partition(" ")[2].strip() for _, text in numbered.lines()]
    labels = LabelParser(classes)
    entries = []
    for line, text in file.lines():
        name = re.sub(r"\s+[0-9]+$", "", text)
        found = file.find(line, [name], exact=True)
        if found is None:
            continue
        with file.naming(line):
            label = labels(name.replace("\\", "/").split("/")[0])
        numbers = re.search(r"_g([0-9]+)_c([0-9]+)", name)
        known = {"group": int(numbers[1]), "clip": int(numbers[2])} if numbers else {}
        entries.append(file.entry(line, found, label, None, known))
    return listing_of_files([file], entries, labels)


def hmdb51(
    splits: _Path,
    root: _Path,
    *,
    number: int = 1,
    part: Literal["train", "test", "unused"] = "train",
    missing: Missing = "raise",
) -> Listing:
    """HMDB51: files ``{class}_test_split{number}.txt``, whose lines are a video and 1 (train), 2 (test) or 0.

    Args:
        splits: the folder of these files.
        root: the folder of the class folders.
        number: of the split, 1 to 3.
        part: which of its videos.
        missing: what becomes of videos that are not there.

    Raises:
        SourceNotFoundError: there is no such split; or a video is missing and may not be.
        ManifestError: a line cannot be used.
        ParameterError: there is no such part.
    """
    marks = {"train": "1", "test": "2", "unused": "0"}
    if part not in marks:
        raise ParameterError(f"part={part!r} is not valid", allowed=", ".join(map(repr, marks)))
    ending = f"_test_split{number}.txt"
    found = sorted(Path(check_path("splits", splits)).glob(f"*{ending}"))
    if not found:
        raise SourceNotFoundError(f"there is no file *{ending}", source=str(splits), advice="Check the path")
    labels = LabelParser([one.name.removesuffix(ending) for one in found])
    entries: list[Entry] = []
    files = [PublishedFile(one, root, missing) for one in found]
    for file, name in zip(files, labels.classes, strict=True):
        for line, text in file.lines():
            video, _, mark = text.rpartition(" ")
            if mark not in marks.values() or not video:
                raise file.bad(line, f"{text!r} is no video and 0, 1 or 2")
            if mark != marks[part]:
                continue
            place = file.find(line, [f"{name}/{video.strip()}"], exact=True)
            if place is not None:
                entries.append(file.entry(line, place, labels(name)))
    return listing_of_files(files, entries, labels)


def something_something(
    path: _Path, root: _Path, *, index: _Path | None = None, missing: Missing = "raise"
) -> Listing:
    """Something-Something: a JSON file with an object for each video, and one that numbers the templates.

    Args:
        path: of ``…-train.json``, ``…-validation.json`` or ``…-test.json``.
        root: the folder of the videos, ``{id}.webm`` or with another ending.
        index: of ``…-labels.json``; by default ``labels.json``, or the only file of such a name, beside the list.
        missing: what becomes of videos that are not there.

    Returns:
        With the fields id, text (the label in the words of its author), and placeholders (a list of texts).

    Raises:
        SourceNotFoundError: there is no such file; or a video is missing and may not be.
        ManifestError: the files are not those of Something-Something.
    """
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
        found = file.find(line, [str(row["id"])])
        if found is None:
            continue
        with file.naming(line):
            label = labels(_unbracketed(row["template"])) if "template" in row else NO_LABEL
        known = {
            "id": str(row["id"]),
            "text": row.get("label", ""),
            "placeholders": row.get("placeholders", []),
        }
        entries.append(file.entry(line, found, label, None, known))
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
    """AVA: lines ``video,second,x1,y1,x2,y2,action,person`` without a header; an entry for each second of a video.

    A clip in the middle of an entry is around its key frame: ``Video(videos=…, clips_per_video=1, clip_mode="even")``.
    The label of an entry has all actions of the second (``label_type="classes"``; class ``n - 1`` is action ``n``).

    Args:
        path: of the CSV file.
        root: the folder of the videos, ``{video}.mp4`` or with another ending.
        duration_s: of an entry, its key frame in the middle.
        starts_at_s: where the files begin on AVA's clock: 0 for whole films, 900 for the usual cut-outs of 15 minutes.
        classes: how many actions there are.
        excluded: of AVA's file of excluded seconds, ``video,second`` in each line.
        missing: what becomes of videos that are not there.

    Returns:
        With the fields timestamp (the second, on AVA's clock), boxes (float32 ``(boxes, 4)``: left, top, right, bottom
        from 0 to 1), actions (float32 ``(boxes, classes)`` of 0 and 1) and persons (int64 ``(boxes,)``).

    Raises:
        SourceNotFoundError: there is no such file; or a video is missing and may not be.
        ManifestError: a line cannot be used.
    """
    file = PublishedFile(path, root, missing)
    left_out: set[tuple[str, float]] = set()
    if excluded is not None:
        other = PublishedFile(excluded, None, missing)
        left_out = {(row[0], other.float(line, row[1])) for line, row in other.rows(2)}
    seconds: dict[tuple[str, float], list[tuple[int, list[float]]]] = {}
    for line, row in file.rows(8, 7, 2):
        place = row[0], file.float(line, row[1])
        numbers = [file.float(line, text) for text in row[2:]]
        if numbers and not 1 <= numbers[4] <= classes:
            raise file.bad(line, f"the action {row[6]}", allowed=f"1 to {classes}")
        if place not in left_out:
            seconds.setdefault(place, []).append((line, numbers))
    labels = LabelParser([f"{number}" for number in range(1, classes + 1)], "classes")
    entries = []
    for (video, second), found_rows in seconds.items():
        line = found_rows[0][0]
        found = file.find(line, [video])
        if found is None:
            continue
        middle = second - starts_at_s
        part = Range(start_s=max(0.0, middle - duration_s / 2), end_s=middle + duration_s / 2)
        fields = {"timestamp": second, **_boxes([numbers for _, numbers in found_rows if numbers], classes)}
        label = tuple(np.flatnonzero(fields["actions"].any(axis=0)).tolist())
        entries.append(file.entry(line, found, label, part, fields))
    return listing_of_files([file], entries, labels)


def _boxes(rows: list[list[float]], classes: int) -> dict[str, Any]:
    """The different boxes of a second, with all actions of each."""
    known: dict[tuple[float, ...], int] = {}
    for row in rows:
        known.setdefault((*row[:4], *row[5:]), len(known))
    actions = np.zeros((len(known), classes), dtype=np.float32)
    for row in rows:
        actions[known[(*row[:4], *row[5:])], int(row[4]) - 1] = 1
    boxes = np.array([box[:4] for box in known], dtype=np.float32).reshape(-1, 4)
    persons = np.array([box[4] if len(box) > 4 else -1 for box in known], dtype=np.int64)
    return {"boxes": boxes, "actions": actions, "persons": persons}


def _templates(file: PublishedFile, index: _Path | None) -> dict[str, int]:
    """The numbers of the templates."""
    if index is None:
        beside = sorted(file.folder.glob("*labels.json"))
        if len(beside) != 1:
            raise SourceNotFoundError(
                f"{len(beside)} files *labels.json are beside the list",
                source=file.path,
                advice="Give index=…, the file that numbers the templates",
            )
        index = beside[0]
    numbers = PublishedFile(index, None, "raise").json()
    try:
        return {_unbracketed(name): int(number) for name, number in numbers.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ManifestError(
            "the file does not number templates", source=str(index), allowed='{"Holding something": "0", …}'
        ) from error


def _unbracketed(template: str) -> str:
    return template.replace("[", "").replace("]", "")


def _from_the_end(text: str, between: str, *, several: bool) -> list[str]:
    """A path and the labels behind it."""
    parts = [part.strip() for part in text.split(between)]
    if not several:
        name, _, label = text.rpartition(between)
        return [name.strip(), label.strip()] if name else [text.strip()]
    count = next(
        (n for n, part in enumerate(reversed(parts)) if not re.fullmatch("[0-9]+", part)), len(parts)
    )
    return [between.join(parts[: len(parts) - count]), *parts[len(parts) - count :]]


def _is_count(name: str, between: str) -> bool:
    """Whether what stands before a label ends with a number of its own, and not with the ending of a file."""
    before, _, last = name.rpartition(between)
    return bool(before) and last.strip().isdigit()
