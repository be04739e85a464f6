"""``seqpipe doctor``: what this machine supports, what is missing, and how to fix it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from . import _options as options

__all__ = ["doctor"]

_MARKS = {True: "ok", False: "FAILS", None: "-"}


@click.command()
@options.json_lines
@options.cache_dir
def doctor(as_json: bool, cache_dir: str | None) -> None:
    """Look at decoders, GPUs, optional packages and the index cache; ends with 1 if something that must work fails."""
    from ._findings import findings

    failed = False
    for finding in findings(cache_dir):
        failed |= finding.ok is False
        if as_json:
            click.echo(json.dumps({"type": "finding", **asdict(finding)}))
        else:
            advice = f"\n        {finding.advice}" if finding.advice else ""
            click.echo(f"{_MARKS[finding.ok]:>5}  {finding.name}: {finding.value}{advice}")
    click.get_current_context().exit(1 if failed else 0)
