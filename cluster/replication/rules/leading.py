"""Events of a partition that this broker leads, and what follows from each (cluster.md 4.4, 4.9, 4.11). Pure.

Each event gives the next state, the high watermark as it is then, and the change of the ISR that the controller is to
be asked for, if any. Always true: the high watermark never goes back, and never passes the leader's durable end.
"""

from typing import NamedTuple, Protocol

import msgspec

from eosin.cluster.replication.rules import isr
from eosin.cluster.replication.rules.high_watermark import next_high_watermark
from eosin.cluster.replication.rules.isr import AfterResult, IsrChangeResult
from eosin.cluster.replication.rules.led_partition import (
    IsrChange,
    LedPartition,
    PartitionMetadata,
    become_leader,
    metadata_changed,
)
from eosin.cluster.replication.rules.positions import UNKNOWN_EPOCH, Registrations
from eosin.protocol.errors import ErrorCode


class LeaderLog(Protocol):
    """The leader's log, as far as these decisions depend on it."""

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""

    @property
    def durable_end(self) -> int:
        """Everything below is as durable as configured."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""


class LeaderContext(NamedTuple):
    """The values that decisions depend on beside the partition and its log."""

    brokers: Registrations
    own_epoch: int
    """This broker's epoch."""
    min_in_sync: int
    """The topic's `min.insync.replicas`."""
    max_lag_ms: int
    """`replica.lag.time.max.ms`."""
    now_ms: int
    """On a monotonic clock."""


class FollowerFetch(msgspec.Struct, frozen=True, gc=False):
    """The state of a follower's replica, as its fetch tells it."""

    node_id: int
    told_epoch: int
    """Its broker epoch, -1 if it told none."""
    leader_epoch: int
    """The one that it follows; -1: not told."""
    offset: int
    log_start_offset: int


class LeaderStep(NamedTuple):
    """The result of an event."""

    led: LedPartition
    high_watermark: int
    change: IsrChange | None = None
    """To be asked for now, or once more."""


def election_or_change(
    led: LedPartition | None, node_id: int, metadata: PartitionMetadata, log: LeaderLog, context: LeaderContext
) -> LeaderStep:
    """The metadata log names this broker, `node_id`, as the leader: in a new leader epoch, or in the same one with
    other replicas or another ISR."""
    if led is None or led.leader_epoch != metadata.leader_epoch:
        led = become_leader(node_id, metadata, log_end=log.log_end_offset, now_ms=context.now_ms)
    else:
        led = metadata_changed(led, metadata, now_ms=context.now_ms)
    return LeaderStep(led, _high_watermark(led, log, context))


def refusal(led: LedPartition, fetch: FollowerFetch, context: LeaderContext) -> ErrorCode:
    """The error of a follower's fetch that is not served; NONE when it is. Its leader epoch has been checked. A broker
    without a replica is told UNKNOWN_LEADER_EPOCH if it told a leader epoch, since our image may be behind; an
    incarnation before the registered one NOT_LEADER_OR_FOLLOWER."""
    if led.follower(fetch.node_id) is None:
        return ErrorCode.UNKNOWN_LEADER_EPOCH if fetch.leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    registered = context.brokers.get(fetch.node_id)
    if fetch.told_epoch != UNKNOWN_EPOCH and registered is not None and fetch.told_epoch < registered.epoch:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def fetched(led: LedPartition, fetch: FollowerFetch, log: LeaderLog, context: LeaderContext) -> LeaderStep:
    """A follower fetches, and its log is a prefix of this one."""
    follower = led.follower(fetch.node_id)
    assert follower is not None, "a fetch that refusal() lets pass"
    registered = context.brokers.get(fetch.node_id)
    led = led.with_follower(
        follower.fetched(
            fetch.offset,
            log_start_offset=fetch.log_start_offset,
            told_epoch=fetch.told_epoch,
            registered_epoch=UNKNOWN_EPOCH if registered is None else registered.epoch,
            log_end=log.log_end_offset,
            now_ms=context.now_ms,
        )
    )
    asked = isr.expansion(
        led,
        fetch.node_id,
        high_watermark=log.high_watermark,
        brokers=context.brokers,
        own_epoch=context.own_epoch,
        now_ms=context.now_ms,
    )
    return _requested(led, asked, log, context)


def lag_checked(led: LedPartition, log: LeaderLog, context: LeaderContext) -> LeaderStep:
    """It is time to look whose replica lags. Followers outside the ISR may no longer hold the high watermark either."""
    asked = isr.shrinking(
        led,
        log_end=log.log_end_offset,
        own_epoch=context.own_epoch,
        now_ms=context.now_ms,
        max_lag_ms=context.max_lag_ms,
    )
    return _requested(led, asked, log, context)


def controller_responded(
    led: LedPartition, change: IsrChange, answer: IsrChangeResult, log: LeaderLog, context: LeaderContext
) -> LeaderStep:
    """The controller has answered a change, or could not be asked (NETWORK_EXCEPTION)."""
    led, after = isr.controller_responded(led, change, answer, now_ms=context.now_ms)
    return LeaderStep(led, _high_watermark(led, log, context), change if after is AfterResult.RETRY else None)


def context_changed(led: LedPartition, log: LeaderLog, context: LeaderContext) -> LeaderStep:
    """More of the leader's log is durable, brokers came or went, or the topic's settings changed."""
    return LeaderStep(led, _high_watermark(led, log, context))


def _requested(led: LedPartition, asked: LedPartition | None, log: LeaderLog, context: LeaderContext) -> LeaderStep:
    if asked is None:
        return LeaderStep(led, _high_watermark(led, log, context))
    return LeaderStep(asked, _high_watermark(asked, log, context), asked.pending)


def _high_watermark(led: LedPartition, log: LeaderLog, context: LeaderContext) -> int:
    return next_high_watermark(
        led,
        log.high_watermark,
        durable_end=log.durable_end,
        log_end=log.log_end_offset,
        brokers=context.brokers,
        min_in_sync=context.min_in_sync,
        now_ms=context.now_ms,
        max_lag_ms=context.max_lag_ms,
    )
