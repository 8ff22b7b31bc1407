"""Points inside a broker at which rules fire, as the lab's parts below the rules see them."""

from collections.abc import Awaitable
from typing import Final, Protocol

import msgspec

APPENDED: Final = "appended"
"""Bytes are in a log, and not durable."""
DURABLE: Final = "durable"
"""They are synced, and nobody has been told."""
PREPARED: Final = "prepared"
"""The outcome of a transaction is durable, and no partition has its marker."""
MARKER: Final = "marker"
"""One more partition has it."""
COMPLETE: Final = "complete"
"""All have it, and the coordinator has not been told."""
DISK: Final = "disk"
"""A call of the disk is about to happen."""
INNER_POINTS: Final = (APPENDED, DURABLE, PREPARED, MARKER, COMPLETE, DISK)


class Moment(msgspec.Struct, frozen=True, gc=False):
    """One arrival at a point; what it does not know is None."""

    point: str
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    committed: bool | None = None
    call: str | None = None
    """Of the disk: `sync`, `append`, `rename` and so on."""
    path: str | None = None


class Points(Protocol):
    """The rules."""

    def watches(self, point: str) -> bool:
        """True if a rule may fire there: otherwise nobody stops."""

    def reached(self, moment: Moment) -> Awaitable[None] | None:
        """Go on at once (None), or when this is done. Raises what a crash raises. At `disk` there is no waiting."""
