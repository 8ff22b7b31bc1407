"""Requests of very many names, and tables of the broker that a client can fill by them."""

import itertools
import struct
from collections.abc import Callable, Mapping
from typing import Final

from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from eosin.protocol.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest
from eosin.protocol.schemas.describe_topic_partitions import TopicRequest as TopicNamed
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from eosin.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from eosin.protocol.schemas.share_fetch import FetchPartition as SharePartition
from eosin.protocol.schemas.share_fetch import FetchTopic as ShareTopic
from eosin.protocol.schemas.share_fetch import ShareFetchRequest
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from eosin.protocol.types import Message
from hostile.batch_cases import asked_again
from hostile.field import Case, Field, Who, source_of
from hostile.figures import FORGED
from hostile.peer import Peer, frame_of
from hostile.secured_broker import OWNED

NAMES: Final = 200_000
RESOURCE_TOPIC: Final = 2
_LONGEST_SESSION_MS: Final = 1_800_000


def names(number: int, start: str = "name") -> list[str]:
    """So many different ones."""
    return [f"{start}-{each}" for each in range(number)]


def find_coordinators(of: list[str]) -> bytes:
    """FindCoordinator of groups."""
    return frame_of(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=tuple(of)))


def metadata(of: list[str], *, may_create: bool = False) -> bytes:
    """Metadata of topics."""
    topics = tuple(MetadataRequestTopic(name=name) for name in of)
    return frame_of(ApiKey.METADATA, 12, MetadataRequest(topics=topics, allow_auto_topic_creation=may_create))


LISTS: Final[Mapping[tuple[ApiKey, int], Callable[[list[str]], Message]]] = {
    (ApiKey.DESCRIBE_GROUPS, 5): lambda of: DescribeGroupsRequest(tuple(of)),
    (ApiKey.DELETE_GROUPS, 2): lambda of: DeleteGroupsRequest(tuple(of)),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0): lambda of: DescribeTransactionsRequest(tuple(of)),
    (ApiKey.DESCRIBE_CONFIGS, 4): lambda of: DescribeConfigsRequest(
        tuple(DescribeConfigsResource(RESOURCE_TOPIC, name) for name in of)
    ),
    (ApiKey.DESCRIBE_PRODUCERS, 0): lambda of: DescribeProducersRequest(tuple(TopicRequest(name, (0,)) for name in of)),
    (ApiKey.LIST_OFFSETS, 8): lambda of: ListOffsetsRequest(
        -1, 0, tuple(ListOffsetsTopic(name, (ListOffsetsPartition(0, timestamp=-1),)) for name in of)
    ),
    (ApiKey.OFFSET_FETCH, 8): lambda of: OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(
                "name", topics=tuple(OffsetFetchRequestTopics(each, partition_indexes=(0,)) for each in of)
            ),
        )
    ),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4): lambda of: OffsetForLeaderEpochRequest(
        topics=tuple(OffsetForLeaderTopic(name, (OffsetForLeaderPartition(0),)) for name in of)
    ),
    (ApiKey.CREATE_TOPICS, 7): lambda of: CreateTopicsRequest(
        tuple(CreatableTopic(name, num_partitions=1, replication_factor=1) for name in of)
    ),
    (ApiKey.DELETE_TOPICS, 6): lambda of: DeleteTopicsRequest(tuple(DeleteTopicState(name=name) for name in of)),
    (ApiKey.CREATE_PARTITIONS, 3): lambda of: CreatePartitionsRequest(
        tuple(CreatePartitionsTopic(name, count=2) for name in of)
    ),
    (ApiKey.DELETE_RECORDS, 2): lambda of: DeleteRecordsRequest(
        tuple(DeleteRecordsTopic(name, (DeleteRecordsPartition(0, 0),)) for name in of)
    ),
    (ApiKey.CREATE_ACLS, 3): lambda of: CreateAclsRequest(
        tuple(AclCreation(RESOURCE_TOPIC, name, 3, "User:x", "*", 3, 3) for name in of)
    ),
    (ApiKey.FETCH, 11): lambda of: FetchRequest(
        topics=tuple(FetchTopic(name, partitions=(FetchPartition(0, partition_max_bytes=1),)) for name in of)
    ),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1): lambda of: ConsumerGroupDescribeRequest(tuple(of)),
    (ApiKey.SHARE_GROUP_DESCRIBE, 1): lambda of: ShareGroupDescribeRequest(tuple(of)),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1): lambda of: StreamsGroupDescribeRequest(tuple(of)),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0): lambda of: DescribeTopicPartitionsRequest(tuple(map(TopicNamed, of))),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1): lambda of: DescribeShareGroupOffsetsRequest(
        tuple(DescribeShareGroupOffsetsRequestGroup(name, None) for name in of)
    ),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0): lambda of: AlterShareGroupOffsetsRequest(
        "name",
        tuple(AlterShareGroupOffsetsRequestTopic(each, (AlterShareGroupOffsetsRequestPartition(0, 0),)) for each in of),
    ),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0): lambda of: DeleteShareGroupOffsetsRequest(
        "name", tuple(map(DeleteShareGroupOffsetsRequestTopic, of))
    ),
}
"""Every kind of list that there is to decide about, by names; `denied_names` and `mixed_names` have two more."""


async def denied_names(field: Field) -> None:
    """Different names each time: of one that was denied before, the decision is remembered."""
    frames = itertools.cycle([find_coordinators(names(field.sized(NAMES), f"g{each}")) for each in range(3)])

    async def does(peer: Peer) -> None:
        await peer.ask(next(frames))

    await field.as_user(Who.SMALL, does)


async def mixed_names(field: Field) -> None:
    """Names that the user may know of and others, by turns."""
    number = field.sized(NAMES // 2)
    mixed = [name for both in zip(names(number, OWNED), names(number), strict=True) for name in both]
    await field.as_user(Who.OWNER, asked_again(metadata(mixed)))


async def lists(field: Field) -> None:
    """A long list to each API that takes one, in turn."""
    of = names(field.sized(NAMES // 2))
    frames = itertools.cycle([frame_of(*which, make(of)) for which, make in LISTS.items()])

    async def does(peer: Peer) -> None:
        await peer.ask(next(frames))

    await field.as_user(Who.SMALL, does)


async def fetch_sessions(field: Field) -> None:
    """Sessions of partitions that are not there, and of those that may not be read; each on a new connection."""

    def frame(of: list[str]) -> bytes:
        topics = tuple(FetchTopic(name, partitions=(FetchPartition(0, partition_max_bytes=1),)) for name in of)
        return frame_of(ApiKey.FETCH, 11, FetchRequest(session_id=0, session_epoch=0, topics=topics))

    denied, unknown = frame(names(field.sized(60_000))), frame(names(field.sized(60_000), OWNED))
    turns = itertools.cycle(((Who.SMALL, denied), (Who.OWNER, unknown)))
    while True:
        who, asked = next(turns)
        peer = await field.open(who)
        await peer.ask(asked)
        field.bout()
        field.drop(peer)


async def share_sessions(field: Field) -> None:
    """Sessions of partitions that are not there, of a member each, and each on a new connection."""
    topics = tuple(
        ShareTopic(number.to_bytes(16, "big"), (SharePartition(0),)) for number in range(field.sized(60_000))
    )
    for number in itertools.count():
        peer = await field.open(Who.OWNER)
        opens = ShareFetchRequest(OWNED, f"m{number}", max_records=1, batch_size=1, topics=topics)
        await peer.ask(frame_of(ApiKey.SHARE_FETCH, 1, opens))
        field.bout()
        field.drop(peer)


async def new_groups(field: Field) -> None:
    """Members with long subscriptions and topologies: a consumer, a share and a streams group at a time."""
    topics = tuple(names(field.sized(20_000), OWNED))
    parts = tuple(Subtopology(f"{each}", source_topics=topics[:20]) for each in range(field.sized(1000)))
    numbers = itertools.count()
    owns = {"rebalance_timeout_ms": 60_000}
    none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())

    async def does(peer: Peer) -> None:
        group = f"{OWNED}-new-{next(numbers)}"
        consumes = ConsumerGroupHeartbeatRequest(
            group, "m", 0, subscribed_topic_names=topics, topic_partitions=(), **owns
        )
        shares = ShareGroupHeartbeatRequest(f"{group}-share", "m", 0, subscribed_topic_names=topics)
        runs = StreamsGroupHeartbeatRequest(
            f"{group}-streams", "m", topology=Topology(0, parts), process_id="p", **owns, **none
        )
        await peer.ask(
            frame_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumes),
            frame_of(ApiKey.SHARE_GROUP_HEARTBEAT, 1, shares),
            frame_of(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, runs),
        )

    await field.as_user(Who.OWNER, does, connections=4)


async def long_names(field: Field) -> None:
    """Names of 30 KiB about which decisions are remembered, from one address after the other."""
    frame = find_coordinators([f"{each:06}" + "n" * 30_000 for each in range(field.sized(500))])
    for number in itertools.count():
        peer = await field.open(Who.SMALL, source_of(number % ADDRESSES))
        await peer.ask(frame)
        field.bout()
        field.drop(peer)


ADDRESSES: Final = 200


async def groups(field: Field) -> None:
    """Members that bring along a MiB each, one to a group."""
    metadata_of = (JoinGroupRequestProtocol("range", bytes(field.sized(1 << 20))),)
    numbers = itertools.count()

    async def does(peer: Peer) -> None:
        group = f"{OWNED}-{next(numbers)}"
        joins = JoinGroupRequest(group, _LONGEST_SESSION_MS, 60_000, "", None, "consumer", metadata_of)
        await peer.ask(frame_of(ApiKey.JOIN_GROUP, 3, joins))

    await field.as_user(Who.OWNER, does, connections=8)


async def topics(field: Field) -> None:
    """Topics that come by being named, more in a request than CreateTopics takes."""
    numbers = itertools.count()

    async def does(peer: Peer) -> None:
        await peer.ask(metadata(names(15_000, f"{OWNED}-{next(numbers)}"), may_create=True))

    await field.as_user(Who.OWNER, does)


async def forged_lines(field: Field) -> None:
    """Names and client ids that are meant to look like lines of the log, or like other fields of theirs."""
    forged = [f'{each} principal=User:admin result="allowed"\n{FORGED} {each}' for each in range(field.sized(500))]
    numbers = itertools.count()

    async def does(peer: Peer) -> None:
        client_id = f"x\n{FORGED} {next(numbers)}"
        keys = FindCoordinatorRequest(coordinator_keys=tuple(forged))
        ids = frame_of(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(forged[0], 60_000), client_id=client_id)
        await peer.ask(frame_of(ApiKey.FIND_COORDINATOR, 4, keys, client_id=client_id), ids)

    await field.as_user(Who.SMALL, does)


async def unread_answers(field: Field) -> None:
    """Requests whose answers are long, and are never read."""
    frame = find_coordinators(names(field.sized(20_000)))

    async def does(peer: Peer) -> None:
        await peer.send(frame)

    await field.as_user(Who.SMALL, does, connections=field.sized(20))


async def pipelined(field: Field) -> None:
    """Small requests without end, a thousand in a packet."""
    frame = frame_of(ApiKey.API_VERSIONS, 2, ApiVersionsRequest())
    await field.as_user(Who.SMALL, asked_again(*[frame] * field.sized(1000)), connections=2)


async def broken_requests(field: Field) -> None:
    """Requests that cannot be read: of versions and APIs that are not there, cut off, announcing what does not come."""
    header = struct.pack(">hhih", ApiKey.METADATA, 12, 1, 1) + b"x\0"
    bodies = (struct.pack(">hhih", 999, 0, 1, -1), struct.pack(">hhih", 3, 99, 1, -1), header + b"\xff\xff\xff\xff\x07")
    wrong = itertools.cycle([len(each).to_bytes(4, "big") + each for each in bodies])

    async def does(peer: Peer) -> None:
        await peer.send(next(wrong))
        await peer.until_closed()
        raise EOFError

    await field.as_user(Who.SMALL, does, connections=4)


CASES: Final = (
    Case("denied-names", "S3a", Who.SMALL, "FindCoordinator of 200,000 names, different ones each time", denied_names),
    Case("mixed-names", "S3b", Who.OWNER, "Metadata of 200,000 names, every other one known by a prefix", mixed_names),
    Case("lists", "S3b", Who.SMALL, "lists of 100,000 to each API that takes one", lists),
    Case("fetch-sessions", "S4a", Who.SMALL, "sessions of 60,000 partitions, on new connections", fetch_sessions),
    Case("share-sessions", "S4a", Who.OWNER, "share sessions of 60,000 partitions, on new connections", share_sessions),
    Case("long-names", "S4b", Who.SMALL, "500 names of 30 KB, from 200 addresses", long_names, addresses=ADDRESSES),
    Case("groups", "S4c", Who.OWNER, "members with a MiB of metadata, a group each", groups, may_keep_mib=256),
    Case(
        "new-groups", "S4c", Who.OWNER, "members of newer kinds with long subscriptions", new_groups, may_keep_mib=256
    ),
    Case("topics", "S7", Who.OWNER, "Metadata that would create 15,000 topics", topics),
    Case("forged-lines", "S10", Who.SMALL, "names and client ids with line feeds, blanks and quotes", forged_lines),
    Case("unread-answers", "more", Who.SMALL, "long answers that are never read, on 20 connections", unread_answers),
    Case("pipelined", "more", Who.SMALL, "ApiVersions, a thousand in a packet", pipelined),
    Case("broken-requests", "more", Who.SMALL, "requests that cannot be read", broken_requests),
)
