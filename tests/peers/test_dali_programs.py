"""Whole programs by DALI and by seqpipe.dali: everything that they return, and where they fail."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

from tests.peers import dali
from tests.programs.conftest import WRITTEN, picture

pytestmark = pytest.mark.peers
STRANGERS = [WRITTEN / name for name in ("strangers.py", "newcomers.py")]


def _video(path: Path) -> None:
    """A video of 40 frames by a codec that DALI decodes on the CPU."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 12
        for number in range(40):
            frame = np.full((48, 64, 3), number * 6, np.uint8)
            frame[:, number : number + 8] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("strangers")
    for folder in ("flat", "arrays", "images/class0", "images/class1", "frames/0", "frames/1"):
        (root / folder).mkdir(parents=True)
    for number in range(7):
        flat = root / "flat" / f"image_{number}.png"
        cv2.imwrite(str(flat), picture(number, 60 + 8 * number, 90))
        shutil.copy(flat, root / "images" / f"class{number % 2}" / flat.name)
        np.save(
            root / "arrays" / f"a{number}.npy",
            np.arange(12 * (number + 2), dtype=np.float32).reshape(4, -1, 3),
        )
        cv2.imwrite(str(root / "frames" / str(number % 2) / f"{number}.png"), picture(number, 20, 30))
    (root / "list.txt").write_text("".join(f"class{n % 2}/image_{n}.png {n}\n" for n in range(7)))
    objects = [(10 + n, (3, 7)[k], [5 + n, 6, 20 + k * 10, 15]) for n in range(7) for k in range(2) if n != 4]
    outline = {"iscrowd": 0, "area": 300, "segmentation": [[5, 6, 25, 6, 25, 21]]}
    names = ("image_id", "category_id", "bbox")
    whole = {
        "images": [
            {"id": 10 + n, "file_name": f"image_{n}.png", "height": 60 + 8 * n, "width": 90} for n in range(7)
        ],
        "annotations": [
            {**dict(zip(names, one, strict=True)), **outline, "id": n} for n, one in enumerate(objects)
        ],
        "categories": [{"id": 3, "name": "a"}, {"id": 7, "name": "b"}],
    }
    (root / "coco.json").write_text(json.dumps(whole))
    paths = [root / "videos" / "0" / "a.mp4", root / "videos" / "1" / "b.mp4"]
    for path in paths:
        _video(path)
    (root / "videos.txt").write_text("".join(f"{path} {n + 5}\n" for n, path in enumerate(paths)))
    (root / "ranges.txt").write_text(f"{paths[0]} 3 8 24\n{paths[1]} 4 -30 -1\n")
    return root


@pytest.fixture(scope="module")
def results(data: Path, tmp_path_factory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results of all programs by their names: seqpipe's and DALI's."""
    python = os.environ.get(dali.PYTHON)
    if not python:
        pytest.skip(dali.ADVICE)
    mine: dict[str, Any] = {}
    yours: dict[str, Any] = {}
    path = tmp_path_factory.mktemp("results") / "theirs.pickle"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(WRITTEN)
        for script in STRANGERS:
            subprocess.run(
                [python, "-W", "ignore", str(script), str(data), str(path)], check=True, timeout=300
            )
            yours |= pickle.loads(path.read_bytes())
            space: dict[str, Any] = {"__name__": script.stem, "__file__": str(script)}
            text = script.read_text(encoding="utf-8").replace("nvidia.dali", "seqpipe.dali")
            exec(compile(text, str(script), "exec"), space)
            mine |= importlib.import_module("program_results").run_all(space["programs"], str(data))
    return mine, yours


_LINES = [line for script in STRANGERS for line in script.read_text(encoding="utf-8").splitlines()]
NAMES = [
    line.split("(")[0].removeprefix("def ")
    for before, line in itertools.pairwise(_LINES)
    if before == "@program"
]
FAILING = [line.split('"')[1] for line in _LINES if line.startswith("@_error(")]


def _compare(mine: Any, yours: Any, where: str) -> None:
    assert type(mine) is type(yours), where
    if isinstance(mine, np.ndarray):
        assert (mine.shape, mine.dtype) == (yours.shape, yours.dtype), where
        near = 1 if mine.dtype.kind in "iu" and mine.size > 30 else 1e-3 + 2e-3 * np.abs(yours).max(initial=0)
        if (
            mine.dtype.kind == "f" and mine.size > 100
        ):  # a level of 255 more or less, before it was normalized
            near = max(near, 1.1 * max(1.0, float(np.abs(yours).max())) / 57)
        assert np.abs(mine.astype(float) - yours.astype(float)).max(initial=0) <= near, where
    elif isinstance(mine, dict):
        assert mine.keys() == yours.keys(), where
        for key in mine:
            _compare(mine[key], yours[key], f"{where}.{key}")
    elif isinstance(mine, list):
        assert len(mine) == len(yours), where
        for number, pair in enumerate(zip(mine, yours, strict=True)):
            _compare(*pair, f"{where}[{number}]")
    else:
        assert mine == yours, where


@pytest.mark.parametrize("name", NAMES)
def test_programs_return_the_same(results, name):
    mine, yours = (one[name] for one in results)
    assert not isinstance(yours, str), yours
    assert not isinstance(mine, str), mine
    _compare(mine, yours, name)


@pytest.mark.parametrize("name", FAILING)
def test_programs_fail_in_both(results, name):
    mine, yours = (one[name] for one in results)
    assert isinstance(mine, str)
    assert isinstance(yours, str)
    assert mine.startswith(("ParameterError", "ValueError: boom")), mine
