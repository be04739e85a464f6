"""Rewriting of functions, so that ``if``, ``and``, ``or``, ``not`` and ``a if c else b`` work on nodes.

A function's source is parsed, and conditions become calls of :mod:`seqpipe.dali.conditions`, which execute one branch
for plain values, as Python does, and both branches for nodes. The code is compiled with the file name and the line
numbers of the user's file, so that tracebacks show them. Called functions are rewritten too, except for those of
installed packages. ``if x > 1: y = f(x)`` becomes

    choice = Condition(x > 1)
    choice.store_before(lambda: y)
    if choice.executes(True):
        with choice.branch(True):
            y = f(x)
        choice.store(True, lambda: y)
        y = choice.before(0, "y")
    y = choice.after(0, "y")
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sysconfig
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from . import conditions as conditions_of_nodes

__all__ = ["rewritten"]

_CALLS: Final = "__conditions"
_RESULT: Final = "__returned"
_SEQPIPE: Final = str(Path(__file__).resolve().parents[1])
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
    def rewritten_callee(function: Any) -> Any:
        """Return the function to call instead of another one: rewritten if it is the user's own."""
        if isinstance(function, functools.partial):
            called = _Calls.rewritten_callee(function.func)
            return functools.partial(called, *function.args, **function.keywords)
        method = inspect.getattr_static(type(function), "__call__", None)  # of an object
        if _is_users(method):
            return types.MethodType(rewritten(method), function)
        if isinstance(function, types.MethodType) and _is_users(function.__func__):
            return types.MethodType(rewritten(function.__func__), function.__self__)
        return rewritten(function) if _is_users(function) else function


def _is_users(function: Any) -> bool:
    if not isinstance(function, types.FunctionType) or getattr(function, "__conditions__", False):
        return False
    path = function.__code__.co_filename
    return not path.startswith((_SEQPIPE, "<", *_INSTALLED))


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose conditions work on nodes; the function itself if its source is not available."""
    if not isinstance(function, types.FunctionType):
        return function
    code = _code_of(function.__code__)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_CALLS] = types.CellType(_Calls)
    # free names that only the rewritten code has belong to this module
    closure = tuple(cells.get(name) or types.CellType() for name in code.co_freevars)
    result = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__, result.__qualname__ = function.__kwdefaults__, function.__qualname__
    result.__dict__["__conditions__"] = True
    return result


@functools.lru_cache(maxsize=256)
def _code_of(code: types.CodeType) -> types.CodeType | None:
    """Return the rewritten code of a function; None if its source is not available."""
    if code.co_name == "<lambda>":
        expression = _lambda_of(code)
        return None if expression is None else _compiled(ast.Expr(expression), code)
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
    return _compiled(definition, code)


def _lambda_of(code: types.CodeType) -> ast.Lambda | None:
    """Return the syntax of a lambda; None if its source is not available, or the line has others like it."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    if len(found) > 1 and hasattr(code, "co_positions"):  # from Python 3.11 on
        columns = {column for line, _, column, _ in code.co_positions() if line and column is not None}
        found = [
            node
            for node in found
            if min(columns, default=-1) >= node.body.col_offset
            and max(columns, default=-1) < (node.body.end_col_offset or 0)
        ]
        found = found[-1:]  # the innermost one
    return found[0] if len(found) == 1 else None


def _compiled(definition: Any, code: types.CodeType) -> types.CodeType:
    """Return the rewritten code of a definition, a function or an expression that is a lambda."""
    new_definition: Any = _Conditions().visit(definition)
    free = sorted({*code.co_freevars, _CALLS})
    (outer,) = ast.parse(f"def __outer({', '.join(free)}):\n    pass").body
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [new_definition]
    module = ast.Module(body=[outer], type_ignores=[])
    ast.fix_missing_locations(module)
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    return _nested_code(_nested_code(compiled, "__outer"), getattr(definition, "name", "<lambda>"))


def _nested_code(code: types.CodeType, name: str) -> types.CodeType:
    return next(
        constant
        for constant in code.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == name
    )


class _Conditions(ast.NodeTransformer):
    """Rewrites the statements of a function."""

    def __init__(self) -> None:
        self._count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Rewrite a function: statements after a branch that returns move into the other branch."""
        if _returns_in_branch(node.body):
            body = _with_return_everywhere(_with_rest_in_branches(node.body, ast.Return))
            node.body = [*_returns_as_assignments(body), ast.Return(_name(_RESULT))]
        node.body = self._statements(node.body)
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        return node

    def visit_For(self, node: ast.For) -> Any:
        """Rewrite a loop: statements after a branch with ``continue`` move into the other branch."""
        if any(isinstance(statement, ast.If) and _ends(statement, ast.Continue) for statement in node.body):
            body = _with_rest_in_branches(node.body, ast.Continue)
            node.body = _without(ast.Continue, body) or [ast.Pass()]
        node.iter = self.visit(node.iter)
        node.body = self._statements(node.body)
        node.orelse = self._statements(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """Rewrite an ``if`` statement: both branches, then a merge of each variable that they set."""
        if _jumps(node):  # the statement stays Python's, whose error on nodes names the alternative
            self.generic_visit(node)
            return node
        self._count += 1
        choice = f"__choice{self._count}"
        targets = _targets(node.body + node.orelse)
        getters = ", ".join(f"(lambda: {target})" for target in targets)
        lines = [f"{choice} = {_CALLS}.Condition(0)", f"{choice}.store_before({getters})"]
        statements: list[ast.stmt] = _parsed("\n".join(lines))
        assert isinstance(statements[0], ast.Assign)
        assert isinstance(statements[0].value, ast.Call)
        statements[0].value.args = [self.visit(node.test)]
        for branch, body in ((True, node.body), (False, node.orelse)):
            if not body:
                continue
            text = f"if {choice}.executes({branch}):\n    with {choice}.branch({branch}):\n        pass\n"
            text += f"    {choice}.store({branch}, {getters})\n"
            restored = [
                f"    {target} = {choice}.before({n}, {target!r})" for n, target in enumerate(targets)
            ]
            (statement,) = _parsed(text + "\n".join(restored))
            assert isinstance(statement, ast.If)
            assert isinstance(statement.body[0], ast.With)
            statement.body[0].body = self._statements(body)
            statements.append(statement)
        statements += _parsed(
            "\n".join(f"{target} = {choice}.after({n}, {target!r})" for n, target in enumerate(targets))
        )
        return [_located(item, node) for item in statements]

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Rewrite ``and`` and ``or``."""
        name = "both" if isinstance(node.op, ast.And) else "either"
        values = [self.visit(value) for value in node.values]
        result = values[-1]
        for value in reversed(values[:-1]):
            result = _call(name, value, _lambda(result))
        return _located(result, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Rewrite ``not``."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _located(_call("opposite", operand), node)
        node.operand = operand
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Rewrite ``a if c else b``."""
        test, body, orelse = (self.visit(item) for item in (node.test, node.body, node.orelse))
        return _located(_call("selected", test, _lambda(body), _lambda(orelse)), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Rewrite ``0 < x < 3``; the middle must be a name or a constant, since it is evaluated twice."""
        self.generic_visit(node)
        middle = node.comparators[:-1]
        if len(node.ops) == 1 or not all(
            isinstance(statement, (ast.Name, ast.Constant)) for statement in middle
        ):
            return node
        left, pairs = node.left, []
        for sign, right in zip(node.ops, node.comparators, strict=True):
            pairs.append(ast.Compare(left=left, ops=[sign], comparators=[right]))
            left = right
        result: ast.expr = pairs[-1]
        for pair in reversed(pairs[:-1]):
            result = _call("both", pair, _lambda(result))
        return _located(result, node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Rewrite a call, so that the user's own functions are rewritten, too."""
        self.generic_visit(node)
        if not (
            isinstance(node.func, ast.Name)
            and node.func.id in ("super", "locals", "globals", "vars", "eval", "exec")
        ):
            node.func = _located(_call("rewritten_callee", node.func), node.func)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Return the statement unchanged: a node as its condition raises an error with advice."""
        return node

    def visit_While(self, node: ast.While) -> Any:
        """Return the statement unchanged; see :meth:`visit_Assert`."""
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            statements += new if isinstance(new, list) else [new]
        return statements


# ---------------------------------------------------------------------- generated code


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _call(name: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(value=_name(_CALLS), attr=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(args), keywords=[])


def _lambda(value: ast.expr) -> ast.Lambda:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(args=empty, body=value)


def _parsed(text: str) -> list[ast.stmt]:
    """Return the statements of a text, without line numbers."""
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                node.__dict__.pop(name, None)
    return statements


def _located(generated: Any, replaced: ast.AST) -> Any:
    """Set the line numbers of generated code to those of the code that it replaces, and return it."""
    node: Any
    for node in ast.walk(generated):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, replaced)
            node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return generated


def _targets(body: list[ast.stmt]) -> list[str]:
    """Return the targets that statements assign: names, attributes and items of names."""
    names: dict[str, None] = {}  # in order of the first assignment
    for statement in body:
        for node in _walk_function(statement):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = list(node.targets)
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For)):
                targets = [node.target]
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names[node.name] = None
            elif isinstance(node, ast.With):
                targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
            for target in targets:
                names.update(dict.fromkeys(_single_targets(target)))
    return list(names)


def _single_targets(target: ast.expr) -> list[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [single for element in target.elts for single in _single_targets(element)]
    if isinstance(target, ast.Starred):
        return _single_targets(target.value)
    return [ast.unparse(target)]


def _walk_function(node: ast.AST) -> list[ast.AST]:
    """Return a syntax node and its descendants, without the bodies of nested functions."""
    nodes = [node]
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            nodes += _walk_function(child)
    return nodes


def _jumps(node: ast.If) -> bool:
    """Return whether a branch jumps; such statements are not rewritten."""

    def jumps(statement: ast.AST, in_loop: bool) -> bool:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            return False
        if isinstance(statement, ast.Return) or (
            isinstance(statement, (ast.Break, ast.Continue)) and not in_loop
        ):
            return True
        inner = in_loop or isinstance(statement, (ast.For, ast.While))
        return any(jumps(entry, inner) for entry in ast.iter_child_nodes(statement))

    return any(jumps(item, False) for item in [*node.body, *node.orelse])


def _ends(node: ast.If, kind: type[ast.stmt]) -> bool:
    """Return whether a branch of an ``if`` statement ends with a kind of statement."""
    for statement in [*node.body, *node.orelse]:
        if isinstance(statement, kind) or (isinstance(statement, ast.If) and _ends(statement, kind)):
            return True
    return False


def _returns_in_branch(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.If) and _ends(statement, ast.Return) for statement in body)


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


def _with_branches(statement: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    """Return an ``if`` statement with other branches."""
    return ast.copy_location(ast.If(statement.test, body or [ast.Pass()], orelse), statement)


def _with_rest_in_branches(body: list[ast.stmt], kind: type[ast.stmt]) -> list[ast.stmt]:
    """Return the statements, with those after a branch that ends with a kind of statement in the other branch."""
    for position, statement in enumerate(body):
        if isinstance(statement, kind):
            return body[: position + 1]
        if isinstance(statement, ast.If) and _ends(statement, kind):
            rest = body[position + 1 :]
            branches = [
                branch if _closes(branch, kind) else [*branch, *rest]
                for branch in (statement.body, statement.orelse)
            ]
            new = _with_branches(statement, *(_with_rest_in_branches(branch, kind) for branch in branches))
            return [*body[:position], new]
    return body


def _with_return_everywhere(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with a return at the end of every path."""
    if body and isinstance(body[-1], ast.If):
        last = body[-1]
        branches = map(_with_return_everywhere, (last.body, last.orelse))
        return [*body[:-1], _with_branches(last, *branches)]
    if _closes(body, ast.Return):
        return body
    return [*body, ast.Return(ast.Constant(None))]


def _returns_as_assignments(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with assignments to a variable for returns, except in loops and ``with`` blocks."""
    statements: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Return):
            value = statement.value if statement.value is not None else ast.Constant(None)
            new = ast.Assign(targets=[ast.Name(id=_RESULT, ctx=ast.Store())], value=value)
            statements.append(ast.copy_location(new, statement) if hasattr(statement, "lineno") else new)
        elif isinstance(statement, ast.If):
            branches = map(_returns_as_assignments, (statement.body, statement.orelse))
            statements.append(_with_branches(statement, *branches))
        else:
            statements.append(statement)
    return statements


def _without(kind: type[ast.stmt], body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements without those of a kind at the ends of branches."""
    statements: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If):
            branches = (_without(kind, branch) for branch in (statement.body, statement.orelse))
            statements.append(_with_branches(statement, *branches))
        elif not isinstance(statement, kind):
            statements.append(statement)
    return statements
