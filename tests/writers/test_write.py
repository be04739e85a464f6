"""Dataset.write: files and shards hold the samples, runs that stop are continued, and two runs never mix."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import seqpipe
from seqpipe import Clip, Every, OutputError, ParameterError, ops
from seqpipe.parts import Boxes, Labels
from seqpipe.writers.job import WriteJob
from seqpipe.writers.store import LocalFolder
from tests.dataset.sources import cases, listed
from tests.support.command_line import run_command
from tests.support.media import made

_RNG = np.random.default_rng(5)
_PICTURES = _RNG.integers(0, 255, (9, 12, 20, 3), dtype=np.uint8)


def _pictures(size=9):
    return seqpipe.items(
        {
            "image": [_PICTURES[n % 9] for n in range(size)],
            "mask": [_PICTURES[n % 9][..., :1] // 100 for n in range(size)],
            "box": [np.array([[n, 1.0, 5, 6]]) for n in range(size)],
            "name": [f"n{n}" for n in range(size)],
        },
        parts={"mask": Labels, "box": Boxes},
    )


def _tree(folder: Path, *, own=False):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if own or ".seqpipe" not in path.parts
    }


def _rows(folder: Path):
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text("ascii").splitlines()]


def _grouped(archive: bytes):
    """Samples of a WebDataset archive, as that library groups them: neighbors with one name up to the first dot."""
    samples, before = {}, None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            key, _, field = member.name.partition(".")
            assert key == before or key not in samples, "a sample's files follow one another"
            before = key
            samples.setdefault(key, {})[field] = tar.extractfile(member).read()
    return samples


@pytest.mark.parametrize(
    ("take", "options"),
    [(Every(3), ["--every", "3"]), (Clip(4, stride=2), ["--sequence-length", "4", "--stride", "2"])],
)
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tiff"])
def test_files_equal_those_of_export(tmp_path, ending, take, options):
    if ending in ("webp", "tiff") and isinstance(take, Clip):
        return  # the encoders are those of the other take
    source = made("h264")
    run_command(
        "export", source, *options, "--out", tmp_path / "export", "--format", ending, "--device", "cpu"
    )
    seqpipe.videos(str(source), take).write(tmp_path / "written", ending)
    exported, written = _tree(tmp_path / "export"), _tree(tmp_path / "written")
    exported.pop(".seqpipe-export.json")
    rows = _rows(tmp_path / "written")
    written.pop("manifest.jsonl")
    assert written == exported
    assert [name for row in rows for name in row["files"]] == sorted(exported)


def test_pictures_labels_and_values_come_back(tmp_path):
    report = _pictures().write(tmp_path / "out", "jpg", quality=90)
    assert (report.written, report.files, report.lost, report.complete) == (9, 18, 0, True)
    rows = _rows(tmp_path / "out")
    for n, row in enumerate(rows):
        picture, mask = (tmp_path / "out" / name for name in row["files"])
        assert (picture.name, mask.name) == (f"{n:08d}.jpg", f"{n:08d}.mask.png")
        with Image.open(mask) as judge:
            assert (np.asarray(judge) == _PICTURES[n][..., 0] // 100).all(), "labels are never lossy"
        with Image.open(picture) as judge:
            assert judge.size == (20, 12)
        assert row["box"] == [[n, 1.0, 5, 6]]
        assert row["name"] == f"n{n}"
    assert report.bytes == sum(len(data) for name, data in _tree(tmp_path / "out").items() if name[0] == "0")


def test_gray_and_transparent_pictures(tmp_path):
    rgba = np.dstack([_PICTURES[0], _PICTURES[1][..., :1]])
    seqpipe.items({"image": [_PICTURES[0][..., :1], rgba]}).write(tmp_path / "png", "png")
    with Image.open(tmp_path / "png/00000000.png") as gray, Image.open(tmp_path / "png/00000001.png") as four:
        assert (np.asarray(gray) == _PICTURES[0][..., 0]).all()
        assert (np.asarray(four) == rgba).all()
    seqpipe.items({"image": [_PICTURES[0][..., :1]]}).write(tmp_path / "jpg", "jpg", quality=100)
    with Image.open(tmp_path / "jpg/00000000.jpg") as gray:
        assert gray.mode == "L"
        assert np.abs(np.asarray(gray).astype(int) - _PICTURES[0][..., 0]).max() <= 3


def test_operators_apply_and_arrays_are_exact(tmp_path):
    dataset = _pictures().map(ops.Flip(p=0.5))
    dataset.write(
        tmp_path / "out", "npy", pattern="{part}/{sample:03d}.{ext}", parts=["image", "mask"], epoch=2
    )
    for n in range(9):
        sample = dataset.sample(n, 2)
        for part in ("image", "mask"):
            written = np.load(tmp_path / f"out/{part}/{n:03d}.npy")
            assert (written == sample[part].numpy()).all()
    assert "name" not in _rows(tmp_path / "out")[0]


def test_volumes_as_nifti(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    dataset = seqpipe.volumes(cases())
    dataset.write(tmp_path / "out", "nii.gz")
    for n, row in enumerate(_rows(tmp_path / "out")):
        assert row["files"] == [f"image{n}/000000.nii.gz", f"image{n}/000000.label.nii.gz"]
        for name, source in zip(row["files"], ("image", "label"), strict=True):
            written, truth = nibabel.load(tmp_path / "out" / name), nibabel.load(cases()[n][source])
            assert (written.get_fdata() == truth.get_fdata()).all()
            assert np.allclose(written.affine, truth.affine)


def test_tar_archives_hold_each_sample_together(tmp_path):
    dataset = seqpipe.videos(listed(), Clip(3, per_video=4))
    report = dataset.write(tmp_path / "a", "webdataset", samples_per_shard=5, image_format="png")
    tree = _tree(tmp_path / "a")
    shards = sorted(name for name in tree if name.endswith(".tar"))
    assert shards == [f"shard-{n:06d}.tar" for n in range(3)]
    assert report.files == 3
    assert report.bytes == sum(len(tree[name]) for name in shards)
    samples = {key: sample for name in shards for key, sample in _grouped(tree[name]).items()}
    assert list(samples) == [f"{n:08d}" for n in range(12)]
    for n, sample in enumerate(samples.values()):
        truth = dataset.sample(n)
        assert set(sample) == {"000.png", "001.png", "002.png", "cls", "json"}
        assert int(sample["cls"]) == truth["label"]
        assert json.loads(sample["json"])["frames"] == truth["frames"].tolist()
        for frame in range(3):
            pixels = cv2.imdecode(np.frombuffer(sample[f"{frame:03d}.png"], np.uint8), cv2.IMREAD_COLOR_RGB)
            assert (pixels == truth["image"].numpy()[frame]).all()
    dataset.write(tmp_path / "b", "webdataset", samples_per_shard=5, image_format="png", threads=1)
    assert _tree(tmp_path / "b") == tree, "bytes do not depend on threads or time"


def test_archives_are_divided_by_size(tmp_path):
    _pictures().write(tmp_path / "a", "webdataset", samples_per_shard=6, shard_mib=0.003, image_format="png")
    tree = _tree(tmp_path / "a")
    names = [name for name in tree if name.endswith(".tar")]
    assert "shard-000000-01.tar" in names
    keys = sorted(key for name in names for key in _grouped(tree[name]))
    assert keys == [f"{n:08d}" for n in range(9)]
    assert {row["files"][0] for row in _rows(tmp_path / "a")} == set(names)


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    _pictures().write(tmp_path / "a", "parquet", samples_per_shard=6, image_format="png")
    tables = [parquet.read_table(tmp_path / f"a/shard-{n:06d}.parquet") for n in range(2)]
    assert [table.num_rows for table in tables] == [6, 3]
    known = json.loads(tables[0].schema.metadata[b"seqpipe"])
    assert known["parts"]["image"] == {"encoding": "png", "frames": False}
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["sample"] for row in rows] == list(range(9))
    for n, row in enumerate(rows):
        pixels = cv2.imdecode(np.frombuffer(row["image"][0], np.uint8), cv2.IMREAD_COLOR_RGB)
        assert (pixels == _PICTURES[n]).all()
        assert row["name"] == f"n{n}"
    tensors = seqpipe.items({"image": list(_PICTURES)}).map(
        ops.Normalize(mean=(0.0, 0.0, 0.0), stddev=(1.0, 1.0, 1.0))
    )
    tensors.write(tmp_path / "b", "parquet", image_format="npy")
    (first, *_) = parquet.read_table(tmp_path / "b/shard-000000.parquet").to_pylist()
    assert (np.load(io.BytesIO(first["image"][0])) == tensors.sample(0)["image"].numpy()).all()


def test_samples_that_cannot_be_read_are_told(tmp_path):
    def get(n):
        if n == 3:
            raise seqpipe.DamagedSourceError("it is broken", source="three")
        return _PICTURES[n]

    with pytest.raises(seqpipe.DamagedSourceError, match="three: it is broken"):
        seqpipe.items(get, size=9).write(tmp_path / "raised")
    assert not (tmp_path / "raised/manifest.jsonl").exists()
    truncated = tmp_path / "cut.mp4"
    truncated.write_bytes(made("h264").read_bytes()[:30_000])
    dataset = seqpipe.videos([str(made("h264")), str(truncated)], Clip(4, step=8), on_error="skip")
    report = dataset.write(tmp_path / "skipped", "webdataset")
    read = [int(sample["index"]) for sample in dataset]
    rows = _rows(tmp_path / "skipped")
    assert [row["sample"] for row in rows if "error" not in row] == read
    assert (report.written, report.lost) == (len(read), dataset.size - len(read))


KILLED = """
import sys, time
import numpy as np
import seqpipe
def get(n):
    time.sleep(0.002)
    return np.full((8, 8, 3), n % 256, np.uint8)
seqpipe.items(get, size=300).write(sys.argv[1], sys.argv[2], samples_per_shard=100)
"""


@pytest.mark.parametrize("kind", ["png", "webdataset"])
def test_a_killed_run_is_continued(tmp_path, kind):
    """As by kill -9: what was finished stays as it is, the rest is written once, and nothing is half."""

    def get(n):
        return np.full((8, 8, 3), n % 256, np.uint8)

    get.__qualname__ = "get"
    out, dataset = tmp_path / "out", seqpipe.items(get, size=300)
    with subprocess.Popen([sys.executable, "-c", KILLED, str(out), kind]) as process:
        until = time.monotonic() + 60
        while not (out / ".seqpipe/units/000000.jsonl").exists():
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    units = {unit.stem for unit in (out / ".seqpipe/units").iterdir()}
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*") if path.is_file()}
    assert not (out / "manifest.jsonl").exists()
    with pytest.raises(OutputError, match=r"1 of \d parts of these samples are written already"):
        dataset.write(out, kind, samples_per_shard=100)
    report = dataset.write(out, kind, samples_per_shard=100, resume=True)
    assert report.kept == len(units) * (100 if kind == "webdataset" else 256)
    assert report.written + report.kept == 300
    dataset.write(tmp_path / "whole", kind, samples_per_shard=100)
    assert _tree(out) == _tree(tmp_path / "whole")
    assert [row["sample"] for row in _rows(out)] == list(range(300))
    kept = [path for path in before if path.stem in {f"shard-{unit}" for unit in units}]
    assert all(path.stat().st_mtime_ns == before[path] for path in kept)


def _job(folder, *, size=10, unit=1, rank=0, world=1, **facts):
    return WriteJob(LocalFolder(folder), facts, size, unit, rank, world)


def test_two_runs_of_the_same_samples_are_refused(tmp_path):
    with _job(tmp_path, rank=1, world=4).claimed():
        for rank, world in ((1, 4), (0, 1), (1, 2), (3, 6)):
            with (
                pytest.raises(
                    OutputError, match=r"another run is writing part 1 of 4.*continue with resume=True"
                ),
                _job(tmp_path, rank=rank, world=world).claimed(),
            ):
                pass
        with _job(tmp_path, rank=2, world=4).claimed(), _job(tmp_path, rank=3, world=4).claimed():
            pass
        with pytest.raises(OutputError, match="another run is writing part 1 of 4"):
            _pictures().write(tmp_path)
    with _job(tmp_path).claimed():
        pass


def test_processes_of_one_run_share_a_folder_and_another_run_waits_for_them(tmp_path):
    driver, actor = _job(tmp_path), _job(tmp_path, rank=1, world=4)
    with replace(driver, run="a").claimed(), replace(actor, run="a").claimed():
        for other in (actor, replace(actor, run="b")):
            with pytest.raises(OutputError, match="another run is writing part 0 of 1"), other.claimed():
                pass
    dying = replace(actor, run="a").claimed()
    dying.__enter__()
    threading.Timer(0.2, dying.__exit__, (None, None, None)).start()
    with pytest.raises(OutputError, match="another run is writing part 1 of 4"), driver.claimed():
        pass
    with driver.claimed(wait_s=30):
        pass


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 8), st.integers(1, 8))
def test_parts_of_any_number_of_runs_are_disjoint_and_complete(size, unit, world, other):
    place = Path("unused")
    jobs = [WriteJob(LocalFolder(place), {}, size, unit, rank, world) for rank in range(world)]
    parts = [[n for u in range(job.rank, job.units, world) for n in job.samples(u)] for job in jobs]
    assert sorted(n for part in parts for n in part) == list(range(size))
    mixed = [WriteJob(LocalFolder(place), {}, size, unit, rank, other) for rank in range(other)]
    for first in jobs:
        for second in mixed:
            units = set(range(first.rank, 200, world)) & set(range(second.rank, 200, other))
            assert first._shares_units(second.rank, second.world) == bool(units)


@pytest.mark.parametrize("kind", ["npy", "webdataset"])
def test_ranks_share_a_folder_and_their_number_may_change(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("seqpipe.dataset.write.UNIT", 20)
    dataset = _pictures(90)
    options = {"samples_per_shard": 20} if kind == "webdataset" else {"parts": ["image"]}
    dataset.write(tmp_path / "whole", kind, **options)
    first = dataset.shard(2, 3).write(tmp_path / "out", kind, **options)
    assert not first.complete
    assert not (tmp_path / "out/manifest.jsonl").exists()
    reports = [dataset.shard(n, 2).write(tmp_path / "out", kind, resume=True, **options) for n in range(2)]
    assert _tree(tmp_path / "out") == _tree(tmp_path / "whole")
    assert [report.complete for report in reports] == [False, True]
    assert first.written + sum(report.written for report in reports) == dataset.size
    assert sum(report.kept for report in reports) == first.written


def test_other_files_and_other_options_are_refused_by_name(tmp_path):
    dataset = _pictures()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/notes.txt").write_text("x")
    with pytest.raises(
        OutputError, match=r"theirs: the folder has files, such as 'notes.txt'.*overwrite=True"
    ):
        dataset.write(tmp_path / "theirs")
    assert list((tmp_path / "theirs").iterdir()) == [tmp_path / "theirs/notes.txt"]
    dataset.write(tmp_path / "out", "webdataset", samples_per_shard=4)
    with pytest.raises(OutputError, match=r"samples_per_shard was 4 and is 5.*overwrite=True"):
        dataset.write(tmp_path / "out", "webdataset", samples_per_shard=5, resume=True)
    with pytest.raises(OutputError, match="3 of 3 parts of these samples are written already"):
        dataset.write(tmp_path / "out", "webdataset", samples_per_shard=4)
    with pytest.raises(ParameterError, match="resume and overwrite exclude one another"):
        dataset.write(tmp_path / "out", resume=True, overwrite=True)
    with pytest.raises(ParameterError, match="overwrite=True would remove the files of the other 1 runs"):
        dataset.shard(0, 2).write(tmp_path / "out", overwrite=True)
    dataset.write(tmp_path / "out", "webdataset", samples_per_shard=5, overwrite=True)
    assert sorted(_tree(tmp_path / "out")) == ["manifest.jsonl", "shard-000000.tar", "shard-000001.tar"]
    dataset.write(tmp_path / "out", "png", overwrite=True)
    assert not list((tmp_path / "out").glob("*.tar"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "bmp"}, r"format='bmp' is not valid; allowed: 'jpg', 'png'"),
        ({"format": "png", "quality": 90}, "quality=90 means nothing for png"),
        ({"samples_per_shard": 0}, "samples_per_shard=0 is not valid"),
        ({"parts": ["flow"]}, r"write: the samples have no part 'flow'; allowed: image, mask, box, name"),
        ({"parts": "image"}, "parts='image'"),
        ({"pattern": "{stem}.jpg"}, r"has \{stem\}, and these samples do not belong to files"),
        ({"pattern": "all.{ext}"}, r"gives two samples one name.*Add \{sample\}"),
        ({"pattern": "../{sample}.{ext}"}, "does not name a file below"),
        ({"pattern": "{clip}"}, r"has the unknown field \{clip\}"),
        ({"format": "webdataset", "pattern": "{sample}.{ext}"}, r"has \{ext\}, and names samples in shards"),
        ({"epoch": -1}, "epoch=-1 is not valid"),
    ],
)
def test_arguments_are_checked_before_anything_is_written(tmp_path, options, said):
    with pytest.raises(ParameterError, match=said):
        _pictures().write(tmp_path / "out", **options)
    assert not _tree(tmp_path)


def test_what_a_format_does_not_hold(tmp_path):
    floats = seqpipe.items({"image": [np.zeros((4, 4, 3), np.float32)]})
    with pytest.raises(ParameterError, match=r"part 'image': jpg does not hold float32; allowed: uint8, or"):
        floats.write(tmp_path / "a")
    wide = seqpipe.items({"image": [np.zeros((4, 4, 5), np.uint8)]})
    with pytest.raises(ParameterError, match=r"png does not hold 5 channels; allowed: 1, 3, 4 channels"):
        wide.write(tmp_path / "b", "png")
    objects = seqpipe.items({"image": [_PICTURES[0]], "thing": [object()]})
    with pytest.raises(ParameterError, match=r"part 'thing': .*object cannot be written.*parts="):
        objects.write(tmp_path / "c")
    with pytest.raises(ParameterError, match=r"write\(\) after batch\(\)"):
        _pictures().batch(2).write(tmp_path / "d")
    with pytest.raises(ParameterError, match="read from front to back"):
        seqpipe.feed([_PICTURES[0]]).write(tmp_path / "e")
    (tmp_path / "a.b.mp4").symlink_to(made("h264"))
    dotted = seqpipe.videos(str(tmp_path / "a.b.mp4"), Clip(2, per_video=1))
    with pytest.raises(OutputError, match=r"the key 'a\.b' of sample 0 has a dot"):
        dotted.write(tmp_path / "f", "webdataset", pattern="{stem}")
    assert not list(tmp_path.rglob("manifest.jsonl")) + list(tmp_path.rglob("*.tar"))


def test_a_full_disk_leaves_nothing_half(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqpipe.writers.encoders._write_cv2", full)
    with pytest.raises(OutputError, match=r"cannot write .*00000000\.png \(No space left on device\)"):
        _pictures().write(tmp_path / "out", "png")
    assert not _tree(tmp_path / "out")


def test_names_of_sources_with_one_stem(tmp_path):
    for name in ("x/clip.mp4", "y/clip.mp4"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).symlink_to(made("h264"))
    dataset = seqpipe.videos([str(tmp_path / f"{n}/clip.mp4") for n in "xy"], Clip(2, per_video=1))
    dataset.write(tmp_path / "out", pattern=None)
    assert [row["files"][0] for row in _rows(tmp_path / "out")] == [
        "x/clip/000000/000000.jpg",
        "y/clip/000000/000000.jpg",
    ]
    with pytest.raises(ParameterError, match="two sources have the same stem"):
        dataset.write(tmp_path / "other", pattern="{stem}_{index}.{ext}")
