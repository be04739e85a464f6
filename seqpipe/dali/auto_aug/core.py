"""``nvidia.dali.auto_aug.core``: augmentations with magnitudes, policies of them, and a choice for each sample."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ...errors import ParameterError
from .. import conditions, fn, types
from ..call import call_operator, native
from ..data_node import DataNode
from ..declared import DaliCall, Row

__all__ = [
    "Augmentation",
    "Policy",
    "SignedBin",
    "augmentation",
    "check_counts",
    "forbid_unused_kwargs",
    "policy",
    "select",
    "signed_bin",
]

_SETTINGS: Final = ("mag_range", "randomly_negate", "mag_to_param", "param_device", "name")
_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SignedBin:
    """Bins of magnitudes with a sign for each sample, as :func:`signed_bin` returns.

    Args:
        bins: the bin, a number or a node; or several for each sample.
        sign: node of 0, or of 1 for the negative magnitude.
        index: node of the index among the magnitudes of both signs: twice the bin, plus the sign.
    """

    def __init__(self, bins: Any, sign: Any, index: Any) -> None:
        self.bin, self.random_sign, self.signed_magnitude_idx = bins, sign, index

    def __getitem__(self, number: int) -> SignedBin:
        bins = self.bin if isinstance(self.bin, int) else self.bin[number]
        return SignedBin(bins, self.random_sign[number], self.signed_magnitude_idx[number])


def signed_bin(
    magnitude_bin: Any, random_sign: Any = None, seed: int | None = None, shape: Any = None
) -> Any:
    """Return bins with random signs, for augmentations that negate magnitudes.

    Called before a batch is split among augmentations, it draws the signs once for all of them.

    Args:
        magnitude_bin: a whole number, or a node of them.
        random_sign: node of 0, or of 1 for the negative magnitude; by default drawn.
        seed: seed of the signs that are drawn.
        shape: shape of the signs that are drawn for a sample, if it has several bins.

    Raises:
        ParameterError: the bin is of another type, or the signs are given with a seed or a shape.
    """
    if not isinstance(magnitude_bin, (int, DataNode)):
        raise ParameterError(
            f"the `magnitude_bin` must be an int or a DataNode: {magnitude_bin!r}", source="signed_bin"
        )
    if random_sign is not None and (seed is not None or shape is not None):
        raise ParameterError(
            "the `random_sign` cannot be specified together with neither `seed` nor `shape`",
            source="signed_bin",
        )
    if random_sign is None:
        random_sign = fn.random.uniform(
            values=[0, 1], dtype=types.INT32, seed=seed, shape=() if shape is None else shape
        )
    return SignedBin(magnitude_bin, random_sign, 2 * magnitude_bin + random_sign)


class Augmentation:
    """A function of samples and a parameter, whose parameter follows from the bin of a magnitude.

    Args:
        op: function of samples, a parameter, and arguments that calls pass on by their names.
        mag_range: lowest and highest magnitude, or the array of the magnitudes; None for no parameter.
        randomly_negate: whether a random half of the samples has the negative magnitude.
        mag_to_param: parameter of a magnitude; by default the magnitude itself.
        param_device: device of the parameters: "cpu", "gpu", or "auto" for that of the samples.
        name: name for messages; by default that of the function.

    Raises:
        ParameterError: the function has fewer than two positional arguments.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        mag_range: Any = None,
        randomly_negate: bool | None = None,
        mag_to_param: Callable[[Any], Any] | None = None,
        param_device: str | None = None,
        name: str | None = None,
    ) -> None:
        self.op, self.mag_range = op, mag_range
        self.randomly_negate, self.param_device = randomly_negate or False, param_device or "cpu"
        self.mag_to_param, self.name = mag_to_param or np.array, name or op.__name__
        self._arguments = list(inspect.signature(op).parameters.values())
        count = sum(argument.kind in _BY_POSITION for argument in self._arguments)
        if count < 2:
            raise ParameterError(
                f"{op} accepts {count} positional argument(s), but the functions decorated with @augmentation must "
                "accept at least two: the samples and their parameter",
                source="augmentation",
            )

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={getattr(self, key)!r}" for key in _SETTINGS)
        return f"Augmentation({self.op!r}, {settings})"

    def augmentation(self, *changed: Any, augmentation_cls: Any = None, **named: Any) -> Augmentation:
        """Return the augmentation with other settings, in the order of the constructor; None is a setting's default."""
        settings = {key: getattr(self, key) for key in _SETTINGS}
        settings |= {**dict(zip(_SETTINGS, changed, strict=False)), **named}
        made: Augmentation = (augmentation_cls or type(self))(self.op, **settings)
        return made

    def accepted(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that the function has arguments for."""
        names = {item.name for item in self._further()}
        return {name: value for name, value in options.items() if name in names}

    def _further(self) -> list[inspect.Parameter]:
        """Return the arguments that follow the samples and the parameter."""
        positions = [argument for argument in self._arguments if argument.kind in _BY_POSITION]
        named = (*_BY_POSITION, inspect.Parameter.KEYWORD_ONLY)
        return [item for item in self._arguments if item.kind in named and item not in positions[:2]]

    def __call__(
        self, data: Any, *, magnitude_bin: Any = None, num_magnitude_bins: int | None = None, **options: Any
    ) -> Any:
        """Return the function's result for samples and the parameter of a magnitude."""
        parameter = self._parameter(data, magnitude_bin, num_magnitude_bins)
        required = [item.name for item in self._further() if item.default is inspect.Parameter.empty]
        missing = [name for name in required if name not in options]
        if missing:
            if missing == ["shape"]:
                raise ParameterError(
                    f"The augmentation `{self.name}` requires `shape` argument", advice=_SHAPE_ADVICE
                )
            raise self._wrong(f"named arguments were not provided to the call: {', '.join(missing)}")
        return self.op(data, parameter, **self.accepted(options))

    def _wrong(self, fact: str) -> ParameterError:
        return ParameterError(fact, source=f"the augmentation `{self.name}`")

    def _magnitudes(self, count: int | None) -> Any:
        """Return all magnitudes."""
        if isinstance(self.mag_range, np.ndarray):
            if count is not None and count != len(self.mag_range):
                raise self._wrong(
                    f"it has nd.array of length {len(self.mag_range)} specified as the `mag_range`. However, the "
                    f"`num_magnitude_bins` passed to the call is {count}"
                )
            return self.mag_range
        if count is None:
            raise self._wrong("the `num_magnitude_bins` argument is missing")
        if not isinstance(self.mag_range, (tuple, list)) or len(self.mag_range) != 2:
            raise self._wrong(
                f"`mag_range` must be a tuple of (low, high) or an nd.array, and is {self.mag_range!r}"
            )
        low, high = self.mag_range
        return np.linspace(low, high, count, dtype=np.float32)

    def _parameter(self, data: Any, magnitude_bin: Any, count: int | None) -> Any:
        """Return the node of the parameters of a call; None without magnitudes."""
        if self.mag_range is None:
            return None
        magnitudes = self._magnitudes(count)
        if magnitude_bin is None:
            raise self._wrong("it has `mag_range` specified, so when called, it requires `magnitude_bin`")
        signed = isinstance(magnitude_bin, SignedBin)
        if self.randomly_negate and not signed:
            warnings.warn(
                f"The augmentation `{self.name}` draws signs of magnitudes, but unsigned `magnitude_bin` was passed to "
                "the augmentation call; signed_bin() before batches are split draws them once",
                stacklevel=3,
            )
            magnitude_bin, signed = signed_bin(magnitude_bin), True
        index: Any = magnitude_bin.bin if signed else magnitude_bin
        if isinstance(index, int):
            magnitudes, index = magnitudes[index : index + 1], 0
        if self.randomly_negate:
            magnitudes = np.stack([magnitudes, -magnitudes], 1).reshape(-1)
            index = magnitude_bin.random_sign if len(magnitudes) == 2 else magnitude_bin.signed_magnitude_idx
        on = getattr(data, "device", "cpu") if self.param_device == "auto" else self.param_device
        table = self._table(magnitudes)
        if isinstance(index, int):
            return types.Constant(table[index], device=on)
        return types.Constant(table, device=on)[index]

    def _table(self, magnitudes: Any) -> np.ndarray[Any, Any]:
        """Return the parameter of each magnitude."""
        made = [self.mag_to_param(entry) for entry in magnitudes]
        for item in made:
            if any(
                isinstance(sample, DataNode)
                for sample in (item if isinstance(item, (list, tuple)) else [item])
            ):
                raise self._wrong(
                    "the `mag_to_param` callback must return parameter that is `np.ndarray` or is directly convertible "
                    "to it, and returned a node"
                )
        arrays = list(map(np.array, made))
        first = arrays[0]
        for array, magnitude in zip(arrays, magnitudes, strict=True):
            if (array.shape, array.dtype) != (first.shape, first.dtype):
                raise self._wrong(
                    f"the `mag_to_param` callback of `{self.name}` augmentation must return the arrays of the same "
                    f"type and shape for each magnitude: {magnitudes[0]} has {first.shape} and {first.dtype}, "
                    f"{magnitude} has shape {array.shape} and type {array.dtype}"
                )
        return np.array(arrays)


_SHAPE_ADVICE: Final = (
    "Pass shape=(height, width), which fn.peek_image_shape returns for encoded images; or use translate_x_no_shape and "
    "translate_y_no_shape, with offsets in pixels"
)


def augmentation(function: Any = None, **settings: Any) -> Any:
    """Decorate a function of samples and a parameter; the result is an :class:`Augmentation`.

    Args:
        function: the function.
        **settings: arguments of :class:`Augmentation` by name, and ``augmentation_cls``, a class derived from it.

    Raises:
        ParameterError: the function cannot be called, or is decorated already.
    """
    cls = settings.pop("augmentation_cls", None) or Augmentation
    if function is None:
        return lambda value: augmentation(value, **settings, augmentation_cls=cls)
    if isinstance(function, Augmentation):
        raise ParameterError(
            "the `@augmentation` was applied to already decorated Augmentation",
            source=f"augmentation {function.name}",
            advice=f"Change its settings by {function.name}.augmentation(…), or decorate {function.name}.op",
        )
    if not callable(function):
        raise ParameterError(
            f"the `@augmentation` decorator was used to decorate the object that is not callable: {function!r}",
            source="augmentation",
        )
    return cls(function, **settings)


def select(ops: Seq[Callable[..., Any]], selected_op_idx: Any, *args: Any, **options: Any) -> Any:
    """Apply to each sample one of several operations.

    Args:
        ops: the operations.
        selected_op_idx: node of the number of each sample's operation, from 0.
        *args: arguments of all operations.
        **options: arguments by name.
    """
    if len(ops) == 1:
        return ops[0](*args, **options)
    half = (len(ops) + 1) // 2
    return conditions.selected(
        selected_op_idx < half,
        lambda: select(ops[:half], selected_op_idx, *args, **options),
        lambda: select(ops[half:], selected_op_idx - half, *args, **options),
    )


def forbid_unused_kwargs(
    augmentations: Iterable[Augmentation], options: Mapping[str, Any], call: str
) -> None:
    """Check that each option is an argument of one of several augmentations.

    Raises:
        ParameterError: one is not.
    """
    used = {name for item in augmentations for name in item.accepted(options)}
    unused = [name for name in options if name not in used]
    if unused:
        subject = "kwarg" if len(unused) == 1 else "kwargs"
        verb = "is" if len(unused) == 1 else "are"
        raise ParameterError(
            f"the {call} got unexpected {subject}. The {subject} `{', '.join(unused)}` {verb} not used by any of the "
            "augmentations",
            source=call,
        )


class Policy:
    """Sub-policies of AutoAugment: one of them is applied to each sample.

    Args:
        name: name for messages.
        num_magnitude_bins: number of magnitudes of each augmentation.
        sub_policies: for each, a list of (augmentation, probability, bin of the magnitude or None).

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(self, name: str, num_magnitude_bins: int, sub_policies: Any) -> None:
        self.name, self.num_magnitude_bins = name, num_magnitude_bins
        if not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
            raise self._wrong(
                f"the `num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}"
            )
        if not isinstance(sub_policies, (list, tuple)):
            raise self._wrong(
                f"the `sub_policies` must be a list or tuple of sub policies, got {type(sub_policies)}"
            )
        for sub_policy in sub_policies:
            if not isinstance(sub_policy, (list, tuple)):
                raise self._wrong(f"each sub policy must be a list or tuple, got {sub_policy}")
            for step in sub_policy:
                self._check(step)
        self.sub_policies = _numbered(sub_policies)

    def _wrong(self, fact: str) -> ParameterError:
        return ParameterError(fact, source=f"policy `{self.name}`")

    def _check(self, step: Any) -> None:
        """Check one step of a sub-policy."""
        if not isinstance(step, (list, tuple)) or len(step) != 3:
            raise self._wrong(
                "each operation in sub policy must be specified as a triple: (augmentation, probability, magnitude). "
                f"Got {step}"
            )
        one, probability, magnitude = step
        if not isinstance(one, Augmentation):
            raise self._wrong(
                f"each augmentation in sub policies must be an instance of Augmentation. Got `{one}`. Did you "
                "forget to use `@augmentation` decorator?"
            )
        if not isinstance(probability, (float, int)) or not 0 <= probability <= 1:
            raise self._wrong(
                "probability of applying the augmentation must be a number from `[0, 1]` range. Got "
                f"`{probability}` for augmentation `{one.name}`"
            )
        if probability == 0:
            warnings.warn(
                f"The augmentation `{one.name}` in policy `{self.name}` is used with probability 0 in one of the "
                "sub-policies.",
                stacklevel=4,
            )
        if magnitude is None:
            if one.mag_range is not None:
                raise self._wrong(
                    f"the augmentation `{one.name}` has `mag_range` specified, so the magnitude bin is required. "
                    "However, got `None`"
                )
            return
        if one.mag_range is None:
            warnings.warn(
                f"The magnitude bin `{magnitude}` for augmentation `{one.name}` in policy `{self.name}` will be "
                "ignored: the augmentation has no `mag_range`.",
                stacklevel=4,
            )
        if not isinstance(magnitude, int) or not 0 <= magnitude < self.num_magnitude_bins:
            raise self._wrong(
                f"magnitude of the augmentation must be an integer from `[0, {self.num_magnitude_bins - 1}]` range. "
                f"Got `{magnitude}` for augmentation `{one.name}`"
            )

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """All augmentations by their names, in the order of the names."""
        found = {item.name: item for sub_policy in self.sub_policies for item, *_ in sub_policy}
        return dict(sorted(found.items()))

    def __repr__(self) -> str:
        steps = ",\n\t".join(
            str([(entry.name, p, magnitude) for entry, p, magnitude in sub]) for sub in self.sub_policies
        )
        found = ",\n\t".join(f"{name!r}: {item!r}" for name, item in self.augmentations.items())
        return (
            f"Policy(name={self.name!r}, num_magnitude_bins={self.num_magnitude_bins!r}, "
            f"sub_policies=[{steps and chr(10) + chr(9)}{steps}], "
            f"augmentations={{{found and chr(10) + chr(9)}{found}}})"
        )


def _numbered(sub_policies: Any) -> tuple[tuple[Any, ...], ...]:
    """Return sub-policies in which different augmentations have different names: numbers precede equal ones."""
    steps = [step for sub_policy in sub_policies for step in sub_policy]
    found = list(dict.fromkeys(element for element, *_ in steps))
    renamed = {entry: entry for entry in found}
    if len({current.name for current in found}) < len(found):
        digits = len(str(len(found) - 1))
        renamed = {
            item: item.augmentation(name=f"{n:0{digits}}__{item.name}") for n, item in enumerate(found)
        }
    return tuple(tuple((renamed[one], p, m) for one, p, m in sub_policy) for sub_policy in sub_policies)


def policy(
    name: str,
    data: Any,
    *,
    shape: Any = None,
    fill_value: float | None = 128,
    max_translate_rel: float | None = None,
    **options: Any,
) -> DataNode:
    """Return the node of one of seqpipe's policies.

    Args:
        name: name of the operator.
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        shape: shape of the images; required with ``max_translate_rel``, and otherwise without effect.
        fill_value: value of pixels outside of the image; None repeats its edge.
        max_translate_rel: maximum translation as a share of the sides.
        options: further arguments of the operator: ``interp_type``, ``max_translate_abs`` in pixels, ``seed``, and
            those of one policy alone.

    Raises:
        ParameterError: an argument is unknown or not valid.
    """
    if shape is None and max_translate_rel is not None:
        raise ParameterError("max_translate_rel without a shape", source=name, allowed="shape=images.shape()")

    def build(call: DaliCall) -> Any:
        return native(call, fill_value=fill_value)

    node: DataNode = call_operator(
        Row(name, build=build), (data,), {"max_translate_rel": max_translate_rel, **options}
    )
    return node


def check_counts(call: str, num_magnitude_bins: Any, n: Any = 1, m: Any = 0) -> None:
    """Check the number of magnitudes, that of augmentations of a sample, and the bin of their magnitude.

    Raises:
        ParameterError: one is not valid.
    """
    fact = ""
    if not isinstance(n, int) or n < 0:
        fact = f"the number of operations to apply `n` must be a non-negative integer, got {n}"
    elif not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
        fact = f"the `num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}"
    elif not isinstance(m, int) or not 0 <= m < num_magnitude_bins:
        fact = f"the magnitude bin `m` must be an integer from `[0, {num_magnitude_bins - 1}]` range. Got {m}"
    if fact:
        raise ParameterError(fact, source=call)
