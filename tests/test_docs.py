"""What the documentation says is true of the code."""

import ast
import re
from collections.abc import Iterator
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
