"""Share groups of KIP-932 behind their handlers: joined, described, moved, deleted, and one name for groups of all
kinds (share-groups.md 1, 7 and 8)."""

from typing import Any

import pytest
from data_broker import DataBroker, batch

from eosin.broker.handlers import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    update_features,
)
from eosin.coordinator.share_states import SharePartition
from eosin.model.features import SHARE_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas import alter_share_group_offsets as alter
from eosin.protocol.schemas import describe_share_group_offsets as offsets
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NONE = ErrorCode.NONE
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


class Shares:
    """A broker that serves share groups, with the topic `orders`, and short words for its clients."""

    def __init__(self, broker: DataBroker) -> None:
        self.broker = broker

    @classmethod
    async def started(cls, **how: Any) -> "Shares":
        shares = cls(await DataBroker.started(group_share_assignment_interval_ms=0, **how))
        await shares.broker.create_topic(partitions=2)
        return shares

    async def level(self, level: int) -> Any:
        now = self.broker.cluster.features.level(SHARE_VERSION)
        update = FeatureUpdateKey(SHARE_VERSION, level, upgrade_type=1 if level > now else 2)
        return await self.broker.call(update_features.API, UpdateFeaturesRequest(feature_updates=(update,)))

    async def heartbeat(self, epoch: int = 0, group: str = "g", member: str = "m", **fields: Any) -> Any:
        if epoch == 0:
            fields = {"subscribed_topic_names": ("orders",), **fields}
        request = ShareGroupHeartbeatRequest(group, member, epoch, **fields)
        return await self.broker.call(share_group_heartbeat.API, request)

    async def describe(self, *groups: str, **fields: Any) -> Any:
        request = ShareGroupDescribeRequest(groups, **fields)
        return (await self.broker.call(share_group_describe.API, request)).groups

    async def join_classic(self, group: str = "g") -> Any:
        protocols = (JoinGroupRequestProtocol("range", b""),)
        request = JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", protocols)
        return await self.broker.call(join_group.API, request, 2)

    async def commit(self, group: str = "g") -> ErrorCode:
        topics = (OffsetCommitRequestTopic("orders", partitions=(OffsetCommitRequestPartition(0, 1),)),)
        answer = await self.broker.call(offset_commit.API, OffsetCommitRequest(group, topics=topics), 9)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def alter(self, offset: int, *numbers: int, group: str = "g", topic: str = "orders") -> Any:
        partitions = tuple(alter.AlterShareGroupOffsetsRequestPartition(each, offset) for each in numbers)
        topics = (alter.AlterShareGroupOffsetsRequestTopic(topic, partitions),)
        request = alter.AlterShareGroupOffsetsRequest(group, topics)
        return await self.broker.call(alter_share_group_offsets.API, request)

    async def delete_offsets(self, *topics: str, group: str = "g") -> Any:
        named = tuple(DeleteShareGroupOffsetsRequestTopic(each) for each in topics)
        return await self.broker.call(delete_share_group_offsets.API, DeleteShareGroupOffsetsRequest(group, named))

    async def where(self, *numbers: int, group: str = "g", topic: str = "orders", version: int = 1) -> Any:
        """What DescribeShareGroupOffsets tells of partitions; of all that are known without any."""
        topics = (offsets.DescribeShareGroupOffsetsRequestTopic(topic, numbers),) if numbers else None
        asked = offsets.DescribeShareGroupOffsetsRequestGroup(group, topics)
        request = offsets.DescribeShareGroupOffsetsRequest((asked,))
        (answer,) = (await self.broker.call(describe_share_group_offsets.API, request, version)).groups
        return answer

    async def delete(self, *groups: str) -> list[int]:
        answer = await self.broker.call(delete_groups.API, DeleteGroupsRequest(groups))
        return [each.error_code for each in answer.results]


async def test_a_member_joins_and_is_described_with_its_partitions() -> None:
    shares = await Shares.started()
    joined = await shares.heartbeat(rack_id="r")
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "m", 3, 5000)
    topic = shares.broker.cluster.topics["orders"]
    assert [(each.topic_id, each.partitions) for each in joined.assignment.topic_partitions] == [
        (topic.topic_id, (0, 1))
    ]
    group, other = await shares.describe("g", "h")
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 3, 3)
    assert group.assignor_name == "simple"
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.client_id) == ("m", "r", 3, "test")
    assert member.subscribed_topic_names == ("orders",)
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("orders", (0, 1))]
    assert (other.error_code, other.error_message) == (NOT_FOUND, "Group h not found.")
    left = await shares.heartbeat(-1)
    assert (left.error_code, left.member_epoch, left.assignment) == (0, -1, None)
    assert (await shares.describe("g"))[0].group_state == "Empty"


async def test_a_name_of_a_share_group_is_no_name_of_another_kind() -> None:
    shares = await Shares.started()
    await shares.heartbeat()
    broker = shares.broker
    assert (await shares.join_classic()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = await broker.call(heartbeat.API, HeartbeatRequest("g", 1, "m"))
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leave = LeaveGroupRequest("g", members=(MemberIdentity("m"),))
    assert (await broker.call(leave_group.API, leave)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    consumer = ConsumerGroupHeartbeatRequest(
        "g", "c", 0, rebalance_timeout_ms=100, subscribed_topic_names=("orders",), topic_partitions=()
    )
    assert (await broker.call(consumer_group_heartbeat.API, consumer)).error_code == NOT_FOUND
    described = await broker.call(consumer_group_describe.API, ConsumerGroupDescribeRequest(("g",)))
    assert described.groups[0].error_code == NOT_FOUND
    assert await shares.commit() == NOT_FOUND
    fetched = await broker.call(offset_fetch.API, OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"),)), 9)
    assert (fetched.groups[0].error_code, fetched.groups[0].topics) == (NONE, ())
    classic = (await broker.call(describe_groups.API, DescribeGroupsRequest(("g",)))).groups[0]
    assert (classic.error_code, classic.group_state) == (NOT_FOUND, "Dead")
    partitions = (OffsetDeleteRequestPartition(0),)
    forget = OffsetDeleteRequest("g", (OffsetDeleteRequestTopic("orders", partitions),))
    assert (await broker.call(offset_delete.API, forget)).error_code == NOT_FOUND
    assert (await shares.describe("g"))[0].members[0].member_id == "m"


async def test_a_name_that_another_group_has_is_refused_with_the_reason() -> None:
    shares = await Shares.started()
    assert await shares.commit("offsets") == NONE
    await shares.join_classic("classic")
    consumer = ConsumerGroupHeartbeatRequest(
        "consumer", "c", 0, rebalance_timeout_ms=100, subscribed_topic_names=("orders",), topic_partitions=()
    )
    await shares.broker.call(consumer_group_heartbeat.API, consumer)
    for name in ("offsets", "classic", "consumer"):
        answer = await shares.heartbeat(group=name)
        assert (answer.error_code, f"Group {name} is not a share group" in answer.error_message) == (NOT_FOUND, True)
        assert (await shares.alter(1, 0, group=name)).error_code == NOT_FOUND
    assert await shares.delete("offsets") == [NONE]
    assert (await shares.heartbeat(group="offsets")).error_code == NONE


async def test_epochs_without_a_group_are_refused_and_a_member_may_join_again() -> None:
    shares = await Shares.started()
    assert (await shares.heartbeat(3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await shares.heartbeat(-1)).error_code == NOT_FOUND
    assert (await shares.heartbeat(0, member="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await shares.heartbeat(0, member="m" * 37)).error_code == ErrorCode.INVALID_REQUEST


async def test_share_groups_are_listed_by_kind_and_state() -> None:
    shares = await Shares.started()
    await shares.heartbeat()
    await shares.join_classic("classic")

    async def listed(**fields: Any) -> list[tuple[str, str, str, str]]:
        answer = await shares.broker.call(list_groups.API, ListGroupsRequest(**fields), 5)
        return [(each.group_id, each.group_state, each.protocol_type, each.group_type) for each in answer.groups]

    mine = ("g", "Stable", "share", "share")
    assert mine in await listed()
    assert len(await listed()) == 2
    assert await listed(types_filter=("Share",)) == [mine]
    assert await listed(types_filter=("share",), states_filter=("stable",)) == [mine]
    assert await listed(types_filter=("share",), states_filter=("Empty",)) == []


async def test_a_group_is_deleted_when_it_is_empty() -> None:
    shares = await Shares.started()
    await shares.heartbeat()
    assert await shares.delete("g") == [ErrorCode.NON_EMPTY_GROUP]
    await shares.heartbeat(-1)
    assert await shares.delete("g") == [NONE]
    assert shares.broker.share_states.states == {}
    assert await shares.delete("g") == [NOT_FOUND]


async def test_offsets_are_told_moved_and_forgotten() -> None:
    shares = await Shares.started()
    unknown = await shares.where(0)
    assert [(each.partition_index, each.start_offset, each.lag) for each in unknown.topics[0].partitions] == [
        (0, -1, -1)
    ]
    assert (await shares.where()).topics == ()
    await shares.heartbeat()
    assert (await shares.alter(1, 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    await shares.heartbeat(-1)
    moved = (await shares.alter(0, 1, 7)).responses[0]
    assert moved.topic_id == shares.broker.cluster.topics["orders"].topic_id
    assert [(each.partition_index, each.error_code) for each in moved.partitions] == [
        (1, NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (there,) = (await shares.where()).topics
    assert [(each.partition_index, each.start_offset) for each in there.partitions] == [(0, -1), (1, 0)]
    other = (await shares.where(5)).topics[0].partitions[0]
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await shares.where(0, topic="none", version=0)).topics[0].partitions[0].error_code == 3
    gone = (await shares.delete_offsets("orders", "none")).responses
    assert [(each.topic_name, each.error_code) for each in gone] == [("orders", NONE), ("none", 3)]
    assert (await shares.where()).topics == ()
    assert (await shares.delete_offsets("orders")).responses[0].error_message == (
        "There is no offset information to delete."
    )
    assert (await shares.delete_offsets("orders", group="h")).error_code == NOT_FOUND


async def test_the_lag_is_what_is_below_the_high_watermark_and_not_done() -> None:
    shares = await Shares.started()
    await shares.alter(0, 0)
    await shares.broker.produce(batch("a", "b", "c"))
    partition = SharePartition("g", shares.broker.cluster.topics["orders"].topic_id, 0)
    store = shares.broker.share_states
    assert (await shares.where(0)).topics[0].partitions[0].lag == -1  # nobody has told what is done
    await store.write(partition, (), state_epoch=1, leader_epoch=2, start_offset=1, delivery_complete_count=1)
    told = (await shares.where(0)).topics[0].partitions[0]
    assert (told.start_offset, told.leader_epoch, told.lag) == (1, 2, 1)


async def test_the_names_of_offsets_are_bounded_and_malformed_ones_change_nothing() -> None:
    shares = await Shares.started()
    assert (await shares.alter(-2, 0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await shares.alter(5, 0, 0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await shares.alter(5, -1)).responses[0].partitions[0].error_code == 3
    assert (await shares.alter(5, 0, group=" ")).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await shares.describe("g"))[0].error_code == NOT_FOUND


async def test_a_group_with_members_goes_from_dead_letters_to_none_and_back() -> None:
    shares = await Shares.started()
    await shares.heartbeat()
    for level in (2, 1, 2, 1):
        assert (await shares.level(level)).error_code == NONE
        assert shares.broker.cluster.features.level(SHARE_VERSION) == level


async def test_the_level_goes_back_when_no_share_group_has_members_and_its_groups_stay() -> None:
    shares = await Shares.started()
    await shares.heartbeat()
    refused = await shares.level(0)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Share groups have members, as g: let them leave" in refused.error_message
    await shares.heartbeat(-1)
    assert (await shares.level(0)).error_code == NONE
    assert (await shares.heartbeat()).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await shares.describe("g"))[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await shares.join_classic()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await shares.level(1)).error_code == NONE
    assert (await shares.heartbeat()).member_epoch == 5
    assert len(shares.broker.share_states.calls) == 2


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:0", True),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAQ:0", True),
        ("g", False),
        ("AAAAAAAAAAAAAAAAAAAAAQ:0", False),
        (":AAAAAAAAAAAAAAAAAAAAAQ:0", False),
        ("g:topic:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:-1", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:2147483648", False),
    ],
)
async def test_the_coordinator_of_a_state_is_found_by_the_name_of_its_share_partition(key: str, is_one: bool) -> None:
    shares = await Shares.started()
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
    (found,) = (await shares.broker.call(find_coordinator.API, request, 6)).coordinators
    assert (found.error_code != ErrorCode.INVALID_REQUEST) is is_one
    (below,) = (await shares.broker.call(find_coordinator.API, request, 5)).coordinators
    assert below.error_code == ErrorCode.INVALID_REQUEST


async def test_the_coordinator_of_a_state_is_found_where_share_groups_are_not_served() -> None:
    shares = await Shares.started()
    assert (await shares.level(0)).error_code == NONE
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:AAAAAAAAAAAAAAAAAAAAAQ:0", "g"))
    found = (await shares.broker.call(find_coordinator.API, request, 6)).coordinators
    assert [each.error_code for each in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST]


async def test_settings_of_a_share_group_count_at_its_next_heartbeat() -> None:
    shares = await Shares.started()

    async def change(name: str, value: str) -> ErrorCode:
        resource = AlterConfigsResource(32, "g", (AlterableConfig(name, 0, value),))
        request = IncrementalAlterConfigsRequest((resource,))
        (answer,) = (await shares.broker.call(incremental_alter_configs.API, request)).responses
        return ErrorCode(answer.error_code)

    assert (await shares.heartbeat()).heartbeat_interval_ms == 5000
    assert await change("share.heartbeat.interval.ms", "7000") is NONE
    assert (await shares.heartbeat(3)).heartbeat_interval_ms == 7000
    assert await change("share.session.timeout.ms", "44999") is ErrorCode.INVALID_CONFIG
    assert await change("share.delivery.count.limit", "11") is ErrorCode.INVALID_CONFIG
    assert await change("share.isolation.level", "read_committed") is NONE
    assert await change("share.auto.offset.reset", "earliest") is NONE
    assert await change("share.auto.offset.reset", "sometime") is ErrorCode.INVALID_CONFIG
    config = shares.broker.groups.share.config_of("g")
    assert (config.isolation_level, config.auto_offset_reset, config.heartbeat_interval_ms) == (
        "read_committed",
        "earliest",
        7000,
    )
