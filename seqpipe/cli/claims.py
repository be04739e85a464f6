"""Claims of output files by concurrent exports: no two exports may write the same file.

Each export keeps a hidden, locked file with digests of its file names in the output folder while it runs. Collisions
are found whatever sources and patterns the names come from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from ..core.interrupts import cleanup_on_exit
from ..errors import OutputError, printable
from ..writers.files import output_errors
from ..writers.lock import ADVICE, WAIT_S, Lock, locked
from .manifest import written_by_manifest
from .record import RECORD, SHEET, internal_path
from .request import ExportRequest
from .source_plan import SourcePlan, check_collisions

__all__ = ["claimed", "internal_names", "refuse_collisions", "reserved"]

_Digests: TypeAlias = NDArray[np.uint64]


def internal_names(request: ExportRequest) -> dict[str, str]:
    """The names in the output folder that an export uses for itself, with a description of each."""
    names = {
        os.path.relpath(
            internal_path(request.folder, RECORD), request.folder
        ): "the record of the options of this folder"
    }
    if request.options.contact_sheet:
        names[SHEET] = "the contact sheet"
    for path in () if request.manifest is None else written_by_manifest(request.manifest):
        names[os.path.relpath(path, request.folder)] = "the manifest"
    return names


def refuse_collisions(plans: Seq[SourcePlan], request: ExportRequest) -> None:
    """Check that all files of an export have names of their own."""
    try:
        check_collisions(plans, internal_names(request))
    except OutputError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error


@contextlib.contextmanager
def reserved(plans: Seq[SourcePlan], request: ExportRequest) -> Iterator[None]:
    """Keep other exports off the files, the manifest and the contact sheet while the block runs."""
    with contextlib.ExitStack() as stack:
        if request.manifest is not None:
            stack.enter_context(locked(request.manifest, "this manifest"))
        if request.options.contact_sheet:
            stack.enter_context(
                locked(internal_path(request.folder, SHEET), "the contact sheet of this folder")
            )
        stack.enter_context(claimed(plans, request.folder, request.options.out))
        yield


@contextlib.contextmanager
def claimed(plans: Seq[SourcePlan], folder: Path, out: str) -> Iterator[None]:
    """Claim the files of these plans while the block runs."""
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    digests = [np.fromiter(map(_digest, plan.names()), np.uint64, len(plan)) for plan in plans]
    claim = Lock(internal_path(folder, f"{os.urandom(16).hex()}.lock"))
    with cleanup_on_exit(claim.release):
        try:
            with locked(
                internal_path(folder, "claims"),
                "the list of what is being written into this folder",
                wait_s=WAIT_S,
            ):
                for others in _others(folder):
                    _refuse_shared(plans, digests, others, out)
                with output_errors(claim.path):
                    claim.acquire()
                    claim.path.write_bytes(b"".join(digest.tobytes() for digest in digests))
            yield
        finally:
            claim.release()


def _others(folder: Path) -> Iterator[_Digests]:
    """The claims of running exports; claims of killed exports are removed."""
    for path in folder.glob(internal_path(Path(), "*.lock").name):
        lock = Lock(path)
        with output_errors(path):
            if lock.acquire():
                lock.release()
                continue
            with contextlib.suppress(FileNotFoundError):  # the export has ended meanwhile
                yield np.frombuffer(path.read_bytes(), np.uint64)


def _refuse_shared(plans: Seq[SourcePlan], digests: Seq[_Digests], others: _Digests, out: str) -> None:
    """Check that another export does not claim files of these plans."""
    for plan, own in zip(plans, digests, strict=True):
        if (shared := np.flatnonzero(np.isin(own, others))).size:
            name = printable(plan.name(int(shared[0])))
            raise OutputError(
                f"another export is writing {name} into {out}", source=plan.source, advice=ADVICE
            )


def _digest(name: str) -> int:
    """Return the digest of a file name."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "little")
