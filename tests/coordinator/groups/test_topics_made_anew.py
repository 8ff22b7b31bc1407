"""An offset belongs to the topic that it was committed for: another one that has the name since has none of it
(groups.md 9)."""

from collections.abc import Mapping

import pytest
from consumer_group import topic
from group_api import GroupApis
from group_fakes import Broker

from eosin.broker.handlers import offset_commit, txn_offset_commit
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.log.records import OffsetWritten, read
from eosin.coordinator.groups.offset_requests import FETCHED_PER_TURN, Committer, FetchedOffset
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import iter_records
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from eosin.storage.results.log_results import Marker

P0 = TopicPartition("orders", 0)
OK = ErrorCode.NONE
FIRST = topic("orders", 1)
SECOND = topic("orders", 1, life=1)


class Topics(NoTopics):
    """A cluster with one topic, which may be made anew."""

    def __init__(self) -> None:
        self.topics: Mapping[str, SubscribedTopic] = {"orders": FIRST}

    def make_anew(self) -> None:
        """Nobody who coordinates a group has heard that the topic was gone in between."""
        self.topics = {"orders": SECOND}


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
async def broker(topics: Topics) -> Broker:
    return await Broker(topics=topics).started()


async def commit(broker: Broker, offset: int, topic_id: bytes = FIRST.topic_id) -> None:
    offsets = [OffsetToCommit(P0, offset, topic_id=topic_id)]
    assert list(await broker.groups.offsets.commit("g", offsets, committer=Committer(), api_version=9)) == [OK]


async def add(broker: Broker, offset: int, topic_id: bytes) -> None:
    answers = await broker.groups.offsets.commit_in_transaction(
        "g",
        [OffsetToCommit(P0, offset, topic_id=topic_id)],
        transactional_id="tx",
        producer=ProducerIdAndEpoch(1, 0),
        committer=Committer(),
        api_version=5,
    )
    assert list(answers) == [OK]


async def end(broker: Broker) -> None:
    assert await broker.groups.write_markers(0, Marker(1, 0, commit=True, coordinator_epoch=0)) is OK


async def fetch(broker: Broker, *, stable: bool = True) -> tuple[list[int], list[int]]:
    """The offset of the partition by its name, and those of all that the group has."""
    error, named = await broker.groups.offsets.fetch("g", [P0], require_stable=stable)
    assert error is OK
    error, everything = await broker.groups.offsets.fetch("g", None, require_stable=stable)
    assert error is OK
    return [each.offset for each in named], [each.offset for each in everything]


@pytest.mark.parametrize("stable", [False, True])
async def test_a_successor_that_never_knew_the_old_topic_gives_its_offset_to_nobody(
    broker: Broker, topics: Topics, stable: bool
) -> None:
    await commit(broker, 42)
    await broker.crash()
    assert await fetch(broker, stable=stable) == ([42], [42])
    topics.make_anew()
    await broker.crash()
    assert await fetch(broker, stable=stable) == ([-1], [])
    await commit(broker, 3, SECOND.topic_id)
    assert await fetch(broker, stable=stable) == ([3], [3])
    await broker.crash()
    assert await fetch(broker, stable=stable) == ([3], [3])


@pytest.mark.parametrize("crash", [False, True])
async def test_a_transaction_of_the_old_topic_commits_nothing_of_the_new_one(
    broker: Broker, topics: Topics, crash: bool
) -> None:
    await add(broker, 42, FIRST.topic_id)
    topics.make_anew()
    if crash:
        await broker.crash()
    error, (unstable,) = await broker.groups.offsets.fetch("g", None, require_stable=True)
    assert (error, unstable.error) == (OK, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    await end(broker)
    assert await fetch(broker) == ([-1], [])


@pytest.mark.parametrize(
    ("version", "told"), [(5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (6, ErrorCode.UNKNOWN_TOPIC_ID)]
)
async def test_what_is_late_for_the_old_topic_replaces_nothing_of_the_new_one(
    broker: Broker, topics: Topics, version: int, told: ErrorCode
) -> None:
    topics.make_anew()
    await commit(broker, 3, SECOND.topic_id)
    late = [OffsetToCommit(P0, 42, topic_id=FIRST.topic_id)]
    answers = await broker.groups.offsets.commit_in_transaction(
        "g",
        late,
        transactional_id="tx",
        producer=ProducerIdAndEpoch(1, 0),
        committer=Committer(),
        api_version=version,
    )
    assert list(answers) == [told]
    plain = await broker.groups.offsets.commit("g", late, committer=Committer(), api_version=version + 4)
    assert list(plain) == [told]
    assert await fetch(broker) == ([3], [3])


async def test_an_offset_whose_record_tells_no_topic_counts_for_the_name(broker: Broker, topics: Topics) -> None:
    await commit(broker, 42, ZERO_UUID)
    topics.make_anew()
    await broker.crash()
    assert await fetch(broker) == ([42], [42])


async def test_very_many_offsets_are_told_without_those_of_topics_that_are_gone(broker: Broker, topics: Topics) -> None:
    others = [TopicPartition("audit", number) for number in range(FETCHED_PER_TURN)]
    await commit(broker, 42)
    offsets = [OffsetToCommit(each, 7) for each in others]
    assert set(await broker.groups.offsets.commit("g", offsets, committer=Committer(), api_version=9)) == {OK}
    topics.make_anew()
    told = await broker.groups.offsets.fetch("g", None, require_stable=False)
    assert told == (OK, [FetchedOffset(each, 7) for each in others])


# What clients commit


def last_written(apis: GroupApis) -> OffsetWritten:
    written = read(list(iter_records(apis.log.written[-1]))[-1])
    assert isinstance(written, OffsetWritten)
    return written


@pytest.mark.parametrize("version", [9, 10])
async def test_a_commit_keeps_the_id_of_its_topic_however_it_is_named(version: int) -> None:
    apis = GroupApis()
    await apis.started()
    known = apis.topics["orders"]
    partition = OffsetCommitRequestPartition(1, 42, committed_leader_epoch=3, committed_metadata="note")
    name, topic_id = ("orders", ZERO_UUID) if version == 9 else ("", known.topic_id)
    named = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=(partition,))
    response = await apis.call(offset_commit.API, version, OffsetCommitRequest(group_id="g", topics=(named,)))
    assert response.topics[0].partitions[0].error_code == OK
    value = last_written(apis).value
    assert value is not None
    assert (value.offset, value.leader_epoch, value.metadata, value.topic_id) == (42, 3, "note", known.topic_id)


@pytest.mark.parametrize("version", [5, 6])
async def test_so_does_one_in_a_transaction(version: int) -> None:
    apis = GroupApis()
    await apis.started()
    known = apis.topics["orders"]
    name, topic_id = ("orders", ZERO_UUID) if version == 5 else ("", known.topic_id)
    partition = TxnOffsetCommitRequestPartition(1, 42, committed_leader_epoch=3, committed_metadata="note")
    named = TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=(partition,))
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=1, producer_epoch=0, topics=(named,)
    )
    response = await apis.call(txn_offset_commit.API, version, request)
    assert response.topics[0].partitions[0].error_code == OK
    value = last_written(apis).value
    assert value is not None
    assert (value.offset, value.topic_id) == (42, known.topic_id)


async def test_a_commit_with_an_expiry_of_its_own_has_no_room_for_the_topic() -> None:
    apis = GroupApis()
    await apis.started()
    partition = OffsetCommitRequestPartition(1, 42, committed_metadata="")
    named = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    request = OffsetCommitRequest(group_id="g", retention_time_ms=1000, topics=(named,))
    await apis.call(offset_commit.API, 2, request)
    value = last_written(apis).value
    assert value is not None
    assert (value.offset, value.topic_id) == (42, ZERO_UUID)
    assert value.expire_timestamp_ms > 0
