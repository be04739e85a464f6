"""The command line: ``seqpipe probe``, ``index``, ``export``, ``flow``, ``view`` and ``doctor``.

Exit codes: 0 everything was done, 1 some inputs failed or the work had to stop, 2 the command line is wrong,
130 interrupted. Results go to stdout only where they were asked for (``--json``, ``--dry-run``, ``probe``);
everything else goes to stderr.
"""

from __future__ import annotations

from ._app import main

__all__ = ["main"]
