"""Requests of the new group protocols (KIP-848, KIP-932, KIP-1071) and of the states behind share groups, with the
rights that each needs; and the last requests that `rights_cases.py` has no case of.

A group that a case needs is made just before somebody is heard: its members' sessions are short.
"""

from collections.abc import Callable
from typing import Any, Final

from rights_cases import (
    ACTION,
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    Ask,
    Case,
    K,
    World,
    on_cluster,
    on_group,
    on_topic,
)
from waiting import until

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import uuid_text
from eosin.protocol.schemas import (
    alter_configs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_configs,
    describe_share_group_offsets,
    find_coordinator,
    incremental_alter_configs,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    write_share_group_state,
)
from eosin.protocol.types import Message

ADMIN: Final = "User:admin"
MEMBER: Final = "m"
GROUP_CONFIGS: Final = 32
"""The type of groups as resources that have settings, on the wire."""


# Groups that are there before somebody is heard ---------------------------------------------------------------------


async def _answered(ask: Ask, key: ApiKey, version: int, request: Message, done: Callable[[Any], object]) -> None:
    """Ask as the administrator until the response is as it should be."""

    async def is_done() -> object:
        return done(await ask(ADMIN, key, version, request))

    await until(is_done, every_s=0.05)


def _consumer_heartbeat(world: World, **fields: Any) -> Message:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        world.members, MEMBER, 0, None, None, 10_000, **{"topic_partitions": (), **fields}
    )


async def _consumer_group(ask: Ask, world: World, _: str) -> None:
    joining = _consumer_heartbeat(world, subscribed_topic_names=(world.topic,))
    await _answered(ask, K.CONSUMER_GROUP_HEARTBEAT, 1, joining, lambda told: told.error_code == ErrorCode.NONE)


def _share_heartbeat(world: World) -> Message:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(world.members, MEMBER, 0, None, (world.topic,))


def _has_partitions(told: Any) -> bool:
    return told.assignment is not None and bool(told.assignment.topic_partitions)


async def _share_group(ask: Ask, world: World, _: str) -> None:
    await _answered(ask, K.SHARE_GROUP_HEARTBEAT, 1, _share_heartbeat(world), _has_partitions)


async def _share_partition(ask: Ask, world: World, principal: str) -> None:
    """A share group whose partition is loaded, for another member: Apache Kafka has an error for one that it loads."""
    await _share_group(ask, world, principal)

    def is_done(told: Any) -> bool:
        found = [part for topic in told.responses if topic.topic_id == world.topic_id for part in topic.partitions]
        return bool(found) and all(each.error_code == ErrorCode.NONE for each in found)

    await _answered(ask, K.SHARE_FETCH, 1, _share_fetch(world, "other"), is_done)


async def _share_session(ask: Ask, world: World, principal: str) -> None:
    await _share_group(ask, world, principal)
    await ask(principal, K.SHARE_FETCH, 1, _share_fetch(world))


async def _share_offsets(ask: Ask, world: World, _: str) -> None:
    """A share group without members that has states of both topics."""

    def is_done(told: Any) -> bool:
        errors = [part.error_code for topic in told.responses for part in topic.partitions]
        return told.error_code == ErrorCode.NONE and errors == [ErrorCode.NONE] * 2

    moved = _moved(world.members, world.topic, world.other)
    await _answered(ask, K.ALTER_SHARE_GROUP_OFFSETS, 0, moved, is_done)


def _counting(world: World) -> streams_group_heartbeat.Topology:
    """A word count with both kinds of internal topics."""
    read = streams_group_heartbeat.Subtopology(
        "0", source_topics=(world.topic,), repartition_sink_topics=(world.repartition,)
    )
    counted = streams_group_heartbeat.Subtopology(
        "1",
        repartition_source_topics=(streams_group_heartbeat.TopicInfo(world.repartition),),
        state_changelog_topics=(streams_group_heartbeat.TopicInfo(world.changelog),),
    )
    return streams_group_heartbeat.Topology(0, (read, counted))


def _streams_heartbeat(world: World) -> Message:
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        world.members,
        MEMBER,
        0,
        rebalance_timeout_ms=10_000,
        topology=_counting(world),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="p",
    )


async def _streams_group(ask: Ask, world: World, _: str) -> None:
    joining = _streams_heartbeat(world)
    await _answered(ask, K.STREAMS_GROUP_HEARTBEAT, 0, joining, lambda told: told.error_code == ErrorCode.NONE)


# Requests -----------------------------------------------------------------------------------------------------------


def _share_fetch(world: World, member: str = MEMBER) -> Message:
    # No id that no topic has: Apache Kafka 4.4.0 with an authorizer has an unknown error for all of such a request.
    topics = tuple(
        share_fetch.FetchTopic(each, (share_fetch.FetchPartition(0),)) for each in (world.topic_id, world.other_id)
    )
    limits = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1000, "max_records": 10, "batch_size": 10}
    return share_fetch.ShareFetchRequest(world.members, member, 0, **limits, topics=topics)


def _acknowledge(world: World) -> Message:
    batches = (share_acknowledge.AcknowledgementBatch(0, 0, (1,)),)
    topics = tuple(
        share_acknowledge.AcknowledgeTopic(each, (share_acknowledge.AcknowledgePartition(0, batches),))
        for each in (world.topic_id, world.other_id)
    )
    return share_acknowledge.ShareAcknowledgeRequest(world.members, MEMBER, 1, topics=topics)


def _moved(group: str, *names: str) -> Message:
    partition = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)
    topics = tuple(alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(name, (partition,)) for name in names)
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(group, topics)


def _forgotten(world: World) -> Message:
    names = (world.topic, world.other, world.absent)
    topics = tuple(delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(name) for name in names)
    return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(world.members, topics)


def _share_positions(world: World, *names: str, everything: bool = False) -> Message:
    topics = tuple(describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(name, (0,)) for name in names)
    group = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
        world.members, None if everything else topics
    )
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest((group,))


def _states(request: Any, data: Any, partition: Any) -> Callable[[World], Message]:
    """A request about the state of one share partition."""
    return lambda world: request(world.members, (data(world.topic_id, (partition,)),))


def _state_key(world: World) -> str:
    return f"{world.members}:{uuid_text(world.topic_id)}:0"


def _group_configs(world: World) -> Message:
    names = (world.members, world.absent)
    return describe_configs.DescribeConfigsRequest(
        tuple(describe_configs.DescribeConfigsResource(GROUP_CONFIGS, name) for name in names)
    )


def _set(world: World, *, replaces: bool) -> Message:
    name, value = "consumer.session.timeout.ms", "46000"
    names = (world.members, world.absent)
    if replaces:
        entries = (alter_configs.AlterableConfig(name, value),)
        return alter_configs.AlterConfigsRequest(
            tuple(alter_configs.AlterConfigsResource(GROUP_CONFIGS, each, entries) for each in names), True
        )
    changes = (incremental_alter_configs.AlterableConfig(name, 0, value),)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        tuple(incremental_alter_configs.AlterConfigsResource(GROUP_CONFIGS, each, changes) for each in names), True
    )


_INTERNAL: Final = on_topic(DESCRIBE) + on_topic(DESCRIBE, name="changelog") + on_topic(DESCRIBE, name="repartition")

CASES: Final = (
    Case(
        "ConsumerGroupHeartbeat that joins",
        K.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda w: _consumer_heartbeat(w, subscribed_topic_names=(w.topic,)),
        on_group(READ, "members") + on_topic(DESCRIBE),
    ),
    Case(
        "ConsumerGroupHeartbeat of a denied topic",
        K.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda w: _consumer_heartbeat(w, subscribed_topic_names=(w.topic, w.other)),
        on_group(READ, "members") + on_topic(DESCRIBE),
    ),
    Case(
        "ConsumerGroupDescribe",
        K.CONSUMER_GROUP_DESCRIBE,
        1,
        lambda w: consumer_group_describe.ConsumerGroupDescribeRequest((w.members, w.absent), True),
        on_group(DESCRIBE, "members") + on_topic(DESCRIBE),
        prepare=_consumer_group,
    ),
    Case(
        "ShareGroupHeartbeat",
        K.SHARE_GROUP_HEARTBEAT,
        1,
        _share_heartbeat,
        on_group(READ, "members") + on_topic(DESCRIBE),
    ),
    Case(
        "ShareGroupDescribe",
        K.SHARE_GROUP_DESCRIBE,
        1,
        lambda w: share_group_describe.ShareGroupDescribeRequest((w.members, w.absent), True),
        on_group(DESCRIBE, "members") + on_topic(DESCRIBE),
        prepare=_share_group,
    ),
    Case(
        "ShareFetch",
        K.SHARE_FETCH,
        1,
        _share_fetch,
        on_group(READ, "members") + on_topic(READ),
        prepare=_share_partition,
    ),
    Case(
        "ShareAcknowledge",
        K.SHARE_ACKNOWLEDGE,
        1,
        _acknowledge,
        on_group(READ, "members") + on_topic(READ),
        prepare=_share_session,
    ),
    Case(
        "DescribeShareGroupOffsets",
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        lambda w: _share_positions(w, w.topic, w.other, w.absent),
        on_group(DESCRIBE, "members") + on_topic(DESCRIBE),
        prepare=_share_offsets,
    ),
    Case(
        "DescribeShareGroupOffsets of all",
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        lambda w: _share_positions(w, everything=True),
        on_group(DESCRIBE, "members") + on_topic(DESCRIBE),
        prepare=_share_offsets,
    ),
    Case(
        "AlterShareGroupOffsets",
        K.ALTER_SHARE_GROUP_OFFSETS,
        0,
        lambda w: _moved(w.members, w.topic, w.other, w.absent),
        on_group(READ, "members") + on_topic(READ),
        prepare=_share_offsets,
    ),
    Case(
        "DeleteShareGroupOffsets",
        K.DELETE_SHARE_GROUP_OFFSETS,
        0,
        _forgotten,
        on_group(DELETE, "members") + on_topic(READ),
        prepare=_share_offsets,
    ),
    Case(
        "DeleteGroups of a share group",
        K.DELETE_GROUPS,
        2,
        lambda w: delete_groups.DeleteGroupsRequest((w.members,)),
        on_group(DELETE, "members"),
        prepare=_share_offsets,
    ),
    Case(
        "FindCoordinator of a state",
        K.FIND_COORDINATOR,
        6,
        lambda w: find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=(_state_key(w),)),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "InitializeShareGroupState",
        K.INITIALIZE_SHARE_GROUP_STATE,
        0,
        _states(
            initialize_share_group_state.InitializeShareGroupStateRequest,
            initialize_share_group_state.InitializeStateData,
            initialize_share_group_state.InitializeStatePartition(0, 100, 0),
        ),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "ReadShareGroupState",
        K.READ_SHARE_GROUP_STATE,
        0,
        _states(
            read_share_group_state.ReadShareGroupStateRequest,
            read_share_group_state.ReadStateData,
            read_share_group_state.ReadStatePartition(0, 100),
        ),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "WriteShareGroupState",
        K.WRITE_SHARE_GROUP_STATE,
        1,
        _states(
            write_share_group_state.WriteShareGroupStateRequest,
            write_share_group_state.WriteStateData,
            write_share_group_state.WriteStatePartition(0, 100, 100, 0, 0),
        ),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "DeleteShareGroupState",
        K.DELETE_SHARE_GROUP_STATE,
        0,
        _states(
            delete_share_group_state.DeleteShareGroupStateRequest,
            delete_share_group_state.DeleteStateData,
            delete_share_group_state.DeleteStatePartition(0),
        ),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "ReadShareGroupStateSummary",
        K.READ_SHARE_GROUP_STATE_SUMMARY,
        1,
        _states(
            read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
            read_share_group_state_summary.ReadStateSummaryData,
            read_share_group_state_summary.ReadStateSummaryPartition(0, 0),
        ),
        on_cluster(ACTION),
        prepare=_share_offsets,
    ),
    Case(
        "StreamsGroupHeartbeat",
        K.STREAMS_GROUP_HEARTBEAT,
        0,
        _streams_heartbeat,
        on_group(READ, "members") + _INTERNAL,
    ),
    Case(
        "StreamsGroupHeartbeat that creates",
        K.STREAMS_GROUP_HEARTBEAT,
        0,
        _streams_heartbeat,
        on_group(READ, "members")
        + _INTERNAL
        + on_topic(CREATE, name="changelog")
        + on_topic(CREATE, name="repartition"),
    ),
    Case(
        "StreamsGroupHeartbeat that creates, by the cluster",
        K.STREAMS_GROUP_HEARTBEAT,
        0,
        _streams_heartbeat,
        on_group(READ, "members") + _INTERNAL + on_cluster(CREATE),
    ),
    Case(
        "StreamsGroupDescribe",
        K.STREAMS_GROUP_DESCRIBE,
        0,
        lambda w: streams_group_describe.StreamsGroupDescribeRequest((w.members, w.absent), True),
        on_group(DESCRIBE, "members") + _INTERNAL,
        prepare=_streams_group,
    ),
    Case(
        "StreamsGroupTopologyDescriptionUpdate",
        K.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        0,
        lambda w: streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateRequest(
            w.members, MEMBER, 0
        ),
        on_group(READ, "members"),
        prepare=_streams_group,
    ),
    Case(
        "DescribeConfigs of groups",
        K.DESCRIBE_CONFIGS,
        4,
        _group_configs,
        on_group(DESCRIBE_CONFIGS, "members"),
    ),
    Case(
        "AlterConfigs of groups",
        K.ALTER_CONFIGS,
        2,
        lambda w: _set(w, replaces=True),
        on_group(ALTER_CONFIGS, "members"),
    ),
    Case(
        "IncrementalAlterConfigs of groups",
        K.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda w: _set(w, replaces=False),
        on_group(ALTER_CONFIGS, "members"),
    ),
    Case(
        "AlterUserScramCredentials",
        K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        lambda w: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            (alter_user_scram_credentials.ScramCredentialDeletion(w.absent, 1),)
        ),
        on_cluster(ALTER),
    ),
)
