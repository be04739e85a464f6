"""Conditional execution: a batch is split by a condition, each part passes its branch, and the results are merged.

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
from ..pipeline.value import Value, value_of
from .data_node import Absent, DataNode, current, node_of
from .types import Constant

__all__ = ["Condition", "Missing", "Scope", "both", "either", "merged", "opposite", "selected"]


def _flags(value: Value, where: str) -> Any:
    """Return the samples for which a condition is true, that is not 0.

    Raises:
        ParameterError: the condition is not one number for each sample, on the CPU.
    """
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


class _Piece(ops.DataNode):
    """The samples of a node in a branch.

    Args:
        node: a node of the enclosing scope.
        condition: the condition, a node of the enclosing scope.
        wanted: the value of the condition in the branch.
        scope: the branch.
        where: the line of the condition.
    """

    def __init__(
        self, node: ops.DataNode | None, condition: DataNode, wanted: bool, scope: Any, where: str
    ) -> None:
        self._inputs = (condition,) if node is None else (condition, node)
        self._wanted, self.scope, self.where = wanted, scope, where
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
        return f"split({', '.join(map(name, self._inputs))}, {self._wanted})"

    def value(self, given: Seq[Any], run: Run) -> Any:
        """See :meth:`seqpipe.ops.DataNode.value`."""
        if isinstance(given[0], Absent) or isinstance(given[-1], Absent):
            return np.zeros(0, np.int64) if len(given) == 1 else Absent()
        flags = _flags(value_of(given[0]), self.where) == self._wanted
        if len(given) == 1:
            return np.asarray(run.index)[flags]
        value = value_of(given[1])
        if not flags.any():
            return Absent()
        places = np.flatnonzero(flags).tolist()
        sources = tuple(value.sources[n] for n in places) if value.sources else ()
        data = value.data[places] if value.dense else [value.data[n] for n in places]
        return Value(data, value.layout, sources, value.by_frame)


class _Inner(_Piece):
    """The indices of the samples in a nested branch."""

    def value(self, given: Seq[Any], run: Run) -> Any:  # noqa: ARG002  they are those of the branch around it
        """See :meth:`seqpipe.ops.DataNode.value`."""
        condition, around = given
        if isinstance(condition, Absent) or not len(around):
            return np.zeros(0, np.int64)
        return np.asarray(around)[_flags(value_of(condition), self.where) == self._wanted]


class Scope:
    """A branch of a condition.

    Args:
        around: the enclosing branch, or None.
        condition: the condition's node.
        wanted: the value of the condition in the branch.
        where: the line of the condition.
    """

    index: ops.DataNode

    def __init__(self, around: Scope | None, condition: DataNode, wanted: bool, where: str) -> None:
        self._around, self._condition, self._wanted, self._where = around, condition, wanted, where
        kind, outer = (_Piece, None) if around is None else (_Inner, around.index)
        self.index = kind(outer, condition, wanted, self, where)
        self._pieces: dict[int, tuple[ops.DataNode, ops.DataNode]] = {}

    def seen(self, node: ops.DataNode) -> ops.DataNode:
        """Return a node restricted to the samples of the branch."""
        if getattr(node, "scope", None) is self:
            return node
        if id(node) not in self._pieces:
            outer = node if self._around is None else self._around.seen(node)
            self._pieces[id(node)] = node, _Piece(outer, self._condition, self._wanted, self, self._where)
        return self._pieces[id(node)][1]


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
            self._around = self._pipe.scope
            node = node_of(condition).cpu()
            self._condition: DataNode = node if self._around is None else _within(self._around, node)

    def keep(self, *getters: Callable[[], Any]) -> None:
        """Store the values of variables before the statement."""
        self._before = tuple(_got(getter) for getter in getters)

    def takes(self, branch: bool) -> bool:
        """Return whether a branch is executed."""
        return self._truth is branch if self._plain else True

    @contextmanager
    def branch(self, wanted: bool) -> Iterator[None]:
        """Return a context for the statements of a branch."""
        if self._plain:
            yield
            return
        scope = Scope(self._around, self._condition, wanted, self._where)
        self._scopes[wanted] = self._pipe.scope = scope
        try:
            yield
        finally:
            self._pipe.scope = self._around

    def store(self, branch: bool, *getters: Callable[[], Any]) -> None:
        """Store the values of variables after a branch."""
        self._values[branch] = tuple(_got(getter) for getter in getters)

    def before(self, number: int, name: str) -> Any:
        """Return the value of a variable before the statement."""
        found = self._before[number]
        return Missing(name, self._where) if found is UNSET else found

    def after(self, number: int, name: str) -> Any:
        """Return the value of a variable after the statement."""
        if self._plain:
            assert self._truth is not None
            found = self._values.get(self._truth, self._before)[number]
            return Missing(name, self._where) if found is UNSET else found
        sides = [self._values.get(branch, self._before)[number] for branch in (True, False)]
        for branch in (True, False):
            self._scopes.setdefault(branch, Scope(self._around, self._condition, branch, self._where))
        return self._joined(sides[0], sides[1], name)

    def _joined(self, one: Any, other: Any, name: str) -> Any:
        if one is other:
            return Missing(name, self._where) if one is UNSET else one
        if _is_leaf(one) and _is_leaf(other):
            scopes = self._scopes[True], self._scopes[False]
            return merged(self._condition, one, other, scopes, self._around, self._where)
        if type(one) is type(other) and isinstance(one, (list, tuple)) and len(one) == len(other):
            parts = [self._joined(a, b, name) for a, b in zip(one, other, strict=True)]
            return type(one)(parts)
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            return {key: self._joined(one[key], other[key], f"{name}[{key!r}]") for key in one}
        if not isinstance(one, ops.DataNode) and type(one) is type(other) and _same(one, other):
            return one
        return Missing(name, self._where)


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, ParameterError):
        return False


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (ops.DataNode, Real, np.ndarray, np.generic, Constant))


def _got(getter: Callable[[], Any]) -> Any:
    try:
        found = getter()
    except (NameError, AttributeError, KeyError, IndexError):
        return UNSET
    return UNSET if isinstance(found, Missing) else found


def _within(scope: Scope, node: DataNode) -> DataNode:
    """Return a condition as a node of the enclosing branch."""
    return node if node.scope is scope else DataNode("condition", [node], lambda v, _: v[0])


def merged(
    condition: DataNode, one: Any, other: Any, scopes: tuple[Scope, Scope], around: Scope | None, where: str
) -> DataNode:
    """Merge the samples of two branches into one batch.

    Args:
        condition: the condition's node.
        one: the result of the branch for true: a node, or a number.
        other: the result of the other branch.
        scopes: the branches.
        around: the enclosing branch, or None.
        where: the line of the condition.
    """
    pipe = condition.pipeline
    parts = []
    for value, scope in zip((one, other), scopes, strict=True):
        pipe.scope = scope
        try:
            parts.append(scope.seen(node_of(value)))
        finally:
            pipe.scope = around
    device = "gpu" if any(getattr(part, "device", "cpu") == "gpu" for part in parts) else "cpu"
    made = DataNode("merge", [condition], partial(_interleaved, where), device=device)
    made.where = where
    return made.with_inputs((made.operands[0], *parts, *made.operands[1:]))


def _interleaved(where: str, values: list[Any], _: Run) -> Value:
    condition, one, other = values
    flags = _flags(condition, where)
    sides = [side for side in (one, other) if not isinstance(side, Absent)]
    kinds = {(side.dtype, side.ndim, side.layout, side.on_gpu) for side in sides}
    if len(kinds) > 1:
        summary = " and ".join(
            f"{side.dtype} of {side.ndim} axes{f' ({side.layout})' if side.layout else ''}"
            + (" on a GPU" if side.on_gpu else "")
            for side in sides
        )
        raise ParameterError(
            f"{where}: the branches give {summary}",
            source="if",
            allowed="one type, layout and device",
            advice="Cast one of them: fn.cast(x, dtype=types.FLOAT)",
        )
    if len(sides) == 1:
        return sides[0]  # type: ignore[no-any-return]
    if all(side.dense for side in sides) and one.data.shape[1:] == other.data.shape[1:]:
        data = namespace(one.data).empty((len(flags), *one.data.shape[1:]), one.dtype)
        # indices, not masks: CuPy does not accept NumPy masks
        data[np.flatnonzero(flags).tolist()], data[np.flatnonzero(~flags).tolist()] = one.data, other.data
        return Value(data, one.layout)
    sources = {True: iter(one), False: iter(other)}
    return Value.of([next(sources[bool(flag)]) for flag in flags], one.layout)


def both(one: Any, other: Callable[[], Any]) -> Any:
    """Return ``one and other``: for nodes sample by sample, for plain values as in Python."""
    if not isinstance(one, ops.DataNode):
        return one and other()
    return (one != 0) & (_truth(other()))


def either(one: Any, other: Callable[[], Any]) -> Any:
    """Return ``one or other``; see :func:`both`."""
    if not isinstance(one, ops.DataNode):
        return one or other()
    return (one != 0) | (_truth(other()))


def opposite(value: Any) -> Any:
    """Return ``not value``; see :func:`both`."""
    return value == 0 if isinstance(value, ops.DataNode) else not value


def _truth(value: Any) -> Any:
    return value != 0 if isinstance(value, ops.DataNode) else bool(value)


def selected(condition: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Return ``one if condition else other``; see :func:`both`."""
    choice = Condition(condition)
    found: dict[bool, Any] = {}
    for branch, make in ((True, one), (False, other)):
        if choice.takes(branch):
            with choice.branch(branch):
                found[branch] = make()
            choice.store(branch, partial(found.__getitem__, branch))
    choice.keep(lambda: UNSET)
    result = choice.after(0, "the value of the conditional expression")
    if isinstance(result, Missing):
        raise result.error()
    return result
