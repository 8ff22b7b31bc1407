"""Decides which replicas count as in sync: when the leader asks the controller for a change, and what its answers mean
(cluster.md 4.9 and 4.11). Pure."""

from enum import Enum
from typing import Final

import msgspec

from eosin.cluster.replication.rules.led_partition import IsrChange, LedPartition, confirmed
from eosin.cluster.replication.rules.positions import Registrations
from eosin.protocol.errors import ErrorCode

INELIGIBLE_RETRY_MS: Final = 1000
"""After the controller has called a replica ineligible, the next change waits so long, or until metadata change."""


def expansion(
    led: LedPartition, node_id: int, *, high_watermark: int, brokers: Registrations, own_epoch: int, now_ms: int
) -> LedPartition | None:
    """With the change under way that takes the follower on `node_id` into the ISR, if it may be asked for now: the
    follower has everything that is committed, and has begun with what this leader epoch writes. Asked at each of its
    fetches. `own_epoch` is this broker's epoch."""
    follower = led.follower(node_id)
    if follower is None or node_id in led.isr or not _may_request(led, now_ms):
        return None
    if not follower.is_known(brokers) or follower.offset < max(high_watermark, led.epoch_start):
        return None
    return _request(led, (*led.isr, node_id), own_epoch) if follower.is_eligible(brokers) else None


def shrinking(led: LedPartition, *, log_end: int, own_epoch: int, now_ms: int, max_lag_ms: int) -> LedPartition | None:
    """With the change under way that takes all followers out of the ISR that have lagged for longer than `max_lag_ms`,
    if there are any and a change may be asked for."""
    if not _may_request(led, now_ms):
        return None
    lagging = {
        each.node_id
        for each in led.followers
        if each.node_id in led.isr and not each.is_caught_up(log_end, now_ms, max_lag_ms)
    }
    if not lagging:
        return None
    return _request(led, tuple(each for each in led.isr if each not in lagging), own_epoch)


def _may_request(led: LedPartition, now_ms: int) -> bool:
    return led.pending is None and (led.not_before_ms is None or now_ms >= led.not_before_ms)


def _request(led: LedPartition, isr: tuple[int, ...], own_epoch: int) -> LedPartition:
    members = []
    for node_id in isr:
        follower = led.follower(node_id)
        members.append((node_id, own_epoch if follower is None else follower.told_epoch))
    change = IsrChange(led.leader_epoch, led.partition_epoch, tuple(members))
    return msgspec.structs.replace(led, pending=change, not_before_ms=None)


class IsrChangeResult(msgspec.Struct, frozen=True, gc=False):
    """The controller's answer to one change: its error, or the partition as it is now."""

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class AfterResult(Enum):
    """The fate of a change that was answered."""

    SETTLED = "settled"
    """Another may be asked for."""
    RETRY = "retry"
    """It is to be sent again: whether it was written is not known, or the controller is behind us."""
    WAIT = "wait"
    """It stays under way until the metadata log tells the partition's next state."""


_ACTED_ON_OLD_METADATA: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
_INELIGIBLE: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})


def controller_responded(
    led: LedPartition, change: IsrChange, answer: IsrChangeResult, *, now_ms: int
) -> tuple[LedPartition, AfterResult]:
    """The partition after the controller's answer to `change` (the table of cluster.md 4.11). An answer may come late:
    when the metadata log has told more, it only counts if it is newer still."""
    if answer.error is ErrorCode.NONE:
        if answer.leader_epoch != led.leader_epoch:
            return led, AfterResult.WAIT if led.pending == change else AfterResult.SETTLED
        if answer.partition_epoch <= led.partition_epoch and led.pending != change:
            return led, AfterResult.SETTLED
        return confirmed(led, answer.isr, answer.partition_epoch, now_ms=now_ms), AfterResult.SETTLED
    if led.pending != change:
        return led, AfterResult.SETTLED
    if answer.error in _INELIGIBLE:
        refused = msgspec.structs.replace(led, pending=None, not_before_ms=now_ms + INELIGIBLE_RETRY_MS)
        return refused, AfterResult.SETTLED
    if answer.error in _ACTED_ON_OLD_METADATA:
        return led, AfterResult.WAIT
    return led, AfterResult.RETRY


def brokers_changed(led: LedPartition) -> LedPartition:
    """Brokers came, went or changed: what was ineligible may be eligible now."""
    return led if led.not_before_ms is None else msgspec.structs.replace(led, not_before_ms=None)
