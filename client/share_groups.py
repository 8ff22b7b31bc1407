"""Share groups (KIP-932) as an operator sees them: where they are in their partitions."""

from dataclasses import dataclass

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from eosin.protocol.schemas.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@dataclass(frozen=True, slots=True)
class SharePosition:
    """The place of a share group in a partition."""

    start_offset: int
    """Every record before it is done with; -1 while nobody has read."""
    lag: int
    """Records from there on that are not done with; -1 where it is not known."""


async def described_share_group(client: Client, node: int, group_id: str) -> DescribedGroup | None:
    """Ask the coordinator about a share group: its answer, an error included; None from a broker that knows no such
    groups."""
    key = ApiKey.SHARE_GROUP_DESCRIBE
    if (await client.peer(node)).versions.served(key) is None:
        return None
    response: ShareGroupDescribeResponse = await client.request(key, ShareGroupDescribeRequest((group_id,)), node=node)
    (found,) = response.groups
    return found


async def share_positions(client: Client, group_id: str) -> dict[TopicPartition, SharePosition]:
    """Ask where a share group is, in every partition of which it has a state. Raises BrokerError."""
    request = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(group_id, None),))

    async def attempt() -> dict[TopicPartition, SharePosition]:
        response: DescribeShareGroupOffsetsResponse = await client.call_coordinator(
            CoordinatorType.GROUP, group_id, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request
        )
        (found,) = response.groups
        doing = f"looking where share group {group_id!r} is"
        check(found.error_code, doing, found.error_message)
        positions = {}
        for topic in found.topics:
            for each in topic.partitions:
                check(each.error_code, doing, each.error_message)
                place = TopicPartition(topic.topic_name, each.partition_index)
                positions[place] = SharePosition(each.start_offset, each.lag)
        return dict(sorted(positions.items()))

    return await client.retry(attempt)
