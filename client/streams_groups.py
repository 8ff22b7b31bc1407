"""Streams groups (KIP-1071) as an operator sees them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from eosin.client.client import Client
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
)


@dataclass(frozen=True, slots=True)
class TaskNames:
    """Tasks of one member, by the names that Kafka Streams gives them, as `0_3`."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()

    @property
    def are_none(self) -> bool:
        """True if there are none."""
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class StreamsMemberTasks:
    """The tasks of a member of a streams group, and the place where it runs them."""

    topology_epoch: int
    process_id: str
    endpoint: str
    """The address at which it answers queries of its states; empty for none."""
    tasks: TaskNames
    target: TaskNames
    """The tasks that it is to have."""


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The topology of a streams group as far as an operator asks for it."""

    epoch: int
    sources: tuple[str, ...]
    """Topics that must exist before it runs."""
    internal: tuple[str, ...]
    """Topics that the broker makes for it."""


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


def topology_of(found: DescribedGroup) -> StreamsTopology | None:
    """The topology of a group; None while it has none."""
    if found.topology is None:
        return None
    parts = found.topology.subtopologies or ()
    internal = {
        topic.name for each in parts for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    sources = {name for each in parts for name in each.source_topics} - internal
    return StreamsTopology(found.topology.epoch, tuple(sorted(sources)), tuple(sorted(internal)))


def tasks_of(member: Member) -> StreamsMemberTasks:
    """The tasks of a member, and where it runs them."""
    endpoint = member.user_endpoint
    return StreamsMemberTasks(
        member.topology_epoch,
        member.process_id,
        "" if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        _names(member.assignment),
        _names(member.target_assignment),
    )


def task_moves(has: TaskNames, target: TaskNames) -> list[str]:
    """The moves of a member: `-0_3` is to be stopped, `+0_3` is still to come; copies of a state have their kind."""
    moves: list[str] = []
    for kind, there, wanted in (
        ("", has.active, target.active),
        (" (standby)", has.standby, target.standby),
        (" (warm-up)", has.warmup, target.warmup),
    ):
        moves += [f"-{each}{kind}" for each in there if each not in wanted]
        moves += [f"+{each}{kind}" for each in wanted if each not in there]
    return moves


def _names(assignment: Assignment) -> TaskNames:
    return TaskNames(
        *(tuple(_named(each)) for each in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks))
    )


def _named(tasks: Iterable[TaskIds]) -> Iterable[str]:
    return chain.from_iterable((f"{each.subtopology_id}_{number}" for number in each.partitions) for each in tasks)
