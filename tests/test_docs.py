"""CONTRIBUTING.md and docs/architecture.md are true: what they name exists: paths, constants, benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
TOPS = r"(?:seqpipe|tests|examples|data_scripts|docs|\.ci)/"
CONSTANT = re.compile(r"`(_?[A-Z][A-Z_]+)` (?:in|of)\s+`(seqpipe/[\w/.]+\.py)`")


def missing_paths(text):
    """Paths in backticks or commands that are not in the repository."""
    named = set(re.findall(rf"(?<![\w/.~-]){TOPS}[\w./]*[\w/]", text)) | set(
        re.findall(r"`([A-Z]+\.md)`", text)
    )
    return sorted(name for name in named if not (ROOT / name).exists())


def missing_constants(text):
    """Constants that the named module does not define."""
    return [
        f"{name} in {path}"
        for name, path in CONSTANT.findall(text)
        if not re.search(rf"^{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_what_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(re.findall(rf"`{TOPS}", text)) >= 40
    assert missing_paths(text) == []
    assert missing_constants(text) == []


def test_benchmarks_are_there():
    text = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `python -m tests\.bench\.(.*?) \|", text, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    assert len(named) >= 15
    assert [name for name in named if not (ROOT / "tests" / "bench" / f"{name}.py").is_file()] == []


def test_what_is_not_there_is_found():
    assert missing_paths("`seqpipe/video/reader.py`, `seqpipe/gone.py`, `GONE.md`") == [
        "GONE.md",
        "seqpipe/gone.py",
    ]
    assert missing_constants("`_GONE` in `seqpipe/volume/disk.py`") == ["_GONE in seqpipe/volume/disk.py"]
