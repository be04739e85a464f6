"""--shard: the parts of several jobs are disjoint, complete and safe in one folder; registers of parts are joined."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.cli.shard import of_shard, shard_from
from seqpipe.video.index.shared import SharedRegister
from tests.support.media import made

from .written import files, lines


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    for number, name in enumerate(("a", "c", "d", "b/e", "b/f")):
        shutil.copy(made("vp9" if number % 2 else "h264"), folder / f"{name}{made('h264').suffix}")
    return folder


def _tree(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


@given(st.lists(st.integers(), max_size=30), st.integers(1, 40))
def test_parts_of_any_number_of_jobs_are_disjoint_and_complete(items, count):
    parts = [of_shard(items, (number, count)) for number in range(count)]
    assert sorted(one for part in parts for one in part) == sorted(items)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.integers(1, 50), st.integers(0, 9), st.integers(1, 4))
def test_jobs_of_an_array_have_numbers_from_0_on(count, least, step):
    def numbers(task):
        known = {"ID": least + task * step, "COUNT": count, "MIN": least, "STEP": step}
        return shard_from({f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in known.items()})

    if count > 1 or not least:
        assert [numbers(task) for task in range(count)] == [(task, count) for task in range(count)]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {},
            "auto needs SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or RANK and WORLD_SIZE, and RANK is",
        ),
        ({"RANK": "1"}, "WORLD_SIZE is not set"),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "1"}, "--shard 3/N"),
        ({"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "3"}, "not one of an even array"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "not one of an even array"),
    ],
)
def test_numbers_that_do_not_add_up_are_refused(environment, said):
    with pytest.raises(ValueError, match=said):
        shard_from(environment)


@pytest.mark.parametrize("count", [2, 7])
def test_jobs_share_a_folder(run, tmp_path, clips, count, monkeypatch):
    options = ("--num", 2, "--device", "cpu", "--cache-dir", tmp_path / "cache")
    run("export", clips, "--out", tmp_path / "whole", *options)
    for number in range(count):
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("WORLD_SIZE", str(count))
        manifest = ("--manifest", tmp_path / "list.csv")
        run("export", clips, "--out", tmp_path / "parts", "--shard", "auto", *options, *manifest)
    assert _tree(tmp_path / "parts") == _tree(tmp_path / "whole")
    assert (tmp_path / f"list-00001-of-{count:05d}.csv").exists()
    again = run(
        "export", clips, "--out", tmp_path / "parts", "--shard", "1/3", "--resume", "--json", *options
    )
    assert lines(again.stdout)[-1]["done"] == 0, "the number of jobs may change"


def test_flow_has_shards(run, tmp_path, clips):
    options = ("--num", 2, "--max-side", 48, "--device", "cpu", "--format", "jpg")
    run("flow", clips, "--out", tmp_path / "whole", *options)
    for number in range(2):
        run("flow", clips, "--out", tmp_path / "parts", "--shard", f"{number}/2", *options)
    assert _tree(tmp_path / "parts") == _tree(tmp_path / "whole")


def test_what_jobs_cannot_share_is_refused(run, tmp_path, clips):
    shutil.copy(made("h264"), clips / "b/a.mp4")
    options = (clips, "--out", tmp_path / "out", "--num", 1, "--shard", "0/9")
    error = run("export", *options, code=1).stderr
    assert "a.mp4 and" in error
    assert "jobs with --shard do not see each other's" in error
    run("export", *options, "--pattern", "{parent}/{stem}/{index}.jpg")
    error = run(
        "export", *options, "--pattern", "{parent}_{stem}_{index}.jpg", "--contact-sheet", code=2
    ).stderr
    assert "--contact-sheet and --shard exclude one another" in error
    for text in ("3/3", "1", "-1/3", "a/b", "0/0"):
        assert (
            "is no shard; allowed: auto, or I/N"
            in run("export", clips, "--shard", text, "--out", "x", code=2).stderr
        )


def test_registers_of_parts_are_joined(run, tmp_path, clips):
    cache = ("--cache-dir", tmp_path / "cache")
    run("index", clips, *cache, "--register", tmp_path / "whole.register")
    (tmp_path / "parts").mkdir()
    for number in range(3):
        run("index", clips, *cache, "--shard", f"{number}/3", "--register", tmp_path / "parts/part.register")
    parts = sorted((tmp_path / "parts").glob("part-0000?-of-00003.register"))
    merged = tmp_path / "in/seqpipe.register"
    told = lines(run("index", "--merge", *parts, "--register", merged, "--json").stdout)
    assert [line["added"] for line in told] == [2, 2, 1, 5]
    with SharedRegister(str(merged)) as one, SharedRegister(str(tmp_path / "whole.register")) as other:
        query = "SELECT size, tag, ends, facts, whole, verified FROM files ORDER BY size, tag"
        assert one._rows(query) == other._rows(query)
    shutil.rmtree(tmp_path / "cache")
    indexed = run("index", clips, *cache, "--register", merged, "--json")
    assert lines(indexed.stdout)[-1] == {"type": "summary", "built": 0, "fresh": 5, "failed": 0}
    assert lines(run("index", "--merge", *parts, "--register", merged, "--json").stdout)[-1]["added"] == 0


def test_what_is_no_register_is_not_joined(run, tmp_path):
    (tmp_path / "text").write_text("no register")
    target = ("--register", tmp_path / "r")
    assert "it is not a register" in run("index", "--merge", tmp_path / "text", *target, code=1).stderr
    assert "no such register" in run("index", "--merge", tmp_path / "gone", *target, code=1).stderr
    assert "needs a register to add to" in run("index", "--merge", tmp_path / "text", code=2).stderr
