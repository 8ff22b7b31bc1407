"""Requests of every API that asks for rights, and the rights of its row in security.md 4.6.

Each case is asked by several people, one after the other: by nobody in particular, by somebody with all rights of the
row, and by people who lack one of them each. Everybody has topics, groups and transactional ids of their own, so no
answer depends on an earlier one; `rights_run.py` makes them and asks.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from batches import data
from waiting import HANG_S

from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from eosin.protocol.types import Message

TIMEOUT_MS: Final = HANG_S * 1000
"""Of each request that has one: what is asked is who may do it, and not whether a busy machine is quick."""

TOPIC, GROUP, TXN, CLUSTER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.CLUSTER,
)


@dataclass(slots=True)
class World:
    """The things that exist for a client, and some that do not."""

    prefix: str
    topic_id: bytes = bytes(16)
    other_id: bytes = bytes(16)
    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def topic(self) -> str:
        """A topic on which the row's rights are given."""
        return f"{self.prefix}-topic"

    @property
    def other(self) -> str:
        """A topic on which nobody has rights."""
        return f"{self.prefix}-other"

    @property
    def absent(self) -> str:
        """A name that no topic has, and nobody has rights on."""
        return f"{self.prefix}-absent"

    @property
    def new(self) -> str:
        """A name that no topic has, on which the row's rights are given."""
        return f"{self.prefix}-new"

    @property
    def group(self) -> str:
        """A group with an offset committed for `topic` and one for `other`."""
        return f"{self.prefix}-group"

    @property
    def txn(self) -> str:
        """A transactional id with a producer."""
        return f"{self.prefix}-txn"

    @property
    def members(self) -> str:
        """A name for a group of one of the new protocols: there is none before its case makes it."""
        return f"{self.prefix}-members"

    @property
    def changelog(self) -> str:
        """An internal topic that a streams group of that name would have."""
        return f"{self.members}-changelog"

    @property
    def repartition(self) -> str:
        """Another one."""
        return f"{self.members}-repartition"


@dataclass(frozen=True, slots=True)
class Needed:
    """A right of a row, on one of the world's names."""

    operation: Operation
    kind: ResourceType
    name: str = ""
    """The name of a property of `World`; empty for the cluster."""

    def acl(self, world: World, principal: str) -> Acl:
        """The entry that gives it."""
        name = getattr(world, self.name) if self.name else CLUSTER_NAME
        return Acl(self.kind, name, PatternType.LITERAL, principal, "*", self.operation, Permission.ALLOW)

    def __str__(self) -> str:
        return f"{self.operation.name} {self.name or 'cluster'}"


Ask = Callable[[str, ApiKey, int, Message], Awaitable[Any]]
"""(principal, api, version, request) to the response."""
Prepare = Callable[[Ask, World, str], Awaitable[None]]
"""What has to be there before somebody, the last parameter, is heard."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request."""

    name: str
    key: ApiKey
    version: int
    request: Callable[[World], Message]
    needed: tuple[Needed, ...] = ()
    by_admin: bool = False
    """Asked by a super user: what is compared is how the request itself is judged."""
    prepare: Prepare | None = None

    def variants(self) -> Iterator[tuple[str, tuple[Needed, ...]]]:
        """The users that send the request, each with its rights."""
        if self.by_admin:
            yield "super user", ()
            return
        yield "nobody", ()
        if self.needed:
            yield "all rights", self.needed
        if len(self.needed) > 1:
            for lacking in self.needed:
                yield f"without {lacking}", tuple(each for each in self.needed if each is not lacking)


def on_topic(*operations: Operation, name: str = "topic") -> tuple[Needed, ...]:
    return tuple(Needed(each, TOPIC, name) for each in operations)


def on_group(operation: Operation, name: str = "group") -> tuple[Needed, ...]:
    return (Needed(operation, GROUP, name),)


def on_txn(operation: Operation) -> tuple[Needed, ...]:
    return (Needed(operation, TXN, "txn"),)


def on_cluster(operation: Operation) -> tuple[Needed, ...]:
    return (Needed(operation, CLUSTER),)


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS


def _produce(world: World, *, transactional: bool = False, idempotent: bool = False) -> Message:
    batch = data()
    if transactional:
        batch = data(pid=world.producer_id, epoch=world.producer_epoch, seq=0, txn=True)
    elif idempotent:
        batch = data(pid=world.producer_id, epoch=world.producer_epoch, seq=0)
    topics = tuple(
        produce.TopicProduceData(name, partition_data=(produce.PartitionProduceData(0, batch),))
        for name in (world.topic, world.other, world.absent)
    )
    return produce.ProduceRequest(world.txn if transactional else None, -1, TIMEOUT_MS, topics)


def _produce_by_id(world: World) -> Message:
    topics = tuple(
        produce.TopicProduceData("", each, partition_data=(produce.PartitionProduceData(0, data()),))
        for each in (world.topic_id, world.other_id, b"x" * 16)
    )
    return produce.ProduceRequest(None, -1, TIMEOUT_MS, topics)


def _fetch(world: World, *, replica_id: int = -1, by_id: bool = False) -> Message:
    names = [(name, bytes(16)) for name in (world.topic, world.other, world.absent)]
    if by_id:
        names = [("", each) for each in (world.topic_id, world.other_id, b"x" * 16)]
    topics = tuple(
        fetch.FetchTopic(name, each, (fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000),))
        for name, each in names
    )
    return fetch.FetchRequest(
        replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=-1, topics=topics
    )


def _list_offsets(world: World) -> Message:
    topics = tuple(
        list_offsets.ListOffsetsTopic(name, (list_offsets.ListOffsetsPartition(0, timestamp=-1),))
        for name in (world.topic, world.other, world.absent)
    )
    return list_offsets.ListOffsetsRequest(-1, 0, topics)


def _metadata(world: World, *, creates: bool = False, by_id: bool = False, operations: bool = False) -> Message:
    names = (world.topic, world.other, world.absent, world.new)
    topics = tuple(metadata.MetadataRequestTopic(name=name) for name in names)
    if by_id:
        topics = tuple(
            metadata.MetadataRequestTopic(each, None) for each in (world.topic_id, world.other_id, b"x" * 16)
        )
    return metadata.MetadataRequest(topics, creates, operations, operations)


def _commit_offsets(world: World) -> Message:
    topics = tuple(
        offset_commit.OffsetCommitRequestTopic(name, partitions=(offset_commit.OffsetCommitRequestPartition(0, 3),))
        for name in (world.topic, world.other, world.absent)
    )
    return offset_commit.OffsetCommitRequest(group_id=world.group, topics=topics)


def _fetch_offsets(world: World, *, everything: bool = False, version: int = 9) -> Message:
    if version < 8:
        old = tuple(offset_fetch.OffsetFetchRequestTopic(name, (0,)) for name in (world.topic, world.other))
        return offset_fetch.OffsetFetchRequest(group_id=world.group, topics=None if everything else old)
    topics = tuple(
        offset_fetch.OffsetFetchRequestTopics(name, partition_indexes=(0,))
        for name in (world.topic, world.other, world.absent)
    )
    group = offset_fetch.OffsetFetchRequestGroup(world.group, topics=None if everything else topics)
    return offset_fetch.OffsetFetchRequest(groups=(group,))


def _txn_offsets(world: World) -> Message:
    topics = tuple(
        txn_offset_commit.TxnOffsetCommitRequestTopic(
            name, partitions=(txn_offset_commit.TxnOffsetCommitRequestPartition(0, 3, committed_metadata=""),)
        )
        for name in (world.topic, world.other, world.absent)
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        world.txn, world.group, world.producer_id, world.producer_epoch, topics=topics
    )


def _add_partitions(world: World, *names: str) -> Message:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=world.txn,
        v3_and_below_producer_id=world.producer_id,
        v3_and_below_producer_epoch=world.producer_epoch,
        v3_and_below_topics=tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopic(getattr(world, name), (0,)) for name in names
        ),
    )


def _markers(world: World) -> Message:
    topics = (write_txn_markers.WritableTxnMarkerTopic(world.absent, (0,)),)
    return write_txn_markers.WriteTxnMarkersRequest(
        (write_txn_markers.WritableTxnMarker(world.producer_id, world.producer_epoch, False, topics, 0),)
    )


def _create_topics(world: World, *, validate_only: bool = False) -> Message:
    names = (world.new, world.absent, world.other)
    topics = tuple(create_topics.CreatableTopic(name, 1, 1) for name in names)
    return create_topics.CreateTopicsRequest(topics, TIMEOUT_MS, validate_only)


def _delete_topics(world: World, *, by_id: bool = False) -> Message:
    states = tuple(delete_topics.DeleteTopicState(name) for name in (world.topic, world.other, world.absent, world.new))
    if by_id:
        states = tuple(
            delete_topics.DeleteTopicState(None, each) for each in (world.topic_id, world.other_id, b"x" * 16)
        )
    return delete_topics.DeleteTopicsRequest(states, timeout_ms=TIMEOUT_MS)


def _configs(world: World) -> tuple[tuple[int, str], ...]:
    """Resources that have settings, by their type on the wire (topics 2, brokers 4) and name."""
    return (2, world.topic), (2, world.other), (2, world.absent), (4, "1")


def _describe_configs(world: World) -> Message:
    resources = tuple(
        describe_configs.DescribeConfigsResource(kind, name, ("retention.ms", "num.partitions"))
        for kind, name in _configs(world)
    )
    return describe_configs.DescribeConfigsRequest(resources)


def _alter_configs(world: World) -> Message:
    resources = tuple(
        alter_configs.AlterConfigsResource(
            kind, name, (alter_configs.AlterableConfig("retention.ms" if kind == 2 else "log.retention.ms", "1000000"),)
        )
        for kind, name in _configs(world)
    )
    return alter_configs.AlterConfigsRequest(resources, True)


def _alter_incrementally(world: World) -> Message:
    resources = tuple(
        incremental_alter_configs.AlterConfigsResource(
            kind,
            name,
            (
                incremental_alter_configs.AlterableConfig(
                    "retention.ms" if kind == 2 else "log.retention.ms", 0, "1000000"
                ),
            ),
        )
        for kind, name in _configs(world)
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources, True)


def _by_topic(made: Callable[[str], Any], world: World) -> tuple[Any, ...]:
    return tuple(made(name) for name in (world.topic, world.other, world.absent))


def _acl(name: str = "somewhere") -> Message:
    return create_acls.CreateAclsRequest((create_acls.AclCreation(2, name, 3, "User:somebody", "*", 3, 3),))


def _judged() -> Iterator[Case]:
    """Requests of access control entries that make no sense, or some (security.md 4.5)."""
    fields = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission")
    sound = dict(zip(fields, (2, "orders", 3, "User:a", "*", 3, 3), strict=True))
    for name, changed in (
        ("a sound entry", {}),
        ("of an unknown type", {"resource_type": 0}),
        ("of any type", {"resource_type": 1}),
        ("of a type to come", {"resource_type": 99}),
        ("of users", {"resource_type": 7, "operation": 13}),
        ("of a token", {"resource_type": 6}),
        ("with any pattern", {"resource_pattern_type": 1}),
        ("with a matching pattern", {"resource_pattern_type": 2}),
        ("with an unknown pattern", {"resource_pattern_type": 0}),
        ("with any operation", {"operation": 1}),
        ("with an unknown operation", {"operation": 0}),
        ("with any permission", {"permission": 1}),
        ("with an unknown permission", {"permission": 0}),
        ("without a name", {"resource_name": ""}),
        ("of another cluster", {"resource_type": 4, "resource_name": "another"}),
        ("of the cluster", {"resource_type": 4, "resource_name": CLUSTER_NAME, "operation": 7}),
        ("of the cluster by a prefix", {"resource_type": 4, "resource_name": "kafka", "resource_pattern_type": 4}),
        ("with a useless operation", {"resource_type": 4, "resource_name": CLUSTER_NAME, "operation": 4}),
        ("with a useless host", {"host": "broker-1"}),
        ("of nobody", {"principal": "alice"}),
        ("of an empty principal", {"principal": ""}),
    ):
        values = tuple({**sound, **changed}.values())
        yield Case(
            f"CreateAcls, {name}",
            ApiKey.CREATE_ACLS,
            3,
            lambda w, values=values: create_acls.CreateAclsRequest((create_acls.AclCreation(*values),)),  # type: ignore[misc]
            by_admin=True,
        )
    for name, wanted in (
        ("what applies to a topic", (2, "orders", 2, None, None, 1, 1)),
        ("what applies to a name", (1, "orders", 2, None, None, 1, 1)),
        ("of an unknown type", (0, None, 1, None, None, 1, 1)),
        ("with an unknown pattern", (2, None, 0, None, None, 1, 1)),
        ("with an unknown operation", (2, None, 1, None, None, 0, 1)),
        ("with an unknown permission", (2, None, 1, None, None, 1, 0)),
    ):
        yield Case(
            f"DescribeAcls, {name}",
            ApiKey.DESCRIBE_ACLS,
            3,
            lambda w, wanted=wanted: describe_acls.DescribeAclsRequest(*wanted),  # type: ignore[misc]
            by_admin=True,
        )
        yield Case(
            f"DeleteAcls, {name}",
            ApiKey.DELETE_ACLS,
            3,
            lambda w, wanted=wanted: delete_acls.DeleteAclsRequest((delete_acls.DeleteAclsFilter(*wanted),)),  # type: ignore[misc]
            by_admin=True,
        )


K = ApiKey
CASES: Final = (
    Case("Produce", K.PRODUCE, 9, _produce, on_topic(WRITE)),
    Case("Produce by id", K.PRODUCE, 13, _produce_by_id, on_topic(WRITE)),
    Case("Produce, idempotent", K.PRODUCE, 9, lambda w: _produce(w, idempotent=True), on_topic(WRITE)),
    Case(
        "Produce, transactional",
        K.PRODUCE,
        12,
        lambda w: _produce(w, transactional=True),
        on_txn(WRITE) + on_topic(WRITE),
    ),
    Case("Fetch", K.FETCH, 12, _fetch, on_topic(READ)),
    Case("Fetch by id", K.FETCH, 16, lambda w: _fetch(w, by_id=True), on_topic(READ)),
    Case("Fetch as a replica", K.FETCH, 12, lambda w: _fetch(w, replica_id=7)),
    Case("Fetch, describing only", K.FETCH, 12, _fetch, on_topic(DESCRIBE)),
    Case("ListOffsets", K.LIST_OFFSETS, 7, _list_offsets, on_topic(DESCRIBE)),
    Case("Metadata", K.METADATA, 12, _metadata, on_topic(DESCRIBE)),
    Case("Metadata, old", K.METADATA, 4, _metadata, on_topic(DESCRIBE)),
    Case("Metadata by id", K.METADATA, 12, lambda w: _metadata(w, by_id=True), on_topic(DESCRIBE)),
    Case(
        "Metadata that creates",
        K.METADATA,
        12,
        lambda w: _metadata(w, creates=True),
        on_topic(DESCRIBE) + on_topic(DESCRIBE, CREATE, name="new"),
    ),
    Case(
        "Metadata that creates, by the cluster",
        K.METADATA,
        12,
        lambda w: _metadata(w, creates=True),
        on_topic(DESCRIBE, name="new") + on_cluster(CREATE),
    ),
    Case(
        "Metadata of all",
        K.METADATA,
        12,
        lambda w: metadata.MetadataRequest(None, False),
        on_topic(DESCRIBE),
    ),
    Case(
        "Metadata with operations",
        K.METADATA,
        10,
        lambda w: _metadata(w, operations=True),
        on_topic(WRITE, ALTER_CONFIGS) + on_cluster(ALTER),
    ),
    Case(
        "Metadata with all operations",
        K.METADATA,
        10,
        lambda w: _metadata(w, operations=True),
        on_topic(Operation.ALL) + on_cluster(Operation.ALL),
    ),
    Case("OffsetCommit", K.OFFSET_COMMIT, 8, _commit_offsets, on_group(READ) + on_topic(READ)),
    Case("OffsetFetch", K.OFFSET_FETCH, 9, _fetch_offsets, on_group(DESCRIBE) + on_topic(DESCRIBE)),
    Case(
        "OffsetFetch of all",
        K.OFFSET_FETCH,
        9,
        lambda w: _fetch_offsets(w, everything=True),
        on_group(DESCRIBE) + on_topic(DESCRIBE),
    ),
    Case(
        "OffsetFetch, old",
        K.OFFSET_FETCH,
        6,
        lambda w: _fetch_offsets(w, version=6),
        on_group(DESCRIBE) + on_topic(DESCRIBE),
    ),
    Case(
        "FindCoordinator of a group",
        K.FIND_COORDINATOR,
        4,
        lambda w: find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(w.group, w.absent)),
        on_group(DESCRIBE),
    ),
    Case(
        "FindCoordinator of a transaction",
        K.FIND_COORDINATOR,
        4,
        lambda w: find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=(w.txn, w.absent)),
        on_txn(DESCRIBE),
    ),
    Case(
        "FindCoordinator, old",
        K.FIND_COORDINATOR,
        2,
        lambda w: find_coordinator.FindCoordinatorRequest(key=w.group, key_type=0),
        on_group(DESCRIBE),
    ),
    Case(
        "JoinGroup",
        K.JOIN_GROUP,
        6,
        lambda w: join_group.JoinGroupRequest(
            w.group, 10_000, 10_000, "", None, "consumer", (join_group.JoinGroupRequestProtocol("range", b""),)
        ),
        on_group(READ),
    ),
    Case(
        "SyncGroup",
        K.SYNC_GROUP,
        5,
        lambda w: sync_group.SyncGroupRequest(w.group, 1, "m", None, "consumer", "range"),
        on_group(READ),
    ),
    Case(
        "SyncGroup without a protocol",
        K.SYNC_GROUP,
        5,
        lambda w: sync_group.SyncGroupRequest(w.group, 1, "m", None, None, None),
        on_group(READ),
    ),
    Case("Heartbeat", K.HEARTBEAT, 4, lambda w: heartbeat.HeartbeatRequest(w.group, 1, "m"), on_group(READ)),
    Case(
        "LeaveGroup",
        K.LEAVE_GROUP,
        4,
        lambda w: leave_group.LeaveGroupRequest(w.group, members=(leave_group.MemberIdentity("m"),)),
        on_group(READ),
    ),
    Case(
        "DescribeGroups",
        K.DESCRIBE_GROUPS,
        5,
        lambda w: describe_groups.DescribeGroupsRequest((w.group, w.absent), True),
        on_group(DESCRIBE),
    ),
    Case(
        "DescribeGroups with operations",
        K.DESCRIBE_GROUPS,
        5,
        lambda w: describe_groups.DescribeGroupsRequest((w.group,), True),
        on_group(Operation.ALL),
    ),
    Case("ListGroups", K.LIST_GROUPS, 4, lambda w: list_groups.ListGroupsRequest(), on_group(DESCRIBE)),
    Case("CreateTopics", K.CREATE_TOPICS, 7, _create_topics, on_topic(CREATE, DESCRIBE_CONFIGS, name="new")),
    Case("CreateTopics by the cluster", K.CREATE_TOPICS, 5, _create_topics, on_cluster(CREATE)),
    Case("DeleteTopics", K.DELETE_TOPICS, 6, _delete_topics, on_topic(DELETE)),
    Case(
        "DeleteTopics, described",
        K.DELETE_TOPICS,
        6,
        _delete_topics,
        on_topic(DESCRIBE) + on_topic(DESCRIBE, name="new"),
    ),
    Case("DeleteTopics by id", K.DELETE_TOPICS, 6, lambda w: _delete_topics(w, by_id=True), on_topic(DELETE)),
    Case(
        "DeleteTopics by id, described", K.DELETE_TOPICS, 6, lambda w: _delete_topics(w, by_id=True), on_topic(DESCRIBE)
    ),
    Case(
        "DeleteRecords",
        K.DELETE_RECORDS,
        2,
        lambda w: delete_records.DeleteRecordsRequest(
            _by_topic(
                lambda n: delete_records.DeleteRecordsTopic(n, (delete_records.DeleteRecordsPartition(0, 0),)), w
            ),
            TIMEOUT_MS,
        ),
        on_topic(DELETE),
    ),
    Case(
        "InitProducerId",
        K.INIT_PRODUCER_ID,
        4,
        lambda w: init_producer_id.InitProducerIdRequest(w.txn, 60_000),
        on_txn(WRITE),
    ),
    Case(
        "InitProducerId, idempotent",
        K.INIT_PRODUCER_ID,
        4,
        lambda w: init_producer_id.InitProducerIdRequest(None, 60_000),
        on_cluster(Operation.IDEMPOTENT_WRITE),
    ),
    Case(
        "InitProducerId by a topic",
        K.INIT_PRODUCER_ID,
        4,
        lambda w: init_producer_id.InitProducerIdRequest(None, 60_000),
        on_topic(WRITE),
    ),
    Case(
        "InitProducerId, reading only",
        K.INIT_PRODUCER_ID,
        4,
        lambda w: init_producer_id.InitProducerIdRequest(None, 60_000),
        on_topic(READ),
    ),
    Case(
        "OffsetForLeaderEpoch",
        K.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda w: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -1,
            _by_topic(
                lambda n: offset_for_leader_epoch.OffsetForLeaderTopic(
                    n, (offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0),)
                ),
                w,
            ),
        ),
        on_topic(DESCRIBE),
    ),
    Case(
        "OffsetForLeaderEpoch of a broker",
        K.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda w: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -1,
            _by_topic(
                lambda n: offset_for_leader_epoch.OffsetForLeaderTopic(
                    n, (offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0),)
                ),
                w,
            ),
        ),
        on_cluster(ACTION),
    ),
    Case(
        "AddPartitionsToTxn",
        K.ADD_PARTITIONS_TO_TXN,
        3,
        lambda w: _add_partitions(w, "topic"),
        on_txn(WRITE) + on_topic(WRITE),
    ),
    Case(
        "AddPartitionsToTxn beside denied ones",
        K.ADD_PARTITIONS_TO_TXN,
        3,
        lambda w: _add_partitions(w, "topic", "other", "absent"),
        on_txn(WRITE) + on_topic(WRITE),
    ),
    Case(
        "AddOffsetsToTxn",
        K.ADD_OFFSETS_TO_TXN,
        3,
        lambda w: add_offsets_to_txn.AddOffsetsToTxnRequest(w.txn, w.producer_id, w.producer_epoch, w.group),
        on_txn(WRITE) + on_group(READ),
    ),
    Case(
        "EndTxn",
        K.END_TXN,
        3,
        lambda w: end_txn.EndTxnRequest(w.txn, w.producer_id, w.producer_epoch, False),
        on_txn(WRITE),
    ),
    Case("WriteTxnMarkers by an administrator", K.WRITE_TXN_MARKERS, 1, _markers, on_cluster(ALTER)),
    Case("WriteTxnMarkers by a broker", K.WRITE_TXN_MARKERS, 1, _markers, on_cluster(ACTION)),
    Case("TxnOffsetCommit", K.TXN_OFFSET_COMMIT, 3, _txn_offsets, on_txn(WRITE) + on_group(READ) + on_topic(READ)),
    Case(
        "DescribeAcls",
        K.DESCRIBE_ACLS,
        2,
        lambda w: describe_acls.DescribeAclsRequest(2, w.absent, 3, None, None, 1, 1),
        on_cluster(DESCRIBE),
    ),
    Case("CreateAcls", K.CREATE_ACLS, 2, lambda w: _acl(), on_cluster(ALTER)),
    Case(
        "DeleteAcls",
        K.DELETE_ACLS,
        2,
        lambda w: delete_acls.DeleteAclsRequest((delete_acls.DeleteAclsFilter(2, w.absent, 3, None, None, 1, 1),)),
        on_cluster(ALTER),
    ),
    Case(
        "DescribeConfigs",
        K.DESCRIBE_CONFIGS,
        4,
        _describe_configs,
        on_topic(DESCRIBE_CONFIGS) + on_cluster(DESCRIBE_CONFIGS),
    ),
    Case("AlterConfigs", K.ALTER_CONFIGS, 2, _alter_configs, on_topic(ALTER_CONFIGS) + on_cluster(ALTER_CONFIGS)),
    Case(
        "IncrementalAlterConfigs",
        K.INCREMENTAL_ALTER_CONFIGS,
        1,
        _alter_incrementally,
        on_topic(ALTER_CONFIGS) + on_cluster(ALTER_CONFIGS),
    ),
    Case(
        "AlterReplicaLogDirs",
        K.ALTER_REPLICA_LOG_DIRS,
        2,
        lambda w: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            (
                alter_replica_log_dirs.AlterReplicaLogDir(
                    "/nowhere", (alter_replica_log_dirs.AlterReplicaLogDirTopic(w.topic, (0,)),)
                ),
            )
        ),
        on_cluster(ALTER),
    ),
    Case(
        "DescribeLogDirs",
        K.DESCRIBE_LOG_DIRS,
        3,
        lambda w: describe_log_dirs.DescribeLogDirsRequest((describe_log_dirs.DescribableLogDirTopic(w.topic, (0,)),)),
        on_cluster(DESCRIBE),
    ),
    Case(
        "CreatePartitions",
        K.CREATE_PARTITIONS,
        3,
        lambda w: create_partitions.CreatePartitionsRequest(
            _by_topic(lambda n: create_partitions.CreatePartitionsTopic(n, 2, None), w), TIMEOUT_MS, True
        ),
        on_topic(ALTER),
    ),
    Case(
        "DeleteGroups",
        K.DELETE_GROUPS,
        2,
        lambda w: delete_groups.DeleteGroupsRequest((w.group, w.absent)),
        on_group(DELETE),
    ),
    Case(
        "ElectLeaders",
        K.ELECT_LEADERS,
        2,
        lambda w: elect_leaders.ElectLeadersRequest(0, (elect_leaders.TopicPartitions(w.topic, (0,)),), TIMEOUT_MS),
        on_cluster(ALTER),
    ),
    Case(
        "AlterPartitionReassignments",
        K.ALTER_PARTITION_REASSIGNMENTS,
        0,
        lambda w: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            TIMEOUT_MS,
            topics=(
                alter_partition_reassignments.ReassignableTopic(
                    w.topic, (alter_partition_reassignments.ReassignablePartition(0, None),)
                ),
            ),
        ),
        on_cluster(ALTER),
    ),
    Case(
        "ListPartitionReassignments",
        K.LIST_PARTITION_REASSIGNMENTS,
        0,
        lambda w: list_partition_reassignments.ListPartitionReassignmentsRequest(TIMEOUT_MS, None),
        on_cluster(DESCRIBE),
    ),
    Case(
        "DescribeQuorum",
        K.DESCRIBE_QUORUM,
        0,
        lambda w: describe_quorum.DescribeQuorumRequest(
            (describe_quorum.TopicData("__cluster_metadata", (describe_quorum.PartitionData(0),)),)
        ),
        on_cluster(DESCRIBE),
    ),
    Case(
        "UpdateFeatures",
        K.UPDATE_FEATURES,
        1,
        lambda w: update_features.UpdateFeaturesRequest(TIMEOUT_MS, (), True),
        on_cluster(ALTER),
    ),
    Case(
        "OffsetDelete",
        K.OFFSET_DELETE,
        0,
        lambda w: offset_delete.OffsetDeleteRequest(
            w.group,
            _by_topic(
                lambda n: offset_delete.OffsetDeleteRequestTopic(n, (offset_delete.OffsetDeleteRequestPartition(0),)), w
            ),
        ),
        on_group(DELETE) + on_topic(READ),
    ),
    Case(
        "DescribeClientQuotas",
        K.DESCRIBE_CLIENT_QUOTAS,
        1,
        lambda w: describe_client_quotas.DescribeClientQuotasRequest((), False),
        on_cluster(DESCRIBE_CONFIGS),
    ),
    Case(
        "AlterClientQuotas",
        K.ALTER_CLIENT_QUOTAS,
        1,
        lambda w: alter_client_quotas.AlterClientQuotasRequest(
            (
                alter_client_quotas.RequestEntryData(
                    (alter_client_quotas.EntityData("user", w.absent),),
                    (alter_client_quotas.OpData("producer_byte_rate", 0.0, True),),
                ),
            ),
            True,
        ),
        on_cluster(ALTER_CONFIGS),
    ),
    Case(
        "DescribeUserScramCredentials",
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        lambda w: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            (describe_user_scram_credentials.UserName(w.absent),)
        ),
        on_cluster(DESCRIBE),
    ),
    Case(
        "DescribeCluster",
        K.DESCRIBE_CLUSTER,
        0,
        lambda w: describe_cluster.DescribeClusterRequest(True),
        on_cluster(DESCRIBE),
    ),
    Case(
        "DescribeProducers",
        K.DESCRIBE_PRODUCERS,
        0,
        lambda w: describe_producers.DescribeProducersRequest(
            _by_topic(lambda n: describe_producers.TopicRequest(n, (0,)), w)
        ),
        on_topic(READ),
    ),
    Case(
        "DescribeTransactions",
        K.DESCRIBE_TRANSACTIONS,
        0,
        lambda w: describe_transactions.DescribeTransactionsRequest((w.txn, w.absent)),
        on_txn(DESCRIBE),
    ),
    Case(
        "ListTransactions",
        K.LIST_TRANSACTIONS,
        1,
        lambda w: list_transactions.ListTransactionsRequest(),
        on_txn(DESCRIBE),
    ),
    Case(
        "ConsumerGroupHeartbeat",
        K.CONSUMER_GROUP_HEARTBEAT,
        0,
        lambda w: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            w.absent, "m", 0, None, None, 10_000, (w.topic,), topic_partitions=()
        ),
    ),
    Case(
        "ListConfigResources",
        K.LIST_CONFIG_RESOURCES,
        0,
        lambda w: list_config_resources.ListConfigResourcesRequest(),
        on_cluster(DESCRIBE_CONFIGS),
    ),
    Case(
        "DescribeTopicPartitions",
        K.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda w: describe_topic_partitions.DescribeTopicPartitionsRequest(
            _by_topic(describe_topic_partitions.TopicRequest, w), 100
        ),
        on_topic(DESCRIBE),
    ),
    Case(
        "DescribeTopicPartitions of all",
        K.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda w: describe_topic_partitions.DescribeTopicPartitionsRequest((), 100),
        on_topic(DESCRIBE),
    ),
    *_judged(),
)
