"""Consumer groups as an operator sees them: who is in them, how far they have read, and putting them elsewhere.

Always true: a list is complete, since a broker that does not answer fails the whole question; what changes something is
asked of the group's coordinator.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import check
from eosin.client.share_groups import described_share_group
from eosin.client.streams_groups import (
    StreamsMemberTasks,
    StreamsTopology,
    described_streams_group,
    inputs_of,
    partitions_of,
    tasks_of,
    topology_of,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas import consumer_group_describe, share_group_describe, streams_group_describe
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from eosin.protocol.schemas.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from eosin.protocol.schemas.list_groups import ListGroupsRequest, ListGroupsResponse
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment
from eosin.protocol.wire.codec import DecodeError

EMPTY: Final = "Empty"
DEAD: Final = "Dead"
"""The state of a group that is not there."""
_BY_NAME: Final = 9
"""The last version of OffsetFetch and OffsetCommit that names topics."""
CONSUMER: Final = "consumer"
"""The type of a group by the protocol of KIP-848, and the protocol type of groups of consumers of either."""
CLASSIC: Final = "classic"
SHARE: Final = "share"
"""The type of a share group (KIP-932)."""
STREAMS: Final = "streams"
"""The type of a group of Kafka Streams (KIP-1071)."""
KIND_OF_FEATURE: Final = {"group.version": CONSUMER, "share.version": SHARE, "streams.version": STREAMS}
"""The types of groups that are served from level 1 of a feature on."""
_NOT_THIS_KIND: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_CONSUMER_MEMBER: Final = 1
_NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group in the list of its coordinator."""

    group_id: str
    coordinator: int
    """Node id."""
    state: str
    """Empty where the broker is too old to tell."""
    type: str
    """`classic`, `consumer` (KIP-848), `share` or `streams`; empty where the broker is too old to tell."""
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member, and what it was assigned."""

    member_id: str
    instance_id: str | None
    """Of a static member (KIP-345)."""
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    rack: str | None = None
    epoch: int | None = None
    """Of a member of a consumer group (KIP-848); so are the fields below."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that it is to have."""
    topics: tuple[str, ...] = ()
    """The names that it is subscribed to."""
    regex: str = ""
    """The regular expression that it is subscribed to; empty for none."""
    protocol: str = CLASSIC
    """`consumer`, `share`, `streams`, or `classic` for a member that joined by JoinGroup; empty where the broker is too
    old to tell."""
    streams: StreamsMemberTasks | None = None
    """Of a member of a streams group."""


def subscription_of(topics: Iterable[str], regex: str) -> list[str]:
    """The subscription of a member of a consumer group in a line: names, and a regular expression in slashes."""
    return [*topics, *([f"/{regex}/"] if regex else [])]


def moves_of(has: Iterable[TopicPartition], target: Iterable[TopicPartition]) -> list[str]:
    """The moves of such a member: `-orders-1` is to be revoked, `+orders-1` is still to come."""
    there, wanted = frozenset(has), frozenset(target)
    return [*(f"-{each}" for each in sorted(there - wanted)), *(f"+{each}" for each in sorted(wanted - there))]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator knows it."""

    group_id: str
    coordinator: int
    """Node id."""
    state: str
    type: str
    assignor: str
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    """Of a consumer, share or streams group: grows with each change of its members, subscriptions and topics."""
    assignment_epoch: int | None = None
    """The group epoch that the present target was computed at."""
    topology: StreamsTopology | None = None
    """Of a streams group."""

    @property
    def is_there(self) -> bool:
        """True if the coordinator knows it."""
        return self.state != DEAD


class GroupAdmin:
    """Operations on groups."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """Every group in one of the states, of one of the types, by name. A broker that is too old for a filter lists
        all. Raises BrokerError."""
        request = ListGroupsRequest(tuple(states), tuple(types))
        brokers = sorted((await self._client.retry(self._client.fetch_metadata)).brokers)
        responses = await asyncio.gather(*(self._list_of(node, request) for node in brokers))
        return sorted(
            (each for response in responses for each in response), key=lambda each: (each.group_id, each.coordinator)
        )

    async def _list_of(self, node: int, request: ListGroupsRequest) -> list[ListedGroup]:
        async def attempt() -> list[ListedGroup]:
            response: ListGroupsResponse = await self._client.request(ApiKey.LIST_GROUPS, request, node=node)
            check(response.error_code, f"listing the groups of broker {node}")
            return [
                ListedGroup(each.group_id, node, each.group_state, each.group_type.lower(), each.protocol_type)
                for each in response.groups
            ]

        return await self._client.retry(attempt)

    async def describe(self, group_id: str) -> GroupDescription:
        """A group; in state `Dead`, without members, when there is none. Raises BrokerError."""

        async def attempt() -> GroupDescription:
            node = await self._client.coordinator(CoordinatorType.GROUP, group_id)
            response: DescribeGroupsResponse = await self._client.request(
                ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest((group_id,)), node=node
            )
            (found,) = response.groups
            if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == DEAD:
                return await self._described_anew(node, group_id)
            check(found.error_code, f"describing group {group_id!r}", found.error_message)
            return _classic(node, found)

        return await self._client.retry(attempt)

    async def unserved(self, node: int) -> tuple[str, ...]:
        """The features, at level 0, for which the coordinator refuses groups of a kind that it knows."""
        versions = (await self._client.peer(node)).versions
        known, levels = versions.supported_features, versions.features
        return tuple(each for each in KIND_OF_FEATURE if each in known and not levels.get(each))

    async def _described_anew(self, node: int, group_id: str) -> GroupDescription:
        """The group where it is one of KIP-848, KIP-932 or KIP-1071."""
        group = await self._described_consumers(node, group_id)
        if group is not None:
            return group
        found = await described_share_group(self._client, node, group_id)
        if found is None or found.error_code in _NOT_THIS_KIND:
            return await self._described_streams(node, group_id)
        check(found.error_code, f"describing group {group_id!r}", found.error_message)
        return GroupDescription(
            group_id,
            node,
            found.group_state,
            SHARE,
            found.assignor_name,
            tuple(map(_share_member, found.members)),
            found.group_epoch,
            found.assignment_epoch,
        )

    async def _described_streams(self, node: int, group_id: str) -> GroupDescription:
        """The group where it is one of KIP-1071."""
        found = await described_streams_group(self._client, node, group_id)
        if found is None or found.error_code in _NOT_THIS_KIND:
            return GroupDescription(group_id, node, DEAD, "", "", ())
        check(found.error_code, f"describing group {group_id!r}", found.error_message)
        inputs = inputs_of(found)
        return GroupDescription(
            group_id,
            node,
            found.group_state,
            STREAMS,
            found.assignor_name or "",
            tuple(_streams_member(each, inputs) for each in found.members),
            found.group_epoch,
            found.assignment_epoch,
            topology_of(found),
        )

    async def _described_consumers(self, node: int, group_id: str) -> GroupDescription | None:
        """The group where it is one of KIP-848."""
        key = ApiKey.CONSUMER_GROUP_DESCRIBE
        if (await self._client.peer(node)).versions.served(key) is None:
            return None
        request = consumer_group_describe.ConsumerGroupDescribeRequest((group_id,))
        response: consumer_group_describe.ConsumerGroupDescribeResponse = await self._client.request(
            key, request, node=node
        )
        (found,) = response.groups
        if found.error_code in _NOT_THIS_KIND:
            return None
        check(found.error_code, f"describing group {group_id!r}", found.error_message)
        return GroupDescription(
            group_id,
            node,
            found.group_state,
            CONSUMER,
            found.assignor_name,
            tuple(map(_member, found.members)),
            found.group_epoch,
            found.assignment_epoch,
        )

    # --- positions

    async def offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group, by partition; none for a group that is not there. Raises BrokerError."""
        groups = (OffsetFetchRequestGroup(group_id, topics=None),)
        request = OffsetFetchRequest(group_id=group_id, topics=None, groups=groups)

        async def attempt() -> dict[TopicPartition, int]:
            response: OffsetFetchResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, group_id, ApiKey.OFFSET_FETCH, request, at_most=_BY_NAME
            )
            doing = f"fetching the offsets of group {group_id!r}"
            check(response.error_code, doing)
            found = _committed(response.topics, doing)
            for group in response.groups:
                if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                    check(group.error_code, doing)
                    found |= _committed(group.topics, doing)
            return dict(sorted(found.items()))

        return await self._client.retry(attempt)

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Put a group without members, or one that is not there yet, to these offsets. Raises BrokerError,
        UNKNOWN_MEMBER_ID when it has members."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            entry = OffsetCommitRequestPartition(partition.partition, offset, committed_metadata="")
            by_topic.setdefault(partition.topic, []).append(entry)
        request = OffsetCommitRequest(
            group_id,
            topics=tuple(OffsetCommitRequestTopic(name, partitions=tuple(each)) for name, each in by_topic.items()),
        )

        async def attempt() -> None:
            response: OffsetCommitResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, group_id, ApiKey.OFFSET_COMMIT, request, at_most=_BY_NAME
            )
            for topic in response.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, f"committing {place} for group {group_id!r}")

        await self._client.retry(attempt)

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Forget where a group is in `partitions`. Raises BrokerError, GROUP_SUBSCRIBED_TO_TOPIC when a member reads
        the topic; what was not refused is forgotten all the same."""
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(OffsetDeleteRequestPartition(partition.partition))
        topics = tuple(OffsetDeleteRequestTopic(name, tuple(each)) for name, each in by_topic.items())

        async def attempt() -> None:
            response: OffsetDeleteResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, group_id, ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id, topics)
            )
            check(response.error_code, f"deleting positions of group {group_id!r}")
            for topic in response.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, f"deleting the position of group {group_id!r} in {place}")

        await self._client.retry(attempt)

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets. Raises BrokerError, NON_EMPTY_GROUP among others."""

        async def attempt() -> None:
            response: DeleteGroupsResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, group_id, ApiKey.DELETE_GROUPS, DeleteGroupsRequest((group_id,))
            )
            for each in response.results:
                check(each.error_code, f"deleting group {group_id!r}")

        await self._client.retry(attempt)


def _committed(
    topics: Sequence[OffsetFetchResponseTopic] | Sequence[OffsetFetchResponseTopics], doing: str
) -> dict[TopicPartition, int]:
    found = {}
    for topic in topics:
        for each in topic.partitions:
            check(each.error_code, doing)
            if each.committed_offset != _NO_OFFSET:
                found[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
    return found


def _member(found: consumer_group_describe.Member) -> GroupMember:
    protocols = {_CONSUMER_MEMBER: CONSUMER, 0: CLASSIC}
    return GroupMember(
        found.member_id,
        found.instance_id,
        found.client_id,
        found.client_host,
        _partitions(found.assignment),
        found.rack_id,
        found.member_epoch,
        _partitions(found.target_assignment),
        found.subscribed_topic_names,
        found.subscribed_topic_regex or "",
        protocols.get(found.member_type, ""),
    )


def _share_member(found: share_group_describe.Member) -> GroupMember:
    return GroupMember(
        found.member_id,
        None,
        found.client_id,
        found.client_host,
        _partitions(found.assignment),
        found.rack_id,
        found.member_epoch,
        topics=found.subscribed_topic_names,
        protocol=SHARE,
    )


def _streams_member(found: streams_group_describe.Member, inputs: Mapping[str, tuple[str, ...]]) -> GroupMember:
    return GroupMember(
        found.member_id,
        found.instance_id,
        found.client_id,
        found.client_host,
        partitions_of(found.assignment, inputs),
        found.rack_id,
        found.member_epoch,
        partitions_of(found.target_assignment, inputs),
        topics=tuple(sorted({name for names in inputs.values() for name in names})),
        protocol=STREAMS,
        streams=tasks_of(found),
    )


def _partitions(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _classic(node: int, found: DescribedGroup) -> GroupDescription:
    members = tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assigned(each) if found.protocol_type == CONSUMER else (),
        )
        for each in found.members
    )
    return GroupDescription(found.group_id, node, found.group_state, CLASSIC, found.protocol_data, members)


def _assigned(member: DescribedGroupMember) -> tuple[TopicPartition, ...]:
    """The partitions assigned to a member of a consumer group; none if the bytes are not as clients write them."""
    if not member.member_assignment:
        return ()
    try:
        assignment = decode_value(ConsumerProtocolAssignment, member.member_assignment)
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions
    )
