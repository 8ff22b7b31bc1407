"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit over the wire, at every version."""

from typing import Any

import pytest
from group_api import TOPICS, GroupApis

from eosin.broker.handlers import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from eosin.storage.results.log_results import Marker

UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
async def apis() -> GroupApis:
    apis = GroupApis()
    await apis.started()
    return apis


IDS = {name: topic.topic_id for name, topic in TOPICS.items()}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
NOBODYS_ID = b"?" * 16


def name_of(topic: Any) -> str:
    """By its id where an answer has no name."""
    return topic.name or NAMES.get(topic.topic_id, "nowhere")


def committing(*partitions: tuple[str, int, int], **fields: Any) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, index, offset in partitions:
        epoch = fields.get("leader_epoch", -1)
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(index, offset, epoch, -1, committed_metadata="note")
        )
    fields.pop("leader_epoch", None)
    return OffsetCommitRequest(
        "g",
        topics=tuple(
            OffsetCommitRequestTopic(name, IDS.get(name, NOBODYS_ID), tuple(each)) for name, each in topics.items()
        ),
        **fields,
    )


def adding(*partitions: tuple[str, int, int], **fields: Any) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        "tx",
        "g",
        1,
        0,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                topic, IDS.get(topic, NOBODYS_ID), (TxnOffsetCommitRequestPartition(index, offset),)
            )
            for topic, index, offset in partitions
        ),
        **fields,
    )


def codes(response: Any) -> list[tuple[str, int, int]]:
    return [
        (name_of(topic), each.partition_index, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ]


async def fetch(apis: GroupApis, version: int, *topics: tuple[str, tuple[int, ...]], stable: bool = False) -> Any:
    """The topics of the answer for group `g`; no topics asks for all of them."""
    if version >= 8:
        asked = tuple(OffsetFetchRequestTopics(name, IDS.get(name, NOBODYS_ID), indexes) for name, indexes in topics)
        groups = (OffsetFetchRequestGroup("g", topics=asked or None),)
        response = await apis.call(offset_fetch.API, version, OffsetFetchRequest(groups=groups, require_stable=stable))
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", 0)]
        return response.groups[0].topics
    old = tuple(OffsetFetchRequestTopic(name, indexes) for name, indexes in topics)
    request = OffsetFetchRequest("g", topics=old or None, require_stable=stable)
    response = await apis.call(offset_fetch.API, version, request)
    assert response.error_code == 0
    return response.topics


def offsets(topics: Any) -> dict[tuple[str, int], tuple[int, int, int]]:
    return {
        (name_of(topic), each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.error_code)
        for topic in topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", offset_commit.API.versions)
async def test_offsets_go_there_and_back_at_every_version(apis: GroupApis, version: int) -> None:
    epoch = {"leader_epoch": 5} if version >= 6 else {}
    response = await apis.call(offset_commit.API, version, committing(("orders", 0, 42), ("audit", 0, 7), **epoch))
    assert codes(response) == [("orders", 0, 0), ("audit", 0, 0)]
    topics = await fetch(apis, version, ("orders", (0, 1)), ("audit", (0,)))
    expected_epoch = 5 if version >= 6 else -1
    assert offsets(topics) == {
        ("orders", 0): (42, expected_epoch, 0),
        ("orders", 1): (-1, -1, 0),
        ("audit", 0): (7, expected_epoch, 0),
    }
    assert [each.metadata for topic in topics for each in topic.partitions] == ["note", "", "note"]
    if version >= 2:
        everything = offsets(await fetch(apis, version))
        assert everything.keys() == {("orders", 0), ("audit", 0)}


async def test_a_topic_id_that_nobody_has_is_unknown_and_the_others_are_answered(apis: GroupApis) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    response = await apis.call(offset_commit.API, 10, committing(("nowhere", 0, 3), ("orders", 0, 1), ("orders", 5, 1)))
    assert codes(response) == [("nowhere", 0, unknown), ("orders", 0, 0), ("orders", 5, UNKNOWN_PARTITION)]
    assert [topic.topic_id for topic in response.topics] == [NOBODYS_ID, IDS["orders"]]
    topics = await fetch(apis, 10, ("nowhere", (0, 1)), ("orders", (0,)))
    assert offsets(topics) == {
        ("nowhere", 0): (-1, -1, unknown),
        ("nowhere", 1): (-1, -1, unknown),
        ("orders", 0): (1, -1, 0),
    }
    assert {topic.topic_id for topic in topics} == {NOBODYS_ID, IDS["orders"]}


async def test_a_topic_that_has_gone_is_left_out_of_everything_that_is_told_by_id(apis: GroupApis) -> None:
    await apis.call(offset_commit.API, 10, committing(("orders", 0, 1), ("audit", 0, 2)))
    del apis.topics["audit"]
    assert offsets(await fetch(apis, 10)) == {("orders", 0): (1, -1, 0)}


async def test_offsets_that_a_transaction_holds_are_told_by_id(apis: GroupApis) -> None:
    await apis.call(txn_offset_commit.API, 4, adding(("orders", 0, 1)))
    for topics in ((), (("orders", (0,)),)):
        found = offsets(await fetch(apis, 10, *topics, stable=True))
        assert found == {("orders", 0): (-1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}


async def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(apis: GroupApis) -> None:
    request = committing(("orders", 5, 1), ("orders", 1, 2), ("nowhere", 0, 3), ("orders", -1, 4))
    assert codes(await apis.call(offset_commit.API, 9, request)) == [
        ("orders", 5, UNKNOWN_PARTITION),
        ("orders", 1, 0),
        ("orders", -1, UNKNOWN_PARTITION),
        ("nowhere", 0, UNKNOWN_PARTITION),
    ]
    assert offsets(await fetch(apis, 9))[("orders", 1)][0] == 2


async def test_a_commit_of_nothing_that_exists_touches_no_group(apis: GroupApis) -> None:
    await apis.call(offset_commit.API, 9, committing(("nowhere", 0, 1)))
    assert apis.groups.describe("g") is ErrorCode.GROUP_ID_NOT_FOUND
    answer = await apis.call(offset_commit.API, 9, OffsetCommitRequest("g"))
    assert answer.topics == ()
    answer = await apis.call(txn_offset_commit.API, 4, adding(("nowhere", 0, 1)))
    assert codes(answer) == [("nowhere", 0, UNKNOWN_PARTITION)]
    assert apis.transactions.verified == []


@pytest.mark.parametrize(("version", "answer"), [(8, 22), (9, 69)])
async def test_a_generation_of_a_group_that_is_gone(apis: GroupApis, version: int, answer: int) -> None:
    request = committing(("orders", 0, 1), generation_id_or_member_epoch=3, member_id="m")
    assert codes(await apis.call(offset_commit.API, version, request)) == [("orders", 0, answer)]


async def test_a_retention_time_becomes_an_expiry(apis: GroupApis) -> None:
    await apis.call(offset_commit.API, 4, committing(("orders", 0, 1), retention_time_ms=1_000))
    await apis.call(offset_commit.API, 4, committing(("orders", 1, 1)))
    await apis.clock.run(600_000)
    assert offsets(await fetch(apis, 9)).keys() == {("orders", 1)}


async def test_a_retention_beyond_all_time_is_for_ever(apis: GroupApis) -> None:
    answer = await apis.call(offset_commit.API, 4, committing(("orders", 0, 1), retention_time_ms=2**63 - 1))
    assert codes(answer) == [("orders", 0, 0)]
    await apis.clock.run(600_000)
    assert offsets(await fetch(apis, 9)).keys() == {("orders", 0)}


async def test_several_groups_are_answered_each_by_itself(apis: GroupApis) -> None:
    await apis.call(offset_commit.API, 9, committing(("orders", 0, 1)))
    asked = (OffsetFetchRequestTopics("orders", partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup("nobody", topics=asked), OffsetFetchRequestGroup("g", topics=asked))
    )
    response = await apis.call(offset_fetch.API, 8, request)
    assert [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in response.groups] == [
        ("nobody", -1),
        ("g", 1),
    ]


@pytest.mark.parametrize("version", offset_fetch.API.versions)
async def test_a_coordinator_that_is_away_is_told_where_the_version_has_room(apis: GroupApis, version: int) -> None:
    await apis.groups.stop()
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version >= 8:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),))
        response = await apis.call(offset_fetch.API, version, request)
        assert [group.error_code for group in response.groups] == [away]
        return
    request = OffsetFetchRequest("g", topics=(OffsetFetchRequestTopic("orders", (0,)),))
    response = await apis.call(offset_fetch.API, version, request)
    assert response.error_code == (away if version >= 2 else ErrorCode.NONE)
    assert offsets(response.topics) == {("orders", 0): (-1, -1, away)}


@pytest.mark.parametrize("version", txn_offset_commit.API.versions)
async def test_offsets_of_a_transaction_show_with_its_marker_at_every_version(apis: GroupApis, version: int) -> None:
    response = await apis.call(txn_offset_commit.API, version, adding(("orders", 0, 42), ("orders", 9, 1)))
    assert codes(response) == [("orders", 0, 0), ("orders", 9, UNKNOWN_PARTITION)]
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert offsets(await fetch(apis, 9, ("orders", (0,)), stable=True)) == {("orders", 0): (-1, -1, unstable)}
    assert offsets(await fetch(apis, 7, ("orders", (0,)), stable=True)) == {("orders", 0): (-1, -1, unstable)}
    assert offsets(await fetch(apis, 6, ("orders", (0,)))) == {("orders", 0): (-1, -1, 0)}
    await apis.groups.write_markers(0, Marker(1, 0, commit=True, coordinator_epoch=0))
    assert offsets(await fetch(apis, 9, ("orders", (0,)), stable=True)) == {("orders", 0): (42, -1, 0)}
    assert bool(apis.transactions.added) == (version >= 5)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (3, ErrorCode.ILLEGAL_GENERATION),
        (4, ErrorCode.ILLEGAL_GENERATION),
        (5, ErrorCode.ILLEGAL_GENERATION),
        (6, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_a_transaction_names_its_member_from_version_3_on_and_knows_an_absent_group_from_6_on(
    apis: GroupApis, version: int, error: ErrorCode
) -> None:
    request = adding(("orders", 0, 1), generation_id_or_member_epoch=4, member_id="m")
    assert codes(await apis.call(txn_offset_commit.API, version, request)) == [("orders", 0, error)]


async def test_a_transaction_names_topics_by_id_from_version_6_on(apis: GroupApis) -> None:
    request = adding(("nowhere", 0, 3), ("orders", 0, 1), ("orders", 5, 1))
    response = await apis.call(txn_offset_commit.API, 6, request)
    assert codes(response) == [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", 0, ErrorCode.NONE),
        ("orders", 5, UNKNOWN_PARTITION),
    ]
    assert [topic.topic_id for topic in response.topics] == [NOBODYS_ID, IDS["orders"], IDS["orders"]]


async def test_offsets_are_deleted_partition_by_partition(apis: GroupApis) -> None:
    request = OffsetDeleteRequest(
        "g",
        (
            OffsetDeleteRequestTopic("orders", (OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(7))),
            OffsetDeleteRequestTopic("nowhere", (OffsetDeleteRequestPartition(0),)),
        ),
    )
    response = await apis.call(offset_delete.API, 0, request)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    await apis.call(offset_commit.API, 9, committing(("orders", 0, 1), ("orders", 1, 2)))
    response = await apis.call(offset_delete.API, 0, request)
    assert response.error_code == 0
    assert codes(response) == [
        ("orders", 0, 0),
        ("orders", 7, UNKNOWN_PARTITION),
        ("nowhere", 0, UNKNOWN_PARTITION),
    ]
    assert offsets(await fetch(apis, 9)).keys() == {("orders", 1)}


def test_a_refusal_reaches_clients_of_every_version() -> None:
    apis, error = GroupApis(), ErrorCode.UNKNOWN_SERVER_ERROR
    for version in offset_commit.API.versions:
        refused = apis.refused(offset_commit.API, version, committing(("orders", 0, 1)), error)
        assert codes(refused) == [("orders", 0, error)]
    for version in txn_offset_commit.API.versions:
        assert codes(apis.refused(txn_offset_commit.API, version, adding(("orders", 0, 1)), error)) == [
            ("orders", 0, error)
        ]
    assert apis.refused(offset_delete.API, 0, OffsetDeleteRequest("g"), error).error_code == error
