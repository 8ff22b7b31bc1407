"""What the documentation says is true of the code."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import configuration_page
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_configuration_page_is_what_the_tables_say() -> None:
    assert configuration_page.PAGE.read_text() == configuration_page.page(), "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_of_a_page_leads_nowhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


# The page of differences


SEMANTICS = ROOT / "docs" / "semantics.md"
NAMED = re.compile(r"`(\w[\w/]*\.py)::(test_\w+)`")
"""A test as pages name it, from `tests/` on."""


def functions_of(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def is_a_difference(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each).startswith("better_than_kafka(") for each in test.decorator_list)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    for file, name in NAMED.findall(page.read_text()):
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert name in {test.name for test in functions_of(path)}, f"{file} has no {name}"


def test_every_answer_that_differs_on_purpose_is_explained() -> None:
    explained = set(NAMED.findall(SEMANTICS.read_text()))
    differing = {
        (str(file.relative_to(ROOT / "tests")), test.name)
        for file in sorted((ROOT / "tests" / "wire").glob("test_*.py"))
        for test in functions_of(file)
        if is_a_difference(test)
    }
    assert differing
    assert not differing - explained


def test_every_row_of_a_table_has_a_cell_for_each_title() -> None:
    titles = ""
    for line in SEMANTICS.read_text().splitlines():
        if not line.startswith("|"):
            titles = ""
            continue
        titles = titles or line
        assert line.count("|") == titles.count("|"), line


def test_every_known_defect_of_apache_kafka_has_a_test() -> None:
    rows = {line.split("|")[1].strip(): line for line in SEMANTICS.read_text().splitlines() if line.startswith("| ")}
    for number in [*(f"B{n}" for n in range(1, 33)), *map(str, range(1, 11))]:
        assert NAMED.search(rows[number]), f"no test for {number}"


# The glossary


GLOSSARY = ROOT / "docs" / "glossary.md"
ROOMS = ("protocol", "storage", "coordinator", "client", "broker", "pipeline")


def terms() -> Iterator[tuple[str, list[str]]]:
    """Each term of the glossary, and the classes that it names."""
    for line in GLOSSARY.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("| ") and cells[1] != "term":
            assert len(cells) == 5, line
            yield cells[1], re.findall(r"`(\w+)`", cells[3])


def test_every_term_of_the_glossary_names_a_class_that_exists() -> None:
    classes = {
        node.name
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    without = [term for term, named in terms() if not named or not classes.issuperset(named)]
    assert not without


def test_the_glossary_tells_a_term_once_and_in_order() -> None:
    names = [term.lower() for term, _ in terms()]
    parts = GLOSSARY.read_text().count("| term |")
    assert len(names) == len(set(names))
    assert sum(later < earlier for earlier, later in pairwise(names)) == parts - 1
