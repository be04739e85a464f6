"""The documentation as a site, starting from nothing but python3 and pip.

    python3 examples/build_docs.py [FOLDER]

Makes the same virtual environment as first_run.py, adds Sphinx, and builds the pages of docs, with those that
are derived from the code, into FOLDER, by default seqpipe_out/docs. Warnings are errors. Once the packages are
installed, nothing is fetched.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from first_run import OUT, ROOT, environment

if __name__ == "__main__":
    if len(sys.argv) > 2 or "-h" in sys.argv or "--help" in sys.argv:
        sys.exit(__doc__)
    python = environment("docs")
    folder = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else OUT / "docs"
    command = [str(python), "-m", "sphinx", "--fail-on-warning", "--quiet", str(ROOT / "docs"), str(folder)]
    print("+", *command, flush=True)
    os.execv(python, command)
