"""`Finding` and `Verdict`: the results of a judgement, in sentences with their evidence."""

from typing import Final

import msgspec

LOST: Final = "lost"
DOUBLED: Final = "doubled"
UNEXPECTED: Final = "unexpected"
DIFFERENT: Final = "different"
ABORTED_VISIBLE: Final = "aborted visible"
TORN: Final = "torn"
OUT_OF_ORDER: Final = "out of order"
OPEN: Final = "open"
STUCK: Final = "stuck"
KINDS: Final = (LOST, DOUBLED, UNEXPECTED, DIFFERENT, ABORTED_VISIBLE, TORN, OUT_OF_ORDER, OPEN, STUCK)
"""In the order in which they are reported."""

MOST_LINES: Final = 20
"""Lines of evidence in the text of a finding."""


class Finding(msgspec.Struct, frozen=True):
    """A way in which exactly-once is broken."""

    kind: str
    """One of `KINDS`."""
    sentence: str
    evidence: tuple[str, ...] = ()
    """One line for each record or transaction."""

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.sentence}", *(f"  {each}" for each in self.evidence[:MOST_LINES])]
        if len(self.evidence) > MOST_LINES:
            lines.append(f"  and {len(self.evidence) - MOST_LINES} more")
        return "\n".join(lines)


class Verdict(msgspec.Struct, frozen=True):
    """All findings, and how much was compared."""

    findings: tuple[Finding, ...]
    input_records: int
    """Committed records of the input that count as read."""
    output_records: int
    """Committed records of the output."""
    is_moving: bool = False
    """True if somebody wrote meanwhile: the findings may be about what was under way."""
    forgiven: tuple[Finding, ...] = ()
    """Further findings, which are no fault of the application."""

    @property
    def is_exactly_once(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    def of(self, kind: str) -> list[Finding]:
        """The findings of one kind."""
        return [each for each in self.findings if each.kind == kind]

    def __str__(self) -> str:
        compared = f"{_number(self.input_records, 'record')} in, {_number(self.output_records, 'record')} out"
        if self.is_exactly_once:
            return f"exactly once: {compared}"
        lines = [f"not exactly once: {compared}", *map(str, self.findings)]
        if self.is_moving:
            lines.append("somebody still wrote while this was read: wait_until_consumed comes before the verdict")
        return "\n".join(lines)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
