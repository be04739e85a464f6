"""The program around the commands: help, start-up, terminal, options made from parameters."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from seqpipe import __version__
from seqpipe.cli._options import option, sentence
from seqpipe.param import Param, choice
from seqpipe.sampling.params import FPS, SEQUENCE_LENGTH
from tests.support.media import made

from .written import lines


def test_help_lists_the_commands(run):
    text = run("--help").stdout
    for command in ("probe", "index", "export"):
        assert f"  {command}" in text
    assert run("--version").stdout == f"seqpipe, version {__version__}\n"


def test_export_help_comes_from_the_parameters(run):
    text = " ".join(run("export", "--help").stdout.split())
    assert f"{sentence(SEQUENCE_LENGTH).rstrip('.')} ({SEQUENCE_LENGTH.allowed})." in text
    assert f"({FPS.allowed})." in text
    assert "{stem}" in text
    assert "--format [jpg|png|webp|npy|npz]" in text


def test_help_needs_none_of_the_heavy_libraries():
    program = (
        "import sys\nfrom seqpipe.cli import main\n"
        "try: main(['export', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'av', 'cv2', 'torch', 'rich', 'fsspec', 'simplejpeg', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_command_is_installed():
    command = Path(sys.executable).with_name("seqpipe")
    done = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert done.stdout == f"seqpipe, version {__version__}\n"


def test_progress_shows_on_a_terminal_only(tmp_path):
    program = [sys.executable, "-c", "from seqpipe.cli import main; main()", "export", str(made("h264"))]
    master, slave = pty.openpty()
    arguments = ("--out", tmp_path / "a", "--json")
    process = subprocess.Popen([*program, *arguments], stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the terminal's other side is closed
            break
        shown += part
        if not part:
            break
    os.close(master)
    assert len(lines(process.communicate()[0].decode())) == 49, "the bar leaves stdout alone"
    assert "Exporting 0/1" in shown.decode()
    assert "48 frames, " in shown.decode()
    silent = subprocess.run([*program, "--out", tmp_path / "b"], capture_output=True, text=True, check=True)
    assert "Exporting" not in silent.stderr
    assert silent.stderr.count("\n") == 1
    assert silent.stdout == ""


PARAMS = [
    (Param(name="some_count", doc="how many", lo=1, hi=5, unit="frames"), "3", 3),
    (Param(name="rate", doc="how fast", kind=float, lo=0.5), "2.5", 2.5),
    (Param(name="rate", doc="how fast", kind=float, lo=0.5), "3", 3.0),
    (choice("kind", "which one", ("a", "b")), "b", "b"),
    (Param(name="text", doc="what", kind=str), "12", "12"),
]


def command(param):
    @click.command()
    @option(param)
    def show(**given):
        click.echo(repr(given))

    return show


@pytest.mark.parametrize(("param", "text", "value"), PARAMS)
def test_an_option_is_its_parameter(param, text, value):
    flag = f"--{param.name.replace('_', '-')}"
    assert CliRunner().invoke(command(param), [flag, text]).stdout == f"{ {param.name: value}!r}\n"
    assert CliRunner().invoke(command(param), []).stdout == f"{ {param.name: None}!r}\n"
    help_text = " ".join(CliRunner().invoke(command(param), ["--help"]).stdout.split())
    assert flag in help_text
    assert sentence(param).rstrip(".") in help_text


@pytest.mark.parametrize("text", ["0", "6", "2.5", "x", "nan", ""])
def test_an_option_refuses_what_its_parameter_refuses(text):
    result = CliRunner().invoke(command(PARAMS[0][0]), ["--some-count", text])
    assert result.exit_code == 2
    assert "is not valid; allowed: a whole number from 1 to 5 frames." in result.stderr
