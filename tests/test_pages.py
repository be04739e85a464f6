"""README.md and the pages of docs are true: their blocks are run, what they name is there."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import re

import pytest

import seqpipe
from tests.support.media import ROOT
from tests.support.pages import PAGES, blocks_of, fill, outputs_of, printed_by

TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
BLOCKS = {page: blocks_of(text) for page, text in TEXTS.items()}
SETUP = [block for page in PAGES for block in BLOCKS[page] if block.mark == "set-up"]
NUMBER = r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\d)"
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# pages of many commands and long decoding; README.md has one of each kind
DEEP = {
    f"docs/{page}.md"
    for page in (
        "concepts/randomness",
        "guide/command_line",
        "guide/graphs",
        "guide/optical_flow",
        "index",
        "tutorials/export_frames",
        "tutorials/train_on_video",
        "tutorials/training_copies",
    )
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.deep if page in DEEP else ())
        for page in PAGES
        if any(block.language in ("python", "bash") for block in BLOCKS[page])
    ],
)
def test_blocks_run_in_order_and_print_what_is_shown(tmp_path, monkeypatch, page):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    for block, shown, printed in outputs_of(page):
        assert printed == ("" if shown is None else shown.text), f"{page}:{block.line}"


@pytest.mark.deep
@pytest.mark.parametrize("page", [page for page in PAGES if any(block.peer for block in BLOCKS[page])])
def test_code_of_other_libraries_runs_where_they_are_installed(tmp_path, monkeypatch, page):
    theirs = [block for block in BLOCKS[page] if block.peer]
    for block in theirs:
        pytest.importorskip(block.peer, reason=f"{block.peer} is not installed", exc_type=ImportError)
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in theirs:
        assert printed_by(block, namespace, page) or "print(" not in block.text


def test_names_in_the_text_exist():
    """Names behind ops., fn., recipes. and so on, and those of the package itself."""
    rooms = {name: getattr(seqpipe, name) for name in ("flow", "fn", "ops", "readers", "view", "volume")}
    rooms |= {name: importlib.import_module(f"seqpipe.{name}") for name in ("recipes", "sampling")}
    wrong, count = [], 0
    for page in PAGES:
        # tables of names have those of the other library in front
        lines = [re.sub(r"^\|.*\|(?=[^|]+\|$)", "", line) for line in TEXTS[page].splitlines()]
        text = " ".join(re.findall(r"`[^`\n]+`", "\n".join(lines)))
        for found in re.finditer(r"(?<![\w./-])(?:(seqpipe)\.)?(\w+)\.([A-Za-z]\w+)", text):
            if found[2] in rooms and not (found[2] == "fn" and "dali" in page):  # DALI's
                count += 1
                wrong += [f"{page}: {found[0]}"] if not hasattr(rooms[found[2]], found[3]) else []
        for name in re.findall(r"(?<![\w./-])seqpipe\.([A-Za-z]\w+)", text):
            module = importlib.util.find_spec(f"seqpipe.{name}")
            wrong += [f"{page}: seqpipe.{name}"] if module is None and not hasattr(seqpipe, name) else []
    assert wrong == []
    assert count > 80


def test_every_block_is_run_or_checked():
    for page in PAGES:
        shown = {block.language for block in BLOCKS[page] if not block.language.startswith("{")}
        assert shown <= {"python", "bash", "text"}, page
        assert TEXTS[page].count("```") == 2 * len(BLOCKS[page]), page
        assert {block.mark for block in BLOCKS[page]} <= {"", "set-up", "needs"}, page
    assert all(block.language == "bash" for block in SETUP)


def test_set_up_blocks_call_what_is_there():
    text = "".join(block.text for block in SETUP)
    paths = re.findall(r"(?:examples|tests)/[\w/]+\.py", text)
    paths += [f"data_scripts/{name}.py" for name in re.findall(r"-m data_scripts\.(\w+)", text)]
    assert {"examples/first_run.py", "examples/run_tests.py", "data_scripts/make_videos.py"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_the_run_that_guards_changes_calls_both_commands():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [block.text for block in BLOCKS["README.md"] if block.text.startswith("python3 ")]
    assert len(commands) == 2
    assert [command for command in commands if command.replace(" VIDEO", "").strip() not in run] == []


def test_a_block_of_the_first_page_can_be_copied_alone():
    blocks = [block for block in BLOCKS["README.md"] if block.language == "python"]
    assert len(blocks) == 3
    for block in blocks:
        nodes = list(ast.walk(ast.parse(block.text)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins))
        known |= {
            alias.name
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert {node.id for node in names} - known == set(), f"README.md:{block.line}"


def test_the_first_page_is_short():
    assert TEXTS["README.md"].count("\n") <= 250


def test_extras_exist():
    named = {
        name
        for text in TEXTS.values()
        for extras in re.findall(r"\.\[([\w,-]+)\]", text)
        for name in extras.split(",")
    }
    assert len(named) >= 12
    assert [name for name in sorted(named) if f"\n{name} = [" not in PYPROJECT] == []


def test_examples_are_all_named():
    there = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert there == set(re.findall(r"examples/\w+\.py", TEXTS["docs/examples.md"]))
    assert there >= set(re.findall(r"examples/\w+\.py", "".join(TEXTS.values())))


def test_links_lead_to_pages():
    for page in PAGES:
        headings = {
            re.sub(r"\W+", "-", text.lower()) for text in re.findall(r"^##+ (.*)$", TEXTS[page], re.M)
        }
        for link in re.findall(r"\]\(([^)#]*#?[^)]*)\)", TEXTS[page]):
            target, _, heading = link.partition("#")
            if target:
                path = (ROOT / page).parent / target
                assert path.exists() or "/derived/" in str(path), f"{page}: {link}"
            else:
                assert heading in headings, f"{page}: {link}"


def test_figures_are_those_of_the_results():
    results = set(re.findall(NUMBER, (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")))
    table = re.search(r"^\| job \| seqpipe \|.*?\n\n", TEXTS["README.md"], re.DOTALL | re.MULTILINE)
    rows = table[0].split("\n")[2:-2]
    figures = [figure for row in rows for figure in re.findall(NUMBER, row.split("|", 2)[2])]
    assert len(figures) >= 15
    assert [figure for figure in figures if figure not in results] == []


def test_the_reading_of_blocks_sees_a_wrong_output():
    good, shown = blocks_of("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert printed_by(good, {}) == "2\n" != shown.text
    with pytest.raises(ZeroDivisionError):
        printed_by(blocks_of("```python\n1 / 0\n```\n")[0], {})
