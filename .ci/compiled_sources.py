"""Hatchling's build hook: a wheel holds the C sources compiled, so that nothing is compiled where it is installed.

Without a C compiler the wheel is one for every platform, and its C functions are compiled on first use, where that is
possible, or replaced by their slower Python equivalents. A compiler named by SEQPIPE_CC has to succeed.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["CompiledSources"]


class CompiledSources(BuildHookInterface[Any]):
    """Adds the libraries to ``seqpipe/core/compiled`` of a wheel and tags it with the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the wheel is of an editable install, which compiles on first use."""
        self._folder = Path(tempfile.mkdtemp(prefix="seqpipe-"))
        if version == "editable":
            return
        try:
            libraries = _native(Path(self.root)).compile_all(Path(self.root, "seqpipe"), self._folder)
        except OSError as error:
            if os.environ.get("SEQPIPE_CC"):
                raise
            self.app.display_warning(
                f"The C sources are not compiled, so this wheel's work on a CPU is several times slower until they "
                f"are: {error}"
            )
            return
        build_data["force_include"].update(
            {str(library): f"seqpipe/core/compiled/{library.name}" for library in libraries}
        )
        build_data["pure_python"] = False
        # no code of Python's: one wheel serves every version of it
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, *_: Any) -> None:
        """Remove the folder that the libraries were compiled into."""
        shutil.rmtree(self._folder)


def _native(root: Path) -> ModuleType:
    """Import ``seqpipe.core.native`` without seqpipe itself, whose dependencies a build environment lacks."""
    package = ModuleType("seqpipe_core")
    package.__path__ = [str(root / "seqpipe" / "core")]
    sys.modules[package.__name__] = package
    return importlib.import_module("seqpipe_core.native")
