"""`duration_ms`: durations as settings write them, in the form of ISO 8601 that Java reads (`Duration.parse`)."""

import re
from typing import Final

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?:T(?=[-+0-9])(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_LONGEST_TEXT: Final = 100
_MAX_SECONDS: Final = 2**63 - 1
"""Java counts the seconds in a long."""


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration in days, hours, minutes and seconds; None for any other text, and for a duration below
    zero."""
    found = _DURATION.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if found is None or not any(found[part] for part in ("days", "hours", "minutes", "seconds")):
        return None
    days, hours, minutes, seconds = (int(found[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    whole = seconds + 60 * (minutes + 60 * (hours + 24 * days))
    fraction_ms = int((found["fraction"] or "").ljust(9, "0")) // 1_000_000
    total_ms = 1000 * whole + (-fraction_ms if (found["seconds"] or "").startswith("-") else fraction_ms)
    total_ms = -total_ms if found["sign"] == "-" else total_ms
    return total_ms if 0 <= total_ms <= 1000 * _MAX_SECONDS else None
