"""Frames out of a video, starting from nothing but python3 and pip.

    python3 examples/first_run.py [VIDEO]

Makes the virtual environment .venv if it is not there, installs seqpipe into it, and exports twelve frames
of VIDEO with a contact sheet. Without a VIDEO it makes a sample first. Run again, it repeats only what is
needed.

Only the standard library is used here, because nothing is installed yet.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "seqpipe_out"


def run(*command: str | Path) -> None:
    """Show a command and run it; end with its exit code if it fails."""
    words = [str(word) for word in command]
    print("+", shlex.join(words), flush=True)
    done = subprocess.run(words, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def environment(group: str | None = None) -> Path:
    """Make the virtual environment and install seqpipe into it, with a dependency group if one is named.

    Its folder is .venv, or the one that SEQPIPE_VENV names. What was installed by the present pyproject.toml
    is not installed again.

    Args:
        group: a key of pyproject.toml's ``[dependency-groups]``.

    Returns:
        The environment's Python.
    """
    if sys.version_info < (3, 10):  # noqa: UP036 - this runs before pip has looked at requires-python
        sys.exit(f"seqpipe needs Python 3.10 or newer; this is {sys.version.split()[0]}")
    folder = Path(os.environ.get("SEQPIPE_VENV") or ROOT / ".venv").absolute()
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not (
        python.exists()
        and subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0
    ):
        print(f"# making a virtual environment in {folder}", flush=True)
        try:
            venv.create(folder, with_pip=True)
        except subprocess.CalledProcessError:
            sys.exit("Python's venv has no pip here. On Debian and Ubuntu: apt install python3-venv")
    state = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + str(ROOT).encode()).hexdigest()
    stamps = {part: folder / f"seqpipe-{part}.installed" for part in ("base", group or "base")}
    missing = [part for part, stamp in stamps.items() if not stamp.exists() or stamp.read_text() != state]
    if not missing:
        print(f"# {folder} is up to date", flush=True)
        return python
    names = ["seqpipe" if part == "base" else f"its dependency group {part!r}" for part in missing]
    print(f"# installing {', '.join(names)} into {folder}", flush=True)
    words: list[str | Path] = ["--editable", ROOT] if "base" in missing else []
    if group in missing:
        run(*pip, "install", "--quiet", "pip>=25.1")  # the first that knows --group
        words += ["--group", f"{ROOT / 'pyproject.toml'}:{group}"]
    run(*pip, "install", "--quiet", *words)
    for part in missing:
        stamps[part].write_text(state)
    return python


def main(arguments: list[str]) -> None:
    """Set up, make a sample if no video was named, export."""
    if len(arguments) > 1 or "-h" in arguments or "--help" in arguments:
        sys.exit(__doc__)
    python = environment()
    video = Path(arguments[0]).absolute() if arguments else OUT / "sample.mp4"
    if not arguments and not video.exists():
        print("# no video was named: making a sample", flush=True)
        OUT.mkdir(exist_ok=True)
        run(python, ROOT / "data_scripts" / "make_videos.py", "--sample", video)
    frames = OUT / video.stem
    print("# exporting twelve frames, evenly spread over the video", flush=True)
    run(
        python.parent / "seqpipe",
        "export",
        video,
        "--out",
        frames,
        "--num",
        "12",
        "--contact-sheet",
        "--overwrite",
    )
    print(f"# the frames and the contact sheet are in {frames}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
