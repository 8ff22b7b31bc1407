"""Values about time that a broker of the lab returns. They travel between processes."""

import msgspec


class Due(msgspec.Struct, frozen=True):
    """Something that is to happen at a time, or has happened then."""

    what: str
    """As `the timeout of a transaction`."""
    owner: str
    """The transactional id, the group, or empty for the broker."""
    at_ms: int
    """By the broker's clock, in ms since the epoch."""

    def __str__(self) -> str:
        return f"{self.what} of {self.owner}" if self.owner else self.what


class DeletedRecords(msgspec.Struct, frozen=True):
    """The oldest records of a partition that retention has deleted."""

    topic: str
    partition: int
    upto: int
    """The offset of the first record that is left, or of the next one."""


class Advanced(msgspec.Struct, frozen=True):
    """The events of a jump of the clock, in order."""

    fired: list[Due]
    """Timers, each at its own time."""
    rounds: list[str]
    """Periodic work, done once at the end of the jump."""
    aborted: list[str]
    """Transactional ids whose transaction timed out."""
    expired: list[str]
    """Transactional ids that were unused for too long."""
    deleted: list[DeletedRecords]


class ClockState(msgspec.Struct, frozen=True):
    """A clock at one moment."""

    now_ms: int
    """Time of day in ms since the epoch."""
    precise_ms: float
    """The same, with parts of a millisecond."""
    rate: float
    """Its pace, as a multiple of real time; 0 while it stands still."""
