"""Packages that bring operators: found by their entry points, in fn and by DALI's names; broken ones are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

OPERATOR = '''
from seqpipe.ops import Number, Op, param


class Halve(Op):
    """Divide all levels."""

    by: Number = param(2.0, "what they are divided by", lo=1, identity=1.0)

    def reference(self, x, p):
        """The quotient."""
        return x / p.by
'''

PROGRAM = """
import numpy as np
from seqpipe import fn
from seqpipe.dali import fn as dali_fn, pipeline_def

pixels = np.full((4, 4, 3), 100, np.uint8)
print(int(fn.halve(pixels, by=4.0).max()))

@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def pipe():
    return dali_fn.halve(dali_fn.external_source(lambda: [pixels], layout="HWC"))

print(int(pipe().run()[0].at(0).max()))
"""


def installed(folder: Path, text: str) -> Path:
    """A package as pip leaves it: its module, and what it says of itself."""
    (folder / "halving.py").write_text(text)
    info = folder / "halving-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halving\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[seqpipe.operators]\nhalving = halving\n")
    return folder


def ran(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def test_an_installed_package_brings_an_operator(tmp_path):
    done = ran(installed(tmp_path, OPERATOR), PROGRAM)
    assert done.stdout.split() == ["25", "50"], done.stderr


def test_a_package_that_cannot_be_loaded_is_named(tmp_path):
    done = ran(installed(tmp_path, "import no_such_module\n"), PROGRAM)
    assert (
        "BackendError: halving: its operators cannot be loaded (halving): ModuleNotFoundError" in done.stderr
    )


def test_a_name_that_nobody_has_stays_an_attribute_error():
    from seqpipe import fn

    with pytest.raises(AttributeError, match="has no attribute 'nobody_has_it'"):
        _ = fn.nobody_has_it
