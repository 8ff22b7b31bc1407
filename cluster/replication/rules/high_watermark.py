"""Decides how far a partition is committed: the leader's high watermark (cluster.md 4.9 and 4.10). Pure."""

from eosin.cluster.replication.rules.led_partition import LedPartition
from eosin.cluster.replication.rules.positions import Registrations


def next_high_watermark(
    led: LedPartition,
    high_watermark: int,
    *,
    durable_end: int,
    log_end: int,
    brokers: Registrations,
    min_in_sync: int,
    now_ms: int,
    max_lag_ms: int,
) -> int:
    """The high watermark now, at least what it was: the least of what the leader has durably and what each replica has
    that the controller may count as in sync, or that is about to be.

    It stands still below `min_in_sync`: then the controller may elect a replica that has left the ISR, and that has
    everything up to here (KIP-966). A member of the ISR whose position is not known, or void, holds it too.
    """
    if not led.has_enough_in_sync(min_in_sync):
        return high_watermark
    in_sync = led.maximal_isr
    reached = durable_end
    for follower in led.followers:
        if follower.node_id in in_sync:
            if not follower.is_known(brokers):
                return high_watermark
        elif not (
            follower.is_known(brokers)
            and follower.is_eligible(brokers)
            and follower.is_caught_up(log_end, now_ms, max_lag_ms)
        ):
            continue
        reached = min(reached, follower.offset)
    return max(high_watermark, reached)
