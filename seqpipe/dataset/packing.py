"""Packing: images and clips of different sizes as one sequence of tokens, with lengths and a mask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..array import Array, BoolArray, IntArray, namespace
from ..core.keywords import refuses_unknown
from ..errors import ParameterError, described_type
from ..sampling.buckets import Bucket
from ..sequence import Batch, Sequence

__all__ = ["PackedTokens", "packed"]


@dataclass(frozen=True, eq=False)
class PackedTokens:
    """Images and clips as one sequence of tokens.

    Attributes:
        tokens: (T, values of a token), on the device of the images. Tokens of a clip are in order of time, height and
            width; the values of a token in order of frame, row, column and channel.
        grid: int64 (N, 3): tokens of each image or clip along frames, height and width.
        lengths: int64 (N,): tokens of each.
        bounds: int32 (N + 1,): where each begins, and the end of the last, as ``cu_seqlens`` of attention kernels.
        sample: int64 (T,): number of the image or clip of each token; -1 for padding.
        positions: int64 (T, 3): frame, row and column of each token in its grid; 0 for padding.
        mask: bool (T,): False for padding.
    """

    tokens: Array
    grid: IntArray
    lengths: IntArray
    bounds: Any
    sample: IntArray
    positions: IntArray
    mask: BoolArray


@refuses_unknown("packed")
def packed(images: Any, token: tuple[int, int, int], *, budget: int | None = None) -> PackedTokens:
    """Return images and clips as one sequence of tokens.

    Example::

        clips = seqpipe.videos(listing, Spread(fps=2)).map(ops.Resize(…)).batch(64, bucket=Bucket(pack=True, …))
        for batch in clips:
            one = seqpipe.packed(batch["image"], token=(2, 28, 28), budget=16384)
            model(one.tokens, one.bounds, one.positions, one.mask)

    Images and clips may alternate, in any order; an image is a clip of one frame. The last frame of a clip is repeated
    where a token spans more frames than are left.

    Args:
        images: a batch, a list of batches' samples, or arrays FHWC or HWC of one dtype.
        token: (frames, height, width) of a token in frames and pixels.
        budget: number of tokens of the result, which zeros complete; None for as many as there are.

    Raises:
        ParameterError: a size is no multiple of the token's, dtypes or channels differ, or there are more tokens than
            ``budget``.
    """
    frames, height, width = Bucket(token=token).token
    clips = [_clip(clip, number) for number, clip in enumerate(_listed(images))]
    kinds = {(str(clip.dtype), clip.shape[3]) for clip in clips}
    if len(kinds) != 1:
        told = ", ".join(f"{dtype} with {channels} channels" for dtype, channels in sorted(kinds)) or "none"
        raise _wrong(f"images of {told}", "one image or more, of one dtype and number of channels")
    xp, pieces, grids = namespace(clips[0]), [], []
    for number, clip in enumerate(clips):
        f, h, w, channels = clip.shape
        if h % height or w % width:
            raise _wrong(f"image {number} has {h}×{w} pixels", f"multiples of the token's {height}×{width}")
        if missing := -f % frames:
            clip = xp.concatenate([clip, xp.repeat(clip[-1:], missing, axis=0)])
        t, rows, columns = grid = (f + missing) // frames, h // height, w // width
        blocks = clip.reshape(t, frames, rows, height, columns, width, channels)
        pieces.append(blocks.transpose(0, 2, 4, 1, 3, 5, 6).reshape(t * rows * columns, -1))
        grids.append(grid)
    sizes = np.array(grids, np.int64)
    lengths = sizes.prod(axis=1)
    total = int(lengths.sum())
    if budget is not None and total > budget:
        raise _wrong(f"{total} tokens", f"at most budget={budget}")
    padding = 0 if budget is None else budget - total
    if padding:
        pieces.append(xp.zeros((padding, pieces[0].shape[1]), pieces[0].dtype))
    sample = np.concatenate([np.repeat(np.arange(len(sizes)), lengths), np.full(padding, -1)])
    places = [np.indices(grid).reshape(3, -1).T for grid in grids] + [np.zeros((padding, 3), np.int64)]
    bounds = np.cumsum([0, *lengths], dtype=np.int32)
    return PackedTokens(
        xp.concatenate(pieces), sizes, lengths, bounds, sample, np.concatenate(places), sample >= 0
    )


def _listed(images: Any) -> list[Any]:
    if not isinstance(images, (Batch, list, tuple)):
        raise _wrong(f"images is {described_type(images)}", "a batch, or a list of images and clips")
    listed: list[Any] = []
    for image in images:
        nested = (
            isinstance(image, Iterable)
            and not isinstance(image, Sequence)
            and getattr(image, "ndim", None) is None
        )
        listed += list(image) if nested else [image]
    return listed


def _clip(value: Any, number: int) -> Array:
    """Return an image or a clip as an array FHWC."""
    data: Any = value.data if isinstance(value, Sequence) else value
    layout = value.layout if isinstance(value, Sequence) else "FHWC"[4 - getattr(data, "ndim", 0) :]
    if layout not in ("FHWC", "HWC"):
        raise _wrong(f"image {number} has the layout {layout or type(data).__name__}", "FHWC or HWC")
    result: Array = data if layout == "FHWC" else data[None]
    return result


def _wrong(fact: str, allowed: str) -> ParameterError:
    return ParameterError(fact, source="packed", allowed=allowed)
