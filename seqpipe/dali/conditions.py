"""Conditional execution: a condition splits a batch, each branch computes its samples, and the results are merged.

A branch is a :class:`Scope`. Nodes created within it compute the branch's samples; nodes from outside are split on
first use in the branch. Samples keep their indices, so sampled parameters do not depend on branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import Any, Final

import numpy as np

from .. import ops
from ..array import namespace
from ..errors import ParameterError, user_line
from ..ops import Named, Run
from .data_node import Absent, DataNode, current, node_of
from .dtypes import ScalarConstant
from .value import Value, value_of

__all__ = ["Condition", "Missing", "Scope", "both", "either", "merged", "opposite", "selected"]


def _flags(value: Value, where: str) -> Any:
    """Return the samples for which a condition is true, that is not 0."""
    if value.on_gpu:
        raise ParameterError(f"{where}: a condition on a GPU", source="if", advice="Write condition.cpu()")
    array = value.data if value.dense else None
    if array is None or int(np.prod(array.shape[1:])) != 1 or array.ndim > 1:
        shapes = ", ".join(map(str, dict.fromkeys(value.shapes())))
        raise ParameterError(
            f"{where}: a condition of the shape {shapes}",
            source="if",
            allowed="one number for each sample, without axes",
            advice="Take one by x[0], or reduce it: fn.reductions.max(x > 0)",
        )
    return array != 0


class _BranchSamples(ops.DataNode):
    """The samples of a node in a branch; without a node, their indices.

    Args:
        node: a node of the enclosing scope, or None.
        condition: the condition, a node of the enclosing scope.
        outcome: value of the condition for the samples of the branch.
        scope: the branch.
        where: the line of the condition.
    """

    def __init__(
        self, node: ops.DataNode | None, condition: DataNode, outcome: bool, scope: Any, where: str
    ) -> None:
        self._inputs = (condition,) if node is None else (condition, node)
        self._outcome, self.scope, self.where = outcome, scope, where
        self.pipeline = condition.pipeline
        self.device = getattr(node, "device", "cpu")

    @property
    def operands(self) -> tuple[ops.DataNode, ...]:
        """The condition's node and the node to split."""
        return self._inputs

    @property
    def label(self) -> str:
        """Label of the split node."""
        return f"split {self._inputs[-1].label}"

    def written(self, name: Named) -> str:
        """See :meth:`seqpipe.ops.DataNode.written`."""
        return f"split({', '.join(map(name, self._inputs))}, {self._outcome})"

    def value(self, operands: Seq[Any], run: Run) -> Any:
        """See :meth:`seqpipe.ops.DataNode.value`."""
        if isinstance(operands[0], Absent) or isinstance(operands[-1], Absent):
            return np.zeros(0, np.int64) if len(operands) == 1 else Absent()
        in_branch = _flags(value_of(operands[0]), self.where) == self._outcome
        if len(operands) == 1:
            return np.asarray(run.index)[in_branch]
        value = value_of(operands[1])
        if not in_branch.any():
            return Absent()
        positions = np.flatnonzero(in_branch).tolist()
        sources = tuple(value.sources[n] for n in positions) if value.sources else ()
        data = value.data[positions] if value.dense else [value.data[n] for n in positions]
        return Value(data, value.layout, sources, value.by_frame)


class _NestedIndices(_BranchSamples):
    """The indices of the samples in a nested branch."""

    def value(self, operands: Seq[Any], run: Run) -> Any:  # noqa: ARG002  the operand has the enclosing branch's indices
        """See :meth:`seqpipe.ops.DataNode.value`."""
        condition, enclosing = operands
        if isinstance(condition, Absent) or not len(enclosing):
            return np.zeros(0, np.int64)
        return np.asarray(enclosing)[_flags(value_of(condition), self.where) == self._outcome]


class Scope:
    """A branch of a condition.

    Args:
        enclosing: the enclosing branch, or None.
        condition: the condition's node.
        outcome: value of the condition for the samples of the branch.
        where: the line of the condition.
    """

    index: ops.DataNode

    def __init__(self, enclosing: Scope | None, condition: DataNode, outcome: bool, where: str) -> None:
        self._enclosing, self._condition, self._outcome, self._where = enclosing, condition, outcome, where
        node_type, outer = (_BranchSamples, None) if enclosing is None else (_NestedIndices, enclosing.index)
        self.index = node_type(outer, condition, outcome, self, where)
        self._restricted: dict[int, tuple[ops.DataNode, ops.DataNode]] = {}

    def restrict(self, node: ops.DataNode) -> ops.DataNode:
        """Return a node restricted to the samples of the branch."""
        if getattr(node, "scope", None) is self:
            return node
        if id(node) not in self._restricted:
            outer = node if self._enclosing is None else self._enclosing.restrict(node)
            self._restricted[id(node)] = (
                node,
                _BranchSamples(outer, self._condition, self._outcome, self, self._where),
            )
        return self._restricted[id(node)][1]


class Missing:
    """The value of a variable that only one of two branches has set.

    Args:
        name: name of the variable.
        where: the line of the condition.
    """

    def __init__(self, name: str, where: str) -> None:
        self._name, self._where = name, where

    def error(self) -> ParameterError:
        """Return the error for a use of the variable."""
        return ParameterError(
            f"{self._where}: {self._name} is set in one branch alone, or differs in kind between the branches",
            source="if",
            advice=f"Set {self._name} before the condition, or in both branches to values of one kind",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error()


UNSET: Final = object()
"""Stands for a variable that is not set."""


class Condition:
    """An ``if`` statement in a pipeline's definition, on a plain value or on a node.

    Args:
        condition: the condition.
    """

    def __init__(self, condition: Any) -> None:
        self._plain = not isinstance(condition, ops.DataNode)
        self._truth = bool(condition) if self._plain else None
        self._where = user_line()
        self._pipe = current()
        self._before: tuple[Any, ...] = ()
        self._values: dict[bool, tuple[Any, ...]] = {}
        self._scopes: dict[bool, Scope] = {}
        if not self._plain:
            self._enclosing = self._pipe.scope
            node = node_of(condition).cpu()
            self._condition: DataNode = node if self._enclosing is None else _within(self._enclosing, node)

    def store_before(self, *getters: Callable[[], Any]) -> None:
        """Store the values of variables before the statement."""
        self._before = tuple(_value_or_unset(getter) for getter in getters)

    def executes(self, branch: bool) -> bool:
        """Return whether a branch is executed."""
        return self._truth is branch if self._plain else True

    @contextmanager
    def branch(self, outcome: bool) -> Iterator[None]:
        """Return a context for the statements of a branch."""
        if self._plain:
            yield
            return
        scope = Scope(self._enclosing, self._condition, outcome, self._where)
        self._scopes[outcome] = self._pipe.scope = scope
        try:
            yield
        finally:
            self._pipe.scope = self._enclosing

    def store(self, branch: bool, *getters: Callable[[], Any]) -> None:
        """Store the values of variables after a branch."""
        self._values[branch] = tuple(_value_or_unset(getter) for getter in getters)

    def before(self, number: int, name: str) -> Any:
        """Return the value of a variable before the statement."""
        value = self._before[number]
        return Missing(name, self._where) if value is UNSET else value

    def after(self, number: int, name: str) -> Any:
        """Return the value of a variable after the statement."""
        if self._plain:
            assert self._truth is not None
            value = self._values.get(self._truth, self._before)[number]
            return Missing(name, self._where) if value is UNSET else value
        one, other = (self._values.get(branch, self._before)[number] for branch in (True, False))
        for branch in (True, False):
            self._scopes.setdefault(branch, Scope(self._enclosing, self._condition, branch, self._where))
        return self._merge_values(one, other, name)

    def _merge_values(self, left: Any, other: Any, name: str) -> Any:
        """Return the value of a variable from its values after either branch; lists and dictionaries item by item."""
        if left is other:
            return Missing(name, self._where) if left is UNSET else left
        if _is_mergeable(left) and _is_mergeable(other):
            scopes = self._scopes[True], self._scopes[False]
            return merged(self._condition, left, other, scopes, self._enclosing, self._where)
        if type(left) is type(other) and isinstance(left, (list, tuple)) and len(left) == len(other):
            made = [self._merge_values(a, b, name) for a, b in zip(left, other, strict=True)]
            return left._make(made) if hasattr(left, "_make") else type(left)(made)  # of named tuples
        if isinstance(left, dict) and isinstance(other, dict) and left.keys() == other.keys():
            return {key: self._merge_values(left[key], other[key], f"{name}[{key!r}]") for key in left}
        if not isinstance(left, ops.DataNode) and type(left) is type(other) and _equal(left, other):
            return left
        return Missing(name, self._where)


def _equal(left: Any, other: Any) -> bool:
    try:
        return bool(left == other)
    except (TypeError, ValueError, ParameterError):
        return False


def _is_mergeable(value: Any) -> bool:
    return isinstance(value, (ops.DataNode, Real, np.ndarray, np.generic, ScalarConstant))


def _value_or_unset(getter: Callable[[], Any]) -> Any:
    """Return the value of a variable; UNSET if it has none, or not after every branch."""
    try:
        value = getter()
    except (NameError, AttributeError, KeyError, IndexError):
        return UNSET
    return UNSET if isinstance(value, Missing) else value


def _within(scope: Scope, node: DataNode) -> DataNode:
    """Return a condition as a node of the enclosing branch."""
    return node if node.scope is scope else DataNode("condition", [node], lambda v, _: v[0])


def merged(
    condition: DataNode,
    left: Any,
    other: Any,
    scopes: tuple[Scope, Scope],
    enclosing: Scope | None,
    where: str,
) -> DataNode:
    """Merge the samples of two branches into one batch.

    Args:
        condition: the condition's node.
        left: the result of the branch for true: a node, or a number.
        other: the result of the other branch.
        scopes: the branches.
        enclosing: the enclosing branch, or None.
        where: the line of the condition.
    """
    pipe = condition.pipeline
    branches = []
    for value, scope in zip((left, other), scopes, strict=True):
        pipe.scope = scope
        try:
            branches.append(scope.restrict(node_of(value)))
        finally:
            pipe.scope = enclosing
    device = "gpu" if any(getattr(branch, "device", "cpu") == "gpu" for branch in branches) else "cpu"
    node = DataNode("merge", [condition], partial(_interleaved, where), device=device)
    node.where = where
    return node.with_inputs((node.operands[0], *branches, *node.operands[1:]))


def _interleaved(where: str, values: list[Any], _: Run) -> Value:
    """Return the samples of two branches in the order of the batch."""
    condition, one, other = values
    flags = _flags(condition, where)
    present = [value for value in (one, other) if not isinstance(value, Absent)]
    if len({(value.dtype, value.ndim, value.layout, value.on_gpu) for value in present}) > 1:
        summary = " and ".join(
            f"{value.dtype} of {value.ndim} axes{f' ({value.layout})' if value.layout else ''}"
            + (" on a GPU" if value.on_gpu else "")
            for value in present
        )
        raise ParameterError(
            f"{where}: the branches give {summary}",
            source="if",
            allowed="one type, layout and device",
            advice="Cast one of them: fn.cast(x, dtype=types.FLOAT)",
        )
    if len(present) == 1:
        return present[0]  # type: ignore[no-any-return]
    if all(value.dense for value in present) and one.data.shape[1:] == other.data.shape[1:]:
        data = namespace(one.data).empty((len(flags), *one.data.shape[1:]), one.dtype)
        # indices, not masks: CuPy does not accept NumPy masks
        data[np.flatnonzero(flags).tolist()], data[np.flatnonzero(~flags).tolist()] = one.data, other.data
        return Value(data, one.layout)
    samples = {True: iter(one), False: iter(other)}
    return Value.of([next(samples[bool(flag)]) for flag in flags], one.layout)


def both(left: Any, other: Callable[[], Any]) -> Any:
    """Return ``one and other``: for nodes sample by sample, for plain values as in Python."""
    if not isinstance(left, ops.DataNode):
        return left and other()
    return (left != 0) & (_truth(other()))


def either(left: Any, other: Callable[[], Any]) -> Any:
    """Return ``one or other``; see :func:`both`."""
    if not isinstance(left, ops.DataNode):
        return left or other()
    return (left != 0) | (_truth(other()))


def opposite(value: Any) -> Any:
    """Return ``not value``; see :func:`both`."""
    return value == 0 if isinstance(value, ops.DataNode) else not value


def _truth(value: Any) -> Any:
    return value != 0 if isinstance(value, ops.DataNode) else bool(value)


def selected(condition: Any, left: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Return ``one if condition else other``; see :func:`both`."""
    choice = Condition(condition)
    results: dict[bool, Any] = {}
    for branch, evaluate in ((True, left), (False, other)):
        if choice.executes(branch):
            with choice.branch(branch):
                results[branch] = evaluate()
            choice.store(branch, partial(results.__getitem__, branch))
    choice.store_before(lambda: UNSET)
    result = choice.after(0, "the value of the conditional expression")
    if isinstance(result, Missing):
        raise result.error()
    return result
