"""A package's source as a tree of modules, and the checks of its architecture. Nothing is imported or run.

A check takes a :class:`Package` and returns one line for each fault that it found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = (*FunctionNode, ast.ClassDef)


@dataclass(frozen=True)
class Layer:
    """Modules that belong together.

    Attributes:
        name: for messages.
        modules: their prefixes below the package, such as ``video``; "" is the package's front page.
        never: names of layers that it must not import although they stand above it.
    """

    name: str
    modules: tuple[str, ...]
    never: tuple[str, ...] = ()


class Module:
    """One file of the package: its dotted name (without the package's own) and its syntax tree."""

    def __init__(self, package: Path, path: Path) -> None:
        self.package = package.name
        parts = path.relative_to(package).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.parts = parts[:-1] if self.is_package else parts
        self.name = ".".join(self.parts)
        self.label = path.relative_to(package.parent).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree in the order of ast.walk, which takes three times as long."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            for value in vars(node).values():
                if isinstance(value, list):
                    found += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    found.append(value)
        return found

    @cached_property
    def imported(self) -> list[tuple[int, str]]:
        """(line, absolute dotted name) of everything that is imported anywhere in the file."""
        names = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                names += [
                    (node.lineno, f"{base}.{alias.name}" if base else alias.name) for alias in node.names
                ]
            elif isinstance(node, ast.Call) and _last_name(node.func).endswith(
                ("import_module", "import_optional")
            ):
                names += [(node.lineno, a.value) for a in node.args[:1] if isinstance(a, ast.Constant)]
        return names

    @cached_property
    def used(self) -> list[tuple[int, str]]:
        """(line, absolute dotted name) of every attribute that is taken of an imported module."""
        imports = [node for node in self.nodes if isinstance(node, ast.Import)]
        modules = {a.asname or a.name: a.name for node in imports for a in node.names}
        names = []
        for node in self.nodes if modules else ():
            if isinstance(node, ast.Attribute) and _first_name(node) in modules:
                head, _, rest = ast.unparse(node).partition(".")
                names.append((node.lineno, f"{modules[head]}.{rest}"))
        return names

    def _base(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        above = self.parts if self.is_package else self.parts[:-1]
        above = above[: len(above) - (node.level - 1)]
        return ".".join((self.package, *above, *filter(None, [node.module])))


class Package:
    """All modules below a folder."""

    def __init__(self, root: Path) -> None:
        self.name = root.name
        self.modules = [Module(root, path) for path in sorted(root.rglob("*.py"))]
        self.names = {module.name for module in self.modules}
        self.folders = {".".join(m.parts[:n]) for m in self.modules for n in range(len(m.parts))}

    def own(self, dotted: str) -> str | None:
        """The module of this package that an imported name leads to, or None if it is foreign."""
        head, _, rest = dotted.partition(".")
        if head != self.name:
            return None
        while rest and rest not in self.names | self.folders:
            rest = rest.rpartition(".")[0]
        return rest

    def edges(self) -> Iterator[tuple[Module, int, str]]:
        """(module, line, name of the module that it imports), within the package."""
        for module in self.modules:
            for line, dotted in module.imported:
                target = self.own(dotted)
                if target is not None:
                    yield module, line, target


def _last_name(node: ast.expr) -> str:
    """``c`` of ``a.b.c``, or of ``c`` alone; "" for what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _first_name(node: ast.expr) -> str:
    """``a`` of ``a.b.c``; "" where it is no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def inside(name: str, prefix: str) -> bool:
    """Whether a dotted name is the prefix or lies below it; only the front page lies in ""."""
    return name == prefix or (prefix != "" and name.startswith(prefix + "."))


@cache
def layer_of(name: str, layers: tuple[Layer, ...]) -> int | None:
    """The position of a module's layer; the longest prefix wins."""
    fits = [(len(p), i) for i, one in enumerate(layers) for p in one.modules if inside(name, p)]
    return max(fits)[1] if fits else None


def every_module_has_a_layer(package: Package, layers: tuple[Layer, ...]) -> list[str]:
    homeless = [
        f"{m.label}: belongs to no layer" for m in package.modules if layer_of(m.name, layers) is None
    ]
    bare = sorted(package.folders - package.names - {""})
    return homeless + [f"{package.name}.{name}: the folder has no __init__.py" for name in bare]


def imports_go_to_layers_above(package: Package, layers: tuple[Layer, ...]) -> list[str]:
    faults = []
    for module, line, target in package.edges():
        here, there = layer_of(module.name, layers), layer_of(target, layers)
        if here is None or there is None:
            continue  # named by every_module_has_a_layer
        if there > here:
            faults.append(
                f"{module.label}:{line}: {layers[here].name} imports {layers[there].name}, a layer below it"
            )
        elif layers[there].name.partition(" ")[0] in layers[here].never:
            faults.append(f"{module.label}:{line}: {layers[here].name} must not see {layers[there].name}")
    return faults


def imports_have_no_cycle(package: Package) -> list[str]:
    graph: dict[str, set[str]] = {module.name: set() for module in package.modules}
    for module, _, target in package.edges():
        if target != module.name and target in graph:
            graph[module.name].add(target)
    while free := [name for name, targets in graph.items() if not targets & graph.keys()]:
        for name in free:
            del graph[name]
    while idle := [name for name in graph if not any(name in targets for targets in graph.values())]:
        for name in idle:
            del graph[name]  # it leads into a cycle without being part of one
    return [f"import cycle among: {', '.join(sorted(graph))}"] if graph else []


def libraries_stay_in_their_modules(package: Package, homes: dict[str, tuple[str, ...]]) -> list[str]:
    faults = []
    for module in package.modules:
        for line, dotted in sorted({*module.imported, *module.used}):
            for library, allowed in homes.items():
                if inside(dotted, library) and not any(inside(module.name, home) for home in allowed):
                    faults.append(
                        f"{module.label}:{line}: {library} is named outside of {', '.join(allowed)}"
                    )
    return list(dict.fromkeys(faults))


def exports_are_sorted_and_complete(package: Package) -> list[str]:
    faults = []
    for module in package.modules:
        names = _exported(module.tree)
        if names is None:
            faults.append(f"{module.label}: no __all__ written as a list of names")
            continue
        if names != sorted(set(names), key=_export_order):
            faults.append(f"{module.label}: __all__ is not sorted (CONSTANTS, Classes, then the rest)")
        bound = set(_bound(module.tree.body))
        faults += [
            f"{module.label}: __all__ names {name}, which does not exist"
            for name in names
            if name not in bound
        ]
        public = [
            n.name for n in module.tree.body if isinstance(n, Definition) and not n.name.startswith("_")
        ]
        faults += [
            f"{module.label}: {name} is public, but not in __all__" for name in public if name not in names
        ]
    return faults


def _export_order(name: str) -> tuple[int, list[tuple[bool, int, str]]]:
    rank = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return rank, [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and target.id == "__all__"
            and isinstance(node.value, (ast.List, ast.Tuple))
        ):
            return [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
    return None


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, Definition):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _bound([*node.body, *node.orelse])


def sizes_are_small(package: Package, *, file_lines: int, function_lines: int) -> list[str]:
    faults = []
    for module in package.modules:
        lines = len(module.text.splitlines())
        if lines > file_lines:
            faults.append(f"{module.label}: {lines} lines, more than {file_lines}")
        for node in module.nodes:
            if isinstance(node, FunctionNode) and (size := _body_lines(node)) > function_lines:
                faults.append(
                    f"{module.label}:{node.lineno}: {node.name} has {size} lines, more than {function_lines}"
                )
    return faults


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def types_have_names_of_their_own(package: Package, *, but: tuple[str, ...]) -> list[str]:
    """One public name is one type: classes and type aliases at the top of modules, but for those of some modules.

    Private names belong to their file, and type variables to the functions that use them.
    """
    homes: dict[str, list[str]] = {}
    for module in package.modules:
        if not any(inside(module.name, prefix) for prefix in but):
            for node in module.tree.body:
                name = _type_name(node)
                if name is not None and not name.startswith("_"):
                    homes.setdefault(name, []).append(f"{module.label}:{node.lineno}")
    return [
        f"{name} names {len(found)} types: {', '.join(found)}"
        for name, found in homes.items()
        if len(found) > 1
    ]


def _type_name(node: ast.stmt) -> str | None:
    """The name of the class or of the type alias that a statement defines."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id if ast.unparse(node.annotation).endswith("TypeAlias") else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        of_types = isinstance(node.value, (ast.Subscript, ast.BinOp)) and name[:1].isupper()
        return name if of_types and not name.isupper() else None
    return None


def classes_are_made_by_any_python(package: Package) -> list[str]:
    """Up to Python 3.10, a class that has an abstract base cannot be given what ``ABCMeta.__new__`` has by name."""
    taken = {"mcls", "name", "bases", "namespace"}
    return [
        f"{module.label}:{node.lineno}: class {node.name} is given {keyword.arg}=, which Python 3.10 cannot take"
        for module in package.modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg in taken
    ]


def nothing_is_swallowed_or_unfinished(package: Package) -> list[str]:
    faults = []
    for module in package.modules:
        for node in module.nodes:
            if isinstance(node, ast.ExceptHandler):
                kind = ast.unparse(node.type) if node.type else ""
                silent = all(isinstance(n, (ast.Pass, ast.Continue)) for n in node.body)
                if not kind or (silent and kind in ("Exception", "BaseException")):
                    faults.append(f"{module.label}:{node.lineno}: an except that swallows everything")
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("print", "breakpoint")
            ):
                faults.append(f"{module.label}:{node.lineno}: {node.func.id}() in library code")
            elif isinstance(node, ast.Name) and node.id == "NotImplementedError":
                faults.append(
                    f"{module.label}:{node.lineno}: NotImplementedError stands for something missing"
                )
        for found in re.finditer(r"\b(TODO|FIXME|XXX|HACK)\b", module.text):
            number = module.text.count("\n", 0, found.start())
            faults.append(f"{module.label}:{number + 1}: {module.text.splitlines()[number].strip()}")
    return faults


def public_names_are_documented(package: Package) -> list[str]:
    classes = {n.name: n for m in package.modules for n in m.nodes if isinstance(n, ast.ClassDef)}
    faults = []
    for module in package.modules:
        if not ast.get_docstring(module.tree):
            faults.append(f"{module.label}: no docstring")
        for node in filter(_wants_docstring, module.tree.body):
            faults += [
                f"{module.label}:{line}: {name} has no docstring" for line, name in _bare(node, classes)
            ]
    return faults


def _wants_docstring(node: ast.stmt) -> bool:
    if not isinstance(node, Definition) or node.name.startswith("_"):
        return False
    return not any(ast.unparse(d).split(".")[-1] in ("overload", "setter") for d in node.decorator_list)


def _bare(node: ast.stmt, classes: dict[str, ast.ClassDef]) -> Iterator[tuple[int, str]]:
    assert isinstance(node, Definition)
    if not ast.get_docstring(node):
        yield node.lineno, node.name
    if isinstance(node, ast.ClassDef):
        inherited = _documented_above(node, classes)
        for method in filter(_wants_docstring, node.body):
            if not (isinstance(method, FunctionNode) and method.name in inherited):
                yield from _bare(method, classes)


def _documented_above(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    """The methods whose meaning a base class of this package has already stated."""
    names: set[str] = set()
    for base in (
        classes[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in classes and b.id != node.name
    ):
        names |= {m.name for m in base.body if isinstance(m, FunctionNode) and ast.get_docstring(m)}
        names |= _documented_above(base, classes)
    return names
