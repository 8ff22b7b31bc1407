"""The committed offsets of a group.

Always true: unless the caller says otherwise, an offset in an open transaction is waited for, never passed over: a
runner that began at the older offset would do the same work twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

_BY_TOPIC_NAME = 9


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The next offset of a group in one partition."""

    offset: int
    metadata: str
    """The text that was committed with the offset, or an empty one."""


async def committed_offsets(
    client: Client, group: str, partitions: Sequence[TopicPartition], *, require_stable: bool = True
) -> dict[TopicPartition, GroupOffset]:
    """The committed offset of each partition; partitions without one are left out. Without `require_stable`, it is the
    one before an open transaction. Raises a ClientError."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    request = OffsetFetchRequest(
        group_id=group,
        topics=tuple(OffsetFetchRequestTopic(name, tuple(indexes)) for name, indexes in by_topic.items()),
        groups=(
            OffsetFetchRequestGroup(
                group,
                topics=tuple(
                    OffsetFetchRequestTopics(name, partition_indexes=tuple(indexes))
                    for name, indexes in by_topic.items()
                ),
            ),
        ),
        require_stable=require_stable,
    )
    doing = f"reading the offsets of group {group!r}"

    async def attempt() -> dict[TopicPartition, GroupOffset]:
        answer: OffsetFetchResponse = await client.call_coordinator(
            CoordinatorType.GROUP, group, ApiKey.OFFSET_FETCH, request, at_most=_BY_TOPIC_NAME
        )
        check(answer.error_code, doing)
        found: dict[TopicPartition, GroupOffset] = {}
        for group_answer in answer.groups:  # from version 8 on; older responses are about one group
            check(group_answer.error_code, doing)
            for named in group_answer.topics:
                found |= _known(named.name, named.partitions, doing)
        for topic in answer.topics:
            found |= _known(topic.name, topic.partitions, doing)
        return found

    return await client.retry(attempt)


def _known(
    topic: str,
    partitions: Sequence[OffsetFetchResponsePartition] | Sequence[OffsetFetchResponsePartitions],
    doing: str,
) -> dict[TopicPartition, GroupOffset]:
    for each in partitions:
        check(each.error_code, doing)
    return {
        TopicPartition(topic, each.partition_index): GroupOffset(each.committed_offset, each.metadata or "")
        for each in partitions
        if each.committed_offset >= 0
    }
