"""Offsets of a group that an open transaction holds (KIP-447): they are decided with it, and unstable until then."""

from typing import Final

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

_LAST_BY_NAME: Final = 9
"""Later versions of OffsetFetch know topics by id only."""


async def pending_offsets(client: Client, group_id: str) -> frozenset[TopicPartition]:
    """The partitions whose offset of the group is undecided. Raises BrokerError."""
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None,
        groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),),
        require_stable=True,
    )

    async def attempt() -> frozenset[TopicPartition]:
        response: OffsetFetchResponse = await client.call_coordinator(
            CoordinatorType.GROUP, group_id, ApiKey.OFFSET_FETCH, request, at_most=_LAST_BY_NAME
        )
        check(response.error_code, f"reading the offsets of group {group_id!r}")
        errors = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        for group in response.groups:
            if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                check(group.error_code, f"reading the offsets of group {group_id!r}")
            errors |= {
                TopicPartition(named.name, one.partition_index): one.error_code
                for named in group.topics
                for one in named.partitions
            }
        return frozenset(each for each, error in errors.items() if error == ErrorCode.UNSTABLE_OFFSET_COMMIT)

    return await client.retry(attempt)
