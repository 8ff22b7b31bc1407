"""Consumer groups of KIP-848 behind their handlers: joined, described, deleted, and one name for groups of all kinds
(consumer-groups.md 1, 10 and 11)."""

import asyncio
from typing import Any

import pytest
from data_broker import DataBroker
from waiting import settled

from eosin.broker.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    update_features,
)
from eosin.model.features import GROUP_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.list_groups import ListGroupsRequest
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
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NONE = ErrorCode.NONE
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


class Groups:
    """A broker that serves consumer groups, with the topic `orders`, and short words for its clients."""

    def __init__(self, broker: DataBroker) -> None:
        self.broker = broker

    @classmethod
    async def started(cls, **how: Any) -> "Groups":
        broker = await DataBroker.started(group_consumer_assignment_interval_ms=0, **how)
        groups = cls(broker)
        if "orders" not in broker.cluster.topics:
            await broker.create_topic(partitions=2)
        return groups

    async def set_level(self, level: int) -> Any:
        update = FeatureUpdateKey(GROUP_VERSION, level, upgrade_type=1 if level else 2)
        return await self.broker.call(update_features.API, UpdateFeaturesRequest(feature_updates=(update,)))

    async def heartbeat(self, member_id: str = "m", epoch: int = 0, version: int = 1, **fields: Any) -> Any:
        request = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, **fields}
        if epoch == 0:
            joins = {"rebalance_timeout_ms": 100, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
            request = {**joins, **request}
        return await self.broker.call(consumer_group_heartbeat.API, ConsumerGroupHeartbeatRequest(**request), version)

    async def commit(self, offset: int, *, member_id: str = "", epoch: int = -1, version: int = 9) -> ErrorCode:
        partition = OffsetCommitRequestPartition(0, offset)
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=(OffsetCommitRequestTopic("orders", partitions=(partition,)),),
        )
        answer = await self.broker.call(offset_commit.API, request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def fetch(self, *, member_id: str | None = None, epoch: int = -1) -> tuple[ErrorCode, int]:
        topics = (OffsetFetchRequestTopics("orders", partition_indexes=(0,)),)
        asked = OffsetFetchRequestGroup("g", member_id=member_id, member_epoch=epoch, topics=topics)
        (group,) = (await self.broker.call(offset_fetch.API, OffsetFetchRequest(groups=(asked,)), 9)).groups
        offset = group.topics[0].partitions[0].committed_offset if group.topics else -1
        return ErrorCode(group.error_code), offset

    async def join_classic(self, version: int = 3) -> Any:
        subscription = bytes.fromhex("0000 00000001 0006") + b"orders" + b"\xff\xff\xff\xff"
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", subscription),),
        )
        return await self.broker.call(join_group.API, request, version)

    async def describe(self, version: int = 1) -> Any:
        answer = await self.broker.call(consumer_group_describe.API, ConsumerGroupDescribeRequest(("g",)), version)
        return answer.groups[0]

    async def delete(self) -> ErrorCode:
        answer = await self.broker.call(delete_groups.API, DeleteGroupsRequest(("g",)))
        return ErrorCode(answer.results[0].error_code)

    async def restarted(self) -> "Groups":
        await self.broker.stop()
        return await Groups.started(disk=self.broker.disk)


async def test_a_group_that_the_settings_leave_out_keeps_its_members_and_offsets_and_comes_back() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    await groups.broker.stop()
    without = await Groups.started(disk=groups.broker.disk, group_coordinator_rebalance_protocols=("classic",))
    refused = (await without.heartbeat("m", 2)).error_code, (await without.describe()).error_code
    assert refused == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION)
    assert await without.commit(8, member_id="m", epoch=2) is NONE, "what it has read is not lost"
    groups = await without.restarted()
    assert await groups.fetch() == (NONE, 8)
    assert (await groups.heartbeat("m", 2)).error_code == NONE


@pytest.mark.parametrize("version", consumer_group_heartbeat.API.versions)
async def test_a_member_joins_is_described_and_leaves(version: int) -> None:
    groups = await Groups.started()
    joined = await groups.heartbeat("" if version == 0 else "m", version=version)
    topic_id = groups.broker.cluster.topics["orders"].topic_id
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (NONE, 2, 5000)
    assert joined.assignment.topic_partitions == (TopicPartitions(topic_id, (0, 1)),)
    assert joined.member_id if version == 0 else joined.member_id == "m"
    stays = await groups.heartbeat(joined.member_id, 2, version)
    assert (stays.error_code, stays.assignment) == (NONE, None)
    told = await groups.describe()
    assert (told.group_state, told.assignor_name) == ("Stable", "uniform")
    assert (told.group_epoch, told.assignment_epoch) == (2, 2)
    (member,) = told.members
    assert (member.member_epoch, member.subscribed_topic_names, member.member_type) == (2, ("orders",), 1)
    assert member.assignment == member.target_assignment
    assert member.assignment.topic_partitions[0].partitions == (0, 1)
    left = await groups.heartbeat(joined.member_id, -1, version)
    assert (left.error_code, left.member_epoch) == (NONE, -1)
    assert (await groups.describe()).group_state == "Empty"


async def test_a_restart_finds_the_group_as_it_was() -> None:
    groups = await Groups.started()
    await groups.heartbeat(instance_id="i", rack_id="r")
    before = await groups.describe()
    await groups.commit(7, member_id="m", epoch=2)
    groups = await groups.restarted()
    assert await groups.describe() == before
    assert (await groups.heartbeat(epoch=2)).error_code == NONE
    assert await groups.fetch(member_id="m", epoch=2) == (NONE, 7)


async def test_a_member_that_is_silent_after_a_restart_is_removed() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    groups = await groups.restarted()
    groups.broker.clock.advance(44_999)
    assert (await groups.describe()).members
    groups.broker.clock.advance(1)
    assert not (await groups.describe()).members


async def test_offsets_are_committed_by_members_at_their_epoch_alone() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    assert await groups.commit(1, member_id="m", epoch=2) is NONE
    assert await groups.commit(2, member_id="m", epoch=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert await groups.commit(2, member_id="m", epoch=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert await groups.commit(2, member_id="m", epoch=2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert await groups.commit(2, member_id="x", epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.fetch() == (NONE, 1)
    assert await groups.fetch(member_id="m", epoch=2) == (NONE, 1)
    assert await groups.fetch(member_id="m", epoch=1) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
    assert await groups.fetch(member_id="x", epoch=2) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)
    await groups.heartbeat(epoch=-1)
    assert await groups.commit(5) is NONE


async def test_a_member_may_commit_with_an_older_epoch_what_it_has_had_since() -> None:
    groups = await Groups.started()
    await groups.heartbeat("a")
    await groups.heartbeat("b")
    kept = (await groups.heartbeat("a", 2)).assignment.topic_partitions
    await groups.heartbeat("a", 2, topic_partitions=kept)
    expected = NONE if kept[0].partitions == (0,) else ErrorCode.STALE_MEMBER_EPOCH
    assert await groups.commit(3, member_id="a", epoch=2) is expected
    assert await groups.commit(3, member_id="b", epoch=2) is ErrorCode.STALE_MEMBER_EPOCH


async def test_a_group_with_members_is_not_deleted_and_an_empty_one_is_with_its_offsets() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    await groups.commit(1, member_id="m", epoch=2)
    assert await groups.delete() is ErrorCode.NON_EMPTY_GROUP
    await groups.heartbeat(epoch=-1)
    assert await groups.delete() is NONE
    assert await groups.delete() is NOT_FOUND
    assert await groups.fetch() == (NONE, -1)
    groups = await groups.restarted()
    assert (await groups.describe()).error_code == NOT_FOUND


async def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    await groups.commit(1, member_id="m", epoch=2)
    topics = (OffsetDeleteRequestTopic("orders", (OffsetDeleteRequestPartition(0),)),)
    request = OffsetDeleteRequest("g", topics)
    answer = await groups.broker.call(offset_delete.API, request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    await groups.heartbeat(epoch=-1)
    answer = await groups.broker.call(offset_delete.API, request)
    assert answer.topics[0].partitions[0].error_code == NONE
    assert await groups.fetch() == (NONE, -1)


async def test_a_group_is_listed_with_its_kind_and_described_as_no_classic_one() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    for types, count in (((), 1), (("Consumer",), 1), (("classic",), 0)):
        listed = (await groups.broker.call(list_groups.API, ListGroupsRequest(types_filter=types), 5)).groups
        assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [
            ("g", "Stable", "consumer")
        ] * count
    (told,) = (await groups.broker.call(describe_groups.API, DescribeGroupsRequest(("g",)), 6)).groups
    assert (told.error_code, told.group_state) == (NOT_FOUND, "Dead")
    assert told.error_message == "Group g is not a classic group."


async def test_rebalances_and_offsets_are_counted_as_kafka_does() -> None:
    groups = await Groups.started()
    stats = groups.broker.groups.stats
    await groups.heartbeat("a")
    await groups.heartbeat("b")
    await groups.heartbeat("b", -1)
    assert stats.consumer_rebalances == 2, "a departure is none"
    await groups.commit(1, member_id="a", epoch=2)
    await groups.heartbeat("a", -1)
    topics = (OffsetDeleteRequestTopic("orders", (OffsetDeleteRequestPartition(0),)),)
    await groups.broker.call(offset_delete.API, OffsetDeleteRequest("g", topics))
    assert (stats.commits, stats.deletions, stats.expirations) == (1, 1, 0)
    await groups.commit(5)
    groups.broker.clock.advance(8 * 86_400_000)
    await settled()
    assert (stats.commits, stats.deletions, stats.expirations) == (2, 1, 1)


# One name for groups of all kinds


async def test_an_empty_consumer_group_becomes_a_classic_one_and_keeps_its_offsets() -> None:
    groups = await Groups.started()
    await groups.heartbeat()
    await groups.commit(1, member_id="m", epoch=2)
    await groups.heartbeat(epoch=-1)
    assert (await groups.join_classic()).error_code == NONE
    assert (await groups.describe()).error_code == NOT_FOUND
    assert await groups.fetch() == (NONE, 1)
    groups = await groups.restarted()
    assert (await groups.describe()).error_code == NOT_FOUND
    assert await groups.fetch() == (NONE, 1)


async def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    groups = await Groups.started()
    joined = await groups.join_classic()
    leaves = LeaveGroupRequest("g", members=(MemberIdentity(joined.member_id),))
    await groups.broker.call(leave_group.API, leaves, 3)
    await groups.commit(1)
    assert (await groups.heartbeat()).member_epoch == 2
    assert await groups.fetch() == (NONE, 1)
    groups = await groups.restarted()
    assert (await groups.describe()).group_state == "Stable"
    assert await groups.fetch() == (NONE, 1)


async def test_a_classic_group_with_members_becomes_a_consumer_group_and_a_classic_one_again() -> None:
    groups = await Groups.started()
    joined = await groups.join_classic()
    assert (await groups.heartbeat()).member_epoch == 2
    assert await groups.commit(1, member_id=joined.member_id, epoch=joined.generation_id) is NONE
    described = await groups.describe()
    assert {each.member_id: each.member_type for each in described.members} == {joined.member_id: 0, "m": 1}
    request = HeartbeatRequest("g", 1, joined.member_id)
    assert (await groups.broker.call(heartbeat.API, request)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await groups.heartbeat(epoch=-1)).error_code == NONE
    assert (await groups.describe()).error_code == NOT_FOUND
    groups = await groups.restarted()
    assert (await groups.describe()).error_code == NOT_FOUND
    assert await groups.fetch() == (NONE, 1)


async def test_the_policy_keeps_groups_of_their_kind() -> None:
    groups = await Groups.started(group_consumer_migration_policy="disabled")
    await groups.join_classic()
    refused = await groups.heartbeat()
    assert (refused.error_code, "policy is disabled" in refused.error_message) == (NOT_FOUND, True)


async def test_a_group_that_only_held_offsets_becomes_a_consumer_group() -> None:
    groups = await Groups.started()
    assert await groups.commit(1) is NONE
    assert (await groups.heartbeat()).error_code == NONE
    assert await groups.fetch() == (NONE, 1)


async def test_an_administrator_removes_members() -> None:
    groups = await Groups.started()
    await groups.heartbeat(instance_id="i")
    members = (MemberIdentity("", "i"), MemberIdentity("", "j"), MemberIdentity("x"))
    answer = await groups.broker.call(leave_group.API, LeaveGroupRequest("g", members=members), 3)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in answer.members] == [NONE, unknown, unknown]
    assert (await groups.describe()).group_epoch == 3


async def test_a_member_of_a_group_that_is_gone_is_to_join_again() -> None:
    groups = await Groups.started()
    assert (await groups.heartbeat(epoch=5)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await groups.heartbeat(epoch=-1)).error_code == NOT_FOUND


# The feature


async def test_group_version_is_kept_over_a_restart_and_is_not_lowered_under_members() -> None:
    groups = await Groups.started()
    features = groups.broker.cluster.features
    assert features.level(GROUP_VERSION) == 1
    await groups.heartbeat()
    refused = await groups.set_level(0)
    assert (refused.error_code, "as g:" in refused.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, True)
    groups = await groups.restarted()
    assert groups.broker.cluster.features.level(GROUP_VERSION) == 1
    assert groups.broker.cluster.features.epoch > features.epoch
    await groups.heartbeat(epoch=-1)
    assert (await groups.set_level(0)).error_code == NONE
    assert (await groups.heartbeat()).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await groups.describe()).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_malformed_heartbeat_is_refused_with_a_sentence() -> None:
    groups = await Groups.started()
    topic_id = groups.broker.cluster.topics["orders"].topic_id
    for fields in (
        {"member_id": " "},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 0},
        {"topic_partitions": None},
        {"subscribed_topic_names": None},
        {"member_id": "x" * 257},
        {"epoch": -2},
        {"epoch": -3},
        {"epoch": 1, "topic_partitions": (TopicPartitions(topic_id, (0, 0)),)},
        {"epoch": 1, "topic_partitions": (TopicPartitions(topic_id, (-1,)),)},
    ):
        answer = await groups.heartbeat(**fields)  # type: ignore[arg-type]
        assert (answer.error_code, bool(answer.error_message)) == (ErrorCode.INVALID_REQUEST, True), fields
    answer = await groups.heartbeat(server_assignor="mine")
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in answer.error_message


# Regular expressions


async def with_regex(groups: Groups, regex: str, **fields: Any) -> Any:
    """A member that is subscribed to a regular expression alone, once its topics have been found."""
    joined = await groups.heartbeat(subscribed_topic_names=None, subscribed_topic_regex=regex, **fields)
    assert (joined.error_code, joined.member_epoch, joined.assignment.topic_partitions) == (NONE, 1, ())
    await settled()
    return await groups.heartbeat(epoch=1)


async def test_a_regular_expression_is_subscribed_to_the_topics_that_match_it_as_a_whole() -> None:
    groups = await Groups.started()
    await groups.broker.create_topic("orders-eu")
    await groups.broker.create_topic("my-orders")
    answer = await with_regex(groups, "orders.*")
    topics = groups.broker.cluster.topics
    assert {each.topic_id for each in answer.assignment.topic_partitions} == {
        topics[name].topic_id for name in ("orders", "orders-eu")
    }
    assert (await groups.describe()).members[0].subscribed_topic_regex == "orders.*"
    groups = await groups.restarted()
    assert (await groups.heartbeat(epoch=2)).error_code == NONE


async def test_internal_topics_match_only_what_is_meant_for_them() -> None:
    groups = await Groups.started()
    answer = await with_regex(groups, ".*")
    assert len(answer.assignment.topic_partitions) == 1
    groups = await Groups.started()
    answer = await with_regex(groups, "__consumer.*")
    assert len(answer.assignment.topic_partitions) == 1


async def test_a_topic_that_comes_later_is_found_by_a_heartbeat_ten_seconds_after_the_last_search() -> None:
    groups = await Groups.started()
    await with_regex(groups, "orders.*")
    await groups.broker.create_topic("orders-eu")
    groups.broker.clock.advance(9_999)
    await groups.heartbeat(epoch=2)
    await settled()
    assert (await groups.describe()).group_epoch == 2
    groups.broker.clock.advance(1)
    await groups.heartbeat(epoch=2)
    await settled()
    assert len((await groups.heartbeat(epoch=2)).assignment.topic_partitions) == 2


async def test_a_search_that_finds_no_topic_begins_no_epoch_and_leaves_the_next_one_to_the_first_topic() -> None:
    groups = await Groups.started()
    assert (await with_regex(groups, "audit.*")).member_epoch == 1
    await groups.broker.create_topic("audit")
    groups.broker.clock.advance(10_000)
    await groups.heartbeat(epoch=1)
    await settled()
    answer = await groups.heartbeat(epoch=1)
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (2, 1)


async def test_a_regular_expression_that_is_none_is_refused_and_changes_nothing() -> None:
    groups = await Groups.started()
    answer = await groups.heartbeat(subscribed_topic_names=None, subscribed_topic_regex="(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "SubscribedTopicRegex" in answer.error_message
    assert (await groups.describe()).error_code == NOT_FOUND


async def test_an_empty_regular_expression_ends_the_subscription_to_it() -> None:
    groups = await Groups.started()
    await with_regex(groups, "orders")
    assert (await groups.heartbeat(epoch=2, subscribed_topic_regex="")).assignment.topic_partitions == ()
    told = await groups.describe()
    assert (told.group_epoch, told.members[0].subscribed_topic_regex) == (3, "")


async def test_a_group_of_many_members_is_described_once_and_others_are_served_meanwhile() -> None:
    groups = await Groups.started()
    for number in range(300):
        await groups.heartbeat(f"m{number}")
    request = ConsumerGroupDescribeRequest(("g", "g", "none"))
    describing = asyncio.ensure_future(groups.broker.call(consumer_group_describe.API, request, 1))
    await asyncio.sleep(0)
    assert (await groups.heartbeat("new")).error_code == NONE
    assert not describing.done()
    told, none = (await describing).groups
    assert (len(told.members), none.error_code) == (300, NOT_FOUND)
