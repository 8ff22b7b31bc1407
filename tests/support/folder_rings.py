"""Rings of folders: folders of one room that import each other, directly or through others.

At each folder, its own modules are one thing, and each folder in it with everything inside is one; of these things none
may import itself through others. Every import counts: lazy ones, and those that only types need.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from sources import ROOT, at, name_of, outline, sources


class FolderImport(NamedTuple):
    """An import from one folder of a room into another."""

    importer: str
    imported: str
    place: str
    """File and line, and the module that is imported there."""


def folder_imports(room: str) -> Iterator[FolderImport]:
    """The imports between the folders of a room."""
    for path in sources(room):
        importer = name_of(path.parent)
        for each in outline(path).imports:
            for module in [f"{each.module}.{name}" for _, name in each.names] or [each.module]:
                imported = _folder_of(module)
                if imported != importer and f"{imported}/".startswith(f"{room}/"):
                    yield FolderImport(importer, imported, f"{at(path, each.line)} imports {module}")


@cache
def _folder_of(module: str) -> str:
    """The folder of a module or of a name in one; nothing for what is not in this checkout."""
    package, *parts = module.split(".")
    while package == "eosin" and parts:
        if ROOT.joinpath(*parts).is_dir():
            return "/".join(parts)
        parts.pop()
    return ""


def rings(imports: Iterable[FolderImport]) -> Iterator[str]:
    """One ring for each folder that has any between its own modules and the folders in it."""
    graphs: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for each in imports:
        parent, importer, imported = _where_they_part(each.importer, each.imported)
        graphs[parent].setdefault(importer, {}).setdefault(imported, each.place)
    for _, graph in sorted(graphs.items()):
        if ring := _ring_in(graph):
            steps = [f"{one} -> {other} ({graph[one][other]})" for one, other in pairwise(ring)]
            yield "; ".join(steps)


def _where_they_part(importer: str, imported: str) -> tuple[str, str, str]:
    """The innermost folder that holds both, and the two things in it that they belong to."""
    parent = PurePosixPath(importer)
    while not PurePosixPath(imported).is_relative_to(parent):
        parent = parent.parent
    depth = len(parent.parts) + 1
    one, other = ("/".join(PurePosixPath(each).parts[:depth]) for each in (importer, imported))
    return str(parent), one, other


def _ring_in(graph: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Its folders in the order of their imports, the first one again at the end; nothing if there is no ring."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]  # an edge leads from what is imported to who imports it
    return []
