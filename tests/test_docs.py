"""What pages name exists: paths, constants, benchmarks; pages that are derived from the code are whole."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from docs import derive, pictures
from seqpipe.cli.app import main as cli
from tests.support.pages import PAGES as ALL_PAGES

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
TOPS = r"(?:seqpipe|tests|benchmarks|examples|data_scripts|docs|\.ci)/"
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
    rows = re.findall(r"^\| `python -m (benchmarks|tests\.deep)\.(.*?) \|", text, re.MULTILINE)
    named = [f"{room.replace('.', '/')}/{name}.py" for room, row in rows for name in re.findall(r"\w+", row)]
    assert len(named) >= 15
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_what_is_not_there_is_found():
    assert missing_paths("`seqpipe/video/reader.py`, `seqpipe/gone.py`, `GONE.md`") == [
        "GONE.md",
        "seqpipe/gone.py",
    ]
    assert missing_constants("`_GONE` in `seqpipe/volume/disk.py`") == ["_GONE in seqpipe/volume/disk.py"]


def test_pages_name_paths_that_are_there():
    for page in ALL_PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [name for name in missing_paths(text) if not name.startswith("docs/derived")] == [], page


def test_every_operator_has_a_page_with_its_parameters():
    pages = derive.operator_pages()
    for cls in derive.operators():
        page = pages[f"operators/{cls.name}.md"]
        assert f"]({cls.name}.md)" in pages["operators/index.md"]
        assert [q.name for q in cls.parameters if f"| `{q.name}` |" not in page] == []
    assert set(pictures.ARGUMENTS) <= {cls.name for cls in derive.operators()}


def test_links_to_derived_pages_and_among_them_lead_to_pages():
    derived = {**derive.operator_pages(), **derive.names_pages(), "cli.md": derive.cli_page()}
    names = {f"docs/derived/{name}" for name in (*derived, "errors.md", "api/index.md")}
    texts = {f"docs/derived/{name}": text for name, text in derived.items()}
    texts |= {page: (ROOT / page).read_text(encoding="utf-8") for page in ALL_PAGES}
    count = 0
    for page, text in texts.items():
        for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text):
            target = os.path.normpath(os.path.join(os.path.dirname(page), link))  # noqa: PTH118, PTH120  of a link
            count += 1
            assert target in names or (ROOT / target).is_file(), f"{page}: {link}"
    assert count > 250


def test_costs_are_those_of_operators_and_most_have_them():
    names = {cls.name for cls in derive.operators()}
    assert set(derive.costs()) <= names
    shown = [cls for cls in derive.operators() if cls.traits.takes in ("images", "volumes")]
    assert sum(cls.name in derive.costs() for cls in shown) > 0.8 * len(shown)
    page = derive.operator_pages()["operators/flip.md"]
    (row,) = [row for row in derive.costs()["flip"] if row["device"] == "cpu"]
    assert f"| {row['input']} | {row['ms']} ms | {row['copies']} × | {row['date']} |" in page


def test_names_of_other_libraries_are_listed_both_ways():
    page = derive.names_pages()["names.md"]
    assert "| `HorizontalFlip` | `ops.Flip(p=0.5)` |" in page
    assert "| [Flip](operators/flip.md) |" in page
    assert re.search(r"^\| `fn\.crop` \| \d+% \| same \|", derive.names_pages()["dali.md"], re.MULTILINE)


def test_every_command_is_listed_with_its_options():
    page = derive.cli_page()
    for name in cli.list_commands(None):
        part = page.partition(f"## seqpipe {name}\n")[2].partition("\n## ")[0]
        for option in cli.get_command(None, name).params:
            assert option.opts[-1] in part or option.human_readable_name in part, (name, option)


@pytest.mark.deep
def test_messages_are_found():
    found = derive.messages()
    facts = {fact for rows in found.values() for _, fact, _, _ in rows}
    assert sum(map(len, found.values())) > 900
    assert any("is not in the video" in fact for fact in facts)
