"""Advice in the words of the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from seqpipe.cli.app import main
from seqpipe.cli.messages import option_names, worded
from seqpipe.errors import OutputError, SourceError
from tests.support.media import made

OPTIONS = {"on_error", "decode", "cache_dir", "device"}


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ("Leave it out with on_error='skip'", "Leave it out with --on-error skip"),
        (
            "Fetch it again, or leave it out with on_error='skip'",
            "Fetch it again, or leave it out with --on-error skip",
        ),
        (
            "Set SEQPIPE_CACHE_DIR or cache_dir to a folder",
            "Set SEQPIPE_CACHE_DIR or --cache-dir to a folder",
        ),
        ("Use decode='auto', which can", "Use --decode auto, which can"),
        ("Fill it up with pad_mode='edge', or use device='cpu'", "Use --device cpu"),
        ("Name the files with files=[…] if they end differently", ""),
        ("Choose one by device=…", "Choose one by --device"),
        ("Choose one by series=…", ""),
        (
            "Check the path; a URL needs its scheme, such as s3://",
            "Check the path; a URL needs its scheme, such as s3://",
        ),
    ],
)
def test_arguments_are_options_and_what_is_none_is_left_out(advice, said):
    error = SourceError("a fact", source="v.mp4", advice=advice)
    assert worded(error, OPTIONS) == "v.mp4: a fact." + (f" {said}." if said else "")


def test_what_has_no_advice_stays_as_it_is():
    assert worded(OutputError("a fact")) == "a fact."
    assert worded("some text, or other", OPTIONS) == "some text, or other"


def test_options_are_those_of_the_command_that_runs():
    found = []

    @click.command()
    @click.option("--on-error")
    def command(on_error: str) -> None:
        found.append(option_names())

    CliRunner().invoke(command)
    assert found == [{"on_error"}]
    assert option_names() == frozenset()


@pytest.mark.parametrize("command", ["probe", "index"])
def test_a_command_advises_nothing_that_it_does_not_offer(command, tmp_path):
    """They advised on_error='skip', which is Python's, and an option of neither."""
    path = tmp_path / "cut.mkv"
    path.write_bytes(made("av1_mkv").read_bytes()[:1000])
    done = CliRunner().invoke(main, [command, str(path), "--cache-dir", str(tmp_path)])
    assert done.exit_code in (0, 1)
    assert "on_error" not in done.output
    assert "on-error" not in done.output


def test_an_export_advises_its_own_options(tmp_path):
    path = tmp_path / "cut.mkv"
    path.write_bytes(made("av1_mkv").read_bytes()[:1000])
    given = [
        "export",
        str(path),
        "--out",
        str(tmp_path / "out"),
        "--cache-dir",
        str(tmp_path),
        "--every",
        "5",
    ]
    said = " ".join(CliRunner().invoke(main, given).output.split())
    assert (
        "it holds no video packets. The file may be truncated or damaged: fetch it again, or leave it out with"
        in said
    )
    assert "--on-error skip" in said
