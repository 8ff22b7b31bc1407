"""The sources and pages of this checkout, for rules that a program can check.

Each file is read, parsed and walked once in a process, however many rules look at it. A walk keeps what rules ask for,
each with its lines, and drops the tree: those of all files would take 400 MB, and a second of every full collection.
"""

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = (
    "runtime",
    "protocol",
    "storage",
    "coordinator",
    "client",
    "model",
    "settings",
    "security",
    "network",
    "cluster",
    "broker",
    "observe",
    "node",
    "cli",
    "lab",
    "testing",
    "pipeline",
)
DOCS: Final = ROOT / "docs"
PAGES: Final = tuple(sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")]))


class Import(NamedTuple):
    line: int
    module: str
    names: tuple[tuple[str, str], ...]
    """The things that `from` imports from the module: the name that the file gives it, and its own."""


class Call(NamedTuple):
    line: int
    name: str
    """With its dots."""


class Function(NamedTuple):
    name: str
    line: int
    end: int
    decorators: str
    """The text above its name."""
    is_async: bool
    is_outermost: bool


class Class(NamedTuple):
    name: str
    line: int
    end: int
    bases: tuple[str, ...]
    """Without their parameters."""


class Opening(NamedTuple):
    """The first word of a docstring, or of a string below an attribute."""

    line: int
    word: str
    """In small letters; empty if the string opens with no word."""


class Handler(NamedTuple):
    """An `except` with its block."""

    line: int
    kind: str | None
    """The type that it catches; None for everything."""
    name: str | None
    raises_again: bool
    """It always does: such a handler only tidies up."""


class Outline(NamedTuple):
    """The facts about a source that rules need, by line."""

    docstring: str | None
    openings: tuple[Opening, ...]
    imports: tuple[Import, ...]
    calls: tuple[Call, ...]
    """The calls of a name; the result of another call has none."""
    functions: tuple[Function, ...]
    classes: tuple[Class, ...]
    handlers: tuple[Handler, ...]
    awaits: tuple[int, ...]


def sources(*folders: str) -> list[Path]:
    """Every Python file of the folders, or else of the checkout."""
    found = [] if folders else sorted(ROOT.glob("*.py"))
    for folder in folders or _folders():
        inside = sorted((ROOT / folder).rglob("*.py"))
        # A folder that was renamed must not take its rules along in silence.
        assert inside or not folders, f"there is no source in {folder}"
        found += inside
    return found


def _folders() -> list[str]:
    return sorted(
        path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name != "build"
    )


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def outline(path: Path) -> Outline:
    # A tree has no cycles: the collector would only look at its nodes again and again while it grows.
    gc.disable()
    try:
        return outline_of(text_of(path))
    finally:
        gc.enable()


def outline_of(text: str) -> Outline:
    """The outline of a source, by its text."""
    tree = ast.parse(text)
    found: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in ast.walk(tree):
        found[type(node)].append(node)
    lines = text.splitlines()
    return Outline(
        docstring=ast.get_docstring(tree),
        openings=tuple(
            Opening(node.lineno, _first_word(node.value.value))
            for node in found[ast.Expr]
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ),
        imports=tuple(
            [Import(node.lineno, each.name, ()) for node in found[ast.Import] for each in node.names]
            + [
                Import(node.lineno, node.module, tuple((each.asname or each.name, each.name) for each in node.names))
                for node in found[ast.ImportFrom]
                if node.module
            ]
        ),
        calls=tuple(Call(node.lineno, name) for node in found[ast.Call] if (name := _dotted(node.func))),
        functions=tuple(
            _function(node, lines) for kind in (ast.FunctionDef, ast.AsyncFunctionDef) for node in found[kind]
        ),
        classes=tuple(
            Class(node.name, node.lineno, node.end_lineno, tuple(_base(base) for base in node.bases))
            for node in found[ast.ClassDef]
        ),
        handlers=tuple(_handler(node) for node in found[ast.ExceptHandler]),
        awaits=tuple(node.lineno for kind in (ast.Await, ast.AsyncFor, ast.AsyncWith) for node in found[kind]),
    )


def _first_word(text: str) -> str:
    """The first word of a text in small letters, behind any quotes and brackets."""
    match = re.match(r"[\s`'\"(]*([A-Za-z]*)", text)
    return match[1].lower() if match else ""


def _dotted(node: ast.expr) -> str:
    """A name with its dots; nothing for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _base(node: ast.expr) -> str:
    return _dotted(node.value if isinstance(node, ast.Subscript) else node)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Function:
    first = min((each.lineno for each in node.decorator_list), default=node.lineno)
    return Function(
        name=node.name,
        line=node.lineno,
        end=node.end_lineno or node.lineno,
        decorators="\n".join(lines[first - 1 : node.lineno - 1]),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        is_outermost=node.col_offset == 0,
    )


def _handler(node: ast.ExceptHandler) -> Handler:
    last = node.body[-1]
    return Handler(
        line=node.lineno,
        kind=None if node.type is None else ast.unparse(node.type),
        name=node.name,
        raises_again=isinstance(last, ast.Raise) and last.exc is None,
    )


def cases_in(path: Path) -> dict[str, Function]:
    """The test functions of a file by their names."""
    found = (each for each in outline(path).functions if each.is_outermost and each.name.startswith("test_"))
    return {each.name: each for each in found}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def at(path: Path, line: int) -> str:
    """A place as editors and terminals lead to it."""
    return f"{name_of(path)}:{line}"


def line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def fail_for(offences: Iterable[str], rule: str) -> None:
    """Fail if there is any offence, and tell all, one a line: one run shows whatever there is to mend."""
    __tracebackhide__ = True
    if found := list(offences):
        pytest.fail("\n  ".join((f"{rule}; offences: {len(found)}", *found)), pytrace=False)


def differences(found: Iterable[str], wanted: Iterable[str], *, missing: str, surplus: str) -> Iterator[str]:
    """One line for each that is on one side alone."""
    there, asked = set(found), set(wanted)
    yield from (f"{each} {missing}" for each in sorted(asked - there))
    yield from (f"{each} {surplus}" for each in sorted(there - asked))
