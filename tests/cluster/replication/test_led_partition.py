"""A leader's decisions: positions, high watermark, ISR, the controller's answers (cluster.md 4.4, 4.9 and 4.11)."""

from collections.abc import Mapping

import msgspec
import pytest
from registrations import Broker, Partition

from eosin.cluster.replication.rules.high_watermark import next_high_watermark
from eosin.cluster.replication.rules.isr import (
    INELIGIBLE_RETRY_MS,
    AfterResult,
    IsrChangeResult,
    brokers_changed,
    controller_responded,
    expansion,
    shrinking,
)
from eosin.cluster.replication.rules.leading import FollowerFetch, LeaderContext, refusal
from eosin.cluster.replication.rules.led_partition import LedPartition, become_leader, metadata_changed
from eosin.cluster.replication.rules.positions import UNKNOWN_EPOCH
from eosin.protocol.errors import ErrorCode

LAG_MS = 30_000


BROKERS = {1: Broker(100), 2: Broker(200), 3: Broker(300)}


def led_by_1(partition: Partition | None = None, *, log_end: int = 0) -> LedPartition:
    return become_leader(1, partition or Partition(), log_end=log_end, now_ms=0)


def fetched(
    led: LedPartition, node_id: int, offset: int, *, log_end: int, now_ms: int = 0, epoch: int = -2
) -> LedPartition:
    follower = led.follower(node_id)
    assert follower is not None
    return led.with_follower(
        follower.fetched(
            offset,
            log_start_offset=0,
            told_epoch=BROKERS[node_id].epoch if epoch == -2 else epoch,
            registered_epoch=BROKERS[node_id].epoch,
            log_end=log_end,
            now_ms=now_ms,
        )
    )


def high_watermark(
    led: LedPartition,
    before: int = 0,
    *,
    durable_end: int = 100,
    log_end: int = 100,
    min_in_sync: int = 1,
    now_ms: int = 0,
    brokers: Mapping[int, Broker] = BROKERS,
) -> int:
    return next_high_watermark(
        led,
        before,
        durable_end=durable_end,
        log_end=log_end,
        brokers=brokers,
        min_in_sync=min_in_sync,
        now_ms=now_ms,
        max_lag_ms=LAG_MS,
    )


# The high watermark


def test_the_high_watermark_is_the_least_of_the_leaders_durable_end_and_the_positions_in_sync() -> None:
    led = fetched(fetched(led_by_1(), 2, 70, log_end=100), 3, 90, log_end=100)
    assert high_watermark(led) == 70
    assert high_watermark(led, durable_end=50) == 50


def test_a_member_of_the_isr_that_has_not_fetched_yet_holds_the_high_watermark() -> None:
    assert high_watermark(fetched(led_by_1(), 2, 70, log_end=100), 10) == 10


def test_the_high_watermark_never_goes_back() -> None:
    led = fetched(fetched(led_by_1(), 2, 70, log_end=100), 3, 90, log_end=100)
    assert high_watermark(led, 80) == 80


def test_below_min_in_sync_replicas_the_high_watermark_stands_still() -> None:
    alone = led_by_1(Partition(isr=(1,)))
    assert high_watermark(alone, 10, min_in_sync=2) == 10
    assert high_watermark(alone, 10, min_in_sync=1) == 100


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    alone = led_by_1(Partition(replicas=(1,), isr=(1,)))
    assert high_watermark(alone, min_in_sync=3) == 100


def test_a_replica_outside_the_isr_does_not_count_unless_it_has_caught_up() -> None:
    outside = led_by_1(Partition(isr=(1, 2)))
    outside = fetched(fetched(outside, 2, 100, log_end=100), 3, 40, log_end=100)
    assert high_watermark(outside) == 100
    about_to_join = fetched(fetched(outside, 3, 90, log_end=90, now_ms=1), 3, 90, log_end=100, now_ms=2)
    assert high_watermark(about_to_join, now_ms=2) == 90
    assert high_watermark(about_to_join, now_ms=2 + LAG_MS) == 100
    fenced = {**BROKERS, 3: Broker(300, fenced=True)}
    assert high_watermark(about_to_join, now_ms=2, brokers=fenced) == 100


def test_the_position_of_a_broker_that_registered_again_is_void() -> None:
    led = fetched(fetched(led_by_1(), 2, 70, log_end=100), 3, 90, log_end=100)
    again = {**BROKERS, 2: Broker(201)}
    assert high_watermark(led, 10, brokers=again) == 10
    assert high_watermark(led, 10, brokers={1: Broker(100), 3: Broker(300)}) == 10


def test_a_position_without_a_broker_epoch_belongs_to_the_incarnation_of_its_time() -> None:
    led = fetched(fetched(led_by_1(), 2, 70, log_end=100, epoch=UNKNOWN_EPOCH), 3, 90, log_end=100)
    assert high_watermark(led) == 70
    assert high_watermark(led, brokers={**BROKERS, 2: Broker(201)}) == 0


def test_a_member_that_an_expansion_under_way_adds_counts_already() -> None:
    led = led_by_1(Partition(isr=(1, 2)))
    led = fetched(fetched(led, 2, 100, log_end=100), 3, 60, log_end=60)
    asked = expansion(led, 3, high_watermark=60, brokers=BROKERS, own_epoch=100, now_ms=0)
    assert asked is not None
    assert asked.maximal_isr == (1, 2, 3)
    assert high_watermark(asked, 60, now_ms=10 * LAG_MS) == 60
    assert asked.isr == (1, 2)


def test_a_shrink_under_way_does_not_count_before_it_is_confirmed() -> None:
    led = fetched(fetched(led_by_1(), 2, 100, log_end=100), 3, 60, log_end=100)
    asked = shrinking(led, log_end=100, own_epoch=100, now_ms=LAG_MS + 1, max_lag_ms=LAG_MS)
    assert asked is not None
    assert high_watermark(asked, 60, now_ms=LAG_MS + 1) == 60
    assert asked.pending is not None
    confirmed, _ = controller_responded(asked, asked.pending, IsrChangeResult(ErrorCode.NONE, 5, 11, (1, 2)), now_ms=0)
    assert high_watermark(confirmed, 60, now_ms=LAG_MS + 1) == 100


# Becoming leader


def test_a_new_leader_epoch_knows_no_positions_and_begins_at_the_log_end() -> None:
    led = led_by_1(Partition(isr=(1, 2)), log_end=40)
    assert led.epoch_start == 40
    in_sync, out_of_sync = led.followers
    assert (in_sync.offset, in_sync.caught_up_ms) == (-1, 0)
    assert (out_of_sync.offset, out_of_sync.caught_up_ms) == (-1, None)


def test_a_change_within_the_epoch_keeps_positions_of_replicas_outside_the_isr_too() -> None:
    led = fetched(led_by_1(Partition(isr=(1, 2))), 3, 40, log_end=100)
    changed = metadata_changed(led, Partition(replicas=(1, 3, 4), isr=(1,), partition_epoch=11), now_ms=0)
    assert [each.node_id for each in changed.followers] == [3, 4]
    assert changed.followers[0].offset == 40
    assert changed.isr == (1,)


def test_a_state_that_is_not_newer_is_skipped() -> None:
    led = led_by_1()
    assert metadata_changed(led, Partition(isr=(1,), partition_epoch=10), now_ms=0) is led
    assert metadata_changed(led, Partition(isr=(1,), partition_epoch=9), now_ms=0) is led


# Who is in sync


def test_a_follower_joins_the_isr_with_the_high_watermark_and_the_start_of_the_epoch() -> None:
    led = led_by_1(Partition(isr=(1, 2)), log_end=40)

    def asks(offset: int, committed: int) -> bool:
        at = fetched(led, 3, offset, log_end=100)
        return expansion(at, 3, high_watermark=committed, brokers=BROKERS, own_epoch=100, now_ms=0) is not None

    assert not asks(39, 20)  # it may still have other records below the start of the epoch
    assert asks(40, 20)
    assert not asks(59, 60)
    assert asks(60, 60)


@pytest.mark.parametrize(
    "broker",
    [Broker(300, fenced=True), Broker(300, in_controlled_shutdown=True), Broker(301), Broker(299)],
    ids=["fenced", "leaving", "registered again", "not known yet"],
)
def test_a_follower_that_the_controller_would_refuse_is_not_asked_for(broker: Broker) -> None:
    led = fetched(led_by_1(Partition(isr=(1, 2))), 3, 100, log_end=100)
    brokers = {**BROKERS, 3: broker}
    assert expansion(led, 3, high_watermark=0, brokers=brokers, own_epoch=100, now_ms=0) is None


def test_an_expansion_tells_the_epochs_of_the_members_as_their_fetches_told_them() -> None:
    led = led_by_1(Partition(isr=(1, 2)))
    asked = expansion(fetched(led, 3, 9, log_end=9), 3, high_watermark=0, brokers=BROKERS, own_epoch=100, now_ms=0)
    assert asked is not None
    assert asked.pending is not None
    assert asked.pending.isr == ((1, 100), (2, -1), (3, 300))
    assert (asked.pending.leader_epoch, asked.pending.partition_epoch) == (5, 10)


def test_one_change_is_under_way_at_a_time() -> None:
    led = fetched(fetched(led_by_1(Partition(isr=(1,))), 2, 9, log_end=9), 3, 9, log_end=9)
    asked = expansion(led, 2, high_watermark=0, brokers=BROKERS, own_epoch=100, now_ms=0)
    assert asked is not None
    assert expansion(asked, 3, high_watermark=0, brokers=BROKERS, own_epoch=100, now_ms=0) is None
    assert shrinking(asked, log_end=99, own_epoch=100, now_ms=10 * LAG_MS, max_lag_ms=LAG_MS) is None


def test_a_follower_leaves_the_isr_when_it_has_lagged_for_too_long() -> None:
    led = fetched(fetched(led_by_1(), 2, 50, log_end=50, now_ms=1000), 3, 50, log_end=50, now_ms=1000)
    led = fetched(led, 3, 50, log_end=80, now_ms=2000)  # all that there was at its fetch before: caught up then

    def left(now_ms: int, log_end: int = 80) -> tuple[int, ...] | None:
        asked = shrinking(led, log_end=log_end, own_epoch=100, now_ms=now_ms, max_lag_ms=LAG_MS)
        return None if asked is None or asked.pending is None else asked.pending.node_ids

    assert left(1000 + LAG_MS) is None
    assert left(1001 + LAG_MS) == (1,)
    assert left(1001 + LAG_MS, log_end=50) is None  # what has everything does not lag, however long ago it fetched


def test_a_follower_that_never_catches_up_but_has_what_there_was_at_its_last_fetch_stays() -> None:
    led = led_by_1(Partition(replicas=(1, 2), isr=(1, 2)))
    log_end = 0
    for second in range(100):
        led = fetched(led, 2, log_end, log_end=log_end + 10, now_ms=second * 1000)
        log_end += 10
    assert shrinking(led, log_end=log_end, own_epoch=100, now_ms=100_000, max_lag_ms=LAG_MS) is None


def test_a_follower_in_the_isr_that_never_fetches_has_the_whole_time_from_the_election_on() -> None:
    led = led_by_1(log_end=10)
    assert shrinking(led, log_end=10, own_epoch=100, now_ms=LAG_MS, max_lag_ms=LAG_MS) is None
    assert shrinking(led, log_end=10, own_epoch=100, now_ms=LAG_MS + 1, max_lag_ms=LAG_MS) is not None


def test_a_follower_that_joins_without_ever_having_had_everything_has_time_to_get_it() -> None:
    led = fetched(led_by_1(Partition(replicas=(1, 2), isr=(1,))), 2, 50, log_end=80)
    asked = expansion(led, 2, high_watermark=50, brokers=BROKERS, own_epoch=100, now_ms=LAG_MS * 2)
    assert asked is not None
    assert asked.pending is not None
    joined, _ = controller_responded(
        asked, asked.pending, IsrChangeResult(ErrorCode.NONE, 5, 11, (1, 2)), now_ms=LAG_MS * 2
    )
    assert shrinking(joined, log_end=80, own_epoch=100, now_ms=LAG_MS * 3, max_lag_ms=LAG_MS) is None
    assert shrinking(joined, log_end=80, own_epoch=100, now_ms=LAG_MS * 3 + 1, max_lag_ms=LAG_MS) is not None


# The controller's answers


def under_way() -> LedPartition:
    led = fetched(led_by_1(Partition(isr=(1, 2))), 3, 9, log_end=9)
    asked = expansion(led, 3, high_watermark=0, brokers=BROKERS, own_epoch=100, now_ms=0)
    assert asked is not None
    return asked


def test_a_confirmed_change_is_taken_over() -> None:
    asked = under_way()
    assert asked.pending is not None
    led, after = controller_responded(asked, asked.pending, IsrChangeResult(ErrorCode.NONE, 5, 11, (1, 2, 3)), now_ms=0)
    assert (led.isr, led.partition_epoch, led.pending, after) == ((1, 2, 3), 11, None, AfterResult.SETTLED)
    # The same comes through the metadata log, too.
    assert metadata_changed(led, Partition(partition_epoch=11), now_ms=0) is led


def test_an_answer_of_another_leader_epoch_changes_nothing() -> None:
    asked = under_way()
    assert asked.pending is not None
    led, after = controller_responded(asked, asked.pending, IsrChangeResult(ErrorCode.NONE, 6, 12, (1, 2, 3)), now_ms=0)
    assert (led, after) == (asked, AfterResult.WAIT)


def test_a_late_answer_does_not_end_the_change_that_came_after_it() -> None:
    asked = under_way()
    assert asked.pending is not None
    told = metadata_changed(asked, Partition(isr=(1, 2, 3), partition_epoch=11), now_ms=0)
    told = fetched(told, 3, 9, log_end=9)
    again = shrinking(told, log_end=20, own_epoch=100, now_ms=LAG_MS * 2, max_lag_ms=LAG_MS)
    assert again is not None
    led, after = controller_responded(again, asked.pending, IsrChangeResult(ErrorCode.NONE, 5, 11, (1, 2, 3)), now_ms=0)
    assert led is again
    assert after is AfterResult.SETTLED


@pytest.mark.parametrize(
    ("error", "after", "is_still_under_way"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, AfterResult.SETTLED, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, AfterResult.SETTLED, False),
        (ErrorCode.FENCED_LEADER_EPOCH, AfterResult.WAIT, True),
        (ErrorCode.INVALID_UPDATE_VERSION, AfterResult.WAIT, True),
        (ErrorCode.INVALID_REQUEST, AfterResult.WAIT, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AfterResult.WAIT, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, AfterResult.WAIT, True),
        (ErrorCode.NEW_LEADER_ELECTED, AfterResult.WAIT, True),
        (ErrorCode.NOT_CONTROLLER, AfterResult.RETRY, True),
        (ErrorCode.STALE_BROKER_EPOCH, AfterResult.RETRY, True),
        (ErrorCode.REQUEST_TIMED_OUT, AfterResult.RETRY, True),
        (ErrorCode.NETWORK_EXCEPTION, AfterResult.RETRY, True),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AfterResult.RETRY, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, AfterResult.RETRY, True),
    ],
)
def test_each_error_of_the_controller_has_its_consequence(
    error: ErrorCode, after: AfterResult, is_still_under_way: bool
) -> None:
    asked = under_way()
    assert asked.pending is not None
    led, then = controller_responded(asked, asked.pending, IsrChangeResult(error), now_ms=500)
    assert then is after
    assert (led.pending is not None) is is_still_under_way
    assert led.isr == (1, 2)


def test_after_an_ineligible_replica_the_next_change_waits_for_metadata_or_a_second() -> None:
    asked = under_way()
    assert asked.pending is not None
    led, _ = controller_responded(asked, asked.pending, IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA), now_ms=500)

    def asks(led: LedPartition, now_ms: int) -> bool:
        return expansion(led, 3, high_watermark=0, brokers=BROKERS, own_epoch=100, now_ms=now_ms) is not None

    assert not asks(led, 500 + INELIGIBLE_RETRY_MS - 1)
    assert asks(led, 500 + INELIGIBLE_RETRY_MS)
    assert asks(brokers_changed(led), 501)
    assert asks(metadata_changed(led, Partition(isr=(1, 2), partition_epoch=11), now_ms=0), 501)


def test_an_old_change_that_is_answered_late_changes_nothing() -> None:
    asked = under_way()
    assert asked.pending is not None
    told = metadata_changed(asked, Partition(isr=(1, 2), partition_epoch=12), now_ms=0)
    for error in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER):
        assert controller_responded(told, asked.pending, IsrChangeResult(error), now_ms=0) == (
            told,
            AfterResult.SETTLED,
        )


# Whose fetches are refused


def refused(node_id: int, *, told_epoch: int, leader_epoch: int = 5) -> ErrorCode:
    context = LeaderContext(BROKERS, own_epoch=100, min_in_sync=1, max_lag_ms=LAG_MS, now_ms=0)
    fetch = FollowerFetch(node_id, told_epoch, leader_epoch, offset=0, log_start_offset=0)
    return refusal(led_by_1(Partition(replicas=(1, 2), isr=(1, 2))), fetch, context)


def test_a_fetch_of_a_broker_without_a_replica_is_told_who_may_be_behind() -> None:
    assert refused(3, told_epoch=300) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refused(3, told_epoch=300, leader_epoch=-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_of_an_incarnation_before_the_registered_one_is_refused() -> None:
    assert refused(2, told_epoch=199) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(2, told_epoch=200) is ErrorCode.NONE
    assert refused(2, told_epoch=201) is ErrorCode.NONE
    assert refused(2, told_epoch=UNKNOWN_EPOCH) is ErrorCode.NONE


def test_a_state_is_a_value() -> None:
    assert hash(led_by_1()) == hash(led_by_1())
    assert msgspec.structs.replace(led_by_1(), isr=(1,)) != led_by_1()
