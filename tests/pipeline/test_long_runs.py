"""What training runs live through: a process that is killed, errors in every stage, many epochs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, fn, ops
from seqpipe.errors import SourceError
from tests.support.datasets import files
from tests.support.media import made
from tests.support.memory import growth, usage

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import json, os, signal, sys
from pathlib import Path
import seqpipe
from seqpipe import Clip, fn
from seqpipe.core.whole_file import replacing

videos, out, after = json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
ds = seqpipe.videos(videos, Clip(4, step=8), shuffle=True, seed=3).batch(2)
ds = ds.graph(lambda parts: {
    "image": fn.rotate(parts["image"], angle=fn.random.uniform(range=(-9.0, 9.0)), keep_size=True)
})
state = out / "state.json"
for epoch in ds.epochs(2, resume=state.read_text() if state.exists() else None):
    for batch in epoch:
        with (out / "seen.txt").open("a") as seen:
            print(epoch.number, batch.index.tolist(), float(batch["image"].numpy().mean()), file=seen)
        with replacing(state) as beside:
            beside.write_text(json.dumps(batch.state))
        after -= 1
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_and_started_again_sees_what_one_run_sees(tmp_path):
    def run(name, after):
        (tmp_path / name).mkdir(exist_ok=True)
        words = [
            sys.executable,
            "-c",
            RUN,
            json.dumps(files("h264", "hevc")),
            str(tmp_path / name),
            str(after),
        ]
        return subprocess.run(words, check=False, cwd=ROOT, capture_output=True, timeout=120).returncode

    assert run("whole", 0) == 0
    assert run("killed", 8) == -9, "in the second epoch"
    assert run("killed", 0) == 0
    whole, killed = ((tmp_path / name / "seen.txt").read_text().splitlines() for name in ("whole", "killed"))
    assert killed == whole
    assert len(whole) == 12


def test_an_error_of_each_stage_comes_in_its_turn_and_the_run_goes_on():
    def item(number):
        if number == 1:
            raise ValueError("of the source")
        side = 16 if number else 8
        return {"image": np.full((side, side, 3), number, np.uint8)}

    def build(parts):
        return {"image": fn.crop(parts["image"], crop=(12, 12))}

    with seqpipe.items(item, size=3, parts={"image": "HWC"}).graph(build).batch(1) as ds:
        seen, batches = [], iter(ds)
        for _ in range(4):
            try:
                next(batches)
                seen.append("a batch")
            except StopIteration:
                seen.append("end")
            except Exception as error:
                seen.append(type(error).__name__)
    assert seen == ["ParameterError", "ValueError", "a batch", "end"]


def test_a_data_set_raises_what_its_source_raises(tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(made("h264").read_bytes())
    ds = seqpipe.videos([broken, *files("hevc")], Clip(4, step=48))
    broken.unlink()
    with ds.map(ops.Brightness(brightness=(0.5, 1.5))).batch(1) as ds:
        batches = iter(ds)
        with pytest.raises(SourceError, match=r"broken\.mp4"):
            next(batches)
        assert next(batches).index.tolist() == [1]
        with pytest.raises(StopIteration):
            next(batches)


@pytest.mark.deep
def test_fifty_epochs_hold_no_more_than_five():
    ds = seqpipe.videos(files("h264", "hevc"), Clip(4, step=16), shuffle=True).map(
        ops.Rotate(angle=(-9.0, 9.0), keep_size=True)
    )
    held = []
    with ds.batch(2) as ds:
        for number in range(55):
            assert len(list(ds.epoch(number))) == 3
            if number >= 5:
                held.append(usage("cpu"))
    assert growth(held) == []
