"""Requests of every kind over many files, by several threads at once; whatever comes is judged."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np

from seqpipe import Clip, Dataset, Decode, videos
from seqpipe.errors import BackendError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.device import DecodeChoice, parse_device
from seqpipe.video.engine.engine import engine_for
from seqpipe.video.plan import Request
from tests.support.asker import SIZED, SIZED_STRIDE, Asker, Readers, Shared
from tests.support.judge import Judge
from tests.support.truth import PLAIN, Known

__all__ = ["Stress"]

_FAULTS = 20


class Stress:
    """Threads that ask by every way, and share the engine, the readers and the datasets that they ask.

    Args:
        files: what to ask for.
        device: where frames are to be.
        decode: who decodes.
        threads: of the CPU, that decode.
        askers: the numbers of those who ask, each in a thread of its own, and judge what comes.
        seed: decides, together with its number, what each of them asks for.

    Attributes:
        refused: the files that the device alone cannot decode; they are left out.
        faults: what was wrong, as sentences; after some of them no more is asked for.
    """

    def __init__(
        self,
        files: Seq[Known],
        *,
        device: str = "cpu",
        decode: DecodeChoice = "auto",
        threads: int | None = None,
        askers: Seq[int] = (0,),
        seed: int = 0,
    ) -> None:
        self._options: Any = {"device": device, "decode": decode, "threads": threads}
        self.faults: list[str] = []
        self._closing = ExitStack()
        engine = engine_for(parse_device(device), decode=decode, threads=threads, cache_dir=None)
        self._engine = self._closing.enter_context(engine)
        self.refused = self._refused(files)
        asked = [known for known in files if known not in self.refused]
        sound = [known for known in asked if not known.lost]
        readers = Readers(self._options)
        self._closing.callback(readers.close)
        datasets = (
            self._dataset(sound, SIZED, Clip(5, stride=SIZED_STRIDE, step=4)),
            self._dataset(sound[::3], PLAIN, Clip(3, per_video=2)),
        )
        shared = Shared(asked, self._engine, readers, datasets, Judge(device, decode), self.faults)
        self._askers = [Asker(shared, number, seed) for number in askers]

    def __enter__(self) -> Stress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def requests(self) -> int:
        """Sequences that were asked for."""
        return sum(asker.requests for asker in self._askers)

    @property
    def frames(self) -> int:
        """Pictures that came."""
        return sum(asker.frames for asker in self._askers)

    def run(self, requests: int, *, until: float = float("inf")) -> None:
        """Ask so many times, or until a moment of ``time.monotonic``, or until too much is wrong; then come to rest."""
        ended: list[bool] = []
        share = -(-requests // len(self._askers))
        # new threads each time: what an asker has begun goes on in another one, and none is there while it rests
        with ThreadPoolExecutor(len(self._askers), "asker") as threads:
            parts = [
                threads.submit(asker.run, share, until, lambda: bool(ended) or len(self.faults) >= _FAULTS)
                for asker in self._askers
            ]
            try:
                for part in as_completed(parts):
                    part.result()
            finally:
                ended.append(True)  # after an error, or an interrupt, the others need not go on

    def stats(self) -> dict[str, dict[str, int]]:
        """Who decoded for the engine."""
        return self._engine.stats()

    def _refused(self, files: Seq[Known]) -> list[Known]:
        if self._options["decode"] != "nvdec":
            return []
        firsts = [np.array([min(set(range(len(known))) - known.lost)]) for known in files]
        answers = self._engine.read([Request(known.path, f) for known, f in zip(files, firsts, strict=True)])
        return [
            known for known, answer in zip(files, answers, strict=True) if isinstance(answer, BackendError)
        ]

    def _dataset(self, files: Seq[Known], output: OutputSpec, take: Clip) -> tuple[OutputSpec, Dataset]:
        paths = [known.path for known in files]
        options = {**self._options}
        device, backend = options.pop("device"), options.pop("decode")
        decode = Decode(backend, **options)
        dataset = videos(paths, take, output=output, shuffle=True, device=device, decode=decode)
        return output, self._closing.enter_context(dataset)
