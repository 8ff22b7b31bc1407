"""Committing, reading and deleting offsets through the service (groups.md 8, 9, 11 and 14)."""

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from group_fakes import Broker, listed_groups, subscription, turns

from eosin.coordinator.groups.log.records import OffsetWritten, read
from eosin.coordinator.groups.offset_deletions import DELETED_AT_ONCE, STEPS_PER_TURN
from eosin.coordinator.groups.offset_requests import COMMITTED_PER_TURN, Committer, FetchedOffset
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.effects import JoinResult
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import iter_records
from eosin.runtime.turns import TURN_MS
from eosin.storage.results.log_results import Marker, Refused

P0, P1, AUDIT = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0)
OK = ErrorCode.NONE
NOBODY = Committer()
DAY = 86_400_000


@pytest.fixture
async def broker() -> Broker:
    return await Broker().started()


async def commit(
    broker: Broker, *offsets: OffsetToCommit, group_id: str = "g", who: Committer = NOBODY
) -> list[ErrorCode]:
    return list(await broker.groups.offsets.commit(group_id, offsets, committer=who, api_version=9))


async def fetch(broker: Broker, *partitions: TopicPartition, stable: bool = False) -> list[int | ErrorCode]:
    error, fetched = await broker.groups.offsets.fetch("g", partitions, require_stable=stable)
    assert error is OK
    return [each.error or each.offset for each in fetched]


def records_written(broker: Broker) -> list[OffsetWritten]:
    written = [read(record) for batch in broker.log.written for record in iter_records(batch)]
    return [each for each in written if isinstance(each, OffsetWritten)]


# Committing


async def test_a_commit_is_read_back_with_all_that_it_said(broker: Broker) -> None:
    assert await commit(broker, OffsetToCommit(P0, 42, 7, "note"), OffsetToCommit(P1, 43)) == [OK, OK]
    error, fetched = await broker.groups.offsets.fetch("g", [P0, P1, AUDIT], require_stable=False)
    assert error is OK
    assert fetched == [
        FetchedOffset(P0, 42, 7, "note"),
        FetchedOffset(P1, 43, -1, ""),
        FetchedOffset(AUDIT, -1, -1, ""),
    ]


async def test_one_request_is_one_batch(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(P1, 2))
    assert len(broker.log.written) == 1


async def test_a_commit_is_answered_and_visible_when_it_is_durable(broker: Broker) -> None:
    broker.log.held = True
    waiting = asyncio.ensure_future(commit(broker, OffsetToCommit(P0, 42)))
    await turns()
    assert not waiting.done()
    assert await fetch(broker, P0) == [-1]
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.log.release()
    assert await waiting == [OK]
    assert await fetch(broker, P0) == [42]


async def test_a_commit_may_go_back(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 42))
    await commit(broker, OffsetToCommit(P0, 7))
    assert await fetch(broker, P0) == [7]


async def test_the_last_of_two_offsets_in_one_request_counts(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(P0, 2))
    assert await fetch(broker, P0) == [2]
    await broker.crash()
    assert await fetch(broker, P0) == [2]


async def test_metadata_that_is_too_long_spoils_only_its_own_partition(broker: Broker) -> None:
    long = OffsetToCommit(P0, 1, metadata="x" * 4097)
    answers = await commit(broker, long, OffsetToCommit(P1, 2, metadata="x" * 4096))
    assert answers == [ErrorCode.OFFSET_METADATA_TOO_LARGE, OK]
    assert await fetch(broker, P0, P1) == [-1, 2]
    assert await commit(broker, long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_log_that_refuses_is_translated(broker: Broker, refusal: ErrorCode, answer: ErrorCode) -> None:
    broker.log.refuse = refusal
    assert await commit(broker, OffsetToCommit(P0, 1)) == [answer]
    assert await fetch(broker, P0) == [-1]


async def test_a_commit_that_does_not_become_durable_in_time_is_unanswered_but_not_undone(broker: Broker) -> None:
    broker.log.held = True
    waiting = asyncio.ensure_future(commit(broker, OffsetToCommit(P0, 1)))
    await turns()
    broker.clock.advance(5_000)
    assert await waiting == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    await broker.log.release()
    assert await fetch(broker, P0) == [1]


async def test_a_log_that_fails_while_a_commit_waits_tells_it(broker: Broker) -> None:
    broker.log.held = True
    waiting = asyncio.ensure_future(commit(broker, OffsetToCommit(P0, 1)))
    await turns()
    await broker.log.fail()
    assert await waiting == [ErrorCode.NOT_COORDINATOR]
    assert await fetch(broker, P0) == [-1]


async def test_a_members_commit_is_fenced_by_its_generation(broker: Broker) -> None:
    joined = await broker.member()
    me = Committer(joined.generation_id, joined.member_id)
    assert await commit(broker, OffsetToCommit(P0, 1), who=me) == [OK]
    assert await commit(broker, OffsetToCommit(P0, 2), who=me._replace(generation_id=0)) == [
        ErrorCode.ILLEGAL_GENERATION
    ]
    assert await commit(broker, OffsetToCommit(P0, 3), who=me._replace(member_id="x")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await commit(broker, OffsetToCommit(P0, 4), who=NOBODY) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await fetch(broker, P0) == [1]


def many(offset: int) -> list[OffsetToCommit]:
    return [OffsetToCommit(TopicPartition("orders", index), offset) for index in range(2 * COMMITTED_PER_TURN + 1)]


async def test_very_many_offsets_are_committed_in_several_batches(broker: Broker) -> None:
    before = len(broker.log.written)
    assert await commit(broker, *many(7)) == [OK] * len(many(7))
    assert len(broker.log.written) - before == 3
    error, fetched = await broker.groups.offsets.fetch("g", None, require_stable=True)
    assert error is OK
    assert [each.offset for each in fetched] == [7] * len(many(7))


async def test_a_member_that_leaves_between_two_batches_of_its_commit_commits_no_more(broker: Broker) -> None:
    joined = await broker.member()
    broker.log.held = True
    waiting = asyncio.ensure_future(commit(broker, *many(7), who=Committer(joined.generation_id, joined.member_id)))
    await turns()
    broker.groups.leave("g", [LeavingMember(joined.member_id, None)])
    await broker.log.release()
    gone = len(many(7)) - COMMITTED_PER_TURN
    assert await waiting == [OK] * COMMITTED_PER_TURN + [ErrorCode.UNKNOWN_MEMBER_ID] * gone


async def test_very_many_offsets_are_not_read_to_the_end_from_a_coordinator_that_is_none_any_more(
    broker: Broker,
) -> None:
    await commit(broker, *many(7))
    shards = broker.groups.offsets._shards
    ticking = broker.clock.elapsed_ms

    def ends_after_a_turn() -> int:
        broker.clock.advance(TURN_MS)
        asyncio.get_running_loop().call_soon(lambda: setattr(shards, "of_group", lambda _: ErrorCode.NOT_COORDINATOR))
        return ticking()

    with patch.object(broker.clock, "elapsed_ms", ends_after_a_turn):
        answer = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert answer == (ErrorCode.NOT_COORDINATOR, [])


async def test_a_commit_without_a_group_makes_one_only_without_a_generation(broker: Broker) -> None:
    offsets = [OffsetToCommit(P0, 1)]
    for version, answer in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
        who = Committer(3, "m")
        assert await broker.groups.offsets.commit("g", offsets, committer=who, api_version=version) == [answer]
    assert await commit(broker, *offsets, group_id="") == [OK]
    assert await commit(broker, *offsets) == [OK]
    assert [each.group_id for each in listed_groups(broker)[1]] == ["", "g"]
    assert [each.protocol_type for each in listed_groups(broker)[1]] == ["", ""]


async def test_groups_made_by_commits_are_bounded() -> None:
    broker = await Broker(GroupConfig(eosin_group_max_groups=1)).started()
    assert await commit(broker, OffsetToCommit(P0, 1)) == [OK]
    assert await commit(broker, OffsetToCommit(P0, 1), group_id="h") == [ErrorCode.POLICY_VIOLATION]
    assert await commit(broker, OffsetToCommit(P0, 2)) == [OK]


async def test_offsets_survive_a_crash(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 42, 7, "note"))
    broker.log.held = True
    lost = asyncio.ensure_future(commit(broker, OffsetToCommit(P1, 43)))
    await turns()
    await broker.crash()
    assert await lost == [ErrorCode.NOT_COORDINATOR]
    assert await fetch(broker, P0, P1) == [42, -1]


# Reading


async def test_everything_of_a_group_is_listed_in_the_order_of_its_first_commit(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P1, 1), OffsetToCommit(AUDIT, 2))
    await commit(broker, OffsetToCommit(P0, 3), OffsetToCommit(P1, 4))
    _, fetched = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert [(each.partition, each.offset) for each in fetched] == [(P1, 4), (AUDIT, 2), (P0, 3)]


async def test_an_unknown_group_has_no_offsets_and_that_is_no_error(broker: Broker) -> None:
    assert await broker.groups.offsets.fetch("nobody", None, require_stable=True) == (OK, [])
    assert await broker.groups.offsets.fetch("nobody", [P0], require_stable=True) == (OK, [FetchedOffset(P0)])


async def test_a_stable_read_waits_for_commits_that_were_accepted_before_it(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    broker.log.held = True
    committing = asyncio.ensure_future(commit(broker, OffsetToCommit(P0, 2)))
    await turns()
    reading = asyncio.ensure_future(fetch(broker, P0, stable=True))
    await turns()
    assert not reading.done()
    assert await fetch(broker, P0) == [1]
    await broker.log.release()
    assert await reading == [2]
    await committing


async def test_requests_are_told_to_wait_while_a_partition_is_loading() -> None:
    wait = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    async with Broker().loading() as broker:
        assert await commit(broker, OffsetToCommit(P0, 1)) == [wait]
        assert await broker.groups.offsets.fetch("g", None, require_stable=False) == (wait, [])
        assert await broker.groups.offsets.delete("g", [P0]) == (wait, [])
        assert (await broker.join()).error is wait
        assert broker.groups.leave("g", []).error is wait
        assert broker.groups.describe("g") is wait
        assert await broker.groups.delete_groups(["g"]) == [wait]
        assert listed_groups(broker) == (wait, [])
        # A member is kept alive, and one that syncs joins again, which waits.
        assert broker.groups.heartbeat("g", generation_id=1, member_id="m") is OK
        joined = JoinResult(OK, "m", 1, "consumer", "range")
        assert (await broker.sync(joined)).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert await commit(broker, OffsetToCommit(P0, 1)) == [OK]


# Deleting


async def test_deleted_offsets_are_gone_after_a_crash_too(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(P1, 2))
    assert await broker.groups.offsets.delete("g", [P0, AUDIT, P0]) == (OK, [OK, OK, OK])
    assert await fetch(broker, P0, P1) == [-1, 2]
    await broker.crash()
    assert await fetch(broker, P0, P1) == [-1, 2]


async def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted(broker: Broker) -> None:
    assert await broker.groups.offsets.delete("g", [P0]) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert await broker.groups.offsets.delete("", [P0]) == (ErrorCode.INVALID_GROUP_ID, [])


async def test_subscribed_topics_keep_their_offsets(broker: Broker) -> None:
    joined = await broker.member()
    me = Committer(joined.generation_id, joined.member_id)
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2), who=me)
    answer = await broker.groups.offsets.delete("g", [P0, AUDIT])
    assert answer == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OK])
    assert await fetch(broker, P0, AUDIT) == [1, -1]


async def test_a_busy_group_of_another_kind_keeps_everything(broker: Broker) -> None:
    await broker.member(protocol_type="connect", protocols=(("v1", b""),))
    assert await broker.groups.offsets.delete("g", [P0]) == (ErrorCode.NON_EMPTY_GROUP, [])


async def test_an_empty_group_is_deleted_with_its_offsets_in_one_batch(broker: Broker) -> None:
    joined = await broker.member()
    await commit(broker, OffsetToCommit(P0, 1), who=Committer(joined.generation_id, joined.member_id))
    assert await broker.groups.delete_groups(["g", "nobody"]) == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    broker.groups.leave("g", [LeavingMember(joined.member_id, None)])
    before = len(broker.log.written)
    assert await broker.groups.delete_groups(["g"]) == [OK]
    assert len(broker.log.written) == before + 1
    for _ in range(2):
        assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
        assert await fetch(broker, P0) == [-1]
        await broker.crash()


async def test_a_group_that_is_being_deleted_is_not_joined_or_committed_to(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    broker.log.held = True
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    await turns()
    come_back = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await broker.join()).error is come_back
    assert await commit(broker, OffsetToCommit(P0, 2)) == [come_back]
    assert await broker.groups.delete_groups(["g"]) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert await fetch(broker, P0) == [1]
    await broker.log.release()
    assert await deleting == [OK]
    broker.log.held = False
    assert (await broker.join()).error is ErrorCode.MEMBER_ID_REQUIRED


async def test_a_delete_that_is_refused_leaves_the_group_as_it_was(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await broker.groups.delete_groups(["g"]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    broker.log.refuse = None
    assert await fetch(broker, P0) == [1]
    assert await commit(broker, OffsetToCommit(P0, 2)) == [OK]


async def test_a_delete_takes_along_what_is_still_being_written(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    broker.log.held = True
    committing = asyncio.ensure_future(commit(broker, OffsetToCommit(P1, 2)))
    await turns()
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    await turns()
    await broker.log.release()
    assert (await committing, await deleting) == ([OK], [OK])
    for _ in range(2):
        assert await fetch(broker, P0, P1) == [-1, -1]
        await broker.crash()


async def test_a_deleted_topic_takes_its_offsets_along_in_every_group(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2))
    await commit(broker, OffsetToCommit(P1, 3), group_id="h")
    broker.groups.topic_deleted("orders")
    for _ in range(2):
        assert await fetch(broker, P0, AUDIT) == [-1, 2]
        assert await broker.groups.offsets.fetch("h", None, require_stable=False) == (OK, [])
        await broker.crash()


async def test_a_topic_deleted_just_before_a_crash_is_caught_up_with_at_the_start(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2))
    await broker.crash()
    broker.groups.keep_topics(["audit"])
    assert await fetch(broker, P0, AUDIT) == [-1, 2]


async def test_a_topic_deleted_while_offsets_are_loaded_is_not_forgotten(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2))
    async with broker.loading():
        broker.groups.topic_deleted("orders")
    assert await fetch(broker, P0, AUDIT) == [-1, 2]


# Deleting very many


VERY_MANY = 2 * DELETED_AT_ONCE * STEPS_PER_TURN


async def commit_very_many(broker: Broker) -> list[TopicPartition]:
    partitions = [TopicPartition("orders", index) for index in range(VERY_MANY)]
    assert set(await commit(broker, *(OffsetToCommit(each, 1) for each in partitions))) == {OK}
    return partitions


async def test_a_group_of_very_many_offsets_has_all_of_them_or_none(broker: Broker) -> None:
    partitions = await commit_very_many(broker)
    deleting = asyncio.ensure_future(broker.groups.delete_groups(["g"]))
    seen = []
    while not deleting.done():
        await asyncio.sleep(0)
        (shard,) = broker.groups._shards
        seen.append(len(shard.commits.offsets.committed("g")))
        assert await commit(broker, OffsetToCommit(P0, 2)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] or seen[-1] < 2
    assert await deleting == [OK]
    assert VERY_MANY in seen, "not all in one turn"
    assert set(seen) <= {0, 1, VERY_MANY}
    await broker.crash()
    assert set(await fetch(broker, *partitions[1:])) == {-1}


async def test_a_delete_of_very_many_offsets_that_fails_in_the_middle_is_seen_as_the_log_has_it(
    broker: Broker,
) -> None:
    partitions = await commit_very_many(broker)
    append, left = broker.log.append, [3]

    def refuses_the_fourth(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        return append(*args, **kwargs) if left[0] >= 0 else Refused(ErrorCode.NOT_ENOUGH_REPLICAS)

    with patch.object(broker.log, "append", refuses_the_fourth):
        assert await broker.groups.delete_groups(["g"]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    for _ in range(2):
        assert await fetch(broker, *partitions) == [-1] * 3 * DELETED_AT_ONCE + [1] * (VERY_MANY - 3 * DELETED_AT_ONCE)
        await broker.crash()


async def test_what_is_committed_while_a_topics_very_many_offsets_go_stays(broker: Broker) -> None:
    """The topic is there again, under its name."""
    partitions = await commit_very_many(broker)
    old, new, pending = partitions[-3:]
    broker.groups.topic_deleted("orders")
    assert await fetch(broker, old, new) == [-1, -1], "the offsets of another topic"
    assert await commit(broker, OffsetToCommit(new, 0)) == [OK]
    added = await broker.groups.offsets.commit_in_transaction(
        "g",
        [OffsetToCommit(pending, 5)],
        transactional_id="tx",
        producer=ProducerIdAndEpoch(1, 0),
        committer=NOBODY,
        api_version=4,
    )
    assert added == [OK]
    (shard,) = broker.groups._shards
    assert len(shard.commits.offsets.committed("g")) > DELETED_AT_ONCE, "the others are still there"
    assert await fetch(broker, new, pending) == [0, -1]
    await turns()
    assert set(shard.commits.offsets.committed("g")) == {new}
    await broker.groups.write_markers(0, Marker(1, 0, True, 0))
    for _ in range(2):
        assert await fetch(broker, *partitions) == [-1] * (VERY_MANY - 2) + [0, 5]
        await broker.crash()


async def test_a_crash_while_a_topics_very_many_offsets_go_leaves_none_of_them_to_the_topic_made_anew(
    broker: Broker,
) -> None:
    partitions = await commit_very_many(broker)
    assert await commit(broker, OffsetToCommit(AUDIT, 9)) == [OK]
    broker.groups.topic_deleted("orders")
    assert await commit(broker, OffsetToCommit(P1, 0)) == [OK], "the topic is there again"
    for _ in range(3):  # each start deletes a part of what is left
        await broker.crash()
        broker.groups.keep_topics(["orders", "audit"])
        assert await fetch(broker, *partitions, AUDIT) == [-1, 0, *[-1] * (VERY_MANY - 2), 9]
        (shard,) = broker.groups._shards
    await turns()
    assert set(shard.commits.offsets.committed("g")) == {P1, AUDIT}


async def test_pending_offsets_of_a_topic_do_not_outlive_a_crash_while_its_very_many_offsets_go(broker: Broker) -> None:
    partitions = await commit_very_many(broker)
    added = await broker.groups.offsets.commit_in_transaction(
        "g",
        [OffsetToCommit(partitions[-1], 5)],
        transactional_id="tx",
        producer=ProducerIdAndEpoch(1, 0),
        committer=NOBODY,
        api_version=4,
    )
    assert added == [OK]
    broker.groups.topic_deleted("orders")
    await broker.crash()
    broker.groups.keep_topics(["orders"])
    await broker.groups.write_markers(0, Marker(1, 0, True, 0))
    assert await fetch(broker, partitions[-1]) == [-1]


async def test_a_start_that_crashes_while_the_offsets_of_a_topic_that_is_gone_go_leaves_none_of_them(
    broker: Broker,
) -> None:
    partitions = await commit_very_many(broker)
    await broker.crash()
    broker.groups.keep_topics([])
    (shard,) = broker.groups._shards
    assert len(shard.commits.offsets.committed("g")) > DELETED_AT_ONCE, "the others are still there"
    await broker.crash()
    broker.groups.keep_topics(["orders"])
    assert set(await fetch(broker, *partitions)) == {-1}


async def test_a_crash_of_a_start_during_which_a_topic_was_deleted_leaves_none_of_its_offsets(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2))
    async with broker.loading():
        broker.groups.topic_deleted("orders")
        await broker.crash()
        assert await fetch(broker, P0, AUDIT) == [-1, 2]


async def test_a_start_without_offsets_of_topics_that_are_gone_walks_through_none_of_them(broker: Broker) -> None:
    await commit_very_many(broker)
    await broker.crash()
    (shard,) = broker.groups._shards
    with patch.object(shard.commits, "group_ids", side_effect=AssertionError("walked through them")):
        broker.groups.keep_topics(["orders"])


async def test_few_offsets_of_a_topic_go_without_a_sign_for_a_crash(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    broker.groups.topic_deleted("orders")
    assert records_written(broker)[1:] == [OffsetWritten("g", P0, None)]


# Expiry


async def test_offsets_of_an_empty_group_expire_with_the_group_a_retention_after_it_became_empty(
    broker: Broker,
) -> None:
    joined = await broker.member()
    await commit(broker, OffsetToCommit(P0, 1), who=Committer(joined.generation_id, joined.member_id))
    broker.clock.advance(5_000)
    broker.groups.leave("g", [LeavingMember(joined.member_id, None)])
    await broker.clock.run(7 * DAY - 600_000)
    assert await fetch(broker, P0) == [1]
    await broker.clock.run(2 * 600_000)
    assert await fetch(broker, P0) == [-1]
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.crash()
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_subscribed_topics_never_expire(broker: Broker) -> None:
    joined = await broker.member(session_timeout_ms=1_800_000)
    me = Committer(joined.generation_id, joined.member_id)
    await commit(broker, OffsetToCommit(P0, 1), OffsetToCommit(AUDIT, 2), who=me)
    for _ in range(8 * 48):
        broker.clock.advance(1_800_000 - 1)
        assert broker.groups.heartbeat("g", generation_id=1, member_id=joined.member_id) is OK
    assert await fetch(broker, P0, AUDIT) == [1, -1]


async def test_a_group_of_offsets_alone_expires_by_its_commits_and_then_vanishes(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    await broker.clock.run(6 * DAY)
    await commit(broker, OffsetToCommit(P1, 2))
    await broker.clock.run(2 * DAY)
    assert await fetch(broker, P0, P1) == [-1, 2]
    assert isinstance(broker.groups.describe("g"), Group)
    await broker.clock.run(6 * DAY)
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_retention_of_its_own_overrides_the_brokers(broker: Broker) -> None:
    expires = broker.clock.now_ms() + 1_000
    await commit(broker, OffsetToCommit(P0, 1, expire_timestamp_ms=expires), OffsetToCommit(P1, 2))
    await broker.clock.run(600_000)
    assert await fetch(broker, P0, P1) == [-1, 2]


async def test_a_group_that_members_are_about_to_enter_does_not_vanish() -> None:
    broker = await Broker(GroupConfig(offsets_retention_check_interval_ms=1_000)).started()
    await commit(broker, OffsetToCommit(P0, 1))
    await broker.groups.offsets.delete("g", [P0])
    first = await broker.join(protocols=(("range", subscription("orders")),))
    broker.clock.advance(5_000)
    assert (await broker.join(member_id=first.member_id)).error is OK


async def test_tombstones_name_the_expired_offsets(broker: Broker) -> None:
    await commit(broker, OffsetToCommit(P0, 1))
    await broker.clock.run(8 * DAY)
    assert records_written(broker)[-1] == OffsetWritten("g", P0, None)
