"""seqpipe.ray on a local Ray of two cores: rows equal local samples, and kills lose and repeat nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import seqpipe
import seqpipe.ray
from seqpipe import Clip, OutputSpec, SourceError
from tests.dataset.sources import listed

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'seqpipe[ray]'")

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # Ray's own

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
    }  # workers yield to all others by default
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


class Killer:
    """Function of a data set that kills a process at the fourth sample of its own process, once.

    Args:
        told: file that is there afterwards. The process is its own, or that of the number in a file beside it.
    """

    def __init__(self, told: Path):
        self.told, self.calls = told, 0

    def __call__(self, parts):
        self.calls += 1
        if self.calls == 4 and not self.told.exists():
            self.told.touch()
            other = self.told.with_suffix(".pid")
            os.kill(int(other.read_text()) if other.exists() else os.getpid(), signal.SIGKILL)
            time.sleep(1)
        return parts


def clips(told: Path):
    dataset = seqpipe.videos(
        listed(), Clip(3, per_video=5), output=OutputSpec(size=(16, 24)), seed=5, shuffle=True
    )
    return dataset.apply(Killer(told))


def test_rows_equal_local_samples_though_an_actor_is_killed(tmp_path):
    dataset = clips(tmp_path / "killed")
    clips_of_ray = seqpipe.ray.to_ray(dataset, concurrency=2, epoch=1)
    assert clips_of_ray.context.target_max_block_size <= 100 * 2**20 / 32, (
        "16 blocks of each actor fit the store"
    )
    rows = clips_of_ray.take_all()
    assert (tmp_path / "killed").exists()
    rows.sort(key=lambda row: row["index"])
    assert [row["index"] for row in rows] == list(range(15)), "every sample once"
    assert [row["sample_id"] for row in rows] == seqpipe.ray.sample_ids(dataset, range(15), epoch=1)
    local = dataset.read(range(15), epoch=1)
    assert all((row["image"] == image.data).all() for row, image in zip(rows, local["image"], strict=True))
    assert [row["label"] for row in rows] == local["label"].tolist()
    assert [row["frames"] for row in rows] == local["frames"].tolist()
    assert [row["source"] for row in rows] == [dataset.source.paths[video] for video in local["video"]]


def test_an_error_of_an_actor_has_its_class(tmp_path):
    def get(n):
        if n == 3:
            raise SourceError("is cut", source="a.mp4")
        return np.full((4, 6, 3), n, np.uint8)

    with pytest.raises(SourceError, match=r"^a\.mp4: is cut"):
        seqpipe.ray.export(seqpipe.items(get, size=6), tmp_path, samples_per_shard=2, concurrency=1)
    assert not (tmp_path / "shard-000001.tar").exists()
    assert not (tmp_path / "manifest.jsonl").exists()


def test_references_are_read_without_opening_files():
    dataset = clips(Path("/nowhere"))
    rows = seqpipe.ray.to_ray(dataset, decode=False).take_all()
    assert sorted(row["index"] for row in rows) == list(range(15))
    assert {*rows[0]} == {"sample_id", "index", "epoch", "source"}


def test_an_export_whose_driver_is_killed_is_completed_by_the_same_call(tmp_path):
    out, told = tmp_path / "out", tmp_path / "killed"
    program = f"""
import os, ray, seqpipe.ray
from pathlib import Path
from tests.ray_adapter.test_cluster import clips
ray.init(address={ray.get_runtime_context().gcs_address!r}, log_to_driver=False)
told = Path({str(told)!r})
told.with_suffix(".pid").write_text(str(os.getpid()))
seqpipe.ray.export(clips(told), {str(out)!r}, samples_per_shard=2, concurrency=1)
"""
    killed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    until = time.monotonic() + 120
    while (
        ray.available_resources().get("CPU", 0) < 2
    ):  # Ray stops the actors of a dead driver, and unused ones
        assert time.monotonic() < until
        gc.collect()
        time.sleep(0.1)
    shards = {path: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    assert not (out / "manifest.jsonl").exists()
    dataset = clips(told)
    report = seqpipe.ray.export(dataset, out, samples_per_shard=2, concurrency=1, resume=True)
    done = len(list((out / ".seqpipe/units").iterdir()))
    assert (report.samples, report.complete, done) == (15, True, 8)
    assert report.kept > 0
    assert report.kept + report.written == 15
    kept = [path for path, changed in shards.items() if path.stat().st_mtime_ns == changed]
    assert len(kept) >= report.kept // 2, "finished shards are not written again"
    dataset.write(tmp_path / "local", "webdataset", samples_per_shard=2)
    names = sorted(path.name for path in (tmp_path / "local").iterdir() if path.is_file())
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == names
    assert all((out / name).read_bytes() == (tmp_path / "local" / name).read_bytes() for name in names)
