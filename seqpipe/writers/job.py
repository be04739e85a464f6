"""Job: what is written into a folder, which of its units are finished, and the manifest.

A unit is a range of consecutive samples. Its record, ``.seqpipe/units/000012.jsonl``, is created once all of its files
are complete: a unit with a record is finished, another one is written again, with the same names. So a run that was
killed is continued by repeating it, and nothing is written twice or half. The manifest is the records in order.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any, Final

from ..core.interrupts import cleanup_on_exit
from ..core.json_text import parse_json
from ..errors import OutputError, ParameterError
from .files import output_errors
from .lock import WAIT_S, Lock, locked
from .store import LocalFolder, Store

__all__ = ["MANIFEST", "WriteJob"]

MANIFEST: Final = "manifest.jsonl"
"""One line for each sample in order: files, values, source; or the reason why it was left out."""

_OWN: Final = ".seqpipe"
_JOB: Final = f"{_OWN}/job.json"
_UNITS: Final = f"{_OWN}/units"
_PAUSE_S: Final = 0.05


@dataclass(frozen=True)
class WriteJob:
    """Samples that are written into a folder, by one run or by several that share the units.

    Attributes:
        store: the folder.
        facts: all that determines the files, as plain values; runs with other facts are refused.
        size: number of samples.
        unit: samples of a unit.
        rank: number of this run among those that share the folder.
        world: number of these runs; run r writes the units u with u % world == r.
        run: name of a run of several processes, which do not refuse one another; "" for one process.
    """

    store: Store
    facts: Mapping[str, Any]
    size: int
    unit: int
    rank: int = 0
    world: int = 1
    run: str = ""

    @property
    def units(self) -> int:
        """Number of units."""
        return -(-self.size // self.unit)

    def samples(self, unit: int) -> range:
        """Return the samples of a unit."""
        return range(unit * self.unit, min(self.size, (unit + 1) * self.unit))

    @contextmanager
    def claimed(self, wait_s: float = 0.0) -> Iterator[None]:
        """Keep other runs off this run's units while the block runs; in object storage there are no locks.

        Args:
            wait_s: how long to wait for other runs to end, in seconds.
        """
        with self._locks(wait_s) if isinstance(self.store, LocalFolder) else nullcontext():
            yield

    @contextmanager
    def _locks(self, wait_s: float) -> Iterator[None]:
        """Lock this run's units, once no other run has some of them."""
        assert isinstance(self.store, LocalFolder)
        own = self.store.path / _OWN
        claim = Lock(own / f"run-{self.rank}-of-{self.world}.{self.run}.{os.getpid()}.lock")
        deadline_s = time.monotonic() + wait_s
        with cleanup_on_exit(claim.release):
            try:
                while (other := self._claim(own, claim)) is not None:
                    if time.monotonic() >= deadline_s:
                        raise OutputError(
                            f"another run is writing part {other[0]} of {other[1]} of these samples",
                            source=self.store.place,
                            advice="Wait for it to end, or stop it and continue with resume=True",
                        )
                    time.sleep(_PAUSE_S)
                yield
            finally:
                claim.release()
                with suppress(OSError):  # it holds the job, unless that was refused
                    own.rmdir()

    def _claim(self, own: Path, claim: Lock) -> tuple[int, int] | None:
        """Acquire a lock of this run's units; return rank and world of a run that holds some of them, if any."""
        with locked(own / "claims", "into this folder", wait_s=WAIT_S), output_errors(own):
            for path in sorted(own.glob("run-*.lock")):
                numbers, run, _ = path.name.split(".", 2)
                rank, _, world = numbers.removeprefix("run-").partition("-of-")
                other = Lock(path)
                if other.acquire():
                    other.release()  # of a run that was killed
                elif not (self.run and run == self.run) and self._shares_units(int(rank), int(world)):
                    return int(rank), int(world)
            claim.acquire()
        return None

    def _shares_units(self, rank: int, world: int) -> bool:
        """Return whether some number is ``self.rank`` modulo ``self.world`` and ``rank`` modulo ``world``."""
        return (self.rank - rank) % gcd(self.world, world) == 0

    def begin(self, *, resume: bool, overwrite: bool) -> list[int]:
        """Create or continue the job, and return this run's unfinished units."""
        if resume and overwrite:
            raise ParameterError("resume and overwrite exclude one another", allowed="one of them")
        if overwrite:
            self._remove_earlier()
        foreign = [] if overwrite else self.store.names("")  # listed first: another run may begin at once
        text = json.dumps(dict(self.facts), sort_keys=True, indent=0)
        before = self.store.read(_JOB)
        if before is None:
            if foreign:
                raise OutputError(
                    f"the folder has files, such as {foreign[0]!r}, that no job of this kind has written",
                    source=self.store.place,
                    advice="Give another folder, or overwrite=True to write beside them",
                )
            if not self.store.create(_JOB, text.encode()):
                before = self.store.read(_JOB)
        if before is not None:
            self._check_same(before)
        mine, done = range(self.rank, self.units, self.world), self.finished()
        if not resume and (there := [unit for unit in mine if unit in done]):
            raise OutputError(
                f"{len(there)} of {len(mine)} parts of these samples are written already",
                source=self.store.place,
                advice="resume=True writes what is missing, overwrite=True everything",
            )
        return [unit for unit in mine if unit not in done]

    def _remove_earlier(self) -> None:
        """Remove the files of earlier runs."""
        if self.world > 1:
            raise ParameterError(
                f"overwrite=True would remove the files of the other {self.world - 1} runs",
                allowed="one run",
                advice="Remove the folder before they start",
            )
        for unit in sorted(self.finished()):
            for row in self.rows(unit):
                for name in row.get("files", ()):
                    self.store.remove(name)
        for name in self.store.names(""):
            if name == MANIFEST or name.startswith("shard-"):
                self.store.remove(name)
        for name in self.store.names(_OWN):
            if not name.endswith(".lock"):
                self.store.remove(f"{_OWN}/{name}")

    def _check_same(self, before: bytes) -> None:
        """Raise if the folder belongs to another job."""
        try:
            facts = parse_json(before)
            names = [name for name in {**facts, **self.facts} if facts.get(name) != self.facts.get(name)]
            told = [f"{name} was {facts.get(name)!r} and is {self.facts.get(name)!r}" for name in names]
        except (ValueError, TypeError, AttributeError):
            told = [f"{_JOB} cannot be read"]
        if told:
            raise OutputError(
                f"the folder holds other samples, or the same with other options: {'; '.join(told)}",
                source=self.store.place,
                advice="Give another folder, or overwrite=True to replace its files",
            )

    def finished(self) -> set[int]:
        """Return the units that are finished, of all runs."""
        return {int(name.partition(".")[0]) for name in self.store.names(_UNITS)}

    def finish_unit(self, unit: int, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Record a unit whose files are complete; False if another run has done so meanwhile."""
        lines = [json.dumps(row, ensure_ascii=True, allow_nan=False) for row in rows]
        data = "".join(f"{line}\n" for line in lines).encode("ascii")
        return self.store.create(self._record(unit), data)

    def rows(self, unit: int) -> Seq[dict[str, Any]]:
        """Return the rows of a finished unit."""
        try:
            data = self.store.read(self._record(unit)) or b""
            return [parse_json(line) for line in data.splitlines()]
        except ValueError as error:
            raise OutputError(
                f"{self._record(unit)} is damaged ({error})",
                source=self.store.place,
                advice="Remove it, and continue with resume=True",
            ) from error

    def finish(self) -> bool:
        """Write the manifest if all units of all runs are finished; returns whether they are."""
        if len(self.finished()) < self.units:
            return False
        with self.store.writing(MANIFEST) as file:
            for unit in range(self.units):
                file.write(self.store.read(self._record(unit)) or b"")
        return True

    def _record(self, unit: int) -> str:
        """Return the name of the record of a unit."""
        return f"{_UNITS}/{unit:06d}.jsonl"
