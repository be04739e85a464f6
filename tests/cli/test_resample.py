"""``seqpipe resample``: whole data sets on another grid, as ``seqpipe.volume`` resamples one volume."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import seqpipe
from seqpipe.cli import main
from seqpipe.sequence import Sequence
from seqpipe.volume import reorient, resample, save

AFFINE = np.array([[0, 0, 1.0, -3], [0, 1.5, 0, 4], [2.0, 0, 0, 5], [0, 0, 0, 1]])


def run(*words, code=0):
    done = CliRunner().invoke(main, ["resample", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    for name in ("images", "labels"):
        (tmp_path / "in" / name).mkdir(parents=True)
    for n in range(2):
        labels = rng.integers(0, 3, (6, 7, 8, 1)).astype(np.uint8) * 2
        for name, data in (("images", labels * np.float32(1.5)), ("labels", labels)):
            save(Sequence(data, "DHWC", affine=AFFINE), tmp_path / "in" / name / f"case{n}.nii.gz")
    return tmp_path / "in"


def test_a_data_set_is_resampled_and_read_by_its_list(folder, tmp_path):
    words = (folder, tmp_path / "out", "--spacing", "1,1,2", "--orientation", "LPS", "--jobs", 1)
    assert "2 cases" in run(*words).stderr
    cases = seqpipe.cases(tmp_path / "out/manifest.csv")
    assert [case.subject for case in cases] == [case.subject for case in seqpipe.cases(folder)]
    for case in cases:
        name = case.parts["image"].rsplit("/", 1)[1]
        for part, kind in (("image", "images"), ("label", "labels")):
            source = reorient(seqpipe.open(folder / kind / name).sequence(), "LPS")
            vote = {"interp": "vote", "fill_value": 0} if part == "label" else {}
            want = resample(source, (1, 1, 2), **vote)
            with seqpipe.open(case.parts[part]) as found:
                np.testing.assert_array_equal(found.sequence().data, want.data)
                np.testing.assert_allclose(found.affine, want.affine, atol=1e-5)
    before = (tmp_path / "out/images/case0.nii.gz").stat().st_mtime_ns
    (tmp_path / "out/images/case1.nii.gz").unlink()
    counts = [json.loads(line)["written"] for line in run(*words, "--json").stdout.splitlines()]
    assert sorted(counts) == [0, 1]
    assert (tmp_path / "out/images/case0.nii.gz").stat().st_mtime_ns == before
    told = run(folder, tmp_path / "out", "--spacing", "3", code=1).stderr
    assert "the folder has files of other settings" in told


def test_one_volume_and_what_is_refused(folder, tmp_path):
    run(folder / "labels/case0.nii.gz", tmp_path / "a.nrrd", "--spacing", 1, "--interp", "vote")
    with seqpipe.open(tmp_path / "a.nrrd") as found:
        assert found.spacing_mm == (1, 1, 1)
        assert set(np.unique(found.sequence().data)) <= {0, 2, 4}
    assert "nothing changes" in run(folder, tmp_path / "out", code=2).stderr
    assert "spacing" in run(folder, tmp_path / "out", "--spacing", "1,2", code=2).stderr
    (folder / "images/case0.nii.gz").write_bytes(b"no volume")
    told = run(folder, tmp_path / "out", "--spacing", 2, code=1).stderr
    assert "case0.nii.gz" in told
    assert "1 cases" in told
