"""Streams groups (KIP-1071) as an operator sees them."""

from collections.abc import Mapping

from eosin.client.client import Client
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.streams_group_describe import (
    Assignment,
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


async def described_streams_group(client: Client, node: int, group_id: str) -> DescribedGroup | None:
    """Ask the coordinator about a streams group: its answer, an error included; None from a broker that knows no such
    groups."""
    key = ApiKey.STREAMS_GROUP_DESCRIBE
    if (await client.peer(node)).versions.served(key) is None:
        return None
    request = StreamsGroupDescribeRequest((group_id,))
    response: StreamsGroupDescribeResponse = await client.request(key, request, node=node)
    (found,) = response.groups
    return found


def inputs_of(found: DescribedGroup) -> Mapping[str, tuple[str, ...]]:
    """The topics that each subtopology reads, by its id."""
    subtopologies = () if found.topology is None else found.topology.subtopologies or ()
    return {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }


def partitions_of(assignment: Assignment, inputs: Mapping[str, tuple[str, ...]]) -> tuple[TopicPartition, ...]:
    """The partitions that the active tasks of a member read, where each topic has that many."""
    return tuple(
        TopicPartition(topic, number)
        for each in assignment.active_tasks
        for topic in inputs.get(each.subtopology_id, ())
        for number in each.partitions
    )
