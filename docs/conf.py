"""Settings of Sphinx. The pages that are derived from the code are written first, by derive.py."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import seqpipe  # noqa: E402  the path is set above
from docs import derive  # noqa: E402

derive.write(HERE / "derived")

project = "seqpipe"
version = release = seqpipe.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["derived/parts"]
smartquotes = False  # options begin with two dashes
suppress_warnings = ["ref.python"]  # a name that two modules export

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

napoleon_use_ivar = True
autodoc_typehints = "signature"
autodoc_mock_imports = ["cupy", "ray", "torch"]
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"seqpipe {version}"
html_static_path = ["static"]
html_css_files = ["columns.css"]
html_extra_path = ["derived/extra"]
html_show_sphinx = False
html_show_copyright = False


def _is_code(text: str) -> bool:
    """Whether a paragraph of a docstring is Python: it parses, and calls or assigns something."""
    try:
        body = ast.parse(dedent(text).replace("…", "...")).body
    except SyntaxError:
        return False
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in body)


def _mark_code(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001  Sphinx's
    """Make literal blocks of the paragraphs of code, which docstrings write without the mark of reStructuredText."""
    marked, is_literal = [], False
    for part in "\n".join(lines).split("\n\n"):
        is_literal = is_literal and part[:1] in (" ", "")
        if not is_literal and _is_code(part):
            marked.append("::")
            part = indent(dedent(part), "    ")
        is_literal = is_literal or part.rstrip().endswith("::")
        marked.append(part)
    lines[:] = "\n\n".join(marked).split("\n")


def setup(app: Any) -> None:
    """Connect; napoleon, with the default priority of 500, comes later."""
    app.connect("autodoc-process-docstring", _mark_code, priority=100)
