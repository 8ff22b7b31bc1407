"""What the documentation says is true of the code."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

import configuration_page
import incidents_page
import lab_clients_page
import lab_differences_page
import peer_suites_page
import pytest
import rights_page
from sources import (
    DOCS,
    PAGES,
    ROOMS,
    ROOT,
    Function,
    at,
    cases_in,
    differences,
    fail_for,
    line_of,
    name_of,
    outline,
    sources,
    text_of,
)

pytestmark = pytest.mark.xdist_group("sources")  # in one process, each file is parsed once


def test_the_pages_of_settings_rights_and_incidents_say_what_the_code_does() -> None:
    written = (
        configuration_page,
        rights_page,
        incidents_page,
        lab_clients_page,
        lab_differences_page,
        peer_suites_page,
    )
    old = [name_of(each.PAGE) for each in written if text_of(each.PAGE) != each.page()]
    fail_for(old, "`make docs` changes nothing")


def test_every_failure_of_a_client_in_an_incident_has_an_explanation() -> None:
    fail_for(lab_clients_page.unexplained(), "`lab_clients_page.EXPLANATIONS` says why")


def test_every_test_of_another_project_that_fails_here_alone_has_an_explanation() -> None:
    fail_for(peer_suites_page.unexplained(), "`peer_suites_page.EXPLANATIONS` says why")


def test_every_case_that_apache_kafka_may_fail_was_asked_of_a_lab_that_behaves_like_it() -> None:
    fail_for(lab_differences_page.old_cases(), "`make lab-differences` asks each case that differs")


def test_every_hostile_case_of_the_specification_says_what_shows_it() -> None:
    def numbers(page: str, heading: str) -> list[int]:
        text = (DOCS / page).read_text().partition(heading)[2].partition("\n### ")[0]
        return [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]

    cases = numbers("spec/security.md", "### 9.3 ")
    assert len(cases) == 69
    assert numbers("testing/security.md", "# Hostile peers") == cases


def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading_of_it() -> None:
    fail_for((each for page in PAGES for each in dead_links(page)), "every link leads somewhere")


def dead_links(page: Path) -> Iterator[str]:
    for link in re.finditer(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
        if not (page.parent / link[1]).exists():
            yield f"{at(page, line_of(text_of(page), link.start()))} {link[1]}: there is no such file"
    for link in re.finditer(r"\]\(([^)#: ]*\.md)?#([^) ]+)\)", prose(page)):
        target = page.parent / link[1] if link[1] else page
        if target.exists() and link[2] not in anchors(target):
            yield f"{at(page, line_of(prose(page), link.start()))} {link[1] or ''}#{link[2]}: there is no such heading"


def prose(page: Path) -> str:
    """A page with empty lines for its blocks of code, in which nothing is a heading or a link."""
    return re.sub(
        r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text_of(page), flags=re.DOTALL | re.MULTILINE
    )


@cache
def anchors(page: Path) -> set[str]:
    """What links may say behind `#`: headings, as GitHub writes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeated = (f"{anchor}-{number}" for number in count(1))
        found.add(anchor if anchor not in found else next(each for each in repeated if each not in found))
    return found


def test_a_heading_becomes_the_anchor_that_github_makes_of_it(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text(
        "# After kill -9 (`fsync` and `os`)\n\n## [Twice](elsewhere)\n\n## Twice\n\n```\n# no heading\n```\n"
    )
    assert anchors(page) == {"after-kill--9-fsync-and-os", "twice", "twice-1"}


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#:]+\.md)\)", text_of(index))}
    pages = {page for page in DOCS.rglob("*.md") if page != index and (DOCS / "adr") not in page.parents}
    fail_for(map(name_of, sorted(pages - listed)), "docs/README.md lists every page")


def test_the_index_of_decisions_names_each_once_by_its_title() -> None:
    titles = {page.name: text_of(page).splitlines()[0].split(". ", 1)[1] for page in (DOCS / "adr").glob("[0-9]*.md")}
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", text_of(DOCS / "adr" / "README.md"), re.MULTILINE)
    names = [page for _, _, page in rows]
    offences = [
        *differences(
            (f"{page} | {title}" for _, title, page in rows),
            (f"{page} | {title}" for page, title in titles.items()),
            missing="is not listed",
            surplus="is listed, but there is no such decision",
        ),
        *(f"{name} is listed {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1),
        *(f"{page} is listed as {number}" for number, _, page in rows if int(page[:4]) != int(number)),
    ]
    fail_for(offences, "docs/adr/README.md lists each decision once, by its title and number")


# Sections of the specification are cited by number, and a changelog grows with each release.
LONG = {*(DOCS / "spec").glob("*.md"), ROOT / "CHANGELOG.md"}
MAX_PAGE_LINES = 400


def test_a_page_is_short_enough_to_be_read() -> None:
    lines = {page: len(text_of(page).splitlines()) for page in PAGES if page not in LONG}
    long = [f"{name_of(page)}: {length} lines" for page, length in lines.items() if length > MAX_PAGE_LINES]
    fail_for(long, f"a page of more than {MAX_PAGE_LINES} lines is split by noun")


# The front page


NUMBER = r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]\d+)?"


@cache
def measured(page: Path) -> list[float]:
    """Every number on a page."""
    return [float(re.sub("[, ]", "", number)) for number in re.findall(NUMBER, text_of(page))]


def reasons() -> list[str]:
    """The lines of the README that say why, each with its figures and the page that has them."""
    section = text_of(ROOT / "README.md").partition("\n## Why Eosin\n")[2].partition("\n## ")[0]
    return [" ".join(line.split()) for line in section.split("\n- ")[1:]]


def test_every_figure_of_the_readme_is_on_the_page_beside_it() -> None:
    assert reasons()
    fail_for((each for reason in reasons() for each in unfounded(reason)), "every figure is on the page beside it")


def unfounded(reason: str) -> Iterator[str]:
    pages = re.findall(r"\]\((docs/\S+\.md)\)", reason)
    text = re.sub(r"\(`.*$|`[^`]*`|Apache Kafka [\d.]+", "", reason)
    figures = [figure.replace(",", "") for figure in re.findall(NUMBER, text)]
    if len(pages) != 1 or not figures:
        yield f"has {len(figures)} figures and {len(pages)} pages beside them: {reason}"
        return
    for figure in figures:
        digits = len(figure.partition(".")[2])
        if not any(f"{number:.{digits}f}" == figure for number in measured(ROOT / pages[0])):
            yield f"{pages[0]} has no {figure}: {reason}"


def features() -> set[str]:
    """The names of what the README promises in its list of what works over machines and users."""
    section = text_of(ROOT / "README.md").partition("\n## More than one machine, more than one user\n")[2]
    section = section.partition("\n## ")[0]
    known = ("TLS", "SASL", "SCRAM", "OAUTHBEARER", "ACLs", "quotas", "cluster", "Replication", "metrics", "--console")
    return {each for each in known if each in section}


def denials(text: str) -> Iterator[str]:
    """The sentences that deny what the README promises."""
    words = "|".join(sorted(re.escape(each) for each in features() - {"cluster", "--console"}))
    denial = re.compile(
        rf"\b(?:Eosin|the (?:broker|console|page|listener)|there)\b[^.|]{{0,60}}"
        rf"\b(?:(?:has|have|is|are|speaks|knows) no|(?:does|do) not (?:have|know|speak))\b[^.|]{{0,40}}\b(?:{words})\b"
        rf"|\bEosin is (?:only )?one broker\b",
        re.IGNORECASE,
    )
    for found in denial.finditer(re.sub(r"\s+", " ", text)):
        yield found[0]


def test_no_page_denies_what_the_readme_promises() -> None:
    assert {"TLS", "ACLs", "quotas", "cluster", "Replication"} <= features()
    pages = [page for page in PAGES if not {DOCS / "spec", DOCS / "adr"} & set(page.parents)]
    offences = (f"{name_of(page)}: {denial}" for page in pages for denial in denials(text_of(page)))
    fail_for(offences, "no page denies what the README promises")


@pytest.mark.parametrize(
    "stale",
    [
        "so Eosin has no ACLs to copy.",
        "Eosin is one broker, so the topics have one replica.",
        "features that Eosin does not have (ACLs, reassignments)",
        "The page is open, since the listener speaks no\nTLS yet.",
    ],
)
def test_a_line_that_is_no_longer_true_would_be_found(stale: str) -> None:
    assert list(denials(stale))


def test_ids_of_examples_cannot_be_taken_for_partitions() -> None:
    shown = re.compile(
        r"""(?:transactional[._-]?id["'=:\s,]+|TransactionalID\(|transactionalId: )["']?([\w.]+-\d+)\b"""
    )
    pages = [ROOT / "README.md", *(page for page in PAGES if page.parent in (DOCS, DOCS / "clients"))]
    topics = re.compile(r"\b(?:orders|sales|invoices|copies)-\d")
    offences = (
        f"{name_of(page)}: {found[1]}"
        for page in pages
        for found in shown.finditer(text_of(page))
        if topics.match(found[1])
    )
    fail_for(offences, "no transactional id of an example is called like a partition: `order-writer`")


def test_the_quick_start_can_be_tried_after_the_readme() -> None:
    def made(page: Path) -> set[str]:
        return set(re.findall(r"eosin (?:topics create|produce) ([\w-]+)", text_of(page)))

    assert made(ROOT / "README.md")
    assert made(DOCS / "quickstart.md")
    assert not made(ROOT / "README.md") & made(DOCS / "quickstart.md")


def test_the_readme_names_only_targets_that_make_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", text_of(ROOT / "README.md")))
    assert {"run", "test"} <= named
    fail_for((f"make {name}" for name in sorted(named - targets)), "the README names targets that make has")


# The changelog


KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_keeps_its_form_and_says_nothing_twice() -> None:
    fail_for(untidy(ROOT / "CHANGELOG.md"), "releases by number and day, what changed by kind, each entry once")


def untidy(changelog: Path) -> Iterator[str]:
    releases: list[str] = []
    kinds: list[str] = []
    entries: set[str] = set()
    for number, line in enumerate(text_of(changelog).splitlines(), 1):
        place = f"{at(changelog, number)} {line}"
        if line.startswith("## "):
            form = r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d" if releases else r"## \[Unreleased\]"
            if line in releases or not re.fullmatch(form, line):
                yield f"{place}: first [Unreleased], then each release once, as [1.2.3] - 2026-01-31"
            releases.append(line)
            kinds = []
        elif line.startswith("### "):
            kinds.append(line.removeprefix("### "))
            if kinds != [kind for kind in KINDS if kind in kinds]:
                yield f"{place}: each of {', '.join(KINDS)} once, in this order"
        elif line.startswith("- "):
            if line in entries:
                yield f"{place}: there already; a merge has kept both sides"
            entries.add(line)
    if not releases:
        yield f"{name_of(changelog)} has no release"


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


def test_every_test_that_a_page_names_is_there() -> None:
    fail_for((each for page in PAGES for each in unknown_tests(page)), "every test that a page names is there")


def unknown_tests(page: Path) -> Iterator[str]:
    for named in NAMED.finditer(text_of(page)):
        path = ROOT / "tests" / named[1]
        if not path.exists():
            yield f"{at(page, line_of(text_of(page), named.start()))} {named[1]}: there is no such file"
        elif named[2] not in cases_in(path):
            yield f"{at(page, line_of(text_of(page), named.start()))} {named[1]} has no {named[2]}"


def first_cells(table: str) -> list[str]:
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_row_of_the_failure_matrix_is_shown_by_a_test() -> None:
    matrix = text_of(DOCS / "spec" / "cluster.md").split("## 8. Failure matrix")[1].split("\n## ")[0]
    page = text_of(DOCS / "testing" / "failures.md")
    assert first_cells(page) == first_cells(matrix)
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    without = [row for row in rows if not NAMED.search(row)]
    assert [row.split(" | ")[0] for row in without] == ["| restart with an older copy of the disk"], (
        "an operator's rule"
    )


def test_every_answer_that_differs_on_purpose_is_explained() -> None:
    explained = set(NAMED.findall(text_of(SEMANTICS)))
    differing = {
        (path.relative_to(ROOT / "tests").as_posix(), test.name): at(path, test.line)
        for path in sources("tests/wire")
        for test in cases_in(path).values()
        if is_a_difference(test)
    }
    assert differing
    silent = [f"{place} {test[1]}" for test, place in differing.items() if test not in explained]
    fail_for(silent, "docs/semantics.md names every test of an answer that differs from Apache Kafka's")


def is_a_difference(test: Function) -> bool:
    return any(line.startswith("@better_than_kafka(") for line in test.decorators.splitlines())


def test_every_row_of_a_table_has_a_cell_for_each_title() -> None:
    offences = []
    titles = ""
    for number, line in enumerate(text_of(SEMANTICS).splitlines(), 1):
        titles = (titles or line) if line.startswith("|") else ""
        if line.count("|") != titles.count("|") and titles:
            offences.append(f"{at(SEMANTICS, number)} {line}")
    fail_for(offences, "every row of a table has a cell for each title")


def test_every_known_defect_of_apache_kafka_has_a_test() -> None:
    rows = {line.split("|")[1].strip(): line for line in text_of(SEMANTICS).splitlines() if line.startswith("| ")}
    numbers = [*(f"B{n}" for n in range(1, 33)), *map(str, range(1, 11))]
    untested = [number for number in numbers if not NAMED.search(rows.get(number, ""))]
    fail_for(untested, "the row of every known defect in docs/semantics.md names a test")


# The glossary


GLOSSARY = DOCS / "glossary.md"


class Term(NamedTuple):
    place: str
    name: str
    classes: list[str]
    """Those that the glossary names for it."""


def parts() -> list[list[Term]]:
    """The tables of the glossary."""
    found: list[list[Term]] = []
    for number, line in enumerate(text_of(GLOSSARY).splitlines(), 1):
        if line.startswith("| term |"):
            found.append([])
        elif line.startswith("| "):
            assert line.count("|") == 4, f"{at(GLOSSARY, number)} {line}"
            _, name, _, classes, _ = line.split("|")
            found[-1].append(Term(at(GLOSSARY, number), name.strip(), re.findall(r"`(\w+)`", classes)))
    return found


def test_every_term_of_the_glossary_names_a_class_that_exists() -> None:
    known = {each.name for path in sources(*ROOMS) for each in outline(path).classes}
    offences = [
        f"{term.place} {term.name}: {', '.join(unknown) or 'no class'}"
        for part in parts()
        for term in part
        if (unknown := sorted(set(term.classes) - known)) or not term.classes
    ]
    fail_for(offences, "every term of the glossary names classes that exist")


def test_the_glossary_tells_a_term_once_and_in_order() -> None:
    offences = []
    for part in parts():
        for earlier, later in pairwise(part):
            if later.name.lower() < earlier.name.lower():
                offences.append(f"{later.place} {later.name} stands behind {earlier.name}")
    told: dict[str, str] = {}
    for term in (term for part in parts() for term in part):
        if term.name.lower() in told:
            offences.append(f"{term.place} {term.name} is in {told[term.name.lower()]}, too")
        told[term.name.lower()] = term.place
    fail_for(offences, "the glossary tells a term once and in order")
