"""Rewriting of functions, so that ``if``, ``and``, ``or``, ``not`` and ``a if c else b`` work on nodes.

A function's source is parsed, and conditions become calls of :mod:`seqpipe.dali.conditions`, which execute one branch
for plain values, as Python does, and both branches for nodes. The code is compiled with the file name and the line
numbers of the user's file, so that tracebacks show them. Called functions are rewritten
too, but for those of installed packages.
"""

from __future__ import annotations

import ast
import inspect
import sysconfig
import textwrap
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from . import conditions as conditions_of_nodes

__all__ = ["rewritten"]

_CALLS: Final = "__conditions"
_RESULT: Final = "__returned"
_OURS: Final = str(Path(__file__).resolve().parents[1])
_INSTALLED: Final = tuple(
    str(Path(path))
    for key, path in sysconfig.get_paths().items()
    if key in ("stdlib", "platstdlib", "purelib", "platlib")
)


class _Calls:
    """The functions that rewritten code calls."""

    Condition = conditions_of_nodes.Condition
    both = staticmethod(conditions_of_nodes.both)
    either = staticmethod(conditions_of_nodes.either)
    opposite = staticmethod(conditions_of_nodes.opposite)
    selected = staticmethod(conditions_of_nodes.selected)

    @staticmethod
    def called(function: Any) -> Any:
        """Return a function for a call, rewritten if it is the user's own."""
        if isinstance(function, types.MethodType) and _is_users(function.__func__):
            return types.MethodType(rewritten(function.__func__), function.__self__)
        return rewritten(function) if _is_users(function) else function


def _is_users(function: Any) -> bool:
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        return False
    if getattr(function, "__conditions__", False) or hasattr(function, "__wrapped__"):
        return False
    path = function.__code__.co_filename
    return not path.startswith((_OURS, "<", *_INSTALLED))


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose conditions work on nodes; the function itself if its source is not available."""
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        return function
    code = _code_of(function.__code__)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_CALLS] = types.CellType(_Calls)
    # free names that only the rewritten code has belong to this module
    closure = tuple(cells.get(name) or types.CellType() for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__dict__["__conditions__"] = True
    return made


@lru_cache(maxsize=256)
def _code_of(code: types.CodeType) -> types.CodeType | None:
    """Return the rewritten code of a function; None if its source is not available."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    if not tree.body or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    definition.decorator_list = []
    made: Any = _Conditions().visit(definition)
    free = sorted({*code.co_freevars, _CALLS})
    (outer,) = ast.parse(f"def __outer({', '.join(free)}):\n    pass").body
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [made]
    module = ast.Module(body=[outer], type_ignores=[])
    ast.fix_missing_locations(module)
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    return _inner(_inner(compiled, "__outer"), definition.name)


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    return next(one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == name)


class _Conditions(ast.NodeTransformer):
    """Rewrites the statements of a function."""

    def __init__(self) -> None:
        self._count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Rewrite a function: statements after a branch that returns move into the other branch."""
        if _returns_in_branch(node.body):
            body = _absorbed(node.body, ast.Return)
            node.body = [*_without_returns(_ended(body)), ast.Return(_name(_RESULT))]
        node.body = self._statements(node.body)
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        return node

    def visit_For(self, node: ast.For) -> Any:
        """Rewrite a loop: statements after a branch with ``continue`` move into the other branch."""
        if any(isinstance(one, ast.If) and _ends(one, ast.Continue) for one in node.body):
            node.body = _without(ast.Continue, _absorbed(node.body, ast.Continue)) or [ast.Pass()]
        node.iter = self.visit(node.iter)
        node.body = self._statements(node.body)
        node.orelse = self._statements(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """Rewrite an ``if`` statement: both branches, then a merge of each variable that they set."""
        if _leaves(
            node
        ):  # break, and returns from within loops: Python's own, which tells what is wrong with nodes
            self.generic_visit(node)
            return node
        self._count += 1
        choice, where = f"__choice{self._count}", node
        targets = _targets(node.body + node.orelse)
        getters = ", ".join(f"(lambda: {target})" for target in targets)
        lines = [f"{choice} = {_CALLS}.Condition(0)", f"{choice}.keep({getters})"]
        made: list[ast.stmt] = _parsed("\n".join(lines))
        assert isinstance(made[0], ast.Assign)
        assert isinstance(made[0].value, ast.Call)
        made[0].value.args = [self.visit(node.test)]
        for branch, body in ((True, node.body), (False, node.orelse)):
            if not body:
                continue
            text = f"if {choice}.takes({branch}):\n    with {choice}.branch({branch}):\n        pass\n"
            text += f"    {choice}.store({branch}, {getters})\n"
            restored = [
                f"    {target} = {choice}.before({n}, {target!r})" for n, target in enumerate(targets)
            ]
            (taken,) = _parsed(text + "\n".join(restored))
            assert isinstance(taken, ast.If)
            assert isinstance(taken.body[0], ast.With)
            taken.body[0].body = self._statements(body)
            made.append(taken)
        made += _parsed(
            "\n".join(f"{target} = {choice}.after({n}, {target!r})" for n, target in enumerate(targets))
        )
        return [_located(one, where) for one in made]

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Rewrite ``and`` and ``or``."""
        name = "both" if isinstance(node.op, ast.And) else "either"
        values = [self.visit(value) for value in node.values]
        made = values[-1]
        for value in reversed(values[:-1]):
            made = _call(name, value, _later(made))
        return _located(made, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Rewrite ``not``."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _located(_call("opposite", operand), node)
        node.operand = operand
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Rewrite ``a if c else b``."""
        parts = [self.visit(one) for one in (node.test, node.body, node.orelse)]
        return _located(_call("selected", parts[0], _later(parts[1]), _later(parts[2])), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Rewrite ``0 < x < 3``; the middle must be a name or a constant, since it is evaluated twice."""
        self.generic_visit(node)
        middle = node.comparators[:-1]
        if len(node.ops) == 1 or not all(isinstance(one, (ast.Name, ast.Constant)) for one in middle):
            return node
        left, pairs = node.left, []
        for sign, right in zip(node.ops, node.comparators, strict=True):
            pairs.append(ast.Compare(left=left, ops=[sign], comparators=[right]))
            left = right
        made: ast.expr = pairs[-1]
        for pair in reversed(pairs[:-1]):
            made = _call("both", pair, _later(made))
        return _located(made, node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Rewrite a call, so that the user's own functions are rewritten, too."""
        self.generic_visit(node)
        if isinstance(node.func, (ast.Name, ast.Attribute)) and not (
            isinstance(node.func, ast.Name)
            and node.func.id in ("super", "locals", "globals", "vars", "eval", "exec")
        ):
            node.func = _located(_call("called", node.func), node.func)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Leave it unchanged: a node as its condition raises an error with advice."""
        return node

    def visit_While(self, node: ast.While) -> Any:
        """Leave it unchanged; see :meth:`visit_Assert`."""
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            made = self.visit(one)
            found += made if isinstance(made, list) else [made]
        return found


# ---------------------------------------------------------------------- pieces of code


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _call(name: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(value=_name(_CALLS), attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(args), keywords=[])


def _later(value: ast.expr) -> ast.Lambda:
    nothing: dict[str, Any] = {
        "posonlyargs": [],
        "args": [],
        "kwonlyargs": [],
        "kw_defaults": [],
        "defaults": [],
    }
    return ast.Lambda(args=ast.arguments(**nothing), body=value)


def _parsed(text: str) -> list[ast.stmt]:
    found = ast.parse(text).body
    for statement in found:
        for node in ast.walk(statement):
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                node.__dict__.pop(name, None)
    return found


def _located(made: Any, where: ast.AST) -> Any:
    """Give generated code the line numbers of the code that it replaces."""
    node: Any
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, where)
            begin = {
                "end_lineno": "lineno",
                "end_col_offset": "col_offset",
            }
            node.__dict__.update({end: getattr(node, start) for end, start in begin.items()})
    return made


def _targets(body: list[ast.stmt]) -> list[str]:
    """Return the targets that statements assign: names, attributes and items of names."""
    found: dict[str, None] = {}
    for statement in body:
        for node in _walk_here(statement):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = list(node.targets)
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For)):
                targets = [node.target]
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = None
            elif isinstance(node, ast.With):
                targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
            for target in targets:
                found.update(dict.fromkeys(_leaves_of(target)))
    return list(found)


def _leaves_of(target: ast.expr) -> list[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [leaf for one in target.elts for leaf in _leaves_of(one)]
    if isinstance(target, ast.Starred):
        return _leaves_of(target.value)
    return [ast.unparse(target)]


def _walk_here(node: ast.AST) -> list[ast.AST]:
    """Yield a syntax node and its descendants, without the bodies of nested functions."""
    found = [node]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
        return found
    for one in ast.iter_child_nodes(node):
        found += _walk_here(one)
    return found


def _leaves(node: ast.If) -> bool:
    """Return whether a branch jumps; such statements are not rewritten."""

    def jumps(statement: ast.AST, in_loop: bool) -> bool:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            return False
        if isinstance(statement, ast.Return) or (
            isinstance(statement, (ast.Break, ast.Continue)) and not in_loop
        ):
            return True
        inner = in_loop or isinstance(statement, (ast.For, ast.While))
        return any(jumps(one, inner) for one in ast.iter_child_nodes(statement))

    return any(jumps(one, False) for one in [*node.body, *node.orelse])


def _ends(node: ast.If, kind: type[ast.stmt]) -> bool:
    """Return whether a branch of an ``if`` statement ends with a kind of statement."""
    for one in [*node.body, *node.orelse]:
        if isinstance(one, kind) or (isinstance(one, ast.If) and _ends(one, kind)):
            return True
    return False


def _returns_in_branch(body: list[ast.stmt]) -> bool:
    return any(isinstance(one, ast.If) and _ends(one, ast.Return) for one in body)


def _closes(body: list[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Return whether all paths through statements end with a kind of statement."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, (kind, ast.Raise)):
        return True
    return (
        isinstance(last, ast.If)
        and bool(last.orelse)
        and _closes(last.body, kind)
        and _closes(last.orelse, kind)
    )


def _absorbed(body: list[ast.stmt], kind: type[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with those after a branch that leaves moved into the other branch."""
    for place, one in enumerate(body):
        if isinstance(one, kind):
            return body[: place + 1]
        if isinstance(one, ast.If) and _ends(one, kind):
            rest = body[place + 1 :]
            branches = [part if _closes(part, kind) else [*part, *rest] for part in (one.body, one.orelse)]
            made = ast.If(
                test=one.test,
                body=_absorbed(branches[0], kind) or [ast.Pass()],
                orelse=_absorbed(branches[1], kind),
            )
            return [*body[:place], ast.copy_location(made, one)]
    return body


def _ended(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with a return at the end of every path."""
    if body and isinstance(body[-1], ast.If):
        last = body[-1]
        made = ast.If(test=last.test, body=_ended(last.body), orelse=_ended(last.orelse))
        return [*body[:-1], ast.copy_location(made, last)]
    if _closes(body, ast.Return):
        return body
    return [*body, ast.Return(ast.Constant(None))]


def _without_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with assignments to a variable for returns, except in loops and ``with`` blocks."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.Return):
            value = one.value if one.value is not None else ast.Constant(None)
            made: ast.stmt = ast.Assign(targets=[ast.Name(id=_RESULT, ctx=ast.Store())], value=value)
            found.append(ast.copy_location(made, one) if hasattr(one, "lineno") else made)
        elif isinstance(one, ast.If):
            made = ast.If(test=one.test, body=_without_returns(one.body), orelse=_without_returns(one.orelse))
            found.append(ast.copy_location(made, one))
        else:
            found.append(one)
    return found


def _without(kind: type[ast.stmt], body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements without those of a kind at the ends of branches."""
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, ast.If):
            made = ast.If(
                test=one.test,
                body=_without(kind, one.body) or [ast.Pass()],
                orelse=_without(kind, one.orelse),
            )
            found.append(ast.copy_location(made, one))
        elif not isinstance(one, kind):
            found.append(one)
    return found
