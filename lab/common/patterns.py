"""`fit_patterns`: patterns of texts, `invoicing-*`, of which each may be left out."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def fit_patterns(pairs: Iterable[tuple[str | None, str | None]]) -> bool:
    """True if each pattern fits the text beside it. None as a pattern means any text; no text is an empty one."""
    return all(pattern is None or fnmatchcase(text or "", pattern) for pattern, text in pairs)
