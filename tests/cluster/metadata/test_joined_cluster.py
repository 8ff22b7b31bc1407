"""A cluster of several machines as one broker tells it, and what it tells its listeners (cluster.md 3.6 and 3.10)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace as with_fields
from scripted_controller import HERE, ScriptedCluster, broker, partition, topic, topic_id

from eosin.broker.config.entries import broker_entries
from eosin.cluster.metadata.group_configs import share_configs
from eosin.cluster.metadata.joined_cluster import PARTITIONS_A_STEP
from eosin.cluster.quorum.rules.image import ImageDelta
from eosin.model.cluster import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    Cluster,
    ClusterListener,
    ConfigChange,
    Endpoint,
    Outcome,
    PartitionState,
    Topic,
)
from eosin.model.credentials import SECRET_SETTING
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from eosin.protocol.schemas import create_topics
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsResponse
from eosin.protocol.schemas.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from eosin.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from eosin.protocol.schemas.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message
from eosin.runtime.start_now import start_now
from eosin.settings.broker import BrokerConfig

pytestmark = pytest.mark.virtual

ORDERS = TopicPartition("orders", 0)
TOPIC, BROKER = 2, 4


class Seen(ClusterListener):
    """What a listener is told, in order."""

    def __init__(self, cluster: Cluster, name: str, events: list[str]) -> None:
        self._cluster = cluster
        self._name = name
        self._events = events

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        assert after in (None, self._cluster.partition_state(partition)), "the image is swapped first"
        leaders = "none" if before is None else before.leader_id, "none" if after is None else after.leader_id
        self._events.append(
            f"{self._name}: {partition.topic}-{partition.partition} led by {leaders[0]} -> {leaders[1]}"
        )

    def topic_deleted(self, topic: Topic) -> None:
        assert self._cluster.topic_by_id(topic.topic_id) is None
        self._events.append(f"{self._name}: {topic.name} deleted")

    def configs_changed(self, topic: Topic) -> None:
        self._events.append(f"{self._name}: {topic.name} kept {self._cluster.log_config(topic.name).retention_ms} ms")

    def brokers_changed(self) -> None:
        self._events.append(f"{self._name}: brokers")

    def features_changed(self) -> None:
        self._events.append(f"{self._name}: features")


def with_orders(**settings: int) -> ScriptedCluster:
    world = ScriptedCluster(**settings)
    world.publish(broker(HERE), broker(2), *topic("orders", partition("orders")))
    return world


def test_a_topic_shows_with_its_partitions_and_settings() -> None:
    world = with_orders()
    world.publish(partition("orders", 1), records.ConfigRecord(TOPIC, "orders", "retention.ms", "1234"))
    orders = world.cluster.topics["orders"]
    assert (orders.partitions, dict(orders.configs), orders.internal) == (2, {"retention.ms": "1234"}, False)
    assert world.cluster.topic_by_id(topic_id("orders")) is orders
    assert world.cluster.log_config("orders").retention_ms == 1234
    assert world.cluster.partition_count == 2
    assert world.cluster.leader_of(ORDERS) == HERE
    for unknown in (TopicPartition("orders", 2), TopicPartition("other", 0)):
        assert world.cluster.leader_of(unknown) is None
        assert world.cluster.leader_epoch(unknown) == NO_LEADER_EPOCH
        assert world.cluster.partition_state(unknown) is None


def test_a_partition_tells_its_epochs_and_which_replicas_are_away() -> None:
    world = ScriptedCluster()
    world.publish(
        broker(HERE),
        broker(2, fenced=True),
        *topic("orders", partition("orders", replicas=(HERE, 2, 3), epoch=4)),
        *topic("lost", partition("lost", replicas=(3,), leader=3)),
    )
    assert world.cluster.partition_state(ORDERS) == PartitionState(
        HERE, 4, (HERE, 2, 3), (HERE, 2, 3), offline=(2, 3), partition_epoch=4
    )
    lost = world.cluster.partition_state(TopicPartition("lost", 0))
    assert lost is not None
    assert lost.leader_id == NO_LEADER, "a leader that is not registered leads nothing"


def test_a_replica_whose_directory_is_not_online_is_away() -> None:
    world = with_orders()
    world.publish(records.PartitionChangeRecord(0, topic_id("orders"), directories=(b"x" * 16,)))
    state = world.cluster.partition_state(ORDERS)
    assert state is not None
    assert state.offline == (HERE,)


def test_fenced_brokers_are_not_told_to_clients_and_others_by_the_listener_of_the_request() -> None:
    world = ScriptedCluster()
    world.publish(broker(HERE), broker(2, fenced=True), broker(3, listeners=("PLAINTEXT", "INSIDE")))
    assert world.cluster.brokers("PLAINTEXT") == (Endpoint(1, "host-1", 9092), Endpoint(3, "host-3", 9092))
    assert world.cluster.brokers("INSIDE") == (Endpoint(3, "host-3", 9092),)
    assert world.cluster.inter_broker_endpoint(2) == Endpoint(2, "host-2", 9092)
    assert world.cluster.broker_epoch(2) == 5
    assert world.cluster.broker_epoch(9) is None
    assert world.cluster.controller_id == HERE, "what admin clients send there is passed on"


def test_listeners_hear_of_partitions_then_topics_then_settings_then_brokers_then_features() -> None:
    world = with_orders()
    world.publish(*topic("gone", partition("gone")), *topic("kept", partition("kept")))
    events: list[str] = []
    for name in ("a", "b"):
        world.cluster.subscribe(Seen(world.cluster, name, events))
    world.publish(
        records.FeatureLevelRecord("transaction.version", 2),
        broker(3),
        records.ConfigRecord(TOPIC, "kept", "retention.ms", "7"),
        records.PartitionChangeRecord(0, topic_id("orders"), leader=2, replicas=(2,), isr=(2,)),
        records.RemoveTopicRecord(topic_id("gone")),
    )
    partitions = ["gone-0 led by 1 -> none", "orders-0 led by 1 -> 2"]
    rest = ["gone deleted", "kept kept 7 ms", "brokers", "features"]
    assert events == [
        *(f"a: {each}" for each in partitions),
        *(f"b: {each}" for each in partitions),
        *(f"{name}: {each}" for each in rest for name in ("a", "b")),
    ]


def test_a_change_that_nobody_can_see_is_not_told() -> None:
    world = with_orders()
    events: list[str] = []
    world.cluster.subscribe(Seen(world.cluster, "a", events))
    version = world.cluster.metadata_version
    world.publish(records.NoOpRecord())
    assert not events
    assert world.cluster.metadata_version == version


def test_defaults_of_topics_follow_the_settings_of_all_brokers_and_of_this_one() -> None:
    world = with_orders()
    events: list[str] = []
    world.cluster.subscribe(Seen(world.cluster, "a", events))
    world.publish(records.ConfigRecord(BROKER, "", "log.retention.ms", "100"))
    world.publish(records.ConfigRecord(BROKER, "2", "log.retention.ms", "200"))
    world.publish(records.ConfigRecord(BROKER, "1", "log.retention.ms", "300"))
    assert events == ["a: orders kept 100 ms", "a: orders kept 300 ms"]
    assert world.cluster.broker_configs(None) == {"log.retention.ms": "100"}


def test_the_time_between_two_targets_follows_the_settings_of_all_brokers_and_of_this_one() -> None:
    world = with_orders()
    configs = share_configs(world.cluster, BrokerConfig())
    name, told = "group.share.assignment.interval.ms", [configs.of("g").assignment_interval_ms]
    for node, value in (("", "100"), ("2", "200"), ("1", "300"), ("1", None)):
        world.publish(records.ConfigRecord(BROKER, node, name, value))
        told.append(configs.of("g").assignment_interval_ms)
    assert told == [1000, 100, 100, 300, 100]


def test_a_setting_that_eosin_does_not_know_is_kept_and_ignored() -> None:
    world = with_orders()
    world.publish(records.ConfigRecord(TOPIC, "orders", "remote.storage.enable", "true"))
    assert world.cluster.topics["orders"].configs == {"remote.storage.enable": "true"}
    assert world.cluster.log_config("orders") == world.cluster.log_config("another")


def test_a_topic_that_comes_back_under_its_name_is_another_topic() -> None:
    world = with_orders()
    world.publish(records.ConfigRecord(TOPIC, "orders", "retention.ms", "5"))
    events: list[str] = []
    world.cluster.subscribe(Seen(world.cluster, "a", events))
    other = b"o" * 16
    again = records.PartitionRecord(0, other, (2,), (2,), leader=2, leader_epoch=0, partition_epoch=0)
    world.publish(records.RemoveTopicRecord(topic_id("orders")), records.TopicRecord("orders", other), again)
    assert world.cluster.topics["orders"].topic_id == other
    assert world.cluster.topics["orders"].configs == {}
    assert world.cluster.topic_by_id(topic_id("orders")) is None
    assert events == ["a: orders-0 led by 1 -> none", "a: orders-0 led by none -> 2", "a: orders deleted"]


async def test_a_change_waits_until_it_shows_but_not_for_ever() -> None:
    world = with_orders()
    waiting = asyncio.ensure_future(world.cluster.shown(lambda: "new" in world.cluster.topics))
    await asyncio.sleep(0)
    world.publish(records.NoOpRecord())
    assert not waiting.done()
    world.publish(*topic("new", partition("new")))
    assert await waiting
    assert not await world.cluster.shown(lambda: "other" in world.cluster.topics, within_ms=10)


ROLES = {0: (2, (2, 3)), 1: (2, (HERE, 2)), 2: (2, (HERE, 2))}
"""Leader and replicas of partitions, by the last digit of their number; this broker leads all others."""


def many(epoch: int) -> list[Message]:
    """A thousand partitions of a topic, in a leader epoch."""
    roles = [ROLES.get(index % 10, (HERE, (HERE, 2))) for index in range(1000)]
    return [
        partition("many", index, epoch=epoch, leader=leader, replicas=replicas)
        for index, (leader, replicas) in enumerate(roles)
    ]


def test_a_publication_of_many_partitions_takes_steps_and_each_partition_follows_in_one_of_them() -> None:
    """cluster.md 2.10 and 3.6"""
    world = ScriptedCluster()
    world.publish(broker(HERE), broker(2), broker(3), *topic("many", *many(0)))
    delta = world.delta(broker(4), *many(1))
    steps: list[list[tuple[str, int]]] = [[]]

    class Told(ClusterListener):
        def partition_changed(self, partition: TopicPartition, *_: object) -> None:
            assert world.cluster.leader_epoch(partition) == 1, "the image is swapped first"
            steps[-1].append(("listener", partition.partition))

        def brokers_changed(self) -> None:
            steps[-1].append(("brokers", -1))

    def follow(part: ImageDelta) -> None:
        steps[-1].extend(("replica", each.partition.partition) for each in part.partitions_changed)

    world.cluster.subscribe(Told())
    world.cluster.on_image.append(follow)
    for _ in world.cluster.publish_in_steps(delta):
        steps.append([])

    assert steps[-1].pop() == ("brokers", -1), "when every partition has followed"
    followed = []
    for step in steps:
        replicas = [index for what, index in step if what == "replica"]
        assert len(replicas) <= PARTITIONS_A_STEP
        assert step == [("replica", index) for index in replicas] + [("listener", index) for index in replicas]
        followed += replicas
    turns = ["gone" if index % 10 == 0 else "followed" if index % 10 <= 2 else "led" for index in followed]
    assert turns == ["gone"] * 100 + ["led"] * 700 + ["followed"] * 200
    assert len(set(followed)) == 1000


# Changes


def created(name: str, world: ScriptedCluster) -> CreateTopicsResponse:
    """The controller's response, after its records have come."""
    world.publish(*topic(name, partition(name)))
    return CreateTopicsResponse(topics=(CreatableTopicResult(name, topic_id(name), num_partitions=1),))


async def test_a_topic_that_a_client_names_is_created_once_in_the_client_s_name() -> None:
    world = with_orders(num_partitions=3)
    world.controller.responses.append(lambda _: created("new", world))
    outcomes = await asyncio.gather(
        world.cluster.create_automatically("new", "/10.1.2.3"), world.cluster.create_automatically("new", "/10.1.2.4")
    )
    assert [each.error for each in outcomes] == [ErrorCode.NONE] * 2
    ((_, client_host),) = world.controller.envelopes
    assert client_host == bytes((10, 1, 2, 3))


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_client_hears_of_a_bad_name_and_else_that_the_topic_is_unknown(
    refused: ErrorCode, told: ErrorCode
) -> None:
    world = with_orders()
    world.controller.responses.append(
        CreateTopicsResponse(topics=(CreatableTopicResult("new", error_code=refused, error_message="no"),))
    )
    assert (await world.cluster.create_automatically("new", "/::1")).error is told


async def test_an_internal_topic_is_created_as_the_settings_say_when_it_is_first_needed() -> None:
    world = with_orders(
        transaction_state_log_num_partitions=4,
        transaction_state_log_replication_factor=2,
        transaction_state_log_min_isr=2,
    )
    world.controller.responses.append(lambda _: created(TRANSACTION_STATE_TOPIC, world))
    for _ in range(2):
        world.cluster.want_internal_topic(TRANSACTION_STATE_TOPIC)
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    world.cluster.want_internal_topic(TRANSACTION_STATE_TOPIC)
    (request,) = world.controller.requests
    assert isinstance(request, CreateTopicsRequest)
    (asked,) = request.topics
    assert (asked.num_partitions, asked.replication_factor) == (4, 2)
    assert {each.name: each.value for each in asked.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    assert world.cluster.topics[TRANSACTION_STATE_TOPIC].internal


async def test_the_topic_of_share_groups_is_created_without_compaction_and_retention() -> None:
    world = with_orders(
        share_coordinator_state_topic_num_partitions=4,
        share_coordinator_state_topic_replication_factor=3,
        share_coordinator_state_topic_min_isr=2,
    )
    world.controller.responses.append(lambda _: created(SHARE_GROUP_STATE_TOPIC, world))
    await world.cluster.create_internal(SHARE_GROUP_STATE_TOPIC)
    (request,) = world.controller.requests
    assert isinstance(request, CreateTopicsRequest)
    (asked,) = request.topics
    assert (asked.num_partitions, asked.replication_factor) == (4, 3)
    assert {each.name: each.value for each in asked.configs} == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


async def test_an_internal_topic_that_cannot_be_created_names_the_setting_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = with_orders(offsets_topic_replication_factor=3)
    error = ErrorCode.INVALID_REPLICATION_FACTOR
    refused = create_topics.CreatableTopicResult(CONSUMER_OFFSETS_TOPIC, error_code=error, error_message="too few")
    world.controller.responses.append(CreateTopicsResponse(topics=(refused,)))
    assert (await world.cluster.create_internal(CONSUMER_OFFSETS_TOPIC)).error is error
    assert "offsets.topic.replication.factor is 3" in caplog.text


async def test_changes_in_the_broker_s_own_name_are_asked_of_the_controller() -> None:
    world = with_orders()
    world.controller.responses += (
        DeleteTopicsResponse(responses=(DeletableTopicResult("orders"),)),
        CreatePartitionsResponse(results=(CreatePartitionsTopicResult("orders", 37, "too few"),)),
        IncrementalAlterConfigsResponse(responses=(AlterConfigsResourceResponse(0, None, TOPIC, "orders"),)),
        ErrorCode.REQUEST_TIMED_OUT,
    )
    cluster = world.cluster
    assert await cluster.delete_topic("orders") == Outcome(ErrorCode.NONE)
    assert await cluster.create_partitions("orders", count=1) == Outcome(ErrorCode.INVALID_PARTITIONS, "too few")
    assert (await cluster.alter_topic_configs("orders", [ConfigChange("retention.ms", "1")])).error is ErrorCode.NONE
    assert (await cluster.alter_broker_configs(None, [])).error is ErrorCode.REQUEST_TIMED_OUT


async def test_producer_ids_come_from_the_controller_in_blocks() -> None:
    world = with_orders()
    world.controller.responses += (
        AllocateProducerIdsResponse(producer_id_start=4000, producer_id_len=1000),
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1000),
    )
    first = start_now(world.cluster.allocate_block())  # as the coordinator asks: outside a task
    assert isinstance(first, asyncio.Task)
    assert await first == range(4000, 5000)
    for _ in range(2):
        with pytest.raises(OSError, match="producer ids"):
            await world.cluster.allocate_block()


# The secret behind users who are not there


def secret_in(text: str) -> Message:
    return records.ConfigRecord(BROKER, "", SECRET_SETTING, text)


def set_by(world: ScriptedCluster, *others: ScriptedCluster) -> Callable[[Any], Message]:
    """The controllers set what is asked for, and all these brokers see it."""

    def answer(request: IncrementalAlterConfigsRequest) -> Message:
        (resource,) = request.resources
        (config,) = resource.configs
        assert (resource.resource_type, resource.resource_name, config.name) == (BROKER, "", SECRET_SETTING)
        assert config.value is not None
        for each in (world, *others):
            each.publish(secret_in(config.value))
        return IncrementalAlterConfigsResponse(responses=(AlterConfigsResourceResponse(0, None, BROKER, ""),))

    return answer


async def test_the_secret_behind_users_who_are_not_there_is_the_same_at_all_brokers() -> None:
    first, second = ScriptedCluster(), ScriptedCluster()
    first.controller.responses.append(set_by(first, second))
    await first.cluster.keep_secret(b"of the first")
    await second.cluster.keep_secret(b"of the second")
    assert [each.cluster.credentials.secret for each in (first, second)] == [b"of the first"] * 2
    assert not second.controller.requests


async def test_of_two_brokers_that_make_a_secret_at_once_the_last_one_s_counts_at_both() -> None:
    first, second = ScriptedCluster(), ScriptedCluster()
    first.controller.responses.append(set_by(first, second))
    second.controller.responses.append(set_by(first, second))
    await asyncio.gather(first.cluster.keep_secret(b"of the first"), second.cluster.keep_secret(b"of the second"))
    assert [each.cluster.credentials.secret for each in (first, second)] == [b"of the second"] * 2


async def test_the_secret_is_told_to_nobody_and_changes_no_setting() -> None:
    world = ScriptedCluster()
    world.publish(secret_in("00ff"), records.ConfigRecord(BROKER, "", "log.retention.ms", "1000"))
    assert world.cluster.credentials.secret == b"\x00\xff"
    assert world.cluster.broker_configs(None) == {"log.retention.ms": "1000"}
    told = {entry.name for entry in broker_entries(world.cluster, world.config)}
    assert "log.retention.ms" in told
    assert SECRET_SETTING not in told


async def test_a_secret_that_somebody_deletes_goes_on_until_there_is_another() -> None:
    world = ScriptedCluster()
    world.publish(secret_in("aa"))
    world.publish(records.ConfigRecord(BROKER, "", SECRET_SETTING, None))
    assert world.cluster.credentials.secret == b"\xaa"
    world.publish(secret_in("no hexadecimal digits"))
    assert world.cluster.credentials.secret == b"no hexadecimal digits"


async def test_a_broker_that_may_keep_no_secret_has_one_of_its_own_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster()
    refused = AlterConfigsResourceResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, BROKER, "")
    world.controller.responses.append(IncrementalAlterConfigsResponse(responses=(refused,)))
    assert (await world.cluster.keep_secret(b"its own")).error is ErrorCode.NONE
    assert world.cluster.credentials.secret == b"its own"
    assert "CLUSTER_AUTHORIZATION_FAILED), so this broker's are its own until it stops" in caplog.text


async def test_the_racks_of_partitions_are_those_of_their_replicas_registered_brokers() -> None:
    """What Apache Kafka's hash of topics has of them (consumer-groups.md 12.4)."""
    world = with_orders()
    assert world.cluster.partition_racks("orders") == (), "no broker has a rack"
    racks = {HERE: "r2", 3: "r1"}
    world.publish(*(with_fields(broker(node, epoch=9, fenced=True), rack=rack) for node, rack in racks.items()))
    world.publish(*(partition("orders", index, replicas=(HERE, 2, 3)[:count]) for index, count in ((1, 3), (2, 1))))
    assert world.cluster.partition_racks("orders") == (("r2",), ("r1", "r2"), ("r2",))
    assert world.cluster.partition_racks("gone") == ()
    world.publish(records.UnregisterBrokerRecord(3, 9))
    assert world.cluster.partition_racks("orders") == (("r2",), ("r2",), ("r2",))
