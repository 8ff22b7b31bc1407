"""The check of citations finds what is wrong, and nothing else."""

import pytest
from citations import sections_of, wrong_citations

# Put together here, so that this file holds no citation that leads nowhere.
LOGS = "logs" + ".md"
SECTION = "sec" + "tion"
PAGE = """# Logs

## 1. Files
Some text.
1. The first rule.
2. The second one.
   Which goes on.

### 1.1 Names
1.1.4 A paragraph with a number of its own.
- 1.2 A dash before it.

#### 1.1.9 Deep down

| B7 | a known defect |
"""
SECTIONS = {"logs": sections_of(PAGE)}
DOCUMENTS = ("README.md", LOGS)


def problems(text: str, page: str = "") -> list[str]:
    return [found.problem for found in wrong_citations(text, sections=SECTIONS, documents=DOCUMENTS, page=page)]


def test_headings_paragraphs_list_items_and_defects_can_be_cited() -> None:
    assert SECTIONS["logs"] == {"1", "1.1", "1.2", "1.1.4", "1.1.9", "B7"}


@pytest.mark.parametrize(
    "right",
    [
        f"{LOGS} 1",
        f"({LOGS} {SECTION} 1.1)",
        f"{LOGS} 1, 1.1 and 1.2",
        f"{LOGS} {SECTION}s 1 to 1.2",
        f"{LOGS} 1.1.4.",
        f"{LOGS} 1 steps 1 and 2, which go on",
        f"{LOGS} 1, rule 2",
        f"{LOGS} 1.1 with B7",
        f"{LOGS}\n    # 1.1",
        f"docs/{LOGS} tells it",
        "see README.md 99",
        "version 1.9 of it",
    ],
)
def test_a_citation_that_leads_somewhere_is_accepted(right: str) -> None:
    assert problems(right) == []


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        (f"{LOGS} 2", "2"),
        (f"{LOGS} 1.1.5", "1.1.5"),
        (f"{LOGS} {SECTION} 9", "9"),
        (f"{LOGS} 1, 1.1 and 1.3", "1.3"),
        (f"{LOGS} 1 to 3", "3"),
        (f"{LOGS} 1 steps 1 and 3", "1.3"),
        (f"{LOGS} 1, rule 4", "1.4"),
        (f"{LOGS} 1.1 with B8", "B8"),
        (f"{LOGS}\n    # 8.1", "8.1"),
        (f"({LOGS} \N{SECTION SIGN}4)", "4"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(wrong: str, missing: str) -> None:
    assert problems(wrong) == [f"there is no section {missing}"]


def test_a_document_that_does_not_exist_is_found() -> None:
    assert problems("as " + "nowhere" + ".md has it") == ["there is no such document"]


def test_a_section_without_its_page_is_found_but_in_the_page_itself() -> None:
    text = f"the rest is in {SECTION} 1.1"
    assert problems(text) == ["it does not say of which page"]
    assert problems(text, page="logs") == []
    assert problems(f"the rest is in {SECTION} 7", page="logs") == [f"there is no {SECTION} 7"]


def test_a_wrong_citation_is_told_with_its_line_and_words() -> None:
    [found] = wrong_citations(f"one\ntwo ({LOGS}\n   7)", sections=SECTIONS, documents=DOCUMENTS)
    assert (found.line, found.text) == (2, f"{LOGS} 7")
