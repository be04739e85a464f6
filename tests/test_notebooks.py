"""The notebooks: without output, with code that compiles, and run from the first cell to the last."""

from __future__ import annotations

import json

import pytest

from tests.support.media import ROOT

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells_of(name):
    """The cells of code that a kernel runs behind those that install, and the whole notebook."""
    book = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    return [
        "".join(cell["source"]) for cell in cells if "set-up" not in cell["metadata"].get("tags", ())
    ], book


def test_notebooks_are_clean_and_named():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 3
    for name in NOTEBOOKS:
        sources, book = cells_of(name)
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
        assert "".join(book["cells"][0]["source"]).startswith("# ")
        for cell in book["cells"]:
            assert cell.get("outputs", []) == [], name
            assert cell.get("execution_count") is None, name
        for source in sources:
            compile(source, name, "exec")
            assert max(map(len, source.splitlines())) <= 120, name
        assert f"examples/notebooks/{name}.ipynb" in page


WANTED = {
    "augment_volumes": lambda names: names["dice"] > 0.95,
    "export_frames": lambda names: names["report"].written == 16 and 8 < len(names["kept"]) < 24,
    "train_on_video": lambda names: names["accuracy"] > 0.9,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run(tmp_path, monkeypatch, name):
    """Without Jupyter: a page that ends a cell is made into the HTML that Jupyter shows."""
    if name == "train_on_video":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for source in cells_of(name)[0]:
        exec(compile(source, f"{name}.ipynb", "exec"), names)
        last = source.splitlines()[-1]
        if last.startswith("seqpipe.view."):
            assert "<iframe" in eval(last, names)._repr_html_()
    assert WANTED[name](names)
