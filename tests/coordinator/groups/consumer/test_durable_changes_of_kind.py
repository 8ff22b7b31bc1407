"""Changes between classic and consumer group are one batch: all of it counts or nothing (consumer-groups.md 16, 17)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from group_fakes import Broker, subscription, turns

from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.effects import JoinResult
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.storage.results.log_results import Marker

NONE = ErrorCode.NONE
AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOTHING_ASSIGNED = b"\0\0" + bytes(4) + b"\xff\xff\xff\xff"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    started = await Broker().started()
    yield started
    await started.groups.stop()


def heartbeat(broker: Broker, member_id: str = "new", epoch: int = 0, **more: Any) -> "asyncio.Task[HeartbeatResult]":
    fields: dict[str, Any] = dict(more)
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 100, "topics": ("orders",), "owned": frozenset()}
    return asyncio.ensure_future(broker.groups.consumer_heartbeat("g", ConsumerHeartbeat(member_id, epoch, **fields)))


async def classic_member(broker: Broker, assignment: bytes = NOTHING_ASSIGNED, **fields: Any) -> JoinResult:
    """A member in generation 1, alone."""
    joined = await broker.join(**fields)
    if joined.error is ErrorCode.MEMBER_ID_REQUIRED:
        joined = await broker.join(**fields, member_id=joined.member_id)
    await broker.sync(joined, {joined.member_id: assignment}, instance_id=fields.get("instance_id"))
    return joined


def kind(broker: Broker) -> type:
    if isinstance(broker.groups.describe_consumer("g"), ConsumerGroup):
        assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
        return ConsumerGroup
    assert isinstance(broker.groups.describe("g"), Group)
    return Group


def classic(broker: Broker) -> Group:
    group = broker.groups.describe("g")
    assert isinstance(group, Group)
    return group


async def commit(broker: Broker, offset: int, committer: Committer, partition: TopicPartition = P0) -> ErrorCode:
    (error,) = await broker.groups.offsets.commit(
        "g", [OffsetToCommit(partition, offset)], committer=committer, api_version=9
    )
    return error


async def committed(broker: Broker) -> dict[TopicPartition, int]:
    error, found = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert error is NONE
    return {each.partition: each.offset for each in found}


async def leaves(broker: Broker, member_id: str) -> ErrorCode:
    result = await broker.groups.remove_members("g", [LeavingMember(member_id, None)])
    return result.error or result.members[0]


def beats(broker: Broker, joined: JoinResult, generation_id: int | None = None) -> ErrorCode:
    wanted = joined.generation_id if generation_id is None else generation_id
    return broker.groups.heartbeat("g", generation_id=wanted, member_id=joined.member_id)


async def test_offsets_survive_each_change_and_a_crash_after_it(broker: Broker) -> None:
    old = await classic_member(broker)
    assert await commit(broker, 1, Committer(1, old.member_id)) is NONE
    assert (await heartbeat(broker)).epoch == 2
    assert await commit(broker, 2, Committer(1, old.member_id)) is NONE, "its generation is its epoch"
    assert await commit(broker, 5, Committer(2, "new"), P1) is NONE
    await broker.crash()
    assert (kind(broker), await committed(broker)) == (ConsumerGroup, {P0: 2, P1: 5})
    assert beats(broker, old) is AGAIN
    again = await broker.join(member_id=old.member_id)
    assert (again.generation_id, again.leader_id) == (2, "")
    assert (await broker.sync(again)).error is NONE
    assert (await heartbeat(broker, epoch=-1)).error is NONE
    assert (kind(broker), await committed(broker)) == (Group, {P0: 2, P1: 5})
    await broker.crash()
    assert (kind(broker), await committed(broker)) == (Group, {P0: 2, P1: 5})


async def test_a_group_that_crashed_before_its_rebalance_has_one_after_the_restart(broker: Broker) -> None:
    old = await classic_member(broker)
    await heartbeat(broker)
    again = await broker.join(member_id=old.member_id)
    await broker.sync(again)
    await heartbeat(broker, epoch=-1)
    await broker.crash()
    assert classic(broker).state is GroupState.PREPARING_REBALANCE
    assert beats(broker, again) is AGAIN
    led = await broker.join(member_id=old.member_id)
    assert (led.generation_id, led.leader_id) == (3, old.member_id)
    await broker.sync(led, {led.member_id: NOTHING_ASSIGNED})
    await broker.crash()
    assert classic(broker).state is GroupState.STABLE, "it has begun a generation since"


async def test_what_was_not_durable_of_an_upgrade_did_not_happen(broker: Broker) -> None:
    old = await classic_member(broker)
    broker.log.held = True
    joining = heartbeat(broker)
    await turns()
    assert not joining.done()
    await broker.crash()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert kind(broker) is Group
    assert beats(broker, old) is NONE


async def test_an_upgrade_that_the_log_refuses_did_not_happen_and_nobody_was_told(broker: Broker) -> None:
    old = await classic_member(broker)
    waiting = asyncio.ensure_future(broker.join(member_id=(await broker.join()).member_id))
    await turns()
    broker.log.refuse = ErrorCode.MESSAGE_TOO_LARGE
    assert (await heartbeat(broker)).error is ErrorCode.UNKNOWN_SERVER_ERROR
    broker.log.refuse = None
    assert kind(broker) is Group
    assert not waiting.done()
    assert beats(broker, old) is AGAIN, "that of the rebalance that was before"
    back, joined = await asyncio.gather(broker.join(member_id=old.member_id), waiting)
    assert back.generation_id == joined.generation_id == 2


@pytest.mark.parametrize("rebalances", [False, True])
async def test_a_classic_group_is_there_again_when_the_log_fails_in_an_upgrade(
    broker: Broker, rebalances: bool
) -> None:
    old = await classic_member(broker)
    waiting = None
    if rebalances:
        waiting = asyncio.ensure_future(broker.join(member_id=(await broker.join()).member_id))
        await turns()
    broker.log.held = True
    joining = heartbeat(broker)
    await turns()
    if waiting is not None:
        assert (await waiting).error is AGAIN
    await broker.log.fail()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert kind(broker) is Group
    assert classic(broker).state is (GroupState.PREPARING_REBALANCE if rebalances else GroupState.STABLE)
    assert beats(broker, old) is (AGAIN if rebalances else NONE)
    broker.clock.advance(10_001)  # its session is waited for again
    assert old.member_id not in classic(broker).members


async def mixed(broker: Broker) -> JoinResult:
    """A classic member and `new` in a consumer group at epoch 2."""
    old = await classic_member(broker)
    await heartbeat(broker)
    joined = await broker.join(member_id=old.member_id)
    await broker.sync(joined)
    assert kind(broker) is ConsumerGroup
    return joined


async def test_who_observes_a_downgrade_hears_of_the_member_that_left_alone(broker: Broker) -> None:
    old = await mixed(broker)
    seen: list[tuple[ConsumerGroup, ConsumerGroup, object]] = []

    class Observer:
        def consumer_decided(self, before: ConsumerGroup, after: ConsumerGroup, event: object, now_ms: int) -> None:
            seen.append((before, after, event))

    (shard,) = broker.groups._shards
    shard.consumer.observer = Observer()
    await heartbeat(broker, epoch=-1)
    assert kind(broker) is Group
    ((before, after, event),) = seen
    assert sorted(before.members) == sorted([old.member_id, "new"])
    assert list(after.members) == [old.member_id]
    assert isinstance(event, ConsumerHeartbeat)


async def test_what_was_not_durable_of_a_downgrade_did_not_happen(broker: Broker) -> None:
    await mixed(broker)
    broker.log.held = True
    leaving = heartbeat(broker, epoch=-1)
    await turns()
    assert not leaving.done()
    await broker.crash()
    assert (await leaving).error is ErrorCode.NOT_COORDINATOR
    assert kind(broker) is ConsumerGroup


async def test_a_consumer_group_is_there_again_when_the_log_fails_in_a_downgrade(broker: Broker) -> None:
    old = await mixed(broker)
    broker.log.held = True
    leaving = heartbeat(broker, epoch=-1)
    await turns()
    waiting = asyncio.ensure_future(broker.join(member_id=(await broker.join()).member_id))
    await turns()
    await broker.log.fail()
    assert (await leaving).error is ErrorCode.NOT_COORDINATOR
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR
    assert kind(broker) is ConsumerGroup
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert sorted(group.members) == sorted([old.member_id, "new"])
    assert beats(broker, old) is NONE


async def test_a_group_whose_classic_record_is_refused_loses_its_member_all_the_same(broker: Broker) -> None:
    old = await mixed(broker)
    appended, refusals = broker.log._append, iter([True])

    def refuse_the_first(batch: bytearray) -> Any:
        if next(refusals, False):
            broker.log.refuse = ErrorCode.MESSAGE_TOO_LARGE
        result = appended(batch)
        broker.log.refuse = None
        return result

    broker.log._append = refuse_the_first  # type: ignore[method-assign]
    assert (await heartbeat(broker, epoch=-1)).error is NONE
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == [old.member_id]


async def test_of_two_changes_at_once_the_second_waits_for_the_first(broker: Broker) -> None:
    old = await classic_member(broker)
    broker.log.held = True
    joining = heartbeat(broker)
    leaving = heartbeat(broker, epoch=-1)
    await turns()
    await broker.log.release()
    broker.log.held = False
    assert ((await joining).error, (await leaving).error) == (NONE, NONE)
    assert kind(broker) is ConsumerGroup, "though no member of the consumer protocol is left"
    assert beats(broker, old) is AGAIN
    assert kind(broker) is Group
    broker.log.held = True
    await broker.join(member_id=old.member_id)
    other = await broker.join()
    await broker.log.release()
    assert other.error is ErrorCode.MEMBER_ID_REQUIRED


async def test_who_would_upgrade_a_group_whose_downgrade_is_not_durable_is_to_come_back(broker: Broker) -> None:
    await mixed(broker)
    broker.log.held = True
    leaving = heartbeat(broker, epoch=-1)
    await turns()
    assert (await heartbeat(broker, "newer")).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.log.release()
    broker.log.held = False
    assert (await leaving).error is NONE
    assert (await heartbeat(broker, "newer")).error is NONE
    assert kind(broker) is ConsumerGroup


@pytest.mark.parametrize("commits", [False, True])
async def test_offsets_of_a_transaction_that_is_open_across_both_changes_end_with_it(
    broker: Broker, commits: bool
) -> None:
    old = await classic_member(broker)

    async def add(offset: int, committer: Committer) -> ErrorCode:
        (error,) = await broker.groups.offsets.commit_in_transaction(
            "g",
            [OffsetToCommit(P0, offset)],
            transactional_id="t",
            producer=ProducerIdAndEpoch(7, 0),
            committer=committer,
            api_version=4,
        )
        return error

    assert await add(1, Committer(1, old.member_id)) is NONE
    assert (await heartbeat(broker)).error is NONE
    assert await add(2, Committer(1, old.member_id)) is NONE
    joined = await broker.join(member_id=old.member_id)
    assert await add(3, Committer(1, old.member_id)) is ErrorCode.ILLEGAL_GENERATION
    await broker.sync(joined)
    await heartbeat(broker, epoch=-1)
    assert kind(broker) is Group
    assert await add(4, Committer(joined.generation_id, old.member_id)) is NONE
    await broker.crash()
    error, (found,) = await broker.groups.offsets.fetch("g", [P0], require_stable=True)
    assert (error, found.error) == (NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    await broker.groups.write_markers(0, Marker(7, 0, commit=commits, coordinator_epoch=0))
    assert await committed(broker) == ({P0: 4} if commits else {})


async def test_a_session_that_ends_while_the_member_waits_in_a_join_does_not_keep_it_from_its_answer(
    broker: Broker,
) -> None:
    old = await mixed(broker)
    broker.log.held = True
    newer = heartbeat(broker, "newer")
    waiting = asyncio.ensure_future(broker.join(member_id=old.member_id, session_timeout_ms=6_000))
    await turns()
    broker.clock.advance(6_001)
    await turns()
    await broker.log.release()
    broker.log.held = False
    assert ((await waiting).error, (await newer).error) == (NONE, NONE)
    assert beats(broker, old) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await broker.join()).error is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_static_member_rolls_to_the_other_protocol_and_back_alone(broker: Broker) -> None:
    old = await classic_member(broker, instance_id="i")
    assert (await heartbeat(broker, instance_id="i")).error is NONE
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["new"]
    assert beats(broker, old) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (await heartbeat(broker, epoch=-2, instance_id="i")).error is NONE
    back = await broker.join(instance_id="i")
    assert (back.error, kind(broker)) == (NONE, Group)
    assert list(classic(broker).members) == [back.member_id]
    await broker.crash()
    assert (kind(broker), list(classic(broker).members)) == (Group, [back.member_id])


async def test_all_members_leave_a_mixed_group_and_either_kind_takes_the_name(broker: Broker) -> None:
    old = await mixed(broker)
    assert await leaves(broker, old.member_id) is NONE
    assert (await heartbeat(broker, epoch=-1)).error is NONE
    assert kind(broker) is ConsumerGroup
    joined = await broker.join(protocols=(("range", subscription("orders")),))
    assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
    assert kind(broker) is Group


async def test_a_consumer_whose_id_was_handed_out_by_the_classic_group_joins_the_consumer_group(
    broker: Broker,
) -> None:
    await classic_member(broker)
    handed_out = (await broker.join()).member_id
    assert (await heartbeat(broker)).error is NONE
    assert (await broker.join(member_id=handed_out)).error is NONE


async def test_every_prefix_of_the_log_tells_one_group_of_one_kind(broker: Broker) -> None:
    old = await mixed(broker)
    await commit(broker, 3, Committer(2, old.member_id))
    await heartbeat(broker, epoch=-1)
    led = await broker.join(member_id=old.member_id)
    await broker.sync(led, {led.member_id: NOTHING_ASSIGNED})
    await heartbeat(broker, "newer")
    log = broker.log
    seen = []
    for end in range(1, len(log.written) + 1):
        log.high_watermark = 0
        cut = Broker(log=type(log)())
        for batch in log.written[:end]:
            cut.log._append(bytearray(batch))
        await cut.started()
        seen.append(kind(cut))
        await cut.groups.stop()
    assert [each for place, each in enumerate(seen) if place == 0 or each is not seen[place - 1]] == [
        Group,
        ConsumerGroup,
        Group,
        ConsumerGroup,
    ]


@pytest.mark.parametrize("kind_before", ["consumer", "streams"])
async def test_an_empty_group_whose_end_the_log_refuses_keeps_its_name(broker: Broker, kind_before: str) -> None:
    if kind_before == "consumer":
        assert (await heartbeat(broker, "m")).error is NONE
        assert (await heartbeat(broker, "m", -1)).error is NONE
    else:
        topology = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))
        joins = StreamsHeartbeat("m", 0, topology=topology, process_id="p", rebalance_timeout_ms=100)
        assert (await broker.groups.streams.heartbeat("g", joins)).error is NONE
        assert (await broker.groups.streams.heartbeat("g", StreamsHeartbeat("m", -1))).error is NONE

    def is_there() -> bool:
        groups = broker.groups
        return not isinstance(
            groups.describe_consumer("g") if kind_before == "consumer" else groups.streams.describe("g"), ErrorCode
        )

    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await broker.join(api_version=3)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_there()
    broker.log.refuse = None
    assert (await classic_member(broker, api_version=3)).error is NONE
    await broker.crash()
    assert kind(broker) is Group
    assert not is_there()
