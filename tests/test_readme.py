"""README.md is true: its blocks are run, what it names is there."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from seqpipe import Sequence
from seqpipe.volume import save
from tests.support.media import sampled

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\d)"
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: language, text, number of its first line, and whether a comment marks it as set-up."""

    language: str
    text: str
    line: int
    is_setup: bool


def blocks_of(text):
    found = []
    for match in re.finditer(r"(<!-- set-up:.*?-->\n)?```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start(3)) + 1
        found.append(Block(match[2], match[3], line, match[1] is not None))
    return found


BLOCKS = blocks_of(README)
SETUP = [block for block in BLOCKS if block.is_setup]
COMMANDS = [
    line
    for block in BLOCKS
    if block.language == "bash" and not block.is_setup
    for line in block.text.splitlines()
    if not line.startswith("#")
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of its own with the README's video in it, to stand in."""
    shutil.copy(sampled(), tmp_path / "clip.mp4")
    # the commands' volume; the first block on volumes makes it anew
    save(
        Sequence(np.arange(8**3, dtype=np.int16).reshape(8, 8, 8, 1), "DHWC", affine=np.eye(4)),
        tmp_path / "ct.nii.gz",
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed_by(block, namespace):
    out = io.StringIO()
    # Padded, so that a traceback shows the README's own line numbers.
    code = compile("\n" * (block.line - 1) + block.text, str(ROOT / "README.md"), "exec")
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def test_python_blocks_run_in_order_and_print_what_is_shown(place):
    namespace = {}
    python = [number for number, block in enumerate(BLOCKS) if block.language == "python"]
    assert len(python) >= 4
    for number in python:
        printed = printed_by(BLOCKS[number], namespace)
        following = BLOCKS[number + 1]
        if following.language == "text":
            assert printed == following.text, f"README.md:{following.line}"


def test_commands_run(place):
    assert len(COMMANDS) >= 4
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in COMMANDS:
        done = subprocess.run(
            ["bash", "-euc", command],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        for folder in re.findall(r"--out (\S+)", command):
            out = Path(folder)
            assert out.is_file() or any(out.rglob("*.*")), f"{command} wrote nothing"
    assert (place / "frames" / "contact_sheet.html").is_file()
    assert (place / "all.jsonl").stat().st_size


def test_every_block_is_run_or_checked():
    assert {block.language for block in BLOCKS} == {"python", "bash", "text"}
    assert all(block.language == "bash" for block in SETUP)
    assert README.count("```") == 2 * len(BLOCKS)
    assert README.count("<!-- set-up:") == len(SETUP)


def test_set_up_blocks_call_what_is_there():
    text = "".join(block.text for block in SETUP)
    paths = re.findall(r"(?:examples|tests)/[\w/]+\.py", text)
    assert {"examples/first_run.py", "examples/run_tests.py"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    for tool in re.findall(r"python -m (\w+)", text):
        assert tool == "pip" or re.search(rf'"{tool}[>=]', PYPROJECT), f"{tool} is in no dependency group"
    for group in re.findall(r"--group (\w+)", text):
        assert f"\n{group} = [" in PYPROJECT


def test_the_run_that_guards_changes_calls_both_commands():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for block in SETUP[:2]:
        assert block.text.replace(" VIDEO", "").strip() in run


def test_extras_exist():
    named = {name for extras in re.findall(r"\.\[([\w,-]+)\]", README) for name in extras.split(",")}
    assert len(named) >= 5
    assert [name for name in sorted(named) if f"\n{name} = [" not in PYPROJECT] == []


def test_examples_are_all_named():
    there = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert there == set(re.findall(r"examples/\w+\.py", README))


def test_files_and_links_exist():
    for path in re.findall(r"`((?:tests|data_scripts|seqpipe|\.ci)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
    headings = {re.sub(r"\W+", "-", text.lower()) for text in re.findall(r"^## (.*)$", README, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= headings


def test_figures_are_those_of_the_results():
    results = set(re.findall(NUMBER, (ROOT / "tests" / "bench" / "RESULTS.md").read_text(encoding="utf-8")))
    rows = re.search(r"^\| job \| seqpipe \|.*?\n\n", README, re.DOTALL | re.MULTILINE)[0].split("\n")[2:-2]
    figures = [figure for row in rows for figure in re.findall(NUMBER, row.split("|", 2)[2])]
    assert len(figures) >= 30
    assert [figure for figure in figures if figure not in results] == []


def test_the_reading_of_blocks_sees_a_wrong_output():
    good, shown = blocks_of("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert printed_by(good, {}) == "2\n" != shown.text
    with pytest.raises(ZeroDivisionError):
        printed_by(blocks_of("```python\n1 / 0\n```\n")[0], {})
