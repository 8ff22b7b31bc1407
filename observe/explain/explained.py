"""`Explained`: an answer of `eosin explain`, as `--json` and the HTTP API show it (console.md 3)."""

import msgspec

from eosin.observe.recorder.events import HistoryEvent


class Next(msgspec.Struct, frozen=True, omit_defaults=True):
    """The next thing that will happen, or that a person must do."""

    what: str
    at_ms: int = -1


class Explained(msgspec.Struct, frozen=True):
    """One answer."""

    subject: str
    sentence: str
    """Subject, state, since when, why, who."""
    cause: str = ""
    evidence: tuple[str, ...] = ()
    next: Next | None = None
    timeline: tuple[HistoryEvent, ...] = ()
    sources: tuple[str, ...] = ()
    is_known: bool = True
    """True if there is such a thing at all."""

    @property
    def text(self) -> str:
        """Both sentences."""
        return self.sentence if self.next is None else f"{self.sentence} {self.next.what}"
