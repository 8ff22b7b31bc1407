"""What the documentation says is true of the code."""

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import configuration_page
import pytest
import rights_page
from proof.proofs import PROOFS
from proof.stages import FOLDERS, PYTEST, STAGES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def test_the_configuration_page_is_what_the_tables_say() -> None:
    assert configuration_page.PAGE.read_text() == configuration_page.page(), "run make docs"


def test_the_page_of_rights_is_what_the_apis_declare() -> None:
    assert rights_page.PAGE.read_text() == rights_page.page(), "run make docs"


def test_every_hostile_case_of_the_specification_says_what_shows_it() -> None:
    def numbers(page: str, heading: str) -> list[int]:
        text = (DOCS / page).read_text().partition(heading)[2].partition("\n### ")[0]
        return [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]

    cases = numbers("spec/security.md", "### 9.3 ")
    assert len(cases) == 64
    assert numbers("testing/security.md", "# Hostile peers") == cases


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_of_a_page_leads_nowhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def prose(page: Path) -> str:
    """A page without its blocks of code, in which nothing is a heading or a link."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What links may say behind `#`: headings, as GitHub writes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeated = (f"{anchor}-{number}" for number in count(1))
        found.add(anchor if anchor not in found else next(each for each in repeated if each not in found))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_finds_its_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)#: ]*\.md)?#([^) ]+)\)", prose(page))
    missing = [
        f"{file}#{anchor}" for file, anchor in links if anchor not in anchors(page.parent / file if file else page)
    ]
    assert not missing


def test_a_heading_becomes_the_anchor_that_github_makes_of_it(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text(
        "# After kill -9 (`fsync` and `os`)\n\n## [Twice](elsewhere)\n\n## Twice\n\n```\n# no heading\n```\n"
    )
    assert anchors(page) == {"after-kill--9-fsync-and-os", "twice", "twice-1"}


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#:]+\.md)\)", index.read_text())}
    pages = {page for page in DOCS.rglob("*.md") if page != index and (DOCS / "adr") not in page.parents}
    assert not [str(page.relative_to(ROOT)) for page in sorted(pages - listed)], "list them in docs/README.md"


def test_the_index_of_decisions_names_each_once_by_its_title() -> None:
    titles = {
        page.name: page.read_text().splitlines()[0].split(". ", 1)[1] for page in (DOCS / "adr").glob("[0-9]*.md")
    }
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (DOCS / "adr" / "README.md").read_text(), re.MULTILINE)
    assert sorted((page, title) for _, title, page in rows) == sorted(titles.items())
    assert all(int(page[:4]) == int(number) for number, _, page in rows)


# Sections of the specification are cited by number, and a changelog grows with each release.
LONG = {*(DOCS / "spec").glob("*.md"), ROOT / "CHANGELOG.md"}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in LONG], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 400, "split it by noun"


# The front page


NUMBER = r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]\d+)?"


def measured(page: Path) -> list[float]:
    """Every number on a page."""
    return [float(re.sub("[, ]", "", number)) for number in re.findall(NUMBER, page.read_text())]


def reasons() -> list[str]:
    """The lines of the README that say why, each with its figures and the page that has them."""
    section = (ROOT / "README.md").read_text().partition("\n## Why Eosin\n")[2].partition("\n## ")[0]
    return [" ".join(line.split()) for line in section.split("\n- ")[1:]]


@pytest.mark.parametrize("reason", reasons())
def test_every_figure_of_the_readme_is_on_the_page_beside_it(reason: str) -> None:
    (page,) = re.findall(r"\]\((docs/\S+\.md)\)", reason)
    text = re.sub(r"\(`.*$|`[^`]*`|Apache Kafka [\d.]+", "", reason)
    figures = [figure.replace(",", "") for figure in re.findall(NUMBER, text)]
    assert figures
    for figure in figures:
        digits = len(figure.partition(".")[2])
        assert any(f"{number:.{digits}f}" == figure for number in measured(ROOT / page)), f"{page} has no {figure}"


def test_the_readme_names_only_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {"run", "test"} <= named <= targets


# The changelog


KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def releases() -> dict[str, str]:
    """Headings of the changelog to what is below them."""
    _, *parts = re.split(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_changelog_keeps_its_form() -> None:
    first, *released = releases()
    assert first == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in released)
    for text in releases().values():
        kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds], "each kind once, in this order"


def test_no_entry_stands_twice_in_the_changelog() -> None:
    entries = re.findall(r"^- .+$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sorted(set(entries)) == sorted(entries), "a merge has kept both sides"


# Hosted CI


def test_the_hosted_ci_runs_what_every_checkout_runs() -> None:
    jobs = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    # The audit has a job of its own: its outcome depends on a database of holes, which not every machine can ask.
    assert re.findall(r"^ +- run: (.+)$", jobs, re.MULTILINE) == [".ci/run", "make audit"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert f'"{oldest}"' in jobs


# The page of differences


SEMANTICS = DOCS / "semantics.md"
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


def first_cells(table: str) -> list[str]:
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_row_of_the_failure_matrix_is_shown_by_a_test() -> None:
    matrix = (DOCS / "spec" / "cluster.md").read_text().split("## 8. Failure matrix")[1].split("\n## ")[0]
    page = (DOCS / "testing" / "failures.md").read_text()
    assert first_cells(page) == first_cells(matrix)
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    without = [row for row in rows if not NAMED.search(row)]
    assert [row.split(" | ")[0] for row in without] == ["| restart with an older copy of the disk"], (
        "an operator's rule"
    )


def test_every_test_of_the_failure_matrix_is_run_by_some_target() -> None:
    """`make proof-cluster` runs tests/cluster without a choice; what the gate leaves to others has one of two marks."""
    assert PROOFS["cluster"].command == (*PYTEST, "tests/cluster")
    chosen = {
        stage.command[stage.command.index("-m", len(PYTEST)) + 1] for stage in STAGES if FOLDERS[0] in stage.command
    }
    kinds = ("process", "not process")
    assert chosen == {
        *(f"{kind} and not spark and not full" for kind in kinds),
        *(f"full and {kind} and not spark and not cluster_long" for kind in kinds),
    }
    for file, name in NAMED.findall((DOCS / "testing" / "failures.md").read_text()):
        if file.startswith("cluster/"):
            continue
        text = (ROOT / "tests" / file).read_text()
        [test] = [each for each in functions_of(ROOT / "tests" / file) if each.name == name]
        marks = [ast.unparse(each) for each in test.decorator_list]
        marks += [line for line in text.splitlines() if line.startswith("pytestmark")]
        assert not file.startswith("clients/")
        assert not [mark for mark in marks if "spark" in mark or "cluster_long" in mark], f"nothing runs {name}"


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


GLOSSARY = DOCS / "glossary.md"
ROOMS = ("runtime", "protocol", "storage", "coordinator", "client", "broker", "pipeline")


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
