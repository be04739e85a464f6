"""Make a LeRobot data set of version 2.1 or 3.0, by default a small one, whose pictures carry camera and frame number.

    python data_scripts/make_robots.py --out DIR [--version v3.0]

The picture of a frame shows :func:`code_of` (camera, index), readable by ``frame_code.read``. Version 2.1 has a video
and a table for each episode; version 3.0 has two videos of each camera, the first of which holds two episodes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_scripts.frame_code import draw
from seqpipe.core.whole_file import replacing

__all__ = ["CAMERAS", "FPS", "LENGTHS", "VERSIONS", "RobotSet", "code_of", "make_robots"]

VERSIONS = ("v2.1", "v3.0")
LENGTHS = (7, 5, 9)
"""Frames of each episode."""
CAMERAS = ("observation.images.top", "observation.images.wrist")
FPS = 10
_TASKS = ("Pick up the cube.", "Open the drawer.")
_SHAPES = {"observation.state": (2,), "action": (3,), "pose": (2, 2), "next.done": (1,)}
_STANDARD = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class RobotSet:
    """What a data set consists of.

    Attributes:
        lengths: frames of each episode.
        shards: episodes of each file of version 3.0.
        cameras: names of the cameras.
        fps: frame rate in Hz.
        size: (width, height) in pixels.
        codec: FFmpeg's name of the encoder.
        options: options of the encoder; by default a key frame every two frames, as LeRobot writes them.
    """

    lengths: tuple[int, ...] = LENGTHS
    shards: tuple[tuple[int, ...], ...] = ((0, 1), (2,))
    cameras: tuple[str, ...] = CAMERAS
    fps: int = FPS
    size: tuple[int, int] = (128, 96)
    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=lambda: {"g": "2", "crf": "20", "threads": "1"})

    @property
    def starts(self) -> list[int]:
        """Number of the first frame of each episode, and the number of frames."""
        return [int(start) for start in np.concatenate([[0], np.cumsum(self.lengths)])]


def code_of(camera: int, index: int) -> int:
    """The number that the picture of a frame shows, by the camera's position and the frame's ``index``."""
    return 1000 * (camera + 1) + index


def make_robots(out: Path, version: str = "v3.0", made: RobotSet | None = None) -> Path:
    """Write the data set.

    Args:
        out: takes ``meta``, ``data`` and ``videos``.
        version: one of :data:`VERSIONS`.
        made: what it consists of; a small one by default.

    Returns:
        ``out``.
    """
    made = made or RobotSet()
    starts, sharded = made.starts, version == VERSIONS[1]
    file = "chunk-{chunk_index:03d}/file-{file_index:03d}"
    episode = "episode_{episode_index:06d}"
    templates = {
        "data_path": f"data/{file}.parquet"
        if sharded
        else f"data/chunk-{{episode_chunk:03d}}/{episode}.parquet",
        "video_path": f"videos/{{video_key}}/{file}.mp4"
        if sharded
        else f"videos/chunk-{{episode_chunk:03d}}/{{video_key}}/{episode}.mp4",
    }
    files = made.shards if sharded else tuple((number,) for number in range(len(made.lengths)))
    for number, episodes in enumerate(files):
        names = {"chunk_index": 0, "file_index": number, "episode_chunk": 0, "episode_index": number}
        for position, camera in enumerate(made.cameras):
            path = out / templates["video_path"].format(**names, video_key=camera)
            frames = (index for one in episodes for index in range(starts[one], starts[one + 1]))
            _write_video(path, (code_of(position, index) for index in frames), made)
        _write_table(out / templates["data_path"].format(**names), _rows(episodes, made))
    _write_meta(out, version, templates, made)
    return out


def _rows(episodes: Iterable[int], made: RobotSet) -> dict[str, Any]:
    """The columns of episodes: values that follow from the index of a frame."""
    starts = made.starts
    index = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in episodes])
    episode = np.searchsorted(starts, index, side="right") - 1
    frame = index - np.asarray(starts)[episode]
    values = {
        name: (index[:, None] + np.arange(np.prod(shape)) / 8).astype(np.float32).reshape(-1, *shape)
        for name, shape in _SHAPES.items()
    }
    columns = {name: pa.array(value.tolist()) for name, value in values.items()}
    columns["next.done"] = pa.array(np.isin(index + 1, starts[1:]))
    for name in ("observation.state", "action"):
        columns[name] = pa.array(values[name].tolist(), pa.list_(pa.float32(), values[name].shape[1]))
    standard = ((frame / made.fps).astype(np.float32), frame, episode, index, episode % len(_TASKS))
    return {**columns, **{name: pa.array(value) for name, value in zip(_STANDARD, standard, strict=True)}}


def _write_meta(out: Path, version: str, templates: dict[str, str], made: RobotSet) -> None:
    rate, (width, height) = {"video.fps": made.fps, "video.is_depth_map": False}, made.size
    video = {
        "dtype": "video",
        "shape": [height, width, 3],
        "names": ["height", "width", "channels"],
        "info": rate,
    }
    kinds = dict.fromkeys(_SHAPES, "float32") | {"next.done": "bool"}
    features = {name: {"dtype": kinds[name], "shape": list(shape)} for name, shape in _SHAPES.items()}
    for name in _STANDARD:
        features[name] = {"dtype": "float32" if name == "timestamp" else "int64", "shape": [1]}
    info = {
        "codebase_version": version,
        "fps": made.fps,
        "total_episodes": len(made.lengths),
        "total_frames": sum(made.lengths),
        "chunks_size": 1000,
        **templates,
        "features": {**dict.fromkeys(made.cameras, video), **features},
    }
    _write_text(out / "meta/info.json", [info])
    lengths = [
        {"episode_index": n, "tasks": [_TASKS[n % 2]], "length": length}
        for n, length in enumerate(made.lengths)
    ]
    if version == VERSIONS[0]:
        _write_text(out / "meta/episodes.jsonl", lengths)
        _write_text(
            out / "meta/tasks.jsonl", [{"task_index": n, "task": text} for n, text in enumerate(_TASKS)]
        )
        return
    starts = made.starts
    for number, episodes in enumerate(made.shards):
        for one in episodes:
            row = lengths[one]
            row |= {"data/chunk_index": 0, "data/file_index": number, "stats/action/mean": [0.0]}
            row |= {"dataset_from_index": starts[one], "dataset_to_index": starts[one + 1]}
            for camera in made.cameras:
                first_s = (starts[one] - starts[episodes[0]]) / made.fps
                place = {"chunk_index": 0, "file_index": number, "from_timestamp": first_s}
                place["to_timestamp"] = first_s + made.lengths[one] / made.fps
                row |= {f"videos/{camera}/{name}": value for name, value in place.items()}
    _write_table(out / "meta/episodes/chunk-000/file-000.parquet", pa.Table.from_pylist(lengths))
    texts = {"task_index": list(range(len(_TASKS))), "__index_level_0__": list(_TASKS)}
    _write_table(out / "meta/tasks.parquet", pa.table(texts))


def _write_text(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _write_table(path: Path, columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), part)


def _write_video(path: Path, codes: Iterable[int], made: RobotSet) -> None:
    """Write pictures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, av.open(part, "w", format="mp4") as container:
        stream: Any = container.add_stream(made.codec, rate=made.fps, options=dict(made.options))
        stream.width, stream.height = made.size
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, made.fps)
        for code in codes:
            frame = av.VideoFrame.from_ndarray(draw(code, made.size), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def main() -> None:
    """Write the data set that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[1])
    options = parser.parse_args()
    print(make_robots(options.out, options.version))


if __name__ == "__main__":
    main()
