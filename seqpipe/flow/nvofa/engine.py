"""The flow of pairs by the engine: what it takes, and how frames go in and vectors come out."""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from ...array import Array
from ...errors import BackendError, ParameterError
from ...kernel import load_cupy
from ..grid import grid_of
from ..pairs import LUMA, Found, Pairs
from ..values import FIXED_ONE
from .abi import COST, HINT, INPUT, OUTPUT
from .library import ADVICE, api
from .pool import POOL
from .session import Buffer, EngineKind, FlowSession, caps_of

__all__ = ["check_engine", "engine_caps", "flow_on_gpu"]

# Pairs that are begun before the first of them is waited for. The engine works on them while this thread waits for
# Python, which threads that decode hold for milliseconds, and while it begins with the next batch.
_IN_FLIGHT: Final = 8
_BOTH_SINCE: Final = 0x30  # the interface that gives both directions at once


def check_engine(pairs: Pairs, source: str) -> None:
    """See that there is an engine, and that it takes these pairs.

    Args:
        pairs: in main memory, or on the GPU whose engine is meant.
        source: the operator, for messages.

    Raises:
        BackendError: there is none, or it cannot be used.
        ParameterError: it takes no frames of that size, or has no such grid.
    """
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
    """What the engine of a device can do, by the names of :data:`~seqpipe.flow.nvofa.abi.CAPS`.

    Args:
        device: the number of the GPU.
        source: who asks, for messages.

    Raises:
        BackendError: there is none, or it cannot be used.
    """
    try:
        return _caps(device)
    except BackendError as error:
        error.source = source
        if ADVICE not in (error.advice or ""):
            error.advice = ". ".join(filter(None, [error.advice, ADVICE]))
        raise


@cache
def _caps(device: int) -> dict[str, list[int]]:
    load_cupy()  # whose absence is told before that of the library
    return caps_of(device)


def _device_of(frames: Array) -> int:
    return 0 if isinstance(frames, np.ndarray) else int(frames.device.id)


def flow_on_gpu(pairs: Pairs) -> Found:
    """The flow of pairs by the engine, which :func:`check_engine` has looked at.

    Args:
        pairs: in main memory, whose frames are copied to the first GPU, or on a GPU.

    Returns:
        CuPy's arrays. Work on the current stream waits for them.

    Raises:
        BackendError: the engine refuses; the message has its code.
    """
    cupy, settings = load_cupy(), pairs.settings
    device = _device_of(pairs.frames)
    with cupy.cuda.Device(device):
        cupy.cuda.runtime.free(0)  # which makes the context
        found = Found.empty(pairs, cupy)
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
            _EngineRun(cupy, session, pairs, found).all()
        return found


def _hint_grid(pairs: Pairs) -> int:
    """That of hints for the engine, which is no finer than that of its output."""
    if pairs.hints is None:
        return 0
    return max(grid_of(pairs.hints.shape[2:4], pairs.size), pairs.settings.grid)


class _EngineRun:
    """The pairs of a call on their way through a session.

    At most :data:`_IN_FLIGHT` pairs are begun and not waited for. There are more buffers than these take, and the one
    that was used longest ago is taken next; so none is written to while the engine has a use for it.
    """

    def __init__(self, cupy: Any, session: FlowSession, pairs: Pairs, found: Found) -> None:
        self._cupy, self._session, self._pairs, self._found = cupy, session, pairs, found
        # frames of the pairs in flight, of the next one, and those that are first frames later on
        later = min(pairs.stride, max(0, pairs.count - pairs.stride))
        self._inputs = session.buffers(INPUT, 2 * (_IN_FLIGHT + 1) + later)
        self._written: OrderedDict[tuple[int, int], Buffer] = OrderedDict()
        self._begun: deque[Any] = deque()
        self._executions = 0

    def all(self) -> None:
        """Begin everything that is wanted; the current stream waits for it."""
        session, pairs, here = self._session, self._pairs, self._cupy.cuda.get_current_stream()
        ready = here.record()
        for stream in (session.inputs, session.outputs):
            stream.wait_event(ready)
        if session.last is not None:
            session.inputs.wait_event(session.last)
        for sample in range(len(pairs.frames)):
            before = False  # whether the pair before it was computed
            for pair in range(pairs.count):
                known = pairs.is_known(sample, pair)
                if known:
                    self._begin(sample, pair, temporal=before and pairs.settings.temporal_hints)
                else:
                    self._found.forget((sample, pair))
                before = known
        session.last = session.outputs.record()
        here.wait_event(session.last)

    def _begin(self, sample: int, pair: int, *, temporal: bool) -> None:
        while len(self._begun) >= _IN_FLIGHT:
            self._begun.popleft().synchronize()
        first, second = (self._input(sample, frame) for frame in (pair, pair + self._pairs.stride))
        self._directions(sample, pair, (first, second), temporal=temporal)
        self._begun.append(self._session.outputs.record())

    def _input(self, sample: int, frame: int) -> Buffer:
        """The input buffer that holds a frame."""
        buffer = self._written.pop((sample, frame), None)
        if buffer is None:
            full = len(self._written) == len(self._inputs)
            buffer = self._written.popitem(last=False)[1] if full else self._inputs[len(self._written)]
            with self._session.inputs:
                self._write(buffer.pixels, sample, frame)
        self._written[sample, frame] = buffer  # as the one that was used last
        return buffer

    def _directions(self, sample: int, pair: int, buffers: tuple[Buffer, Buffer], *, temporal: bool) -> None:
        settings, both = self._pairs.settings, self._session.kind.both
        if settings.forward:
            self._execute(sample, pair, buffers, forward=True, temporal=temporal)
        if settings.backward and not both:
            # a session remembers the flow of one direction
            alone = temporal and not settings.forward
            self._execute(sample, pair, buffers[::-1], forward=False, temporal=alone)

    def _execute(
        self, sample: int, pair: int, buffers: tuple[Buffer, ...], *, forward: bool, temporal: bool
    ) -> None:
        session, found, settings = self._session, self._found, self._pairs.settings
        both, count = session.kind.both, 2 * _IN_FLIGHT  # a pair may have an execution for each direction
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
        own = (found.forward, found.cost) if forward else (found.backward, found.backward_cost)
        targets = [(own[0], flow), (own[1], cost)]
        targets += [(found.backward, backward), (found.backward_cost, backward_cost)]
        with session.outputs:
            for field, buffer in targets:
                if field is not None and buffer is not None:
                    self._read(buffer.pixels, field[sample, pair])

    def _hint(self, sample: int, pair: int, turn: int, *, known: bool) -> Any:
        """A buffer with the hint of a pair, 0 where there is none."""
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
        """One frame as gray into an input buffer."""
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
        """Vectors in pixels, or costs, out of an output buffer."""
        if pixels.ndim == 3:
            self._cupy.multiply(pixels, np.float32(1 / FIXED_ONE), out=out)
        else:
            out[..., 0] = pixels


@lru_cache(maxsize=1)
def _luma() -> Any:
    """Gray of red, green and blue, as :meth:`seqpipe.flow.pairs.Pairs.gray` has it, written where it belongs."""
    red, green, blue = LUMA
    return load_cupy().ElementwiseKernel(
        "uint8 r, uint8 g, uint8 b",
        "uint8 y",
        f"y = ({red}u * r + {green}u * g + {blue}u * b + 16384u) >> 15",
        "seqpipe_luma",
    )
