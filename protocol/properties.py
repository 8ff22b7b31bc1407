"""Java's properties files as text: the form of Kafka's configuration files, of brokers and of clients."""

import re
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def parse_properties(text: str) -> list[tuple[str, str]]:
    """The entries of a properties file, in order."""
    entries = []
    for line in _logical_lines(text):
        found = _ENTRY.fullmatch(line)
        assert found is not None, "the pattern matches every line"
        entries.append((_unescape(found[1]), _unescape(found[2])))
    return entries


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, those that end in a backslash joined with the next."""
    lines: list[str] = []
    held = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            held += line[:-1]
            continue
        lines.append(held + line)
        held = ""
    if held:
        lines.append(held)
    return lines


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    return _ESCAPED.sub(one, text) if "\\" in text else text
