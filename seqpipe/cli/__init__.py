"""The command line: the commands of ``seqpipe --help``.

``commands`` holds a module for each command, ``export`` runs exports, ``plan`` plans them, ``output`` writes files,
``job`` has locks and ``--resume``, ``input`` finds sources, ``terminal`` has options and messages; ``app`` is the
program. Imports everything but ``fn``.

Exit codes: 0 all done, 1 some inputs failed or the export stopped, 2 wrong usage, 130 interrupted. Only requested
results go to stdout (``--json``, ``--dry-run``, ``probe``); everything else goes to stderr.
"""

from __future__ import annotations

from .app import main

__all__ = ["main"]
