"""Make the videos that the tests decode, and the sample of the documentation.

    python data_scripts/make_videos.py --out DIR [--only NAME …]
    python data_scripts/make_videos.py --sample FILE

A second run makes only what is missing or was declared anew. A file appears under its name once it is whole.
What cannot be made here (an encoder that this ffmpeg lacks) is skipped, with the reason in manifest.tsv.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_scripts.frame_code import draw
from data_scripts.media_faults import FAULTS
from data_scripts.media_item import Entry, Item, read_manifest, write_manifest
from data_scripts.media_make import Maker, digest
from data_scripts.media_quirks import QUIRKS
from data_scripts.media_table import CODECS
from seqpipe.core.whole_file import replacing

__all__ = ["ITEMS", "MANIFEST", "make", "sample"]

MANIFEST = "manifest.tsv"
ITEMS: dict[str, Item] = {item.name: item for item in (*CODECS, *QUIRKS, *FAULTS)}


def make(out: Path, names: Iterable[str] | None = None) -> list[Entry]:
    """Make the named items and what they are made from, or the whole set.

    Args:
        out: folder for the files and manifest.tsv; made if missing.
        names: of items; None for all.

    Returns:
        The entries of the named items, in the order of the table.

    Raises:
        KeyError: no item of that name.
    """
    wanted = set(ITEMS) if names is None else {ITEMS[name].name for name in names}
    needed = wanted | {base for name in wanted for base in _bases(name)}
    out.mkdir(parents=True, exist_ok=True)
    known = read_manifest(out / MANIFEST)
    maker = Maker(out, ITEMS)
    todo = [item for item in ITEMS.values() if item.name in needed and not _is_made(item, known, out)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for level in sorted({len(_bases(item.name)) for item in todo}):
            for entry in pool.map(maker.entry, [item for item in todo if len(_bases(item.name)) == level]):
                known[entry.name] = entry
            write_manifest(out / MANIFEST, [known[name] for name in ITEMS if name in known])
    return [known[name] for name in ITEMS if name in wanted]


def sample(path: Path, *, size: tuple[int, int] = (640, 360), seconds: int = 3, rate: int = 30) -> None:
    """Write one pleasant H.264 video; PyAV alone suffices."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, av.open(str(part), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "20"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.time_base = Fraction(1, rate)
        for number in range(seconds * rate):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(draw(number, size), format="rgb24")))
        container.mux(stream.encode(None))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--out", type=Path, metavar="DIR", help="make the set in this folder")
    chosen.add_argument("--sample", type=Path, metavar="FILE", help="make one sample video")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(ITEMS), help="items to make")
    given = parser.parse_args(arguments)
    if given.sample is not None:
        sample(given.sample)
        print(f"wrote {given.sample}")
        return 0
    entries = make(given.out, given.only)
    skipped = [entry for entry in entries if entry.state == "skipped"]
    for entry in skipped:
        print(f"skipped {entry.name}: {entry.note}")
    made = len(entries) - len(skipped)
    print(f"{made} files in {given.out}, {len(skipped)} skipped; see {given.out / MANIFEST}")
    return 0


def _bases(name: str) -> tuple[str, ...]:
    """What an item is made from, nearest first."""
    names = [base for base in ITEMS[name].sources if base]
    return tuple(dict.fromkeys([*names, *(far for base in names for far in _bases(base))]))


def _is_made(item: Item, known: dict[str, Entry], out: Path) -> bool:
    entry = known.get(item.name)
    return (
        entry is not None
        and entry.state != "skipped"
        and entry.digest == digest(item, ITEMS)
        and (out / item.file).is_file()
    )


if __name__ == "__main__":
    sys.exit(main())
