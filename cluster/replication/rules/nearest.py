"""Chooses the replica that a consumer had better read from: one in its own rack (KIP-392; cluster.md 4.20). Pure.

Always true: only a replica is named that is in sync, alive, reached by the consumer's listener, and that has what the
consumer asks for; and the leader itself is never named, since it can answer at once.
"""

from collections.abc import Iterable
from typing import Protocol

from eosin.cluster.replication.rules.led_partition import LedPartition
from eosin.cluster.replication.rules.positions import Registrations


class LiveBroker(Protocol):
    """A live broker, as far as this choice goes."""

    @property
    def node_id(self) -> int:
        """Its id."""

    @property
    def rack(self) -> str | None:
        """The rack that it is in; None when it has not said."""


def nearest_replica(
    led: LedPartition, *, offset: int, rack: str, endpoints: Iterable[LiveBroker], brokers: Registrations
) -> int | None:
    """The follower in `rack` that has `offset` and most of what comes after; None if the consumer is served best by
    the leader: it is in the rack itself, or nobody else there can serve. `endpoints` are the live brokers that the
    consumer reaches and that serve consumers as followers."""
    racks = {each.node_id: each.rack for each in endpoints}
    if racks.get(led.node_id) == rack:
        return None
    best: tuple[int, int, int] | None = None
    for follower in led.followers:
        if racks.get(follower.node_id) != rack or follower.node_id not in led.isr:
            continue
        if not follower.is_known(brokers) or not follower.log_start_offset <= offset <= follower.offset:
            continue
        rank = (follower.offset, follower.caught_up_ms or 0, -follower.node_id)
        if best is None or rank > best:
            best = rank
    return None if best is None else -best[2]
