"""Normalize: normalization by given or computed statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace, to_numpy
from ...errors import warn_caller
from ..arrays.base import axes_from_0
from ..call.backends import on_device_of
from ..call.inputs import CallInput
from ..call.op import Op
from ..core.declaration import Declaration
from ..core.distributions import Number
from ..core.parameters import ANY, param
from ..core.spec import COMPUTED_DTYPES, Spec, ValueMap
from ..core.traits import Body
from ..cuda.kernel import widened
from .reductions import inverse_of, mean_of, sum_of, variance_of

__all__ = ["Normalize"]

_CHANNELS: Final = 16  # most channels with statistics of their own
_SAMPLE: Final = "FHWC"
_warned: set[str] = set()
_MAX_UNSHAPED_VALUES: Final = 1 << 13  # up to so many values, reshaping takes longer than it saves


class Normalize(Op):
    """Subtract the mean and divide by the standard deviation.

    ``out = scale * (in - mean) / sqrt(stddev ** 2 + epsilon) + shift``, as in DALI. Both may be given, as a number or
    as one for each channel; otherwise they are computed over the named axes: ``"HW"`` for each channel of each frame,
    ``"FHW"`` for each channel of a sequence, without names over a whole sample; with ``batch``, also over all samples
    of a call. If all values are equal, so that the deviation is 0, the result is ``shift``.
    """

    mean: tuple[float, ...] | None = param(
        None,
        "mean to subtract, on the scale of the input (0 to 255 for uint8; OutputSpec has 0 to 1): a number, or "
        "one for each of up to 16 channels; None computes it",
        kind=float,
        size=ANY,
    )
    stddev: tuple[float, ...] | None = param(
        None,
        "standard deviation to divide by, on the same scale: one number, or one for each of up to 16 channels; None "
        "computes it",
        kind=float,
        size=ANY,
        lo=0,
    )
    axis_names: str | None = param(
        None,
        "axes to compute statistics over, as letters of a layout; None for all axes of a sample",
        kind=str,
    )
    axes: tuple[int, ...] | None = param(
        None, "the same as numbers: axes of a sample, from 0, or from -1 backwards", kind=int, size=ANY
    )
    batch: bool = param(False, "whether statistics are computed over all samples of a batch", drawn=False)
    scale: Number = param(1.0, "factor of the result")
    shift: Number = param(0.0, "offset of the result")
    epsilon: float = param(0.0, "added to the variance", lo=0, drawn=False)
    ddof: int = param(0, "delta degrees of freedom of the variance", lo=0, drawn=False)
    dtype: str = param("float32", "dtype of the result", choices=COMPUTED_DTYPES)

    derived = (("means", _CHANNELS), ("factors", _CHANNELS))
    converted = ("values",)
    exclusive = (("axis_names", "axes"),)
    examples = (
        {
            "mean": (120.0, 115.0, 100.0),
            "stddev": (60.0, 55.0, 50.0),
            "scale": 64,
            "shift": 128,
            "dtype": "uint8",
        },
        {"axis_names": "HW", "epsilon": 1e-3, "dtype": "float32"},
        {"axis_names": "FHW", "scale": (0.5, 2.0), "p": 0.7, "seed": 3},
        {"mean": 128.0, "stddev": 64.0, "shift": (-0.5, 0.5), "seed": 1},
    )
    errors = (
        ({"mean": (1.0,) * 17}, "mean has 17 values; allowed: 1, or one for each of up to 16 channels"),
        ({"mean": (1.0, 2.0), "stddev": (1.0, 2.0, 3.0)}, "mean has 2 values and stddev 3; allowed: as many"),
        ({"stddev": 0.0}, r"stddev=\(0.0,\) divides by 0; allowed: numbers above 0, or an epsilon above 0"),
        ({"axis_names": "HH"}, "axis_names='HH' is not valid; allowed: letters of F, D, H, W, C, each once"),
        (
            {"axis_names": "NHW"},
            "axis_names='NHW' is not valid; .* batch=True for statistics over all samples",
        ),
    )

    def value_map(self) -> ValueMap | None:
        """See :meth:`Op.value_map`; None if statistics are computed from the input."""
        if self.mean is None or self.stddev is None:
            return None
        return ValueMap(self.dtype, self.mean, self.stddev, self.scale, self.shift, self.epsilon)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_numbers()
        names = (self.axis_names or "").replace("D", "F")
        if self.axis_names is not None and (not names or len(set(names) & set(_SAMPLE)) < len(names)):
            raise self.refusal(
                f"axis_names={self.axis_names!r} is not valid",
                allowed="letters of F, D, H, W, C, each once",
                advice="Pass batch=True for statistics over all samples",
            )
        lengths = {name: len(getattr(self, name) or ()) for name in ("mean", "stddev")}
        several = [name for name, length in lengths.items() if length > 1]
        self.override_traits(
            channels=tuple({lengths[name] for name in several}), channels_from=several[0] if several else ""
        )
        if self._computes:
            body = None if names and not set("HW") <= set(names) else _Computed.traits.body
            self.override_traits(keeps_frames="F" not in names, body=body)

    def _check_numbers(self) -> None:
        mean, stddev = self.mean or (), self.stddev or ()
        for name, values in (("mean", mean), ("stddev", stddev)):
            if len(values) > _CHANNELS:
                raise self.refusal(
                    f"{name} has {len(values)} values",
                    allowed=f"1, or one for each of up to {_CHANNELS} channels",
                )
        if min(len(mean), len(stddev)) > 1 and len(mean) != len(stddev):
            raise self.refusal(
                f"mean has {len(mean)} values and stddev {len(stddev)}", allowed="as many, or one"
            )
        if 0 in stddev and not self.epsilon:
            raise self.refusal(
                f"stddev={self.stddev} divides by 0", allowed="numbers above 0, or an epsilon above 0"
            )

    @property
    def _computes(self) -> bool:
        """Whether statistics are computed from the values."""
        return self.mean is None or self.stddev is None

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """Axes of ``(F, H, W, C)`` that statistics are computed over."""
        names = (self.axis_names or _SAMPLE).replace("D", "F")
        return tuple(n for n, letter in enumerate(_SAMPLE) if letter in names)

    def check_sample(self, spec: Spec) -> None:
        """Warn once of a mean and deviation on the scale 0 to 1 for integers: all results would be far above 0."""
        mean, stddev = self.mean or (), self.stddev or ()
        if (
            spec.dtype in ("uint8", "uint16")
            and mean
            and stddev
            and all(0 < value < 1 for value in (*mean, *stddev))
            and "scale" not in _warned
        ):
            _warned.add("scale")
            most = np.iinfo(spec.dtype).max
            warn_caller(
                f"normalize: mean={mean} and stddev={stddev} are on the scale 0 to 1, and the values are "
                f"{spec.dtype}, 0 to {most}. Multiply both by {most}, or give them to the reader: "
                "OutputSpec(dtype='float32', mean=…, std=…) has the scale 0 to 1"
            )

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  a parameter states it
        """Return the parameter ``dtype``."""
        return self.dtype

    def for_inputs(self, parts: Seq[CallInput]) -> Declaration:
        """Return the operator with its axes by name, and with the statistics of the batch if requested."""
        if not self._computes:
            return self
        names = self.axis_names or self._names(parts[0].view.positions)
        cached: dict[tuple[str, int], _Computed] = self.__dict__.setdefault("_computed", {})
        op = cached.get((names, self.occurrence))
        if op is None:
            settings = {**self.settings(), "axis_names": names, "axes": None, "batch": False}
            op = _Computed(**settings).with_occurrence(self.occurrence)
            cached[names, self.occurrence] = op
        if not self.batch:
            return op
        with on_device_of(parts[0].array):
            return _ByStatistics.of(op, *op.of_batch(parts))

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  independent of the spec
        """Derive the given statistics of each channel."""
        variance = np.square(self.stddev or 1.0) + self.epsilon
        factors = rows["scale"][:, None] / np.sqrt(variance)
        return {"means": _for_channels(self.mean or (0.0,)), "factors": _for_channels(factors)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula, with statistics in double precision."""
        library = namespace(x)
        at = library.minimum(library.arange(x.shape[-1]), _CHANNELS - 1)
        means, factors = (values[..., at].reshape(-1, 1, 1, len(at)) for values in (p.means, p.factors))
        scale, shift, acts = (_by_frame(value) for value in (p.scale, p.shift, p.acts))
        if self.mean is None:
            means = mean_of(x, self.reduced_axes)
        if self.stddev is None:
            variance = variance_of(x, means, self.reduced_axes, self.ddof) + self.epsilon
            factors = scale * inverse_of(variance)
        out = _formula(x, means.astype(np.float32), factors.astype(np.float32), shift)
        return out if np.all(acts) else library.where(acts, out, x)

    def _names(self, positions: Seq[int]) -> str:
        """Return the letters of the axes."""
        letters = [_SAMPLE[position - 1] for position in positions if position]
        chosen = range(len(letters)) if self.axes is None else self.axes
        return "".join(letters[axis] for axis in axes_from_0(self, chosen, len(letters)))

    body: ClassVar[Body | None] = Body(
        "value",
        f"const int at = channel < {_CHANNELS} ? channel : {_CHANNELS - 1};\n"
        "    value = (value - row.means[at]) * row.factors[at] + row.shift;",
    )


class _Computed(Normalize, register=False, function_name="normalize"):
    """Normalization by statistics of the input, over axes known by name."""

    body = Body("statistics")
    kernel_fields = (
        *(
            (name, np.int32)
            for name in ("computes_mean", "computes_stddev", "over_frames", "over_channels", "ddof")
        ),
        ("epsilon", np.float32, (2,)),
    )

    def for_inputs(self, parts: Seq[CallInput]) -> Declaration:  # noqa: ARG002  axes are known
        """Return the operator itself."""
        return self

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  equal for all sizes
        """Return the kernel rows."""
        result = widened(rows, self.kernel_dtype())
        result["computes_mean"], result["computes_stddev"] = self.mean is None, self.stddev is None
        result["over_frames"], result["over_channels"] = 0 in self.reduced_axes, 3 in self.reduced_axes
        result["ddof"] = self.ddof
        nearest = np.float32(self.epsilon)
        result["epsilon"] = nearest, self.epsilon - float(nearest)
        return result

    def of_batch(self, parts: Seq[CallInput]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of all samples, ``(F, H, W, C)`` with 1 for each axis that they are computed over.

        Raises:
            ParameterError: samples differ along the other axes.
        """
        axes = self.reduced_axes
        kept = {tuple(n for axis, n in enumerate(part.nfhwc.shape[1:]) if axis not in axes) for part in parts}
        if len(kept) > 1:
            raise self.refusal(
                f"samples of different shapes, {sorted(kept)}, along the axes without statistics",
                allowed="one for all, with batch=True",
            )
        own = math.prod(kept.pop())
        count = sum(part.nfhwc.size for part in parts) // own
        every = (0, *(axis + 1 for axis in axes))
        mean = np.asarray(self.mean)
        if self.mean is None:
            mean = sum(to_numpy(sum_of(part.nfhwc, every))[0] for part in parts) / count
        if self.stddev is not None:
            return mean, np.square(self.stddev) + 0.0 * mean
        squares: Any = 0.0
        for part in parts:
            about = namespace(part.nfhwc).asarray(mean[None])
            squares = squares + to_numpy(variance_of(part.nfhwc, about, every))[0] * (part.nfhwc.size // own)
        return mean, np.asarray(squares / max(count - self.ddof, 1))


class _ByStatistics(Normalize, register=False, function_name="normalize"):
    """Normalization by statistics of a batch."""

    body = Normalize.traits.body

    @classmethod
    def of(cls, op: Normalize, mean: FloatArray, variance: FloatArray) -> _ByStatistics:
        """Return an operator with mean and variance, ``(F, H, W, C)`` or 1 in place of each."""
        result = cls(**{**op.settings(), "mean": 0.0, "stddev": 1.0, "batch": False})
        result = result.with_occurrence(op.occurrence)
        mean, variance = (
            np.reshape(value, (1,) * (4 - value.ndim) + value.shape) for value in (mean, variance)
        )
        result.__dict__["_statistics"] = mean, inverse_of(variance + op.epsilon)
        has_body = max(*mean.shape[:3], *variance.shape[:3]) == 1 and mean.shape[3] <= _CHANNELS
        result.override_traits(
            channels=op.traits.channels,
            channels_from=op.traits.channels_from,
            body=result.traits.body if has_body else None,
        )
        return result

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  independent of the spec
        """Derive the statistics of each channel, for kernels."""
        mean, inverse = (value[0, 0, 0] for value in self.__dict__["_statistics"])
        return {"means": _for_channels(mean), "factors": _for_channels(rows["scale"][:, None] * inverse)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        mean, inverse = (namespace(x).asarray(value) for value in self.__dict__["_statistics"])
        return _formula(
            x, mean.astype(np.float32), (p.scale * inverse).astype(np.float32), _by_frame(p.shift)
        )


def _formula(x: Array, means: Array, factors: Array, shift: Any) -> Array:
    """Compute ``(x - means) * factors + shift``; all are ``(F, H, W, C)``, or have 1 in place of each."""
    if isinstance(x, np.ndarray) and x.flags.c_contiguous and x.size > _MAX_UNSHAPED_VALUES:
        # whole rows at a time, because NumPy is slow with a short last axis
        shape, (width, channels) = x.shape, x.shape[2:]
        x, means, factors = (
            np.broadcast_to(part, (*part.shape[:2], width, channels)).reshape(*part.shape[:2], -1)
            for part in (x, means, factors)
        )
        out = x - means
        out *= factors
        out += shift[..., 0] if np.ndim(shift) else shift
        return out.reshape(shape)
    out = x - means
    out *= factors
    out += shift
    return out


def _for_channels(values: Any) -> npt.NDArray[Any]:
    """Return a value for each channel of a row, the last one repeated."""
    array = np.asarray(values, np.float64)
    at = np.minimum(np.arange(_CHANNELS), array.shape[-1] - 1)
    return np.asarray(array[..., at])


def _by_frame(value: Any) -> Any:
    """Return numbers of frames with the axes of images; a number unchanged."""
    return value.reshape(-1, 1, 1, 1) if np.ndim(value) else value
