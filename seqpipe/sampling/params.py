"""Declarations of the sampling parameters, which readers, samplers and the command line validate with."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from ..core.padding import PAD_MODES
from ..core.param import Param, choice
from ..errors import ParameterError

__all__ = [
    "BATCH_SIZE",
    "CLIPS_PER_VIDEO",
    "CLIPS_TOGETHER",
    "CLIP_MODE",
    "COUNT",
    "DEDUP",
    "EPOCH",
    "EVEN_SHARDS",
    "EVERY",
    "FPS",
    "MAX_FRAMES",
    "MIN_FRAMES",
    "MIN_MOTION",
    "MIN_SHARPNESS",
    "ON_ERROR",
    "PAD_MODE",
    "REPEATS",
    "SEED",
    "SEGMENTS",
    "SEGMENT_MODE",
    "SEQUENCE_LENGTH",
    "SHUFFLE",
    "STEP",
    "STICK_TO_SHARD",
    "STRIDE",
    "ClipMode",
    "OnError",
    "SegmentMode",
    "check_shard",
]

SegmentMode: TypeAlias = Literal["random", "center", "linspace"]
ClipMode: TypeAlias = Literal["random", "even"]
OnError: TypeAlias = Literal["raise", "skip", "substitute"]

_MAX_COUNT: Final = 10_000_000
"""Bound of counts that become array lengths, so that a typo cannot allocate all memory: a day at 115 frames/s."""

SEQUENCE_LENGTH: Final = Param(
    name="sequence_length", doc="Frames in a sequence", lo=1, hi=_MAX_COUNT, unit="frames"
)
STRIDE: Final = Param(name="stride", doc="Distance between the frames of a sequence", lo=1, unit="frames")
STEP: Final = Param(
    name="step",
    doc="Distance between the starts of neighboring sequences; sequence_length * stride unless given",
    lo=1,
    unit="frames",
    optional=True,
)
CLIPS_PER_VIDEO: Final = Param(
    name="clips_per_video", doc="Random sequences drawn from each video in every epoch", lo=1, hi=_MAX_COUNT
)
CLIPS_TOGETHER: Final = Param(
    name="clips_together", doc="Whether the clips of a video follow one another in every epoch", kind=bool
)
REPEATS: Final = Param(
    name="repeats", doc="Consecutive repetitions of each sample in an epoch", lo=1, hi=_MAX_COUNT
)
CLIP_MODE: Final = choice(
    "clip_mode",
    "Where the sequences of a video begin: at random, or spread evenly, the same in every epoch",
    ("random", "even"),
)
SEGMENTS: Final = Param(
    name="segments", doc="Equal parts of a video; a sequence has one frame of each", lo=1, hi=_MAX_COUNT
)
SEGMENT_MODE: Final = choice(
    "segment_mode",
    "Frame that is taken from each part: a random one, or the center; or frames at equal distances from the first to "
    "the last of the video",
    get_args(SegmentMode),
)
FPS: Final = Param(
    name="fps", doc="Frames per second to resample to, by timestamps", kind=float, lo=1e-6, hi=1e4, unit="Hz"
)
EVERY: Final = Param(name="every", doc="Take each N-th frame", lo=1, unit="frames")
COUNT: Final = Param(
    name="num",
    doc="Frames to take, spread evenly over the video; repeated if it has fewer",
    lo=1,
    hi=_MAX_COUNT,
    unit="frames",
)
PAD_MODE: Final = choice(
    "pad_mode",
    "Padding of a sequence that reaches past the end; 'none' leaves such sequences out",
    PAD_MODES,
)
SHUFFLE: Final = Param(name="shuffle", doc="A new order of all samples in every epoch", kind=bool)
SEED: Final = Param(name="seed", doc="The seed of every random choice")
STICK_TO_SHARD: Final = Param(
    name="stick_to_shard", doc="Whether a rank keeps the same samples in every epoch", kind=bool
)
EVEN_SHARDS: Final = Param(name="even_shards", doc="Whether all ranks get equally many samples", kind=bool)
BATCH_SIZE: Final = Param(name="batch_size", doc="Samples in a batch", lo=1, hi=_MAX_COUNT, unit="samples")
MIN_FRAMES: Final = Param(
    name="min_frames", doc="Videos with fewer frames are left out", lo=1, unit="frames", optional=True
)
MAX_FRAMES: Final = Param(
    name="max_frames", doc="Largest number of frames of a sequence", lo=1, unit="frames", optional=True
)
MIN_MOTION: Final = Param(
    name="min_motion",
    doc="Sequences with less mean motion are left out",
    kind=float,
    lo=0,
    hi=1e6,
    unit="% of the longer side per second",
    optional=True,
)
MIN_SHARPNESS: Final = Param(
    name="min_sharpness",
    doc="Frames whose Laplacian of luma, at 256 pixels on the longer side, has a smaller variance are left out; of "
    "sequences, the mean counts",
    kind=float,
    lo=0,
    hi=1e6,
    optional=True,
)
DEDUP: Final = Param(
    name="dedup",
    doc="Frames whose difference hash of 64 bits differs from that of the last one before by no more bits are left "
    "out; of sequences, the middle frame counts",
    lo=0,
    hi=63,
    unit="bits",
    optional=True,
)
ON_ERROR: Final = choice(
    "on_error",
    "Policy for a sample that cannot be read: raise the error, leave the sample out, or substitute another sample",
    ("raise", "skip", "substitute"),
)
EPOCH: Final = Param(name="epoch", doc="The number of the epoch, from 0", lo=0, hi=2**53)


def check_shard(shard: tuple[int, int]) -> tuple[int, int]:
    """Return the shard ``(rank, world)`` as two ints."""
    allowed = "(rank, world), two whole numbers with 0 <= rank < world"
    try:
        rank, world = (Param(name="shard", doc="").check(part) for part in shard)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"shard={shard!r} is not valid", allowed=allowed) from error
    if not 0 <= rank < world:
        advice = "Ranks are counted from 0" if rank == world else None
        raise ParameterError(f"shard={shard!r} is not valid", allowed=allowed, advice=advice)
    return rank, world
