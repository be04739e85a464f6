"""Data for programs: images in class folders and in one folder, videos in class folders; made once for all."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.support.media import made

WRITTEN = Path(__file__).with_name("written")


def picture(number: int, height: int, width: int) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width]
    channels = [(rows * 3 + number * 20) % 256, (columns * 2) % 256, np.full_like(rows, number * 20)]
    return np.stack(channels, axis=-1).astype(np.uint8)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("programs")
    for number in range(7):
        path = root / "images" / f"class{number % 2}" / f"image_{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = cv2.cvtColor(picture(number, 60 + 8 * number, 90), cv2.COLOR_RGB2BGR)
        assert cv2.imwrite(str(path), data)
        (root / "flat").mkdir(exist_ok=True)
        shutil.copy(path, root / "flat" / path.name)
    for number, name in enumerate(("h264", "hevc", "h264_no_b")):
        path = root / "videos" / str(number % 2) / f"{name}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made(name), path)
    return root


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request, monkeypatch) -> str:
    """Where a program for a GPU runs."""
    monkeypatch.setenv("SEQPIPE_DALI_DEVICE", request.param)
    return request.param


@pytest.fixture
def program():
    """Runs a program of ``written`` after the one replacement that users have to make."""

    def load(name: str):
        path = WRITTEN / f"{name}.py"
        text = path.read_text(encoding="utf-8")
        assert "nvidia.dali" in text
        space = {"__name__": name, "__file__": str(path)}
        exec(compile(text.replace("nvidia.dali", "seqpipe.dali"), str(path), "exec"), space)
        return space["run"]

    return load
