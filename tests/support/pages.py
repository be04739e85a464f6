"""The documentation's pages as tests and programs read them: their blocks of code, and how these are run."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_scripts import make_volumes

from .media import ROOT, sampled

__all__ = ["PAGES", "Block", "blocks_of", "fill", "missing", "outputs_of", "printed_by"]

PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("[a-z]*.md")
    if not path.is_relative_to(ROOT / "docs" / "derived")))  # fmt: skip
_FENCE = re.compile(
    r"(?:<!-- ([\w-]+): *([^>]*?) *-->\n)?^```(\S*)(?: [^\n]*)?\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: as written behind the fence; directives of Sphinx have braces.
        text: its lines.
        line: number of its first line in the page.
        mark: word of the comment above: ``set-up`` for what is not run, ``needs`` for what needs packages.
        value: what the comment says.
    """

    language: str
    text: str
    line: int
    mark: str = ""
    value: str = ""

    @property
    def peer(self) -> str:
        """The other library whose code it is, which its first line names; "" for seqpipe's."""
        first = re.match(r"# ([\w.]+)\n", self.text)
        return first[1] if self.language == "python" and first and first[1] != "seqpipe" else ""


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [
        Block(found[3], found[4], text.count("\n", 0, found.start(4)) + 1, found[1] or "", found[2] or "")
        for found in _FENCE.finditer(text)
    ]


def missing(block: Block) -> list[str]:
    """Return the packages that a block needs and that are not installed."""
    named = re.findall(r"\w+", block.value) if block.mark == "needs" else []
    return [name for name in named if importlib.util.find_spec(name) is None]


def fill(folder: Path) -> None:
    """Write the files that pages use: a video, and a volume with its labels."""
    shutil.copy(sampled(), folder / "clip.mp4")
    make_volumes.sample(folder)


def printed_by(block: Block, namespace: dict[str, Any], page: str = "README.md") -> str:
    """Run a block; return what it prints. Tracebacks show the page's own line numbers."""
    out = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(ROOT / page), "exec")
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def outputs_of(page: str) -> Iterator[tuple[Block, Block | None, str]]:
    """Run a page's blocks of Python and commands in order, in the working directory.

    Yields:
        each block of Python, the block behind it that shows its output, and the actual output.
    """
    blocks = blocks_of((ROOT / page).read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}  # dataclasses look their module up
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "bash" and not block.mark:
            for command in block.text.splitlines():
                _run(command)
        elif block.language == "python" and not block.peer and not missing(block):
            shown = following if following is not None and following.language == "text" else None
            yield block, shown, printed_by(block, namespace, page)


def _run(command: str) -> None:
    """Run a line of a block of commands; what it names by --out has to be there then."""
    if command.startswith("#"):
        return
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", command],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    for name in re.findall(r"--out (\S+)", command):
        out = Path(name)
        assert out.is_file() or any(out.rglob("*.*")), f"{command} wrote nothing"
