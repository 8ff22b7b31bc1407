"""`ShareCounts`: what happened to the records of share groups on this broker since its start, for metrics."""

from collections.abc import Iterable

from eosin.broker.sharing.rules.window import AcquiredRange


class LetterCounts:
    """The dead letters of one group."""

    __slots__ = ("failed", "records", "requests")

    def __init__(self) -> None:
        self.requests = 0
        """Attempts to write some."""
        self.failed = 0
        """The part of them that left some out: these are tried again, or can have none."""
        self.records = 0
        """Dead letters."""


class ShareCounts:
    """Counters; they only grow."""

    __slots__ = (
        "archived_at_limit",
        "delivered",
        "letters",
        "lock_timeouts",
        "log_cuts",
        "redelivered",
        "refused_sessions",
    )

    def __init__(self) -> None:
        self.delivered = 0
        """Records that were handed out, each as often as that was done."""
        self.redelivered = 0
        """The part of them that had been handed out before."""
        self.lock_timeouts = 0
        """Records that a member had for too long."""
        self.archived_at_limit = 0
        """Records that nobody accepted in as many deliveries as they may have."""
        self.log_cuts = 0
        """Share partitions whose log ended before what they had fetched."""
        self.refused_sessions = 0
        """Share sessions for which there was no room."""
        self.letters: dict[str, LetterCounts] = {}
        """Of the groups that have had dead letters."""

    def of_letters(self, group_id: str) -> "LetterCounts":
        """The counters of the dead letters of a group."""
        found = self.letters.get(group_id)
        if found is None:
            found = self.letters[group_id] = LetterCounts()
        return found

    def acquired(self, ranges: Iterable[AcquiredRange]) -> None:
        """Count what a member was given."""
        for first, last, count in ranges:
            self.delivered += last - first + 1
            if count > 1:
                self.redelivered += last - first + 1
