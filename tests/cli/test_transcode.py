"""``seqpipe transcode``: copies that are small, upright, in time, and listed with their labels."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, OutputSpec, Sequence
from tests.support.media import made, shared_media

from .written import files, lines


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """A folder of two classes: a plain video, and one with key frames far apart."""
    folder = tmp_path_factory.mktemp("videos")
    y, x = np.mgrid[:96, :128]
    for name, count in (("run/one.mp4", 60), ("walk/two.mkv", 40)):
        frames = [
            np.stack([(2 * x + 3 * f) % 256, 2 * y, 255 - 2 * x + f], -1).clip(0, 255) for f in range(count)
        ]
        (folder / name).parent.mkdir()
        Sequence(np.stack(frames).astype(np.uint8), "FHWC").save(folder / name, fps=25, gop=250)
    return folder


def rows(folder):
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_becomes_a_folder_of_copies(run, tmp_path, videos):
    out = tmp_path / "out"
    arguments = ("transcode", videos, out, "--short-side", 48, "--gop", 8, "--quality", 85, "--jobs", 2)
    *told, summary = lines(run(*arguments, "--json").stdout)
    assert summary == {"type": "summary", "copied": 2, "fresh": 0, "failed": 0}
    assert [one["frames"] for one in told] == [60, 40]
    assert rows(out) == [{"path": "run/one.mp4", "label": "run"}, {"path": "walk/two.mp4", "label": "walk"}]
    small = OutputSpec(size=(48, 64))
    for name, copy in (("run/one.mp4", "run/one.mp4"), ("walk/two.mkv", "walk/two.mp4")):
        with seqpipe.open(videos / name, output=small) as source, seqpipe.open(out / copy) as found:
            assert (found.width, found.height) == (64, 48)
            assert set(np.diff(found.index.key_frames)) == {8}
            np.testing.assert_allclose(found.timestamps, source.timestamps, atol=1e-3)
            assert np.abs(found[:].data.astype(int) - source[:].data).mean() < 4
            assert found.info.matrix == source.info.matrix == 1
            assert not found.index.packets.reference[~found.index.packets.key].all(), (
                "no frame can be dropped"
            )
    data = seqpipe.videos(out, Clip(8, per_video=1))
    assert [int(one["label"]) for one in data] == [0, 1]


def test_a_run_continues_and_other_settings_are_refused(run, tmp_path, videos):
    out = tmp_path / "out"
    arguments = ("transcode", videos, out, "--short-side", 48, "--json")
    run(*arguments)
    before = (out / "walk/two.mp4").stat()
    (out / "run/one.mp4").unlink()
    *told, _ = lines(run(*arguments).stdout)
    assert [one["status"] for one in told] == ["copied", "fresh"]
    assert (out / "walk/two.mp4").stat() == before
    with (out / ".seqpipe-transcode.jsonl").open("a") as file:
        file.write('{"out": "walk/t')  # a killed run
    assert lines(run(*arguments).stdout)[-1]["fresh"] == 2
    refused = run("transcode", videos, out, "--short-side", 32, code=1).stderr
    assert "the folder holds copies of other settings: {'short_side': 48" in refused
    assert [name for name in files(out) if name.startswith(".") and "seqpipe" not in name] == []


def test_shards_share_a_list(run, tmp_path, videos):
    out, numbers = tmp_path / "out", range(3)
    for number in numbers:  # of two videos: the last part is empty
        said = run("transcode", videos, out, "--short-side", 48, "--shard", f"{number}/3").stderr
        assert f"{int(number < 2)} copied" in said
    parts = [(out / f"manifest-0000{number}-of-00003.csv").read_text().splitlines()[1:] for number in numbers]
    assert parts == [["run/one.mp4,run"], ["walk/two.mp4,walk"], []]
    # what parts have finished, a run of another number of parts knows
    assert "0 copied, 2 fresh" in run("transcode", videos, out, "--short-side", 48).stderr
    assert len(rows(out)) == 2


def test_rows_of_parts_become_files_with_their_labels(run, tmp_path, videos):
    listing = tmp_path / "list.csv"
    one, two = videos / "run/one.mp4", videos / "walk/two.mkv"
    listing.write_text(
        f"path,label,start_frame,end_frame,subject\n{one},fall,10,30,s1\n{one},sit,30,50,s2\n{two},,,,s3\n"
        f"{tmp_path}/gone.mp4,sit,,,s4\n"
    )
    result = run("transcode", listing, tmp_path / "out", "--short-side", 48, "--json", code=1)
    assert lines(result.stdout)[-1] == {"type": "summary", "copied": 3, "fresh": 0, "failed": 1}
    assert "gone.mp4" in result.stderr
    first, second, third = rows(tmp_path / "out")
    assert [(one["label"], one["subject"]) for one in (first, second, third)] == [
        ("fall", "s1"),
        ("sit", "s2"),
        ("-1", "s3"),
    ]
    with seqpipe.open(one, output=OutputSpec(size=(48, 64))) as source:
        for row, start in ((first, 10), (second, 30)):
            with seqpipe.open(tmp_path / "out" / row["path"]) as found:
                assert (len(found), found.timestamps[0]) == (20, 0)
                wanted = source[start : start + 20]
                assert np.abs(found[:].data.astype(int) - wanted.data).mean() < 6
    data = seqpipe.videos(
        seqpipe.listing(tmp_path / "out/manifest.csv", classes=["fall", "sit"]).where(
            lambda one: one.label >= 0
        ),
        8,
    )
    assert {int(one["label"]) for one in data} == {0, 1}


def test_a_plan_says_what_copies_gain(run, tmp_path, videos):
    (told,) = lines(run("transcode", videos, tmp_path / "out", "--short-side", 48, "--plan", "--json").stdout)
    assert (told["videos"], told["sampled"]) == (2, 2)
    assert 1 <= told["decoded_per_frame_after"] <= 4
    assert told["decoded_per_frame_before"] > 1
    assert told["bytes_after"] > 0
    assert not (tmp_path / "out").exists()
    assert "decoded frames" in run("transcode", videos, tmp_path / "out", "--plan").stderr


def test_rotation_is_applied_and_damage_is_told(run, tmp_path):
    for name in ("rotation/rot_nasa.mp4", "corrupt/decord_corrupted.mp4"):
        shutil.copy(shared_media() / "video" / name, tmp_path)
    shutil.copy(made("text"), tmp_path / "text.mp4")
    paths = [f'{{"path": "{name}"}}' for name in ("rot_nasa.mp4", "decord_corrupted.mp4", "text.mp4")]
    (tmp_path / "list.jsonl").write_text("\n".join(paths))
    result = run("transcode", tmp_path / "list.jsonl", tmp_path / "out", "--short-side", 64, code=1)
    assert "2 copied, 0 fresh, 1 failed." in result.stderr
    with seqpipe.open(tmp_path / "out/rot_nasa.mp4") as found:
        assert (found.info.rotation_degrees, found.width, found.height) == (0, 64, 114)
        with seqpipe.open(tmp_path / "rot_nasa.mp4", output=OutputSpec(size=(114, 64))) as source:
            assert np.abs(found[:].data.astype(int) - source[:].data).mean() < 4
    with seqpipe.open(tmp_path / "out/decord_corrupted.mp4") as found:
        assert len(found) >= 40
