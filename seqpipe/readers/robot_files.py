"""Files of LeRobot data sets of versions 2.1 and 3.0: metadata, columns of the frames, and shards of video.

Sources: the package lerobot, tag v0.3.3 (b883328e) for version 2.1 and commit 7427f318 for version 3.0.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import IntArray
from ..errors import (
    BackendError,
    ManifestError,
    ParameterError,
    SourceNotFoundError,
    UnreadableSourceError,
    described_type,
)

__all__ = ["Footage", "RobotFiles", "RobotFrames", "read_frames", "robot_folder"]

VERSIONS: Final = ("v2.1", "v3.0")
_NEEDED: Final = ("timestamp", "episode_index", "index", "task_index")
_LANGUAGE: Final = "language"  # columns of lists of dictionaries, which are not read


def robot_folder(root: Path) -> Path:
    """Return the folder of a data set: the given one, or where LeRobot keeps a repository that it has downloaded.

    Raises:
        SourceNotFoundError: it is neither a folder nor such a repository.
    """
    if root.is_dir():
        return root
    home = Path(
        os.environ.get("HF_LEROBOT_HOME")
        or Path(os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface") / "lerobot"
    ).expanduser()
    hub = home / "hub" / f"datasets--{'--'.join(root.parts)}" / "snapshots"
    snapshots = sorted(hub.glob("*"), key=lambda path: path.stat().st_mtime) if hub.is_dir() else []
    found = [folder for folder in (home / root, *snapshots[::-1]) if (folder / "meta/info.json").is_file()]
    if root.is_absolute() or not found:
        raise SourceNotFoundError(
            "it is no folder, and no repository that LeRobot has downloaded",
            source=str(root),
            allowed=f"the folder that holds meta, data and videos, or a repository in {home} or its hub",
            advice="Give the folder that holds meta, data and videos, or download it with LeRobot",
        )
    return found[0]


class Footage(NamedTuple):
    """Where the frames of an episode are within a file of one camera.

    Attributes:
        path: the file.
        start_s: time of the episode's first frame in the file, in seconds.
    """

    path: str
    start_s: float


@dataclass(frozen=True, eq=False)
class RobotFrames:
    """The frames of the chosen episodes.

    Attributes:
        root: folder of the data set.
        version: version of its format.
        fps: frame rate in Hz.
        columns: an array for each column, by name, with an entry for each frame.
        episodes: numbers of the episodes.
        bounds: position of the first frame of each episode, and the number of frames.
        tasks: text of each task; None where recordings have none.
        footage: for each camera, where each episode is.
    """

    root: str
    version: str
    fps: float
    columns: Mapping[str, npt.NDArray[Any]]
    episodes: tuple[int, ...]
    bounds: IntArray
    tasks: Mapping[int, str] | None
    footage: Mapping[str, tuple[Footage, ...]]

    def __len__(self) -> int:
        """The number of frames."""
        return int(self.bounds[-1])


class RobotFiles:
    """The metadata of a data set.

    Args:
        root: its folder, with ``meta``, ``data`` and ``videos``.

    Raises:
        SourceNotFoundError: the folder, or a file in ``meta``, does not exist.
        UnreadableSourceError: the version is not one of these.
        ManifestError: the metadata are not valid.
        BackendError: pyarrow is not installed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.info = self._info()
        self.version: str = self.info["codebase_version"]
        self.fps: float = self.info["fps"]
        self.features: dict[str, dict[str, Any]] = self.info["features"]
        self._is_sharded = self.version == VERSIONS[1]
        rows = self._episode_rows()
        self.episodes = {int(row["episode_index"]): row for row in rows}
        self.tasks = self._tasks()

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the features that are stored as videos."""
        return tuple(name for name, feature in self.features.items() if feature["dtype"] == "video")

    def chosen_cameras(self, cameras: Iterable[str] | None) -> tuple[str, ...]:
        """Return the cameras to read, in the order of the data set."""
        images = {name for name, feature in self.features.items() if feature["dtype"] == "image"}
        known = tuple(name for name in self.features if name in images or name in self.cameras)
        chosen = known if cameras is None else _names(cameras)
        for name in chosen:
            if name not in known:
                raise ParameterError(
                    f"camera {name!r} does not exist",
                    source=str(self.root),
                    allowed=", ".join(known) or "none: the data set has no cameras",
                )
            facts = {**self.features[name], **(self.features[name].get("info") or {})}
            is_depth = bool(facts.get("is_depth_map") or facts.get("video.is_depth_map"))
            if name in images or is_depth:
                raise UnreadableSourceError(
                    f"camera {name!r} is stored as {'depth' if is_depth else 'images'}",
                    source=str(self.root),
                    allowed="cameras that are stored as videos of colors",
                    advice="Leave it out: cameras=[…]",
                )
        return tuple(name for name in known if name in chosen)

    def chosen_episodes(self, episodes: Iterable[int] | None) -> tuple[int, ...]:
        """Return the numbers of the episodes to read, ascending."""
        known = sorted(self.episodes)
        if episodes is None:
            return tuple(known)
        if isinstance(episodes, (str, bytes)) or not isinstance(episodes, Iterable):
            raise ParameterError(f"episodes is {described_type(episodes)}", allowed="numbers of episodes")
        given = list(episodes)
        for episode in given:
            if (
                isinstance(episode, bool)
                or not isinstance(episode, (int, np.integer))
                or episode not in self.episodes
            ):
                allowed = f"{known[0]} to {known[-1]}" if known else "none: the data set has no episodes"
                raise ParameterError(
                    f"episode {episode!r} does not exist", source=str(self.root), allowed=allowed
                )
        if not given:
            raise ParameterError("episodes is empty", allowed="one episode or more, or None for all")
        return tuple(sorted({int(episode) for episode in given}))

    def data_path(self, episode: int) -> Path:
        """Return the file with the columns of an episode."""
        return self._path("data_path", episode, "data", {})

    def footage(self, episode: int, camera: str) -> Footage:
        """Return where the frames of an episode are."""
        path = self._path("video_path", episode, f"videos/{camera}", {"video_key": camera})
        if not path.is_file():
            raise SourceNotFoundError(
                f"the video of camera {camera!r} for episode {episode} does not exist",
                source=str(path),
                advice="Leave the camera or the episode out, or download the file",
            )
        if not self._is_sharded:
            return Footage(str(path), 0.0)
        return Footage(str(path), float(self._entry(episode, f"videos/{camera}/from_timestamp")))

    def length(self, episode: int) -> int:
        """Return the number of frames of an episode."""
        return int(self._entry(episode, "length"))

    def _path(self, template: str, episode: int, prefix: str, fields: dict[str, str]) -> Path:
        numbers = {"episode_index": episode}
        if self._is_sharded:
            for name in ("chunk_index", "file_index"):
                numbers[name] = int(self._entry(episode, f"{prefix}/{name}"))
        else:
            numbers["episode_chunk"] = episode // int(self.info.get("chunks_size", 1000))
        try:
            return self.root / str(self.info[template]).format(**numbers, **fields)
        except (KeyError, IndexError, AttributeError, ValueError) as error:
            raise ManifestError(
                f"{template}={self.info.get(template)!r} is not valid",
                source=str(self.root / "meta/info.json"),
                allowed=f"a path with the fields {', '.join([*numbers, *fields])}",
            ) from error

    def _entry(self, episode: int, name: str) -> Any:
        value = self.episodes[episode].get(name)
        if value is None:
            raise ManifestError(
                f"the table of episodes has no {name!r} for episode {episode}", source=str(self.root / "meta")
            )
        return value

    def _info(self) -> dict[str, Any]:
        path = self.root / "meta/info.json"
        info = _json(path, path.read_text("utf-8") if path.is_file() else None)
        version = info.get("codebase_version")
        if version not in VERSIONS:
            raise UnreadableSourceError(
                f"codebase_version={version!r} is not supported",
                source=str(path),
                allowed=", ".join(VERSIONS),
                advice="Convert the data set with lerobot's own scripts",
            )
        fps, features = info.get("fps"), info.get("features")
        is_rate = isinstance(fps, (int, float)) and math.isfinite(fps) and fps > 0
        described = isinstance(features, dict) and all(
            isinstance(feature, dict) and "dtype" in feature and "shape" in feature
            for feature in features.values()
        )
        if not is_rate or not described:
            fault = "features is not valid" if is_rate else f"fps={fps!r} is not valid"
            raise ManifestError(fault, source=str(path), allowed="fps above 0; features with dtype and shape")
        return info

    def _episode_rows(self) -> list[dict[str, Any]]:
        if not self._is_sharded:
            return _json_lines(self.root / "meta/episodes.jsonl", ("episode_index", "length"))
        paths = sorted((self.root / "meta/episodes").glob("*/*.parquet"))
        if not paths:
            raise SourceNotFoundError(
                "there is no table of episodes", source=str(self.root / "meta/episodes")
            )
        rows: list[dict[str, Any]] = []
        for path in paths:
            names = [name for name in _schema(path) if not name.startswith("stats/")]
            rows += _table(path, names).to_pylist()
        if any(row.get("episode_index") is None for row in rows):
            raise ManifestError("a row has no episode_index", source=str(self.root / "meta/episodes"))
        return rows

    def _tasks(self) -> dict[int, str]:
        if not self._is_sharded:
            rows = _json_lines(self.root / "meta/tasks.jsonl", ("task_index", "task"))
            return {int(row["task_index"]): str(row["task"]) for row in rows}
        path = self.root / "meta/tasks.parquet"
        if not path.is_file():
            return {}
        table = _table(path, None)
        texts = [name for name in table.column_names if name != "task_index"]
        if "task_index" not in table.column_names or not texts:
            raise ManifestError("the table of tasks has no task_index or text", source=str(path))
        name = "task" if "task" in texts else texts[-1]  # pandas writes its index last
        return dict(zip(table["task_index"].to_pylist(), map(str, table[name].to_pylist()), strict=True))


def read_frames(files: RobotFiles, episodes: Seq[int], cameras: Seq[str]) -> RobotFrames:
    """Read the columns of episodes, and where their frames are."""
    wanted = {name: feature for name, feature in files.features.items() if _is_column(feature)}
    wanted |= {name: {"dtype": "int64", "shape": [1]} for name in _NEEDED if name not in wanted}
    by_path: dict[Path, list[int]] = {}
    for episode in episodes:
        by_path.setdefault(files.data_path(episode), []).append(episode)
    pieces: dict[int, dict[str, npt.NDArray[Any]]] = {}
    for path, numbers in by_path.items():
        pieces.update(_episodes_of(path, numbers, wanted, files))
    columns = {name: np.concatenate([pieces[number][name] for number in episodes]) for name in wanted}
    lengths = [files.length(number) for number in episodes]
    return RobotFrames(
        str(files.root),
        files.version,
        files.fps,
        columns,
        tuple(episodes),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]),
        files.tasks,
        {name: tuple(files.footage(number, name) for number in episodes) for name in cameras},
    )


def _is_column(feature: Mapping[str, Any]) -> bool:
    return feature["dtype"] not in ("video", "image", _LANGUAGE)


def _episodes_of(
    path: Path, numbers: list[int], wanted: Mapping[str, Mapping[str, Any]], files: RobotFiles
) -> dict[int, dict[str, npt.NDArray[Any]]]:
    """Return the columns of each episode that a file holds."""
    table = _table(path, list(wanted))
    values = {name: _array(table[name], feature, name, path) for name, feature in wanted.items()}
    found = {}
    for number in numbers:
        rows = np.flatnonzero(values["episode_index"] == number)
        if len(rows) != files.length(number):
            raise ManifestError(
                f"episode {number} has {len(rows)} rows, and the table of episodes tells {files.length(number)}",
                source=str(path),
            )
        found[number] = {name: column[rows] for name, column in values.items()}
    return found


def _array(column: Any, feature: Mapping[str, Any], name: str, path: Path) -> npt.NDArray[Any]:
    """Return a column as an array with the dtype that LeRobot gives: float32, int64, bool or texts."""
    rows, flat = len(column), column.combine_chunks()
    while hasattr(flat, "flatten") and "list" in str(flat.type):
        flat = flat.flatten()
    shape = tuple(int(side) for side in feature["shape"])
    values = np.asarray(flat.to_numpy(zero_copy_only=False))
    if values.dtype.kind in "fiu":
        values = values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
    if values.size != rows * math.prod(shape):
        raise ManifestError(
            f"column {name!r} has {values.size} values in {rows} rows",
            source=str(path),
            allowed=f"the shape {shape} of meta/info.json",
        )
    return values.reshape(rows, *(() if shape == (1,) else shape))


def _names(cameras: Iterable[str]) -> tuple[str, ...]:
    if isinstance(cameras, (str, bytes)) or not isinstance(cameras, Iterable):
        raise ParameterError(f"cameras is {described_type(cameras)}", allowed="a list of names of cameras")
    return tuple(cameras)


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise BackendError(
            "LeRobot data sets need pyarrow, which is not installed",
            advice="Install it: pip install 'seqpipe[parquet]'",
        ) from error
    return pyarrow.parquet


def _schema(path: Path) -> list[str]:
    return list(_opened(path, _parquet().read_schema).names)


def _table(path: Path, names: list[str] | None) -> Any:
    if names is not None:
        missing = sorted(set(names) - set(_schema(path)))
        if missing:
            raise ManifestError(f"there is no column {', '.join(missing)}", source=str(path))
    return _opened(path, _parquet().read_table, columns=names, partitioning=None)


def _opened(path: Path, read: Callable[..., Any], **options: Any) -> Any:
    import pyarrow

    try:
        return read(path, **options)
    except FileNotFoundError as error:
        raise SourceNotFoundError("the file does not exist", source=str(path)) from error
    except (OSError, pyarrow.ArrowException) as error:
        raise UnreadableSourceError(f"it is no Parquet file: {error}", source=str(path)) from error


def _json(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise SourceNotFoundError(
            "the file does not exist",
            source=str(path),
            advice="Give the folder that holds meta, data and videos",
        )
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"it is not JSON: {error}", source=str(path)) from error
    if not isinstance(value, dict):
        raise ManifestError(f"it is {described_type(value)}", source=str(path), allowed="an object")
    return value


def _json_lines(path: Path, needed: Seq[str]) -> list[dict[str, Any]]:
    text = path.read_text("utf-8") if path.is_file() else None
    rows = [_json(path, line) for line in text.splitlines() if line.strip()] if text is not None else []
    if text is None:
        _json(path, None)
    for number, row in enumerate(rows, 1):
        if missing := [name for name in needed if name not in row]:
            raise ManifestError(f"line {number} has no {', '.join(missing)}", source=str(path))
    return rows
