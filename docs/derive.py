"""The pages that are derived from the code: operators, API, commands, errors, and the list for language models.

    python -m docs.derive        writes them into docs/derived, as Sphinx does before it reads the pages

Nothing of them is written by hand: an operator's page is its declaration, a command's its options, an error's the
calls that raise it.
"""

from __future__ import annotations

import ast
import csv
import functools
import importlib
import inspect
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import click

from seqpipe import errors
from seqpipe.cli.app import main as cli
from seqpipe.dali.__main__ import table_text
from seqpipe.dali.names import PROGRAMS
from seqpipe.ops import REGISTRY, Declaration
from seqpipe.ops.core.names import OPERATORS, WITHOUT
from seqpipe.ops.core.parameters import COMMON

from . import pictures

__all__ = [
    "api_pages",
    "cli_page",
    "error_pages",
    "messages",
    "names_pages",
    "operator_pages",
    "operators",
    "write",
]

HERE: Final = Path(__file__).parent
PACKAGE: Final = HERE.parent / "seqpipe"
MODULES: Final = (
    "seqpipe",
    "seqpipe.parts",
    "seqpipe.ops",
    "seqpipe.fn",
    "seqpipe.pipeline",
    "seqpipe.dataset",
    "seqpipe.readers",
    "seqpipe.readers.published",
    "seqpipe.readers.published_volumes",
    "seqpipe.sampling",
    "seqpipe.volume",
    "seqpipe.flow",
    "seqpipe.recipes",
    "seqpipe.view",
    "seqpipe.torch",
    "seqpipe.ray",
)
_FAMILIES: Final = {
    "arrays": "plain arrays",
    "batch": "mixing of samples",
    "motion": "optical flow",
    "random": "random numbers",
    "statistics": "statistics and normalization",
    "temporal": "time",
    "volume": "volumes, in three dimensions",
}


def write(folder: Path) -> None:
    """Write all derived pages with their pictures."""
    pages = {**operator_pages(folder), **api_pages(), "cli.md": cli_page(), **error_pages(), **names_pages()}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads what has changed
            path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in pages:
            path.unlink()
    extra = folder / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    extra.mkdir()
    (extra / "llms.txt").write_text(_for_models(pages), encoding="utf-8")


# ---------------------------------------------------------------- operators


def operators() -> list[type[Declaration]]:
    """Return the operators of seqpipe, by name."""
    return [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]


def operator_pages(folder: Path | None = None) -> dict[str, str]:
    """Return a page for each operator and their index.

    Args:
        folder: where pictures are written; None for pages without them.
    """
    families: dict[str, list[type[Declaration]]] = defaultdict(list)
    for cls in operators():
        family = cls.__module__.split(".")[2]
        families[_FAMILIES.get(family, family)].append(cls)
    lines = [
        "# Operators\n",
        f"{len(operators())} operators. Each is a function of `seqpipe.fn` and a class of `seqpipe.ops`.\n",
    ]
    for family, members in sorted(families.items()):
        names = "\n".join(cls.name for cls in members)
        rows = "".join(f"| [{cls.name}]({cls.name}.md) | {_plain(cls.summary)} |\n" for cls in members)
        title = family[:1].upper() + family[1:]
        lines.append(f"## {title}\n\n| operator | what it does |\n|---|---|\n{rows}")
        lines.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n")
    pages = {"operators/index.md": "\n".join(lines)}
    for cls in operators():
        pages[f"operators/{cls.name}.md"] = _operator(cls, folder)
    return pages


def _operator(cls: type[Declaration], folder: Path | None) -> str:
    own = [q for q in cls.parameters if q.name not in COMMON]
    made = pictures.draw(cls, folder / "operators" / f"{cls.name}.png") if folder else None
    shown = (
        f"![Before and after {cls.name}]({cls.name}.png)\n\n`{_call(cls, made)}`\n"
        if made is not None
        else ""
    )
    rows = "".join(
        f"| `{q.name}` | `{q.default!r}` | {_cell(q.allowed)} | {_cell(q.param.doc)}{_still(q)} |\n"
        for q in (*own, *(q for q in cls.parameters if q.name in COMMON))
    )
    examples = "\n".join(_call(cls, example) for example in cls.traits.examples)
    return f"""# {cls.name}

```{{eval-rst}}
{cls.summary}
```

{shown}
## Parameters

| parameter | default | allowed | meaning |
|---|---|---|---|
{rows}
{_varying(cls)}

## Input and backends

| | |
|---|---|
{_traits(cls)}
{_cost(cls)}
## Calls

```python
{examples}
```
"""


def _call(cls: type[Declaration], arguments: Mapping[str, Any] | None) -> str:
    given = ", ".join(f"{name}={_brief(value)}" for name, value in (arguments or {}).items())
    if cls.traits.takes == "nothing":
        return f"fn.{cls.name}({given})"
    return f"fn.{cls.name}(x{', ' if given else ''}{given})"


def _brief(value: Any) -> str:
    return (
        repr(value)
        if not isinstance(value, tuple) or len(value) <= 16
        else f"({value[0]!r}, …, {value[-1]!r})"
    )


def _still(q: Any) -> str:
    return "" if q.identity is None else f"; `{q.identity!r}` changes nothing"


def _varying(cls: type[Declaration]) -> str:
    drawn = [f"`{q.name}`" for q in cls.drawable]
    if not drawn:
        return ""
    forms = "a range `(lo, hi)`, a distribution, an array with a value for each sample, or a node"
    frames = "; `ops.per_frame(…)` gives one for each frame" if cls.traits.by_frame else ""
    return f"Each of {', '.join(drawn)} may be {forms}{frames}."


def _traits(cls: type[Declaration]) -> str:
    traits = cls.traits
    channels = " or ".join(map(str, traits.channels)) or "any number"
    gpu = (
        "CUDA kernel"
        if traits.body
        else "CUDA kernels of other operators"
        if traits.composed
        else "NumPy's code on CuPy arrays"
    )
    gpu = {"boxes": "none: boxes are in main memory", "nothing": "none: numbers are sampled in main memory",
        "volumes": "CUDA kernels, or NumPy's code on CuPy arrays"}.get(traits.takes, gpu)  # fmt: skip
    most, share = traits.tolerance
    far = (
        "none: all give the same bits"
        if not most
        else f"at most {most:g} steps of the type, in {share:.2%} of the values"
    )
    rows = {
        "takes": traits.takes,
        "dtypes": ", ".join(f"`{dtype}`" for dtype in traits.dtypes),
        "channels": channels,
        "frames": "each by itself" if traits.keeps_frames else "whole sequences",
        "height and width": "kept" if traits.keeps_size else "may change",
        "on a GPU": gpu,
        "difference between backends": far,
        "fused with decoding": ", ".join(traits.converted) or "no",
    }
    if traits.takes not in ("images", "batches"):
        rows = {name: rows[name] for name in ("takes", "dtypes", "on a GPU")}
    return "".join(f"| {name} | {value} |\n" for name, value in rows.items())


@functools.cache
def costs() -> dict[str, list[dict[str, str]]]:
    """Return by operator the rows of costs.csv, which ``python -m benchmarks.costs`` writes."""
    with (HERE / "costs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: [row for row in rows if row["operator"] == name] for name in {row["operator"] for row in rows}
    }


def _cost(cls: type[Declaration]) -> str:
    rows = "".join(
        f"| {'a GPU' if row['device'] == 'cuda' else 'one core'}, {row['machine']} | {row['input']} | {row['ms']} ms | "
        f"{row['copies']} × | {row['date']} |\n"
        for row in costs().get(cls.name, ())
    )
    if not rows:
        return ""
    return (
        "## Cost\n\nOf its first example with p=1 (on volumes, of its picture), and beside a copy of the input, by "
        f"`python -m benchmarks.costs --only {cls.name}`. Chains and data sets fuse operators.\n\n"
        f"| on | input | time | beside a copy | date |\n|---|---|---|---|---|\n{rows}"
    )


# ---------------------------------------------------------------- names in other libraries


def names_pages() -> dict[str, str]:
    """Return the pages of operators' names in other libraries, both ways, and of the names of DALI."""
    classes = {cls.__name__: cls for cls in operators()}
    there = "".join(
        f"| `{name}` | {' or '.join(f'`ops.{call}`' for call in calls)} |\n"
        for name, calls in sorted(OPERATORS.items())
    )
    without = "".join(
        f"| `{name}` | {_cell(advice) or 'nothing yet'} |\n" for name, advice in sorted(WITHOUT.items())
    )
    back: dict[str, list[str]] = defaultdict(list)
    for name, calls in sorted(OPERATORS.items()):
        for call in calls:
            back[call.partition("(")[0]].append(f"`{name}`")
    here = "".join(
        f"| [{name}](operators/{classes[name].name}.md) | {', '.join(others)} |\n"
        for name, others in sorted(back.items())
        if name in classes
    )
    names = (
        "# Names of operators in other libraries\n\nThose of torchvision, albumentations, MONAI, TorchIO and "
        "batchgenerators, without the prefixes Rand and Random and the suffixes d, Dict and Transform.\n\n"
        f"## From theirs to ours\n\n| theirs | seqpipe |\n|---|---|\n{there}{without}\n"
        f"## From ours to theirs\n\n| seqpipe | theirs |\n|---|---|\n{here}"
    )
    rows = ""
    for line in table_text().splitlines():
        name, share, state, *notes = line.split(None, 3)
        rows += f"| `{name}` | {share} | {state} | {_cell(notes[0]) if notes else ''} |\n"
    head = (
        "# Names of DALI\n\nWhich exist in `seqpipe.dali`, how they differ, and what to use instead; and the share of "
        f"{PROGRAMS} public programs that use each: those of DALI's documentation, of Triton's DALI backend, of "
        "NVIDIA's DeepLearningExamples, of MIST and of solo-learn.\n\n"
    )
    return {
        "names.md": names,
        "dali.md": f"{head}| in DALI | used by | here | differences |\n|---|---|---|---|\n{rows}",
    }


# ---------------------------------------------------------------- API


def api_pages() -> dict[str, str]:
    """Return a page for each public module, with what its ``__all__`` lists, and their index."""
    names = "\n".join(MODULES)
    rows = "".join(f"| [{name}]({name}.md) | {_plain(_doc_of(name))} |\n" for name in MODULES)
    index = f"# API\n\n| module | contents |\n|---|---|\n{rows}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    seen: set[int] = set()  # a name that several modules export is on the page of the first
    return {"api/index.md": index, **{f"api/{name}.md": _module(name, seen) for name in MODULES}}


def _doc_of(name: str) -> str:
    """The docstring of a module, without importing it: it may need a package that is not installed."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _module(name: str, seen: set[int]) -> str:
    """A module's page: its docstring, then each name."""
    if name == "seqpipe.fn":
        return (
            f"# {name}\n\n{_plain(_doc_of(name))}. A function for [each operator](../operators/index.md).\n"
        )
    try:
        module = importlib.import_module(name)
    # torch and ray are extras, which Sphinx replaces when it imports the module
    except (ImportError, errors.BackendError):
        members = _listed(name)
    else:
        members = {member: getattr(module, member) for member in module.__all__}
    new = {
        member: value for member, value in members.items() if id(value) not in seen or value in (type, len)
    }
    seen.update(map(id, new.values()))
    body = "\n".join(filter(None, (_member(name, member, value) for member, value in new.items())))
    head = f".. automodule:: {name}\n   :no-members:\n\n.. currentmodule:: {name}\n"
    return f"# {name}\n\n```{{eval-rst}}\n{head}\n{body}\n```\n"


def _listed(name: str) -> dict[str, Any]:
    path = PACKAGE.parent.joinpath(*name.split("."), "__init__.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return {one: type if one[:1].isupper() else len for one in names}
    return {}


def _member(module: str, name: str, value: Any) -> str:
    """The directive of one public name; operators and modules have pages of their own."""
    if inspect.ismodule(value) or (
        inspect.isclass(value) and issubclass(value, Declaration) and value.name in REGISTRY
    ):
        return ""
    if inspect.isclass(value):
        if issubclass(value, errors.SeqpipeError) and module == "seqpipe":
            return f".. autoexception:: {name}\n   :no-index:\n"
        return f".. autoclass:: {name}\n   :members:\n   :special-members: __call__, __getitem__, __iter__, __len__\n"
    if callable(value) and getattr(value, "__doc__", None):
        return f".. autofunction:: {name}\n" if inspect.isroutine(value) or value is len else ""
    return ""


# ---------------------------------------------------------------- command line


def cli_page() -> str:
    """Return the page of all commands, from the parser."""
    context = click.Context(cli, info_name="seqpipe")
    parts = ["# Commands\n", _paragraphs(cli.help or "")]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts.append(_command(click.Context(command, info_name=f"seqpipe {name}", parent=None)))
    return "\n".join(parts)


def _command(context: click.Context) -> str:
    command = context.command
    usage = command.collect_usage_pieces(context)
    rows = ""
    for option in command.get_params(context):
        if (record := option.get_help_record(context)) is not None:
            rows += f"| `{record[0]}` | {_cell(record[1])} |\n"
    return (
        f"## {context.info_name}\n\n```text\n{context.info_name} {' '.join(usage)}\n```\n\n"
        f"{_paragraphs(command.help or '')}\n\n| option | meaning |\n|---|---|\n{rows}"
    )


def _paragraphs(text: str) -> str:
    text = re.sub("\b\n?", "", inspect.cleandoc(text))  # Click's mark of paragraphs that it does not wrap
    return re.sub("^- ", r"\\- ", _cell(text, keep_lines=True), flags=re.MULTILINE) + "\n"


# ---------------------------------------------------------------- errors


def error_pages() -> dict[str, str]:
    """Return a page for each class of errors with its messages, and their index."""
    found = messages()
    classes = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    tree = re.search(
        r"^ *SeqpipeError\n.*?\n\n", inspect.cleandoc(errors.__doc__ or ""), re.DOTALL | re.MULTILINE
    )
    rows = ""
    for cls in classes:
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        rows += f"| [{cls.__name__}](errors/{cls.__name__}.md) | {bases} | {_plain(cls.__doc__ or '')} |\n"
    names = "\n".join(f"errors/{cls.__name__}" for cls in classes)
    index = (
        "# Error messages\n\n[Errors](../concepts/errors.md) says how errors are built. "
        "The messages of each class, with … for what differs, are on its page.\n\n"
        f"```text\n{dedent(tree[0]).strip() if tree else ''}\n```\n\n"
        f"| class | derives from | raised if |\n|---|---|---|\n{rows}\n"
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    return {
        "errors.md": index,
        **{f"errors/{cls.__name__}.md": _error(cls, found[cls.__name__]) for cls in classes},
    }


def _error(cls: type[Exception], rows: Iterable[tuple[str, str, str, str]]) -> str:
    rooms: dict[str, list[str]] = defaultdict(list)
    for room, fact, allowed, advice in sorted(set(rows)):
        rooms[room].append(f"| {_cell(fact)} | {_cell(allowed)} | {_cell(advice)} |\n")
    tables = "".join(
        f"\n## {room}\n\n| message | allowed | what to do |\n|---|---|---|\n{''.join(lines)}"
        for room, lines in rooms.items()
    )
    text = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return f"# {cls.__name__}\n\n```{{eval-rst}}\n{text}\n```\n{tables}"


def messages() -> dict[str, list[tuple[str, str, str, str]]]:
    """Return by class (room, fact, allowed, advice) of each error that the code builds from text."""
    found: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        room = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts[:2])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and (name := getattr(node.func, "id", "")) in errors.__all__
                and node.args
            ):
                keywords = {keyword.arg: _text(keyword.value) for keyword in node.keywords}
                if (fact := _text(node.args[0])).strip("… "):
                    found[name].append((room, fact, keywords.get("allowed", ""), keywords.get("advice", "")))
    return found


def _text(node: ast.expr) -> str:
    """A string as written, with … for what is known when it is raised only."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return re.sub("(… ?)+…", "…", "".join(_text(part) for part in node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{node.value.id}}}" if isinstance(node.value, ast.Name) else "…"
    if isinstance(node, ast.IfExp):
        return " / ".join(filter(None, (_text(node.body), _text(node.orelse))))
    return "…"


# ---------------------------------------------------------------- for language models


def _for_models(pages: Mapping[str, str]) -> str:
    """The site as a list of links with what they lead to (llms.txt)."""
    lines = ["# seqpipe", "", f"> {_plain(_doc_of('seqpipe'))}.", ""]
    hand = {path.relative_to(HERE).as_posix(): path.read_text(encoding="utf-8") for path in _written()}
    for title, texts in (
        ("Pages", hand),
        ("Derived from the code", {f"derived/{name}": text for name, text in pages.items()}),
    ):
        lines += [f"## {title}", ""]
        for name, text in sorted(texts.items()):
            heading = re.search(r"^# (.*)$", text, re.MULTILINE)
            first = re.search(r"^(?:[A-Z].*?)[.:](?=\s)", text, re.MULTILINE | re.DOTALL)
            url = name.removesuffix(".md") + ".html"
            what = " ".join(first[0].split()) if first else ""
            lines.append(f"- [{heading[1] if heading else name}]({url}): {what}")
        lines.append("")
    return "\n".join(lines)


def _written() -> Iterator[Path]:
    return (path for path in sorted(HERE.rglob("*.md")) if "derived" not in path.relative_to(HERE).parts)


# ---------------------------------------------------------------- text


def _plain(doc: str) -> str:
    """The first sentence of a docstring in reStructuredText, as Markdown."""
    line = " ".join(doc.partition("\n\n")[0].split())
    line = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", line).replace("``", "`")
    return _cell(re.split(r"(?<=[^.])\.(?:\s|$)", line)[0])


def _cell(text: str, *, keep_lines: bool = False) -> str:
    """Text of the code within Markdown: nothing in it is markup, but code in backticks."""
    text = re.sub(r"(?<!`)``(?!`)", "`", text)
    if not keep_lines:
        text = " ".join(text.split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part[:1] == "`" else re.sub(r"([*_<>\[\]{}$])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    write(HERE / "derived")
