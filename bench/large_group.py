"""Very large groups, and a group coordinator without sockets or files that has them, for `bench large_groups`."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from fake_share_states import FakeShareStates
from group_fakes import Broker
from jumping_clock import JumpingClock

from bench.group_members import KnownTopic
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.consumer_groups import HeldConsumerGroup
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.counts import MemberCounts
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.share_groups import HeldShareGroup
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.rules.group import HeldTasks, Owner, StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.streams_groups import HeldStreamsGroup
from eosin.coordinator.groups.streams.topology.configuration import configured
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.model.cluster import Topic
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.wire.codec import EncodedBody, encode_response
from eosin.runtime.clock import SystemClock
from eosin.runtime.sorted_map import SortedMap

TOPIC_ID: Final = bytes(15) + b"\1"
HOUR_MS: Final = 3_600_000
JOIN_MS: Final = 60_000
"""Length of a join phase: less than a new member is waited for."""
METADATA: Final = bytes(40)
TOPOLOGY: Final = Topology(0, (Subtopology("0", ("topic",), (), (), (), (), ()),))


class Topics(NoTopics):
    """One topic of very many partitions, and very many of one (`ClusterTopics`)."""

    metadata_version = 1

    def __init__(self, partitions: int, others: int = 0) -> None:
        found = {"topic": KnownTopic(TOPIC_ID, partitions)}
        found |= {f"topic-{number:06}": KnownTopic(number.to_bytes(16, "little"), 1) for number in range(1, others)}
        self.topics: Mapping[str, KnownTopic] = found


class Bench:
    """A coordinator, and what handlers and observers have beside it."""

    def __init__(self, partitions: int = 100_000, others: int = 0) -> None:
        clock: Any = JumpingClock()
        self.clock = clock
        self.topics = Topics(partitions, others)
        config = GroupConfig(group_initial_rebalance_delay_ms=JOIN_MS)
        share = ShareSurroundings(FakeShareStates())
        self.broker = Broker(config, clock=clock, topics=self.topics, share=share)
        self.services: Any = SimpleNamespace(
            groups=self.broker.groups,
            group_shares=None,
            clock=SystemClock(),
            cluster=SimpleNamespace(
                topics=self.topics.topics,
                topic_by_id=lambda topic_id: Topic("topic", topic_id, partitions),
                features=SimpleNamespace(level=lambda _: 1),
            ),
            config=SimpleNamespace(
                group_consumer_assignors=("uniform",),
                group_share_assignors=("simple",),
                eosin_metrics_max_partitions=10_000,
            ),
            partitions=SimpleNamespace(get=lambda _: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            unserved_groups=SimpleNamespace(why=lambda _: None),
        )

    async def begun(self) -> "Bench":
        await self.broker.started()
        return self

    @property
    def shard(self) -> Shard:
        """The partition of `__consumer_offsets` that has all groups."""
        (shard,) = self.broker.groups._shards
        return shard

    async def ask(self, api: Api, request: Any, *, is_large: bool = False) -> Any:
        """The response to a request, which is encoded in the turn in which it is made, unless a thread does that."""
        version = api.versions[-1]
        context = RequestContext(version, "bench", "/127.0.0.1", "PLAINTEXT", is_large=is_large, api_key=api.key)
        response = await api.response(request, context, self.services)
        if not isinstance(response, EncodedBody) and not is_large:
            encode_response(api.key, version, 0, response)
        return response

    async def idle(self) -> None:
        """Wait until nothing is left to do in turns."""
        while self.shard_turns._waiting or self.shard_turns._next:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def remember_turns(self) -> None:
        """Keep the turns of the shard, which may go."""
        self.shard_turns = self.shard._turns

    async def leave(self) -> None:
        """Another broker coordinates the partition from now on, and nothing is left here."""
        self.remember_turns()
        self.broker.groups.resign(0)
        await self.idle()


def name_of(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**64:020}-{number}"


def consumer_group(count: int, *, has_target: bool = True) -> ConsumerGroup:
    """A consumer group of so many members, each of which has one partition."""
    places = [TopicIdPartition(TOPIC_ID, number) for number in range(count)]
    names = [name_of(number) for number in range(count)]
    topics = ("topic",)
    members = {
        name: ConsumerMember(name, topics=topics, epoch=1, assigned={place: 1} if has_target else {})
        for name, place in zip(names, places, strict=True)
    }
    one_each = {name: frozenset((place,)) for name, place in zip(names, places, strict=True)}
    owners = dict(zip(places, names, strict=True))
    return ConsumerGroup(
        "g",
        epoch=2,
        members=SortedMap(members),
        targets=SortedMap(one_each if has_target else {}),
        owners=SortedMap(owners if has_target else {}),
        counts=_counts(topics, count),
    )


def _counts(topics: tuple[str, ...], count: int) -> MemberCounts:
    return MemberCounts(
        lists=SortedMap({topics: (topics, count)}), listed=SortedMap({"topic": 1}), names=frozenset(topics)
    )


def share_group(count: int) -> ShareGroup:
    """A share group of so many members, each of which has one partition."""
    places = {name_of(number): frozenset((TopicIdPartition(TOPIC_ID, number),)) for number in range(count)}
    members = {name: ShareMember(name, topics=("topic",), epoch=1, assigned=has) for name, has in places.items()}
    return ShareGroup(
        "g", epoch=2, members=SortedMap(members), targets=SortedMap(places), counts=_counts(("topic",), count)
    )


def streams_group(count: int) -> StreamsGroup:
    """A streams group of so many members, each of which has one task."""
    tasks = {name_of(number): Task("0", number) for number in range(count)}
    members = {
        name: StreamsMember(name, process_id=name, epoch=1, assigned=HeldTasks({task: 1}))
        for name, task in tasks.items()
    }
    return StreamsGroup(
        "g",
        epoch=2,
        topology=TOPOLOGY,
        configured=configured(TOPOLOGY, {"topic": count}),
        members=SortedMap(members),
        targets=SortedMap({name: MemberTasks(frozenset((task,)), frozenset()) for name, task in tasks.items()}),
        owners={task: Owner(name, name) for name, task in tasks.items()},
    )


def classic_group(count: int) -> Group:
    """A stable classic group of so many members."""
    names = [name_of(number) for number in range(count)]
    members = {
        name: Member(name, None, "bench", "/127.0.0.1", HOUR_MS // 2, HOUR_MS, (("range", METADATA),), METADATA)
        for name in names
    }
    return Group("g", GroupState.STABLE, 0, 1, "consumer", "range", names[0], members)


LOADS: Final[Mapping[str, Callable[[Shard, int], None]]] = {
    "consumer": lambda shard, count: shard.consumer.load({"g": _held(HeldConsumerGroup, consumer_group(count))}),
    "share": lambda shard, count: shard.share.load({"g": _held(HeldShareGroup, share_group(count))}),
    "streams": lambda shard, count: shard.streams.load({"g": _held(HeldStreamsGroup, streams_group(count))}),
}


def _held(kind: Callable[[Any, Any], Any], group: Any) -> Any:
    return kind(group, group)
