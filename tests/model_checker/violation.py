"""What the model proves, and how it says that it does not hold."""

from typing import Final

SINGLE_WRITER: Final = "single writer"
ATOMIC: Final = "atomic outcome"
ONCE: Final = "no record decided twice"
STABLE: Final = "the last stable offset moves in the end"
ANSWERED: Final = "every request ends in a final answer"
VISIBLE: Final = "what was answered as committed is visible"

RULES: Final = {
    SINGLE_WRITER: "nothing is accepted from an instance once a newer one has its pair, and no two have the same",
    ATOMIC: "no partition commits what another aborted, or what was not durably decided",
    ONCE: "no record is written twice, changes its outcome, or is ended by a marker of another transaction",
    STABLE: "from every state, without new requests, everything comes to rest with nothing open",
    ANSWERED: "from every state, without new requests, every request under way gets an answer that is not 'come back'",
    VISIBLE: "once an instance was told that its transaction is committed, all its records are, in every partition",
}


class Violation(Exception):
    """A rule is broken."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule
        self.what = what
