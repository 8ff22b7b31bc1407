"""Citations of the specification (`docs/spec`), and whether each leads somewhere.

A citation names a page and a section: a heading's number, that of a paragraph that begins with one, or that of an item
in the list below a heading. Always true of what is accepted: somebody who follows it finds the rule. A section without
its page is accepted only in the page itself.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

_NUMBER: Final = r"\d+(?:\.\d+)*"
_GAP: Final = r"[\s#]+"
"""Between two words of a comment, which may stand on two lines."""
_AND: Final = rf"(?:,{_GAP}and|,|{_GAP}and|{_GAP}to){_GAP}"
_NUMBERS: Final = rf"{_NUMBER}(?:{_AND}§?{_NUMBER})*"
_ITEMS: Final = rf",?{_GAP}(?:steps?|rules?|cases?){_GAP}({_NUMBERS})"
_DEFECTS: Final = rf"(?:(?:,|{_GAP}with|{_GAP}and){_GAP}B\d+)*"
_SECTIONS: Final = rf"({_NUMBERS})(?:{_ITEMS})?({_DEFECTS})"

_PAGE: Final = r"(?<![\w-])[\w-]+"
"""The name of a file without its ending; a search begins where a word does, not at each of its letters."""
_DOCUMENT: Final = re.compile(rf"{_PAGE}\.md\b")
_CITATION: Final = re.compile(rf"({_PAGE})\.md\)?,?{_GAP}(?:sections?{_GAP}|§)?(?=\d){_SECTIONS}")
_BARE: Final = re.compile(rf"(?:\b[Ss]ections?{_GAP}|§)(?=\d){_SECTIONS}")

_HEADING: Final = re.compile(rf"#+ ({_NUMBER})\.?(?:\s|$)")
_PARAGRAPH: Final = re.compile(r"(?:- )?(\d+(?:\.\d+)+)\s")
_ITEM: Final = re.compile(r"(\d+)\. ")
_DEFECT: Final = re.compile(r"\| (B\d+) \|")


class WrongCitation(NamedTuple):
    """A citation that leads nowhere."""

    line: int
    text: str
    """As it stands there."""
    problem: str


def sections_of(page: str) -> frozenset[str]:
    """The sections that can be cited of a page, found in its text."""
    sections = set()
    heading = ""
    for line in page.splitlines():
        if found := _HEADING.match(line):
            heading = found[1]
            sections.add(heading)
        elif found := _PARAGRAPH.match(line) or _DEFECT.match(line):
            sections.add(found[1])
        elif (found := _ITEM.match(line)) and heading:
            sections.add(f"{heading}.{found[1]}")
    return frozenset(sections)


def wrong_citations(
    text: str, *, sections: Mapping[str, Collection[str]], documents: Collection[str], page: str = ""
) -> list[WrongCitation]:
    """The citations in `text` that lead nowhere. `sections` are those of each page of the specification, `documents`
    the file names of all documents that there are; `page` is the page that `text` is, if it is one."""
    return sorted(_wrong(text, sections, documents, page))


def _wrong(
    text: str, sections: Mapping[str, Collection[str]], documents: Collection[str], page: str
) -> Iterator[WrongCitation]:
    for document in _DOCUMENT.finditer(text):
        if document[0] not in documents:
            yield _found(text, document, "there is no such document")
    cited = set()
    for citation in _CITATION.finditer(text):
        cited.update(range(*citation.span()))
        if citation[1] in sections:
            yield from _missing(text, citation, sections[citation[1]], citation[2], citation[3], citation[4])
    for bare in _BARE.finditer(text):
        if bare.start() in cited:
            continue
        if page:
            yield from _missing(text, bare, sections[page], bare[1], bare[2], bare[3])
        else:
            yield _found(text, bare, "it does not say of which page")


def _missing(
    text: str, citation: re.Match[str], sections: Collection[str], numbers: str, items: str | None, defects: str
) -> Iterator[WrongCitation]:
    cited = re.findall(_NUMBER, numbers)
    cited += [f"{cited[-1]}.{item}" for item in re.findall(_NUMBER, items or "")]
    cited += re.findall(r"B\d+", defects)
    for section in cited:
        if section not in sections:
            yield _found(text, citation, f"there is no section {section}")


def _found(text: str, citation: re.Match[str], problem: str) -> WrongCitation:
    return WrongCitation(text.count("\n", 0, citation.start()) + 1, " ".join(citation[0].split()), problem)
