"""The program around the commands: help, start-up, terminal, options made from parameters."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from seqpipe import __version__
from seqpipe.cli import main
from seqpipe.cli.options import option, sentence
from seqpipe.core.param import Param, choice
from seqpipe.sampling.params import FPS, SEQUENCE_LENGTH
from tests.support.deep import combined, deep
from tests.support.media import made

from .written import lines


def test_help_lists_the_commands(run):
    text = run("--help").stdout
    for command in ("probe", "index", "export", "doctor"):
        assert f"  {command}" in text
    assert run("--version").stdout == f"seqpipe, version {__version__}\n"


def test_export_help_comes_from_the_parameters(run):
    text = " ".join(run("export", "--help").stdout.split())
    assert f"{sentence(SEQUENCE_LENGTH).rstrip('.')} ({SEQUENCE_LENGTH.allowed})." in text
    assert f"({FPS.allowed})." in text
    assert "{stem}" in text
    assert "--format [jpg|png|tiff|webp|npy|npz|nii.gz|" in text


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


PROGRAM = [sys.executable, "-c", "from seqpipe.cli import main; main()"]


def on_terminal(*arguments):
    """What a command shows on a terminal as stderr, and what it writes to a pipe as stdout."""
    master, slave = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's other side is closed
        while part := os.read(master, 4096):
            shown += part
    os.close(master)
    return shown.decode(), process.communicate()[0].decode()


@pytest.mark.parametrize(
    ("command", "what", "told"),
    [(["export", "--out"], "Export", 50), deep(["index", "--cache-dir"], "Index", 3)],
)
def test_progress_shows_on_a_terminal_and_errors_stand_above_it(tmp_path, command, what, told):
    shown, rows = on_terminal(*command, tmp_path, made("empty"), made("h264"), "--json")
    assert f"{what}ing 0/2" in shown
    assert f"{what}ing 2/2" in shown
    assert (" frames, " if what == "Export" else " files, ") in shown
    error = next(line for line in re.split("[\r\n]", shown) if "Error: " in line)
    assert "ing " not in error.partition("Error: ")[0]
    assert len(lines(rows)) == told, "the bar leaves stdout alone"


def test_progress_is_silent_elsewhere(run, tmp_path):
    done = run("export", made("h264"), "--out", tmp_path)
    assert "Exporting" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("command", "closed"),
    combined([["index", "--json"], ["export", "--num", "1", "--out", "o"]], ["2>&-", "<&- >&- 2>&-"]),
)
def test_streams_may_be_closed(tmp_path, closed, command):
    """A service that closes them got 1 for every command, and its first file the number of its messages."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, *command, str(made("h264"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "o").exists() == ("o" in command)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "command",
    [["export", "--out", "o", "--json"], ["--help"], deep(["probe"]), deep(["probe", "--json"])],
)
def test_results_that_stdout_does_not_take_are_an_error_without_a_traceback(tmp_path, command):
    arguments = [sys.executable, "-m", "seqpipe", *command, str(made("h264"))]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "Error: cannot write to stdout (No space left on device).\n")


@pytest.mark.parametrize("command", [["export", "--dry-run", "--out", "o"], deep(["export", "--help"])])
def test_letters_that_the_users_encoding_does_not_have_are_escaped(tmp_path, command):
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*PROGRAM, *command, str(made("h264"))], cwd=tmp_path, capture_output=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2026" in done.stdout


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


def test_help_lists_every_option_under_its_heading(run):
    for command, more in (("export", ["Volumes"]), ("flow", ["Flow"])):
        text = run(command, "--help").stdout
        headings = [line[:-1] for line in text.splitlines() if line[:1].isalpha() and line.endswith(":")]
        assert headings == ["Examples", "Input", "Output", "Frames", "Size", *more, "Files", "Execution"]
        under = dict(zip(headings, re.split(r"\n\w+:\n", text)[1:], strict=True))
        for flag, heading in (
            ("--files-from FILE", "Input"),
            ("--out DIR", "Output"),
            ("--crop", "Size"),
            ("--resume", "Files"),
            ("-h,", "Execution"),
        ):
            assert f"\n  {flag}" in f"\n{under[heading]}"
        examples = under["Examples"].strip().split("\n")
        assert len(examples) > 1
        for line in examples:
            _, name, *arguments = shlex.split(line)
            main.get_command(click.Context(main), name).make_context(name, arguments)
        listed = re.findall(r"^  (?:-h, )?(--[a-z-]+)", "".join(under.values()), re.MULTILINE)
        params = main.get_command(click.Context(main), command).params
        assert sorted(listed) == sorted(
            ["--help", *(p.opts[0] for p in params if isinstance(p, click.Option))]
        )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("exprot", "There is no command 'exprot'. Perhaps 'seqpipe export' is meant."),
        ("indx", "There is no command 'indx'. Perhaps 'seqpipe index' is meant."),
        ("VIEW", "Perhaps 'seqpipe view' is meant."),
        ("extract", "Perhaps 'seqpipe export' is meant."),
        ("info", "Perhaps 'seqpipe probe' is meant."),
        ("zzzzzz", "Commands: cut, doctor, export, flow, index, probe, resample, transcode, view."),
        (str(Path(__file__)), "The command comes before the paths, such as 'seqpipe probe PATH'."),
    ],
)
def test_an_unknown_command_gets_a_suggestion(run, typed, said):
    assert said in run(typed, "x", code=2).stderr


def completed(*typed, incomplete=""):
    """The kinds and values that the shell is offered."""
    shell = ShellComplete(main, {}, "seqpipe", "_SEQPIPE_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions([*typed], incomplete)]


@pytest.mark.parametrize(
    ("typed", "incomplete", "offered"),
    [
        ([], "pro", [("plain", "probe")]),
        (["export", "--contact"], "--contact", [("plain", "--contact-sheet")]),
        (["export", "--format"], "np", [("plain", "npy"), ("plain", "npz")]),
        (["export", "--decode"], "nv", [("plain", "nvdec")]),
        (["export", "--device"], "cuda:a", [("plain", "cuda:all")]),
        (["export", "--axis"], "co", [("plain", "coronal")]),
        (["export", "--on-error"], "s", [("plain", "skip")]),
        (["export", "--fps"], "1", []),
        (["export", "--out"], "fra", [("dir", "fra")]),
        (["export", "--manifest"], "m", [("file", "m")]),
        (["flow", "--preset"], "f", [("plain", "fast")]),
        *[([name], "cl", [("file", "cl")]) for name in ("export", "flow", "index", "probe", "view")],
        (["view", "--label"], "or", [("file", "or")]),
    ],
    ids=str,
)
def test_the_shell_completes_commands_options_and_values(typed, incomplete, offered):
    assert completed(*[one for one in typed if one != incomplete], incomplete=incomplete) == offered


def test_every_choice_of_every_command_is_completed():
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        for option_ in command.params:
            choices = getattr(getattr(option_.type, "param", None), "choices", ()) or ()
            if choices:
                assert [value for _, value in completed(name, option_.opts[0])] == list(choices)


def test_the_completion_script_is_for_this_program():
    environment = {
        **os.environ,
        "_SEQPIPE_COMPLETE": "bash_complete",
        "COMP_WORDS": "seqpipe ex",
        "COMP_CWORD": "1",
    }
    command = Path(sys.executable).with_name("seqpipe")
    done = subprocess.run([command], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "plain,export\n"
