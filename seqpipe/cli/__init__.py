"""The command line: ``seqpipe probe``, ``index``, ``export``, ``flow``, ``view`` and ``doctor``.

``commands`` holds a module for each command, ``export`` the work of exports, ``plan`` what an export will do,
``output`` the files it writes, ``job`` its locks and ``--resume``, ``input`` its sources, ``terminal`` options and
messages; ``app`` is the program. It may import everything but ``plugin`` and ``fn``.

Exit codes: 0 everything was done, 1 some inputs failed or the work had to stop, 2 the command line is wrong,
130 interrupted. Results go to stdout only where they were asked for (``--json``, ``--dry-run``, ``probe``);
everything else goes to stderr.
"""

from __future__ import annotations

from .app import main

__all__ = ["main"]
