"""What packages seqpipe elsewhere says what pyproject.toml says."""

from __future__ import annotations

import re

import seqpipe
from tests.support.media import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONDA_NAMES = {"opencv-python-headless": "py-opencv"}


def test_the_recipe_of_conda_has_the_requirements_and_the_version():
    recipe = (ROOT / ".ci" / "packaging" / "recipe.yaml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", PYPROJECT, re.DOTALL | re.MULTILINE)[1]
    wanted = {
        f"{CONDA_NAMES.get(name, name)} {bounds}" for name, bounds in re.findall(r'"([\w-]+)(\S+?)"', listed)
    }
    python = re.search(r'^requires-python = "(\S+)"', PYPROJECT, re.MULTILINE)[1]
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"- (.*)", run)) == {*wanted, f"python {python}"}
    assert f'version: "{seqpipe.__version__}"' in recipe
    assert re.search(r"- hatchling (>=\S+)", recipe)[1] in PYPROJECT


def test_the_image_is_built_from_what_it_copies():
    """The context holds what a wheel is made of, and extras that exist are installed."""
    kept = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"seqpipe", ".ci", "pyproject.toml", "README.md", "LICENSE"} == set(kept)
    text = (ROOT / ".ci" / "packaging" / "Containerfile").read_text(encoding="utf-8")
    for extra in re.findall(r"EXTRAS=(\w+)", text):
        assert f"\n{extra} = [" in PYPROJECT
