"""Offsets inside of transactions: visibility, fencing, verification, crashes (groups.md 10, transactions.md 4.6)."""

import asyncio
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from group_fakes import Broker, turns

from eosin.coordinator.groups.offset_requests import COMMITTED_PER_TURN, Committer
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, ProducerIdAndEpoch, TopicPartition
from eosin.storage.results.log_results import Marker

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS_PARTITION = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)
OK = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
NOBODY = Committer()
DAY = 86_400_000


@pytest.fixture
async def broker() -> Broker:
    return await Broker().started()


async def plain(broker: Broker, offset: int, partition: TopicPartition = P0) -> None:
    await broker.groups.offsets.commit("g", [OffsetToCommit(partition, offset)], committer=NOBODY, api_version=9)


async def add(
    broker: Broker,
    offset: int,
    *,
    partition: TopicPartition = P0,
    pid: int = 1,
    epoch: int = 0,
    who: Committer = NOBODY,
    version: int = 4,
    group_id: str = "g",
) -> ErrorCode:
    (answer,) = await broker.groups.offsets.commit_in_transaction(
        group_id,
        [OffsetToCommit(partition, offset)],
        transactional_id="tx",
        producer=ProducerIdAndEpoch(pid, epoch),
        committer=who,
        api_version=version,
    )
    return answer


async def end(broker: Broker, *, commit: bool, pid: int = 1, epoch: int = 0) -> ErrorCode:
    return await broker.groups.write_markers(0, Marker(pid, epoch, commit, coordinator_epoch=0))


async def fetch(broker: Broker, partition: TopicPartition = P0, *, stable: bool = True) -> int | ErrorCode:
    error, (fetched,) = await broker.groups.offsets.fetch("g", [partition], require_stable=stable)
    assert error is OK
    return fetched.error or fetched.offset


# Visibility


@pytest.mark.parametrize(("commit", "after"), [(True, 10), (False, 5)])
@pytest.mark.parametrize("crash", [False, True])
async def test_an_offset_in_a_transaction_is_unstable_until_its_marker(
    broker: Broker, commit: bool, after: int, crash: bool
) -> None:
    await plain(broker, 5)
    assert await add(broker, 10) is OK
    if crash:
        await broker.crash()
    assert await fetch(broker) is UNSTABLE
    assert await fetch(broker, stable=False) == 5
    assert await fetch(broker, P1) == -1
    assert await end(broker, commit=commit) is OK
    if crash:
        await broker.crash()
    assert await fetch(broker) == after


async def test_all_offsets_of_a_group_include_those_that_are_only_pending(broker: Broker) -> None:
    await plain(broker, 5, P1)
    await add(broker, 10)
    _, fetched = await broker.groups.offsets.fetch("g", None, require_stable=True)
    assert {each.partition: each.error or each.offset for each in fetched} == {P1: 5, P0: UNSTABLE}
    _, fetched = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert [each.partition for each in fetched] == [P1]


@pytest.mark.parametrize("crash", [False, True])
async def test_a_plain_commit_after_the_transactions_wins_over_its_marker(broker: Broker, crash: bool) -> None:
    await add(broker, 10)
    await plain(broker, 20)
    await end(broker, commit=True)
    if crash:
        await broker.crash()
    assert await fetch(broker) == 20


async def test_a_marker_is_answered_when_its_offsets_are_visible(broker: Broker) -> None:
    await add(broker, 10)
    broker.log.held = True
    ending = asyncio.ensure_future(end(broker, commit=True))
    await turns()
    assert not ending.done()
    await broker.log.release()
    assert await ending is OK
    assert await fetch(broker) == 10


async def test_the_next_transactions_offsets_do_not_mix_with_the_last_ones(broker: Broker) -> None:
    await add(broker, 10)
    broker.log.held = True
    ending = asyncio.ensure_future(end(broker, commit=True))
    await turns()
    adding = asyncio.ensure_future(add(broker, 99))
    await turns()
    await broker.log.release()
    assert (await ending, await adding) == (OK, OK)
    assert await fetch(broker, stable=False) == 10
    assert await fetch(broker) is UNSTABLE
    broker.log.held = False
    await end(broker, commit=False)
    assert await fetch(broker) == 10


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_an_answer_that_was_given_before_the_marker_lets_no_offset_in_behind_it(
    broker: Broker, version: int
) -> None:
    """The coordinator is another broker, and its answer is read after its marker, as after a pause of this one. The
    client has given the request up, and aborts: what came in now would be committed with its next transaction."""
    verify, answered = broker.transactions.verify, asyncio.Event()

    async def verified(*_: object, **asked: Any) -> Mapping[TopicPartition, ErrorCode]:
        answer = await verify("tx", **asked)
        await answered.wait()
        return answer

    with patch.object(broker.transactions, "verify", verified):
        late = asyncio.ensure_future(add(broker, 99, version=version))
        await turns()
        assert await end(broker, commit=False) is OK
        broker.transactions.verdict = ErrorCode.TRANSACTION_ABORTABLE
        answered.set()
        assert await late is (ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE)
    assert await fetch(broker) == -1
    assert await end(broker, commit=True) is OK
    assert await fetch(broker) == -1


async def test_a_marker_of_another_producer_makes_nobody_ask_again(broker: Broker) -> None:
    verify, answered = broker.transactions.verify, asyncio.Event()

    async def verified(*_: object, **asked: Any) -> Mapping[TopicPartition, ErrorCode]:
        answer = await verify("tx", **asked)
        await answered.wait()
        return answer

    with patch.object(broker.transactions, "verify", verified):
        adding = asyncio.ensure_future(add(broker, 99))
        await turns()
        assert await end(broker, commit=False, pid=2) is OK
        answered.set()
        assert await adding is OK
    assert len(broker.transactions.verified) == 1


async def test_the_rest_of_very_many_offsets_does_not_come_into_the_next_transaction(broker: Broker) -> None:
    """The client has given this request up and has gone on with the same epoch."""
    offsets = [OffsetToCommit(TopicPartition("orders", index), 10) for index in range(2 * COMMITTED_PER_TURN)]

    async def next_transaction_begins() -> None:
        await end(broker, commit=False)
        assert await add(broker, 99) is OK

    with patch("eosin.coordinator.groups.offset_requests.next_turn", next_transaction_begins):
        answers = await broker.groups.offsets.commit_in_transaction(
            "g",
            offsets,
            transactional_id="tx",
            producer=ProducerIdAndEpoch(1, 0),
            committer=NOBODY,
            api_version=4,
        )
    assert answers == [OK] * COMMITTED_PER_TURN + [ErrorCode.INVALID_TXN_STATE] * COMMITTED_PER_TURN
    await end(broker, commit=True)
    assert (await fetch(broker), await fetch(broker, offsets[-1].partition)) == (99, -1)


async def test_a_repeated_marker_is_harmless(broker: Broker) -> None:
    await add(broker, 10)
    for _ in range(3):
        assert await end(broker, commit=True) is OK
    assert await fetch(broker) == 10


async def test_a_transaction_over_several_groups_ends_at_once_for_all(broker: Broker) -> None:
    await add(broker, 10)
    await add(broker, 20, group_id="h")
    await end(broker, commit=True)
    _, fetched = await broker.groups.offsets.fetch("h", [P0], require_stable=True)
    assert (await fetch(broker), fetched[0].offset) == (10, 20)


async def test_a_stable_read_waits_for_a_transactions_offset_that_is_being_written(broker: Broker) -> None:
    broker.log.held = True
    adding = asyncio.ensure_future(add(broker, 10))
    await turns()
    reading = asyncio.ensure_future(fetch(broker))
    await turns()
    await broker.log.release()
    assert (await adding, await reading) == (OK, UNSTABLE)


async def test_a_marker_for_a_partition_that_is_not_ours_asks_for_another_try() -> None:
    broker = Broker()
    assert await end(broker, commit=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.logs.logs.clear()
    await broker.started()
    assert await end(broker, commit=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_marker_that_the_log_refuses_changes_nothing(broker: Broker) -> None:
    await add(broker, 10)
    broker.log.refuse = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await end(broker, commit=True) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await fetch(broker) is UNSTABLE


# Deletes do not come back


async def test_a_marker_does_not_bring_back_deleted_offsets(broker: Broker) -> None:
    await plain(broker, 5)
    await add(broker, 10)
    assert await broker.groups.offsets.delete("g", [P0]) == (OK, [OK])
    await end(broker, commit=True)
    assert await fetch(broker) == -1


async def test_a_marker_does_not_bring_back_a_deleted_group(broker: Broker) -> None:
    await add(broker, 10)
    assert await broker.groups.delete_groups(["g"]) == [OK]
    for _ in range(2):
        await end(broker, commit=True)
        assert await fetch(broker) == -1
        assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
        await broker.crash()


async def test_a_marker_does_not_bring_back_offsets_of_a_deleted_topic(broker: Broker) -> None:
    await add(broker, 10)
    broker.groups.topic_deleted("orders")
    await broker.crash()
    await end(broker, commit=True)
    assert await fetch(broker) == -1


async def test_an_open_transaction_keeps_its_offsets_and_its_group_from_expiring(broker: Broker) -> None:
    await plain(broker, 5)
    await add(broker, 10)
    await broker.clock.run(8 * DAY)
    assert await fetch(broker, stable=False) == 5
    await add(broker, 1, partition=P1, group_id="pending-only")
    await broker.clock.run(8 * DAY)
    assert isinstance(broker.groups.describe("pending-only"), Group)
    await end(broker, commit=False)
    await broker.clock.run(1 * DAY)
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.groups.describe("pending-only") is ErrorCode.GROUP_ID_NOT_FOUND


# Fencing (KIP-447)


async def test_a_zombie_cannot_add_offsets(broker: Broker) -> None:
    joined = await broker.join(instance_id="i")
    await broker.sync(joined, instance_id="i")
    me = Committer(joined.generation_id, joined.member_id, "i")
    assert await add(broker, 1, who=me) is OK
    assert await add(broker, 1, who=me._replace(generation_id=0)) is ErrorCode.ILLEGAL_GENERATION
    assert await add(broker, 1, who=Committer(1, "nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await add(broker, 1, who=Committer(1, "old", "i")) is ErrorCode.FENCED_INSTANCE_ID
    broker.groups.leave("g", [LeavingMember("", "i")])
    assert await add(broker, 1, who=me) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_old_producer_epoch_is_refused(broker: Broker) -> None:
    await end(broker, commit=False, epoch=3)
    assert await add(broker, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await add(broker, 1, epoch=3) is OK


async def test_a_producer_that_names_no_member_is_accepted(broker: Broker) -> None:
    await broker.member()
    assert await add(broker, 1) is OK


async def test_a_group_that_does_not_exist_is_made_only_without_a_generation(broker: Broker) -> None:
    assert await add(broker, 1, who=Committer(1, "m")) is ErrorCode.ILLEGAL_GENERATION
    assert broker.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert await add(broker, 1) is OK
    assert isinstance(broker.groups.describe("g"), Group)


async def test_membership_is_checked_after_the_transaction_coordinator_has_answered(broker: Broker) -> None:
    joined = await broker.member()
    adding = asyncio.ensure_future(add(broker, 1, who=Committer(1, joined.member_id), version=5))
    await asyncio.sleep(0)
    broker.groups.leave("g", [LeavingMember(joined.member_id, None)])
    assert await adding is ErrorCode.UNKNOWN_MEMBER_ID


async def test_metadata_that_is_too_long_spoils_only_its_own_partition(broker: Broker) -> None:
    answers = await broker.groups.offsets.commit_in_transaction(
        "g",
        [OffsetToCommit(P0, 1, metadata="x" * 5000), OffsetToCommit(P1, 2)],
        transactional_id="tx",
        producer=ProducerIdAndEpoch(1, 0),
        committer=NOBODY,
        api_version=4,
    )
    assert answers == [ErrorCode.OFFSET_METADATA_TOO_LARGE, OK]


# Verification (KIP-890)


async def test_up_to_version_4_the_partition_must_already_be_in_the_transaction(broker: Broker) -> None:
    await add(broker, 1, version=4)
    assert broker.transactions.verified == [("tx", 1, 0, (OFFSETS_PARTITION,))]
    assert broker.transactions.added == []


async def test_version_5_adds_the_partition_and_confirms_it_before_the_append(broker: Broker) -> None:
    assert await add(broker, 1, version=5) is OK
    assert broker.transactions.added == [("tx", 1, 0, (OFFSETS_PARTITION,))]
    broker.transactions.verdict = ErrorCode.TRANSACTION_ABORTABLE  # it timed out on the way back
    written = len(broker.log.written)
    assert await add(broker, 2, version=5) is ErrorCode.TRANSACTION_ABORTABLE
    assert len(broker.log.written) == written


@pytest.mark.parametrize(
    ("verdict", "version", "answer"),
    [
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_the_verdict_is_told_as_each_version_can_bear_it(
    broker: Broker, verdict: ErrorCode, version: int, answer: ErrorCode
) -> None:
    broker.transactions.verdict = verdict
    assert await add(broker, 1, version=version) is answer
    assert broker.log.written == []


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),  # the last version of Java 2.5 to 3.7
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_old_clients_never_see_concurrent_transactions_and_seldom_a_retry(
    broker: Broker, version: int, answer: ErrorCode
) -> None:
    broker.transactions.verdict = ErrorCode.CONCURRENT_TRANSACTIONS
    adding = asyncio.ensure_future(add(broker, 1, version=version))
    await broker.clock.run(100)
    assert not adding.done()
    broker.transactions.verdict = OK
    await broker.clock.run(10)
    assert await adding is OK
    broker.transactions.verdict = ErrorCode.CONCURRENT_TRANSACTIONS
    adding = asyncio.ensure_future(add(broker, 1, version=version))
    await broker.clock.run(600)
    assert await adding is answer


async def test_the_empty_group_id_is_refused_before_anybody_is_asked(broker: Broker) -> None:
    assert await add(broker, 1, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert broker.transactions.verified == []


@pytest.mark.parametrize(("version", "answer"), [(1, 15), (2, 14), (5, 14)])
async def test_a_loading_partition_is_told_as_each_version_can_bear_it(version: int, answer: int) -> None:
    async with Broker().loading() as broker:
        assert await add(broker, 1, version=version) == answer
