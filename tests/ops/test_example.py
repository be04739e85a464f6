"""examples/own_operator.py runs, and its operators pass what every operator must."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.ops import apply
from tests.support.operators import compare, images

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_operator.py"


@pytest.fixture
def example(unregistered, monkeypatch):
    spec = importlib.util.spec_from_file_location("own_operator", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_operator", module)
    spec.loader.exec_module(module)
    return module


def test_it_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "a.png")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "Duotone(amount=Uniform(lo=0.2, hi=0.9), p=0.8, seed=7)"
    assert lines[1] == "sample 3 alone and in a batch: equal"
    levels = [int(word) for word in lines[2].split(": ")[1].split()]
    assert levels == sorted(levels, reverse=True)
    assert lines[3] == "box after a flip: 110.0 20.0 150.0 60.0"
    assert lines[4].startswith("refused: vignette: strength=1.5 is not valid; allowed: a number from 0 to 1.")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float16", "float32"])
def test_its_kernel_agrees_with_its_reference(example, place, dtype):
    for arguments in example.Duotone.traits.examples:
        op = example.Duotone(**arguments)
        x = images(op, dtype)
        compare(place(op, x), apply(op, x, backend="reference"))


def test_its_messages(example):
    for arguments, said in example.Duotone.traits.errors:
        with pytest.raises(ParameterError, match=said):
            example.Duotone(**arguments)
    with pytest.raises(ParameterError, match="duotone: pixels of 4 values; allowed: 3"):
        example.Duotone()(np.zeros((4, 4, 4), np.uint8))
