"""Help of commands with many options: examples come first, and options stand under headings."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from itertools import islice
from typing import Any

import click

__all__ = ["GroupedCommand"]


class GroupedCommand(click.Command):
    """A command whose help has examples, and lists its options under headings.

    Args:
        *args: of :class:`click.Command`.
        examples: complete command lines.
        headings: the headings in order, each with its number of options; the last one also has ``--help``.
        **settings: of :class:`click.Command`.
    """

    def __init__(self, *args: Any, examples: Seq[str], headings: Mapping[str, int], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._examples, self._headings = examples, headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the options, called by Click."""
        with formatter.section("Examples"):
            for example in self._examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        options = iter([param for param in self.get_params(ctx) if isinstance(param, click.Option)])
        *_, last = self._headings
        for heading, count in self._headings.items():
            group = list(options if heading == last else islice(options, count))
            records = [record for option in group if (record := option.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(records)
