"""Click options derived from :class:`~seqpipe.core.param.Param`, and further option types.

Times are ``12.5``, ``1:02:03.250`` or ``123f``.
"""

from __future__ import annotations

import codecs
import contextlib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..core.param import Param
from ..errors import ParameterError

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # can only be subscripted since Click 8.5

__all__ = [
    "CROP",
    "DEVICE",
    "FRAMES",
    "GRID",
    "MARK",
    "SIZE",
    "TIMES",
    "WINDOW",
    "Mark",
    "ParamType",
    "cache_dir",
    "files",
    "files_from",
    "folders",
    "inputs",
    "jobs",
    "json_lines",
    "option",
    "paths",
    "register",
    "sentence",
    "series",
]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_FORMS = "seconds (12.5), [hh:]mm:ss[.ms] (1:02:03.25) or a number of frames (123f)"
_FRAMES = re.compile(r"(\d+)f", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d*)?)", re.ASCII)
_JOBS = Param(name="jobs", doc="Number of threads; by default one per core", lo=1, hi=4096, optional=True)


class _Checked(ParamType):
    """Click type that checks values with a :class:`Param`."""

    def __init__(self, param: Param) -> None:
        self.param = param
        self.name = {int: "integer", float: "number", str: "text"}[param.kind]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:  # noqa: ARG002  Click's
        return f"[{'|'.join(self.param.choices)}]" if self.param.choices else None

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  Click's
        param: click.Parameter,  # noqa: ARG002  Click's
        incomplete: str,
    ) -> list[CompletionItem]:
        return [
            CompletionItem(choice) for choice in self.param.choices or () if choice.startswith(incomplete)
        ]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.param.check(_number(value) if self.param.kind in (int, float) else value)
        except ParameterError as error:
            self.fail(f"{error.fact}; allowed: {(error.allowed or '').removesuffix(' or None')}.", param, ctx)


class _Pattern(ParamType):
    """Integers in a fixed form, such as ``640x360``."""

    def __init__(self, name: str, form: str, example: str) -> None:
        self.name, self._form, self._example = name, re.compile(form), example

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002  Click's
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        with contextlib.suppress(ValueError):  # int() refuses more than 4300 digits
            if self._form.fullmatch(text := "".join(value.split()).lower()):
                return tuple(int(number) for number in re.findall(r"-?\d+", text))
        return self.fail(
            f"{value!r} does not have the form {self.name}, such as {self._example}.", param, ctx
        )


class _WindowType(ParamType):
    """Center and width of a window of intensities."""

    name = "C,W"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        numbers = [_number(part) for part in str(value).split(",")]
        is_pair = len(numbers) == 2 and all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers)
        if not is_pair or numbers[1] <= 0:
            self.fail(
                f"{value!r} does not have the form C,W with a width above 0, such as 40,400.", param, ctx
            )
        return float(numbers[0]), float(numbers[1])


class _DeviceType(ParamType):
    """Name of a device, which is checked where it is used."""

    name = "text"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  Click's
        param: click.Parameter,  # noqa: ARG002  Click's
        incomplete: str,
    ) -> list[CompletionItem]:
        names = ("auto", "cpu", "cuda", "cuda:0", "cuda:all")
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@dataclass(frozen=True)
class Mark:
    """A position counted from the first frame, or a duration.

    Attributes:
        value: seconds, or number of frames.
        in_frames: whether ``value`` counts frames.
    """

    value: float
    in_frames: bool = False

    def __str__(self) -> str:
        return f"{self.value:.0f}f" if self.in_frames else f"{self.value:g} s"


class _MarkType(ParamType):
    """Click type of a :class:`Mark`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mark:
        if isinstance(value, Mark):
            return value
        try:
            mark = _mark(value.strip())
        except ValueError:  # int() refuses more than 4300 digits
            mark = None
        if mark is None:
            self.fail(f"{value!r} is not a time; allowed: {_FORMS}, none of them negative.", param, ctx)
        return mark


class _TimesType(ParamType):
    """Click type of times in seconds, separated by commas."""

    name = "times"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        marks = [MARK.convert(part, param, ctx) for part in value.split(",")]
        if frames := [str(mark) for mark in marks if mark.in_frames]:
            self.fail(f"{frames[0]!r} is a frame, not a time; --frames takes frame numbers.", param, ctx)
        return tuple(mark.value for mark in marks)


MARK = _MarkType()
TIMES = _TimesType()
DEVICE = _DeviceType()
WINDOW = _WindowType()
SIZE = _Pattern("WxH", r"[1-9]\d*x[1-9]\d*", "640x360")
CROP = _Pattern("x:y:w:h", r"\d+:\d+:[1-9]\d*:[1-9]\d*", "0:60:640:360")
GRID = _Pattern("CxR", r"[1-9]\d?x[1-9]\d?", "6x4")
FRAMES = _Pattern("a,b,c", r"-?\d+(,-?\d+)*", "0,10,-1")


def option(param: Param, *flags: str, **settings: Any) -> Callable[[CommandT], CommandT]:
    """Return a Click option with the name, help and range of a parameter."""
    kind = _Checked(param)
    allowed = "" if param.choices else f" ({param.allowed.removesuffix(' or None')})"
    settings.setdefault("help", f"{sentence(param).rstrip('.')}{allowed}.")
    names = flags or (f"--{param.name.replace('_', '-')}",)
    return click.option(*names, type=kind, **settings)


def sentence(param: Param) -> str:
    """Return a parameter's description as a sentence, for help texts."""
    return f"{param.doc[:1].upper()}{param.doc[1:].rstrip('.')}."


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001  Click's
    """Let the shell complete files, for arguments that may also be URLs, patterns or "-"."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001  Click's
    """Let the shell complete folders."""
    return [CompletionItem(incomplete, type="dir")]


_LISTED = "seqpipe.paths"


def inputs(command: CommandT) -> CommandT:
    """Add the argument ``paths``, files, folders and URLs, and ``--files-from``, which adds to them."""
    return paths(files_from(command))


def paths(command: CommandT) -> CommandT:
    """Add the argument ``paths``, with those of ``--files-from``."""
    return click.argument("paths", nargs=-1, metavar="PATH...", callback=_with_listed, shell_complete=files)(
        command
    )


def files_from(command: CommandT) -> CommandT:
    """Add ``--files-from``: a file of paths for the argument ``paths``."""
    text = "Also take the paths in FILE, one on each line, or with a NUL after each; - is standard input."
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True)
    return click.option(
        "--files-from",
        type=kind,
        metavar="FILE",
        help=text,
        is_eager=True,
        expose_value=False,
        callback=_list,
    )(command)


def _list(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    """Keep the paths that a file lists for the argument ``paths``."""
    if name is None:
        return
    with click.open_file(name, "rb") as file:
        data = file.read().removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\0") if b"\0" in data else data.splitlines()
    ctx.meta[_LISTED] = tuple(os.fsdecode(line) for line in lines if line.strip())
    if not ctx.meta[_LISTED]:
        raise click.BadParameter(f"{name} holds no path.", ctx, param)


def _with_listed(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the typed and the listed paths."""
    all_paths = (*value, *ctx.meta.get(_LISTED, ()))
    if not all_paths:
        raise click.MissingParameter(ctx=ctx, param=param)
    return all_paths


def jobs(command: CommandT) -> CommandT:
    """Add ``--jobs``: number of threads, None for one per core."""
    return option(_JOBS)(command)


def json_lines(command: CommandT) -> CommandT:
    """Add ``--json``, as ``as_json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON object per line on stdout, and nothing else."
    )(command)


def series(command: CommandT) -> CommandT:
    """Add ``--series``: the SeriesInstanceUID of a DICOM series, or None."""
    text = "Of a folder with several DICOM series, the SeriesInstanceUID of the one to read."
    return click.option("--series", metavar="UID", help=text)(command)


def cache_dir(command: CommandT) -> CommandT:
    """Add ``--cache-dir``: folder of the index cache."""
    text = "Folder of the index cache (default: seqpipe in the user's cache folder)."
    return click.option("--cache-dir", type=click.Path(file_okay=False), help=text)(command)


def register(command: CommandT) -> CommandT:
    """Add ``--register``: the path or URL of an existing register of indexes, or None."""
    text = (
        "Register of indexes, written by seqpipe index --register, for videos without an index in the cache."
    )
    return click.option("--register", type=_RegisterType(dir_okay=False, exists=True), help=text)(command)


class _RegisterType(click.Path):
    """A path of a file that exists, or a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


def _number(value: Any) -> Any:
    """Convert text, such as 25, 12.5 or 30000/1001, to a number; other text is returned unchanged, for the message."""
    for kind in (int, float, lambda text: float(Fraction(text))):
        with contextlib.suppress(ValueError, ZeroDivisionError):
            return kind(value)
    return value


def _mark(text: str) -> Mark | None:
    """Return the position that a text stands for; None if it is none."""
    if match := _FRAMES.fullmatch(text):
        return Mark(int(match[1]), in_frames=True)
    if _SECONDS.fullmatch(text):
        return Mark(float(text))
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    # 60 seconds or more, or 60 minutes or more after hours, are typing errors
    if float(seconds) >= 60 or (hours is not None and int(minutes) >= 60):
        return None
    return Mark(int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds))
