"""Computation of the flow of pairs by the engine."""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from ...array import Array
from ...core.kernel import load_cupy
from ...errors import BackendError, ParameterError
from ..grid import grid_of
from ..pairs import LUMA, PairFlows, Pairs
from ..values import FIXED_ONE
from .library import ADVICE, COST, HINT, INPUT, OUTPUT, api
from .session import POOL, Buffer, EngineKind, FlowSession, caps_of

__all__ = ["check_engine", "engine_caps", "flow_on_gpu"]

# Pairs that are enqueued before the first of them is waited for. The engine works on them while this thread waits for
# the GIL, which decoding threads hold for milliseconds, and while it enqueues the next batch. Large frames, which take
# the engine longer and need more memory, have fewer.
_IN_FLIGHT: Final = 8
_IN_FLIGHT_LARGE: Final = 4
_LARGE_FRAME_PX: Final = 4096 * 2304  # pixels
_BOTH_SINCE: Final = 0x30  # the first interface version that computes both directions in one execution


def check_engine(pairs: Pairs, source: str) -> None:
    """Check that the GPU has an engine that supports the pairs."""
    caps = engine_caps(_device_of(pairs.frames), source)
    height, width = pairs.size
    least, most = (
        [(caps[f"{side}_{end}"] or [usual])[0] for side in ("height", "width")]
        for end, usual in (("min", 32), ("max", 8192))
    )
    if not (least[0] <= height <= most[0] and least[1] <= width <= most[1]):
        raise ParameterError(
            f"frames of {height}×{width} pixels for the GPU's optical-flow engine",
            source=source,
            allowed=f"{least[0]}×{least[1]} to {most[0]}×{most[1]} (rows×columns)",
            advice=ADVICE,
        )
    grids = sorted(grid for grid in caps["output_grids"] if grid)
    if grids and pairs.settings.grid not in grids:
        raise ParameterError(
            f"output_grid={pairs.settings.grid} on this GPU's optical-flow engine",
            source=source,
            allowed=", ".join(map(str, grids)),
            advice=ADVICE,
        )


def engine_caps(device: int, source: str) -> dict[str, list[int]]:
    """Return the engine's capabilities, by the names of :data:`~seqpipe.flow.nvofa.library.CAPS`."""
    try:
        return _caps(device)
    except BackendError as error:
        error.source = source
        if ADVICE not in (error.advice or ""):
            error.advice = ". ".join(filter(None, [error.advice, ADVICE]))
        raise


@cache
def _caps(device: int) -> dict[str, list[int]]:
    load_cupy()  # a missing CuPy is reported before a missing library
    return caps_of(device)


def _device_of(frames: Array) -> int:
    return 0 if isinstance(frames, np.ndarray) else int(frames.device.id)


def flow_on_gpu(pairs: Pairs) -> PairFlows:
    """Compute the flow of pairs that :func:`check_engine` accepted."""
    cupy, settings = load_cupy(), pairs.settings
    device = _device_of(pairs.frames)
    with cupy.cuda.Device(device):
        cupy.cuda.runtime.free(0)  # creates the context
        result = PairFlows.empty(pairs, cupy)
        height, width = pairs.size
        kind = EngineKind(
            device,
            width,
            height,
            settings.grid,
            settings.preset,
            both=settings.forward and settings.backward and api().version >= _BOTH_SINCE,
            cost=settings.cost,
            hint_grid=_hint_grid(pairs),
        )
        with POOL.session(kind) as session:
            _EngineRun(cupy, session, pairs, result).all()
        return result


def _hint_grid(pairs: Pairs) -> int:
    """Return the grid of the engine's hints, which must not be finer than the output grid."""
    if pairs.hints is None:
        return 0
    return max(grid_of(pairs.hints.shape[2:4], pairs.size), pairs.settings.grid)


class _EngineRun:
    """Runs the pairs of a call through a session.

    At most :data:`_IN_FLIGHT` pairs, fewer of large frames, are enqueued and not completed. The least recently used of
    more buffers than these need is written next, so no buffer is written while the engine uses it.
    """

    def __init__(self, cupy: Any, session: FlowSession, pairs: Pairs, result: PairFlows) -> None:
        self._cupy, self._session, self._pairs, self._result = cupy, session, pairs, result
        # frames of the pairs in flight, of the next pair, and second frames that are first frames of later pairs
        self._most_in_flight = (
            _IN_FLIGHT_LARGE if pairs.size[0] * pairs.size[1] > _LARGE_FRAME_PX else _IN_FLIGHT
        )
        later = min(pairs.stride, max(0, pairs.count - pairs.stride))
        self._inputs = session.buffers(INPUT, 2 * (self._most_in_flight + 1) + later)
        self._written: OrderedDict[tuple[int, int], Buffer] = OrderedDict()
        self._in_flight: deque[Any] = deque()
        self._executions = 0

    def all(self) -> None:
        """Enqueue all pairs; the current stream waits for the results."""
        session, pairs, current = self._session, self._pairs, self._cupy.cuda.get_current_stream()
        ready = current.record()
        for stream in (session.inputs, session.outputs):
            stream.wait_event(ready)
        if session.last is not None:
            session.inputs.wait_event(session.last)
        for sample in range(len(pairs.frames)):
            previous_known = False
            for pair in range(pairs.count):
                known = pairs.is_known(sample, pair)
                if known:
                    self._enqueue(sample, pair, temporal=previous_known and pairs.settings.temporal_hints)
                else:
                    self._result.set_unknown(sample, pair)
                previous_known = known
        session.last = session.outputs.record()
        current.wait_event(session.last)

    def _enqueue(self, sample: int, pair: int, *, temporal: bool) -> None:
        """Queue a pair of frames, once fewer than the limit are in flight."""
        while len(self._in_flight) >= self._most_in_flight:
            self._in_flight.popleft().synchronize()
        first, second = (self._input(sample, frame) for frame in (pair, pair + self._pairs.stride))
        self._directions(sample, pair, (first, second), temporal=temporal)
        self._in_flight.append(self._session.outputs.record())

    def _input(self, sample: int, frame: int) -> Buffer:
        """Return an input buffer with a frame."""
        buffer = self._written.pop((sample, frame), None)
        if buffer is None:
            full = len(self._written) == len(self._inputs)
            buffer = self._written.popitem(last=False)[1] if full else self._inputs[len(self._written)]
            with self._session.inputs:
                self._write(buffer.pixels, sample, frame)
        self._written[sample, frame] = buffer  # now the most recently used
        return buffer

    def _directions(self, sample: int, pair: int, buffers: tuple[Buffer, Buffer], *, temporal: bool) -> None:
        """Queue the flow of a pair in the directions of the settings."""
        settings, both = self._pairs.settings, self._session.kind.both
        if settings.forward:
            self._execute(sample, pair, buffers, forward=True, temporal=temporal)
        if settings.backward and not both:
            # a session stores the previous flow of one direction only
            alone = temporal and not settings.forward
            self._execute(sample, pair, buffers[::-1], forward=False, temporal=alone)

    def _execute(
        self, sample: int, pair: int, buffers: tuple[Buffer, ...], *, forward: bool, temporal: bool
    ) -> None:
        session, result, settings = self._session, self._result, self._pairs.settings
        both, count = (
            session.kind.both,
            2 * self._most_in_flight,
        )  # a pair may have an execution for each direction
        turn = self._executions % count
        self._executions += 1
        flows = session.buffers(OUTPUT, count * (1 + both))
        flow, backward = flows[turn], flows[count + turn] if both else None
        cost = backward_cost = None
        if settings.cost:
            costs = session.buffers(COST, count * (1 + both))
            cost, backward_cost = costs[turn], costs[count + turn] if both else None
        hinted = self._pairs.hints is not None and (settings.hinted == "forward") == forward
        hint = self._hint(sample, pair, turn, known=hinted) if session.kind.hint_grid else None
        first, second = buffers
        session.execute(first, second, (flow, backward, cost, backward_cost), hint=hint, temporal=temporal)
        own = (result.forward, result.cost) if forward else (result.backward, result.backward_cost)
        targets = [(own[0], flow), (own[1], cost)]
        targets += [(result.backward, backward), (result.backward_cost, backward_cost)]
        with session.outputs:
            for field, buffer in targets:
                if field is not None and buffer is not None:
                    self._read(buffer.pixels, field[sample, pair])

    def _hint(self, sample: int, pair: int, turn: int, *, known: bool) -> Any:
        """Return a buffer with the hint of a pair, 0 where unknown."""
        buffer = self._session.buffers(HINT, turn + 1)[turn]
        with self._session.inputs:
            if not known or self._pairs.hints is None:
                buffer.pixels[...] = 0
                return buffer
            hint = self._cupy.asarray(self._pairs.hints[sample, pair])
            step = self._session.kind.hint_grid // grid_of(hint.shape[:2], self._pairs.size)
            scaled = self._cupy.rint(self._cupy.nan_to_num(hint[::step, ::step]) * FIXED_ONE)
            buffer.pixels[...] = self._cupy.clip(scaled, -32767, 32767)
        return buffer

    def _write(self, pixels: Array, sample: int, frame: int) -> None:
        """Write one frame as gray to an input buffer."""
        pairs = self._pairs
        if isinstance(pairs.frames, np.ndarray):
            pixels[...] = self._cupy.asarray(pairs.gray(sample, frame))
            return
        image = pairs.frames[sample, frame]
        if image.shape[2] == 1 or pairs.image_type == "YCbCr":
            pixels[...] = image[..., 0]
            return
        red, blue = (0, 2) if pairs.image_type == "RGB" else (2, 0)
        _luma()(image[..., red], image[..., 1], image[..., blue], pixels)

    def _read(self, pixels: Array, out: Array) -> None:
        """Read vectors, converted to pixels, or costs from an output buffer."""
        if pixels.ndim == 3:
            self._cupy.multiply(pixels, np.float32(1 / FIXED_ONE), out=out)
        else:
            out[..., 0] = pixels


@lru_cache(maxsize=1)
def _luma() -> Any:
    """Return the kernel of :meth:`seqpipe.flow.pairs.Pairs.gray`, which writes to its last argument."""
    red, green, blue = LUMA
    return load_cupy().ElementwiseKernel(
        "uint8 r, uint8 g, uint8 b",
        "uint8 y",
        f"y = ({red}u * r + {green}u * g + {blue}u * b + 16384u) >> 15",
        "seqpipe_luma",
    )
