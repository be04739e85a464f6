"""The command line: the commands of ``seqpipe --help``.

``commands`` holds a module for each command, and ``app`` is the program. An export goes from ``inputs`` through
``request`` (the checked options), ``selection`` and ``source_plan`` (which frames go into which files), ``claims`` and
``record`` (locks and ``--resume``) to ``run``, the loop over all sources; the modules of ``exporters`` export one of
them. Imports everything but ``fn``.

Exit codes: 0 all done, 1 some inputs failed or the export stopped, 2 wrong usage, 130 interrupted. Only requested
results go to stdout (``--json``, ``--dry-run``, ``probe``); everything else goes to stderr.
"""

from __future__ import annotations

from .app import main

__all__ = ["main"]
