"""Every C source's library is loaded from the installed wheel: without a compiler, without a cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as empty:
    os.environ |= {"SEQPIPE_CC": "", "SEQPIPE_CACHE_DIR": empty}
    import seqpipe
    from seqpipe.core import native

    root = Path(seqpipe.__file__).parent
    sources = native.library_sources(root)
    for path in sources:
        package = ".".join((root.name, *path.parent.relative_to(root).parts))
        if native.load_native(package, path.name) is None:
            raise SystemExit(f"{package}: the library of {path.name} is not in the wheel {root}")
    compiled = [path.name for path in Path(empty).rglob("*")]
    if not sources or compiled:
        raise SystemExit(f"{root} has no C sources, or the cache was written to: {compiled}")
