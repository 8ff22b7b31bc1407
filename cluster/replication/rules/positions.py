"""`Follower`: what a leader knows of one follower, from its fetches (cluster.md 4.9). Pure.

Always true: a position is one incarnation's. A broker that has registered again, perhaps with an empty disk, is another
incarnation: what its old one had is void (KIP-903; cluster.md 4.10.7). Times are those of a monotonic clock, in ms.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1


class Registration(Protocol):
    """A broker, as the cluster's image has it, as far as replication goes."""

    @property
    def epoch(self) -> int:
        """Its broker epoch: it grows with each incarnation."""

    @property
    def fenced(self) -> bool:
        """True if the controller counts it as away."""

    @property
    def in_controlled_shutdown(self) -> bool:
        """True if it is leaving."""


Registrations = Mapping[int, Registration]
"""Every registered broker by its node id."""


class Follower(msgspec.Struct, frozen=True, gc=False):
    """One follower of a partition, in one leader epoch."""

    node_id: int
    caught_up_ms: int | None = None
    """The time when it last had all that the leader had; None: not in this leader epoch."""
    offset: int = UNKNOWN_OFFSET
    """Its position: it has everything below, as durably as it promises. `UNKNOWN_OFFSET` before its first fetch."""
    log_start_offset: int = UNKNOWN_OFFSET
    told_epoch: int = UNKNOWN_EPOCH
    """The broker epoch that its last fetch told, `UNKNOWN_EPOCH` if it told none."""
    incarnation: int = UNKNOWN_EPOCH
    """The broker epoch that the position belongs to: the one it told, or else the image's at that time."""
    fetched_ms: int = 0
    """The time of its last fetch, if there was one."""
    leader_end: int | None = None
    """The leader's log end at its last fetch; None before the first."""

    def fetched(
        self,
        offset: int,
        *,
        log_start_offset: int,
        told_epoch: int,
        registered_epoch: int,
        log_end: int,
        now_ms: int,
    ) -> "Follower":
        """It fetches from `offset`, so it has what lies below. `registered_epoch` is the image's for its node id,
        `log_end` the leader's log end now."""
        caught_up_ms = self.caught_up_ms
        if offset >= log_end:
            caught_up_ms = now_ms
        elif self.leader_end is not None and offset >= self.leader_end:
            caught_up_ms = self.fetched_ms if caught_up_ms is None else max(caught_up_ms, self.fetched_ms)
        incarnation = registered_epoch if told_epoch == UNKNOWN_EPOCH else told_epoch
        return Follower(self.node_id, caught_up_ms, offset, log_start_offset, told_epoch, incarnation, now_ms, log_end)

    def fetched_again(self, now_ms: int) -> "Follower":
        """It fetched once more from where it was, at the leader's log end."""
        return msgspec.structs.replace(self, caught_up_ms=now_ms, fetched_ms=now_ms)

    def is_known(self, brokers: Registrations) -> bool:
        """True if its position still counts: it has fetched, and has not registered again since."""
        registered = brokers.get(self.node_id)
        return registered is not None and self.offset >= 0 and self.incarnation >= registered.epoch

    def is_eligible(self, brokers: Registrations) -> bool:
        """True if the controller would take it into the ISR: it is live, stays, and is the incarnation that fetches."""
        registered = brokers.get(self.node_id)
        return (
            registered is not None
            and not registered.fenced
            and not registered.in_controlled_shutdown
            and self.told_epoch in (UNKNOWN_EPOCH, registered.epoch)
        )

    def is_caught_up(self, log_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """True if it has all that the leader has, or had it at most `max_lag_ms` ago."""
        return self.offset == log_end or (self.caught_up_ms is not None and now_ms - self.caught_up_ms <= max_lag_ms)
