"""The names that a mistyped one may have meant. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

_ALIKE: Final = 0.7
"""Of difflib's ratio: below it, names have little in common."""


def nearest(typed: str, names: Iterable[str], *, synonyms: Mapping[str, str] | None = None) -> str | None:
    """The name that comes nearest to what was typed; None if none is near. `synonyms` come first."""
    from difflib import get_close_matches

    there = list(names)
    lower = typed.lower()
    meant = (synonyms or {}).get(lower)
    if meant is not None:
        return meant
    by_lower = {name.lower(): name for name in reversed(there)}
    close = get_close_matches(lower, list(by_lower), n=1, cutoff=_ALIKE)
    if close:
        return by_lower[close[0]]
    longer = [name for name in there if len(lower) > 1 and name.lower().startswith(lower)]
    return longer[0] if len(longer) == 1 else None


def did_you_mean(name: str | None) -> str:
    """The end of a sentence that offers a name, or a line; empty without one."""
    return "" if name is None else f"; did you mean {name if name.isprintable() else ascii(name)}?"
