"""Crowd: several processes with a stress each, since the lock of Python keeps one of them to a core or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from tests.support.memory import LIMITS, Usage, growth, usage, use_few_arenas
from tests.support.stress import Stress
from tests.support.truth import known_files

__all__ = ["Crowd"]

_ENDS_WITHIN_S = 20
_NO_USAGE = Usage(host_mib=0, device_mib=0, pool_mib=0, sessions=0, threads=0, files=0)


@dataclass(frozen=True)
class _Told:
    """What a process tells of itself while all of them rest."""

    requests: int
    frames: int
    faults: tuple[str, ...]
    refused: tuple[str, ...]
    decoded: dict[str, int]
    usage: Usage


class Crowd:
    """Processes that ask, together, what one with all of these askers would ask; see :class:`Stress`.

    Args:
        processes: how many.
        askers: of all of them together; each has a number of its own.
        files: how many of the made files are asked for; 0 for all.
        device: where frames are to be.
        **options: of a stress.

    Raises:
        ChildProcessError: one of them ended in an error, which it has printed; also by what comes later.
    """

    def __init__(self, processes: int, askers: int, files: int, *, device: str, **options: Any) -> None:
        context = get_context("spawn")  # CUDA survives no fork
        self._processes: list[tuple[BaseProcess, Connection]] = []
        self._samples: list[list[Usage]] = []
        for number in range(min(processes, askers)):
            ours, theirs = context.Pipe()
            settings = {**options, "device": device, "askers": range(number, askers, processes)}
            process = context.Process(target=_serve, args=(theirs, files, settings))
            process.start()
            theirs.close()
            self._processes.append((process, ours))
        self._told: list[_Told] = []
        try:
            self._told = self._ask(None)
        except BaseException:
            self._end(0)  # or the interpreter would wait for those that are left
            raise

    def __enter__(self) -> Crowd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        codes = self._end(_ENDS_WITHIN_S if kind is None else 0)
        if kind is None and any(codes):
            raise ChildProcessError(f"the processes have ended with {codes}")

    @property
    def requests(self) -> int:
        """Sequences that were asked for."""
        return sum(told.requests for told in self._told)

    @property
    def frames(self) -> int:
        """Pictures that came."""
        return sum(told.frames for told in self._told)

    @property
    def faults(self) -> list[str]:
        """What was wrong, as sentences."""
        return [fault for told in self._told for fault in told.faults]

    @property
    def refused(self) -> tuple[str, ...]:
        """The files that the device alone cannot decode; they are left out."""
        return self._told[0].refused

    @property
    def decoded(self) -> dict[str, int]:
        """How many frames of the requests in batches were decoded by whom."""
        total: Counter[str] = Counter()
        for told in self._told:
            total.update(told.decoded)
        return dict(total)

    def run(self, requests: int, *, until: float) -> Usage:
        """Ask so many times, or until a moment of ``time.monotonic``; returns what all hold when they rest."""
        self._ask((-(-requests // len(self._processes)), until))
        self._told = self._ask(None)
        return self._total()

    def sample(self) -> None:
        """Remember what is held now, to be compared with what will be."""
        self._samples.append([told.usage for told in self._told])

    def growth(self) -> list[str]:
        """What has grown: in any of the processes, or on the device, which they share."""
        if not self._samples:
            return ["it did not get beyond its warm-up: allow more seconds"]
        rows = []
        for number, samples in enumerate(zip(*self._samples, strict=True)):
            own = [replace(sample, device_mib=0) for sample in samples]
            rows += [f"process {number}: {line}" for line in growth(own, LIMITS)]
        many = len(self._processes)
        limits = replace(LIMITS, device_mib=many * LIMITS.device_mib, sessions=many * LIMITS.sessions)
        return rows + growth([_on_device(samples) for samples in self._samples], limits)

    def _end(self, within_s: float) -> list[int | None]:
        """Let all end; returns their exit codes."""
        for _, pipe in self._processes:
            pipe.close()  # they are told by this
        for process, _ in self._processes:
            process.join(within_s)
            process.terminate()
            process.join()
        return [process.exitcode for process, _ in self._processes]

    def _total(self) -> Usage:
        usages = [told.usage for told in self._told]
        sums = {
            name: sum(getattr(u, name) for u in usages)
            for name in ("host_mib", "pool_mib", "threads", "files")
        }
        return replace(_on_device(usages), **sums)

    def _ask(self, question: tuple[int, float] | None) -> list[Any]:
        """Put a question to all, and wait for all answers."""
        answers = []
        try:
            for _, pipe in self._processes:
                pipe.send(question)
            for _, pipe in self._processes:
                answers.append(pipe.recv())
        except (EOFError, OSError) as error:
            raise ChildProcessError(f"process {len(answers)} has ended") from error
        return answers


def _on_device(usages: Seq[Usage]) -> Usage:
    """What all hold together on the device, each of whom sees all of it in use."""
    return replace(_NO_USAGE, device_mib=usages[0].device_mib, sessions=sum(u.sessions for u in usages))


def _serve(pipe: Connection, files: int, options: dict[str, Any]) -> None:
    """A process: it asks when it is told to, and tells of itself, until no one is there any more."""
    use_few_arenas()
    with Stress(known_files(files), **options) as stress:
        while True:
            try:
                question = pipe.recv()
            except EOFError:
                return
            if question is None:
                pipe.send(_tell(stress, options["device"]))
            else:
                requests, until = question
                stress.run(requests, until=until)
                pipe.send(None)


def _tell(stress: Stress, device: str) -> _Told:
    refused = tuple(map(str, stress.refused))
    decoded = stress.stats()["frames"]
    return _Told(stress.requests, stress.frames, tuple(stress.faults), refused, decoded, usage(device))
