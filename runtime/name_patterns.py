"""Patterns of names that come from clients (KIP-1152): RE2 syntax, as Apache Kafka's.

Always true: matching takes time linear in the name, whatever the pattern, so that no client can stop the event loop
with one; that is why it is not `re`. Back references and look-around do not exist in RE2.
"""

from collections.abc import Callable
from typing import Final

PATTERN_MAX_CHARACTERS: Final = 4096
PATTERN_MAX_MEMORY_BYTES: Final = 1 << 20
"""Memory that a compiled pattern may take; one that needs more is refused."""


class InvalidPattern(ValueError):
    """Not a regular expression of RE2, or one that is too large."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Tells whether a whole name matches `pattern`. Raises InvalidPattern."""
    # Imported by the first request that needs it: a broker starts without.
    import re2  # type: ignore[import-untyped]

    if len(pattern) > PATTERN_MAX_CHARACTERS:
        raise InvalidPattern(f"more than {PATTERN_MAX_CHARACTERS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPattern(f"{pattern!r} is no regular expression of RE2") from error
    return lambda name: compiled.fullmatch(name) is not None
