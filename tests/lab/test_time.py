"""Virtual time of a whole broker: what a jump of its clock does to transactions, members, records and peers."""

import pytest
from lab_broker_in_loop import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Lab, lab
from virtual_time import now_ms as real_now_ms

from eosin.client.client import Client
from eosin.lab.common.errors import LabError
from eosin.protocol.errors import ErrorCode

pytestmark = pytest.mark.virtual

# Transactions


async def test_a_transaction_times_out_at_its_deadline_and_not_before() -> None:
    async with lab() as broker:
        await broker.write("late", transactional_id="t", commit=False)
        (open_one,) = await broker.operations.open_transactions()
        assert open_one.deadline is not None
        early = await broker.operations.advance_to(open_one.deadline - 10, False)
        assert (early.aborted, await broker.operations.outcomes("t")) == ([], ["open"])
        passed = await broker.operations.advance_to(open_one.deadline, False)
        assert (passed.aborted, await broker.operations.outcomes("t")) == (["t"], ["timeout"])
        assert [each.what for each in passed.fired] == ["the timeout of a transaction"]
        assert await broker.values() == []


async def test_the_abort_is_stamped_with_the_time_of_the_deadline_however_far_the_jump() -> None:
    async with lab() as broker:
        await broker.write("late", transactional_id="t", commit=False)
        (open_one,) = await broker.operations.open_transactions()
        assert open_one.deadline is not None
        jumped = await broker.operations.advance(DAY_MS, False)
        (fired,) = jumped.fired
        assert 0 <= fired.at_ms - open_one.deadline <= 2
        steps = await broker.operations.timeline("t")
        assert {each.at_ms for each in steps if each.what in ("prepared", "timeout")} <= {
            fired.at_ms,
            fired.at_ms + 1,
        }


async def test_many_transactions_time_out_in_one_jump_each_at_its_own_time() -> None:
    async with lab() as broker:
        for number in range(20):
            await broker.write("late", transactional_id=f"t{number}", commit=False)
            await broker.clock.wire.sleep(7)
        jumped = await broker.operations.advance(MINUTE_MS, False)
        assert jumped.aborted == [f"t{number}" for number in range(20)]
        times = [each.at_ms for each in jumped.fired]
        assert len(set(times)) == 20
        assert times == sorted(times)


async def test_an_id_that_is_unused_for_a_week_expires() -> None:
    async with lab() as broker:
        await broker.write("in time", transactional_id="t")
        assert (await broker.operations.advance(6 * DAY_MS, False)).expired == []
        assert await broker.operations.transaction("t") is not None
        assert (await broker.operations.advance(2 * DAY_MS, False)).expired == ["t"]
        assert await broker.operations.transaction("t") is None


async def test_nothing_times_out_while_the_clock_stands_still() -> None:
    async with lab(is_frozen=True, log_message_timestamp_after_max_ms=MINUTE_MS) as broker:
        await broker.write("slow", transactional_id="t", commit=False)
        await broker.clock.wire.sleep(10 * MINUTE_MS)
        assert await broker.operations.outcomes("t") == ["open"]
        await broker.write("of now")  # ahead of the broker's clock, but it is the clock that is late
        await broker.operations.flow_clock(1.0)
        await broker.operations.advance(MINUTE_MS + SECOND_MS, False)
        assert await broker.operations.outcomes("t") == ["timeout"]


async def test_a_fast_clock_brings_the_deadline_sooner() -> None:
    async with lab() as broker:
        await broker.operations.flow_clock(100.0)
        await broker.write("late", transactional_id="t", commit=False)
        await broker.clock.wire.sleep(MINUTE_MS / 100 + 10)
        assert await broker.operations.outcomes("t") == ["timeout"]


async def test_a_time_of_day_that_is_set_forward_aborts_nothing() -> None:
    async with lab() as broker:
        await broker.write("in time", transactional_id="t", commit=False)
        await broker.operations.jump_wall(10 * MINUTE_MS)
        await broker.operations.settle(0, 1000)
        assert await broker.operations.outcomes("t") == ["open"]


# Members


async def test_a_member_lives_through_a_jump_unless_it_is_to_die() -> None:
    async with lab() as broker:
        joined = await broker.join()
        assert joined.error is ErrorCode.NONE
        await broker.operations.advance(46 * SECOND_MS, False)
        await broker.operations.advance(8 * DAY_MS, False)
        assert [each.member_id for each in await broker.operations.members("readers")] == [joined.member_id]
        await broker.operations.advance(46 * SECOND_MS, True)
        assert await broker.operations.members("readers") == []


async def test_a_member_that_is_silent_dies_in_real_time() -> None:
    async with lab() as broker:
        await broker.join()
        await broker.clock.wire.sleep(46 * SECOND_MS)
        assert await broker.operations.members("readers") == []


async def test_what_is_due_next_is_named_with_its_owner() -> None:
    async with lab() as broker:
        joined = await broker.join(session_timeout_ms=10 * SECOND_MS)
        await broker.write("late", transactional_id="t", commit=False)
        due = await broker.operations.next_deadlines(100)
        assert [each.at_ms for each in due] == sorted(each.at_ms for each in due)
        named = {str(each) for each in due}
        assert "the timeout of t" in named
        assert "retention" in named
        assert "the expiry of transactional ids" in named
        members = [each for each in due if each.owner == "readers"]
        assert members
        assert any(joined.member_id in each.what or "sync" in each.what for each in members)
        assert await broker.operations.next_deadlines(2) == due[:2]


# Records


async def test_records_of_a_week_ago_are_deleted_and_the_client_s_next_ones_are_not() -> None:
    async with lab() as broker:
        await broker.write("old")
        jumped = await broker.operations.advance(8 * DAY_MS, False)
        assert [(each.topic, each.partition, each.upto) for each in jumped.deleted] == [("orders", 0, 1)]
        await broker.write("new")  # stamped by a client to whom nothing has happened, eight days before
        for _ in range(3):
            assert (await broker.operations.advance(10 * MINUTE_MS, False)).deleted == []
        assert await broker.values() == [b"new"]
        (record,) = await broker.operations.read("orders", "read_committed", None)
        assert record.timestamp <= real_now_ms(), "it is stored as it was sent"
        await broker.operations.advance(8 * DAY_MS, False)
        assert await broker.values() == []


async def test_a_segment_rolls_by_its_age_in_virtual_time() -> None:
    async with lab() as broker:
        await broker.operations.create_topic("orders", 1, {"segment.ms": str(HOUR_MS), "retention.ms": str(HOUR_MS)})
        await broker.write("first")
        await broker.write("second")
        assert _segments(broker) == 1
        await broker.operations.advance(HOUR_MS // 2, False)
        await broker.write("third")
        assert _segments(broker) == 1
        await broker.operations.advance(HOUR_MS // 2 + SECOND_MS, False)
        await broker.write("fourth")
        assert _segments(broker) == 2


def _segments(broker: Lab) -> int:
    (log,) = (log for partition, log in broker.node.logs.logs.items() if partition.topic == "orders")
    return len(log.segments)


async def test_a_client_s_time_is_checked_against_the_time_at_which_it_wrote() -> None:
    async with lab() as broker:
        limit = {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": str(HOUR_MS)}
        await broker.operations.create_topic("orders", 1, limit)
        await broker.operations.advance(DAY_MS, False)
        await broker.write("of now")
        with pytest.raises(Exception, match="INVALID_TIMESTAMP"):
            await broker.write("of yesterday", timestamp=real_now_ms() - 2 * HOUR_MS)
        with pytest.raises(Exception, match="INVALID_TIMESTAMP"):
            await broker.write("of tomorrow", timestamp=real_now_ms() + 2 * DAY_MS)


async def test_compaction_lags_go_by_virtual_time() -> None:
    from eosin.storage.compaction.choice import should_roll

    async with lab() as broker:
        configs = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(HOUR_MS)}
        await broker.operations.create_topic("orders", 1, configs)
        await broker.operations.advance(DAY_MS, False)
        await broker.operations.produce("orders", ["new"], "k", {}, None, None, None, True)
        (log,) = (log for partition, log in broker.node.logs.logs.items() if partition.topic == "orders")
        assert not should_roll(log, broker.clock.now_ms())
        broker.clock.line.hold()
        broker.clock.line.move_to(broker.clock.line.now_ms + HOUR_MS + SECOND_MS)
        broker.clock.line.release()
        assert should_roll(log, broker.clock.now_ms())


# Peers


async def test_connections_are_not_idle_for_eight_days_because_the_clock_jumps() -> None:
    async with lab() as broker:
        client = Client(broker.node.addresses[0])
        await client.fetch_metadata()
        (connection,) = broker.node.host.connections
        await broker.operations.advance(8 * DAY_MS, False)
        assert list(broker.node.host.connections) == [connection]
        await broker.clock.wire.sleep(15 * MINUTE_MS)
        assert list(broker.node.host.connections) == [], "connections.max.idle.ms is real time"
        await client.close()


# What cannot be


async def test_impossible_jumps_are_refused_in_a_sentence() -> None:
    async with lab() as broker:
        with pytest.raises(LabError, match="never goes back: advance by 0 ms or more, not by -1"):
            await broker.operations.advance(-1, False)
        with pytest.raises(LabError, match=r"the clock never goes back: \d+ was \d+ ms ago"):
            await broker.operations.advance_to(broker.clock.now_ms() - HOUR_MS, False)
        with pytest.raises(LabError, match="never goes back"):
            await broker.operations.jump_wall(-1)
        with pytest.raises(LabError, match=r"0\.1 to 100 times"):
            await broker.operations.flow_clock(0)


# Cost


async def test_eight_days_cost_a_round_of_each_work_and_not_one_for_each_interval() -> None:
    async with lab() as broker:
        await broker.write("in time", transactional_id="t")
        begun = broker.node.background.begun
        jumped = await broker.operations.advance(8 * DAY_MS, False)
        assert len(jumped.rounds) == len(set(jumped.rounds))
        assert broker.node.background.begun - begun <= len(jumped.rounds)
        assert {each.what for each in jumped.fired} <= {"the timeout of a transaction"}, "of a transaction that is over"
