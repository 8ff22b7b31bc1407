"""The embedded cluster: what it lets happen to topics, when a change shows, and what a restart keeps."""

import asyncio
from typing import Any, cast

import pytest
from fake_logs import FakeLog, FakeLogManager
from waiting import settled

from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.model.cluster import (
    METADATA_PARTITION,
    NO_LEADER,
    NO_LEADER_EPOCH,
    ClusterListener,
    ConfigChange,
    ConfigOperation,
    Endpoint,
    Outcome,
    PartitionState,
    Topic,
)
from eosin.model.features import GROUP_VERSION, LEVELS_OF_NEW_DIRECTORIES, SHARE_VERSION, STREAMS_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import METADATA_TOPIC, ZERO_UUID, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.cluster_metadata import FeatureLevel, StartKey, StartRecord
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.results.log_results import AppendOrigin

KINDS_OF_GROUPS = (GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION)
INTERNAL = ["__consumer_offsets", "__transaction_state"]
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Seen(ClusterListener):
    """A listener that writes down what it hears, and what the cluster shows at that moment."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.events: list[tuple[Any, ...]] = []

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        assert after == self.cluster.partition_state(partition)
        name = "created" if before is None else "deleted" if after is None else "changed"
        self.events.append((name, *partition))

    def topic_deleted(self, topic: Topic) -> None:
        assert topic.name not in self.cluster.topics
        self.events.append(("topic deleted", topic.name))

    def configs_changed(self, topic: Topic) -> None:
        self.events.append(("configs", topic.name, self.cluster.log_config(topic.name).retention_ms))

    def brokers_changed(self) -> None:
        self.events.append(("brokers", self.cluster.brokers("PLAINTEXT")))


async def started(
    logs: FakeLogManager, config: BrokerConfig | None = None, *, seed: int = 1
) -> tuple[EmbeddedCluster, Seen]:
    cluster = EmbeddedCluster(
        config=config or BrokerConfig(),
        log_manager=cast(Any, logs),
        clock=SystemClock(),
        chance=SeededChance(seed),
    )
    await cluster.start()
    cluster.advertise("PLAINTEXT", "localhost", 9092)
    seen = Seen(cluster)
    cluster.subscribe(seen)
    return cluster, seen


def metadata_log(logs: FakeLogManager) -> FakeLog:
    return logs.logs[METADATA_PARTITION]


def retention(value: str | None, operation: int = ConfigOperation.SET) -> list[ConfigChange]:
    return [ConfigChange("retention.ms", value, operation)]


# The start


async def test_internal_topics_exist_from_the_first_start_and_no_log_but_the_metadata_was_opened() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    assert list(cluster.topics) == INTERNAL
    assert [topic.partitions for topic in cluster.topics.values()] == [50, 50]
    assert all(topic.internal and topic.topic_id != ZERO_UUID for topic in cluster.topics.values())
    assert cluster.log_config("__transaction_state").compression_type == "uncompressed"
    assert cluster.log_config("__consumer_offsets").cleanup_policy == {"compact"}
    assert cluster.log_config("__consumer_offsets").segment_bytes == 104_857_600
    assert list(logs.logs) == [METADATA_PARTITION]


async def test_a_new_directory_begins_with_every_kind_of_group_and_makes_nothing_for_them() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    assert {name: cluster.features.level(name) for name in KINDS_OF_GROUPS} == LEVELS_OF_NEW_DIRECTORIES
    assert (list(cluster.topics), list(logs.logs)) == (INTERNAL, [METADATA_PARTITION])


async def test_an_older_directory_keeps_its_levels_over_starts_until_they_are_raised() -> None:
    logs = FakeLogManager()
    await started(logs)
    older = StartRecord(2, (FeatureLevel(GROUP_VERSION, 1),), 1)
    metadata_log(logs).append(
        bytes(build_batch([NewRecord(encode_key(StartKey()), encode_value(older, 0))], timestamp=0)),
        now_ms=0,
        origin=AppendOrigin.COORDINATOR,
    )
    for _ in range(2):
        cluster, _ = await started(logs)
        assert [cluster.features.level(name) for name in KINDS_OF_GROUPS] == [1, 0, 0]
    await cluster.finalize_levels({SHARE_VERSION: 1})
    cluster, _ = await started(logs)
    assert [cluster.features.level(name) for name in KINDS_OF_GROUPS] == [1, 1, 0]


async def test_a_level_that_was_lowered_in_a_new_directory_stays_lowered() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    await cluster.finalize_levels({STREAMS_VERSION: 0})
    cluster, _ = await started(logs)
    assert [cluster.features.level(name) for name in KINDS_OF_GROUPS] == [1, 2, 0]


async def test_the_metadata_log_is_no_topic() -> None:
    cluster, _ = await started(FakeLogManager())
    assert METADATA_TOPIC not in cluster.topics
    assert cluster.leader_of(METADATA_PARTITION) is None
    assert (await cluster.create_topic(METADATA_TOPIC)).error == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_everything_survives_a_restart() -> None:
    logs = FakeLogManager()
    first, _ = await started(logs)
    await first.create_topic("orders", partitions=3, configs={"retention.ms": "5"})
    await first.create_topic("gone")
    await first.delete_topic("gone")
    await first.create_partitions("orders", count=4)
    await first.alter_topic_configs("orders", [ConfigChange("flush.messages", "7")])
    await first.alter_broker_configs(None, [ConfigChange("log.retention.bytes", "99")])
    assert await first.allocate_block() == range(0, 1000)

    second, _ = await started(logs, seed=2)
    assert dict(second.topics) == dict(first.topics)
    assert second.topics["orders"].partitions == 4
    assert second.topics["orders"].configs == {"flush.messages": "7", "retention.ms": "5"}
    assert second.log_config("orders") == first.log_config("orders")
    assert second.log_config("orders").retention_bytes == 99
    assert second.topic_by_id(first.topics["orders"].topic_id) == second.topics["orders"]
    assert await second.allocate_block() == range(1000, 2000)


async def test_every_start_raises_the_leader_epoch() -> None:
    logs = FakeLogManager()
    epochs = []
    for _ in range(3):
        cluster, _ = await started(logs)
        epochs.append(cluster.leader_epoch(OFFSETS))
        assert cluster.leader_epoch(TopicPartition("nothing", 0)) == NO_LEADER_EPOCH
        assert cluster.features.epoch == epochs[-1] + 1  # the levels of a new directory are a change
    assert epochs == [0, 1, 2]
    assert logs.leader_epochs == epochs


async def test_a_start_that_cannot_be_counted_fails() -> None:
    logs = FakeLogManager()
    await started(logs)
    metadata_log(logs).fail()
    with pytest.raises(OSError):
        await started(logs)


async def test_a_record_of_another_version_stops_the_start() -> None:
    logs = FakeLogManager()
    await started(logs)
    metadata_log(logs).append(
        bytes(build_batch([NewRecord(b"\x00\x63strange", b"\x00\x00")], timestamp=0)),
        now_ms=0,
        origin=AppendOrigin.COORDINATOR,
    )
    with pytest.raises(UnreadableMetadata, match="does not know"):
        await started(logs)


async def test_more_replicas_than_brokers_are_capped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig(default_replication_factor=3, offsets_topic_replication_factor=3)
    cluster, _ = await started(FakeLogManager(), config)
    assert len(caplog.records) == 1
    assert "default.replication.factor=3, offsets.topic.replication.factor=3: capped" in caplog.text
    assert (await cluster.create_topic("orders")).error == ErrorCode.NONE


# Reads


async def test_a_partition_lives_on_its_broker() -> None:
    cluster, _ = await started(FakeLogManager())
    await cluster.create_topic("orders", partitions=2)
    assert cluster.leader_of(TopicPartition("orders", 1)) == cluster.node_id
    assert cluster.partition_state(TopicPartition("orders", 1)) == PartitionState(1, 0, (1,), (1,), ())
    for unknown in (TopicPartition("orders", 2), TopicPartition("orders", -1), TopicPartition("other", 0)):
        assert cluster.leader_of(unknown) is None
        assert cluster.partition_state(unknown) is None


async def test_a_broker_alone_knows_itself_and_no_other() -> None:
    cluster, _ = await started(FakeLogManager())
    assert not cluster.is_joined
    assert cluster.inter_broker_endpoint(1) == Endpoint(1, "localhost", 9092)
    assert cluster.broker_epoch(1) == 0
    assert cluster.inter_broker_endpoint(99) is None
    assert cluster.broker_epoch(99) is None


async def test_a_partition_whose_log_has_failed_is_offline() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    await cluster.create_topic("orders")
    orders = TopicPartition("orders", 0)
    logs.create_log(orders, cluster.topics["orders"].topic_id, cluster.log_config("orders"), 0).fail()
    state = cluster.partition_state(orders)
    assert state is not None
    assert (state.leader_id, state.offline) == (NO_LEADER, (1,))


async def test_each_listener_is_told_its_own_address() -> None:
    cluster, _ = await started(FakeLogManager())
    cluster.advertise("INSIDE", "broker", 19092)
    assert cluster.endpoint("PLAINTEXT") == Endpoint(1, "localhost", 9092)
    assert cluster.brokers("INSIDE") == (Endpoint(1, "broker", 19092),)


async def test_the_quorum_is_this_broker_and_its_metadata_log() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    quorum = cluster.quorum()
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 0, 3)
    assert [(voter.node_id, voter.log_end_offset) for voter in quorum.voters] == [(1, 3)]


# Topics


async def test_a_created_topic_has_an_id_its_configs_and_the_default_size() -> None:
    cluster, seen = await started(FakeLogManager(), BrokerConfig(num_partitions=6))
    outcome = await cluster.create_topic("orders", configs={"retention.ms": "5", "cleanup.policy": "compact"})
    topic = cluster.topics["orders"]
    assert outcome == Outcome(ErrorCode.NONE, topic=topic)
    assert topic.partitions == 6
    assert topic.configs == {"cleanup.policy": "compact", "retention.ms": "5"}
    assert cluster.topic_by_id(topic.topic_id) is topic
    assert cluster.log_config("orders").retention_ms == 5
    assert seen.events == [("created", "orders", index) for index in range(6)]


async def test_a_dry_run_changes_nothing() -> None:
    logs = FakeLogManager()
    cluster, seen = await started(logs)
    await cluster.create_topic("orders")
    end, before = metadata_log(logs).log_end_offset, dict(cluster.topics)
    outcome = await cluster.create_topic("new", partitions=3, validate_only=True)
    assert outcome.topic is not None
    assert outcome.topic.partitions == 3
    assert (await cluster.create_partitions("orders", count=9, validate_only=True)).error == ErrorCode.NONE
    assert (await cluster.alter_topic_configs("orders", retention("1"), validate_only=True)).error == ErrorCode.NONE
    change = [ConfigChange("log.retention.ms", "1")]
    assert (await cluster.alter_broker_configs(None, change, validate_only=True)).error == ErrorCode.NONE
    assert (await cluster.create_topic("a/b", validate_only=True)).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert metadata_log(logs).log_end_offset == end
    assert dict(cluster.topics) == before
    assert seen.events == [("created", "orders", 0)]


@pytest.mark.parametrize("configs", [{"no.such": "1"}, {"retention.ms": None}, {"retention.ms": "soon"}])
async def test_a_topic_with_a_wrong_config_is_not_created(configs: dict[str, str | None]) -> None:
    cluster, _ = await started(FakeLogManager())
    assert (await cluster.create_topic("orders", configs=configs)).error == ErrorCode.INVALID_CONFIG
    assert "orders" not in cluster.topics


async def test_a_deleted_topic_is_gone_and_its_name_free_for_another_id() -> None:
    cluster, seen = await started(FakeLogManager())
    await cluster.create_topic("a.b", configs={"retention.ms": "5"})
    old = cluster.topics["a.b"]
    assert (await cluster.create_topic("a_b")).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await cluster.delete_topic("a.b")).topic == old
    assert cluster.topic_by_id(old.topic_id) is None
    assert cluster.log_config("a.b") == cluster.log_config("never existed")
    assert (await cluster.delete_topic("a.b")).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await cluster.create_topic("a_b")).error == ErrorCode.NONE
    assert (await cluster.delete_topic("a_b")).error == ErrorCode.NONE
    assert (await cluster.create_topic("a.b")).error == ErrorCode.NONE
    assert cluster.topics["a.b"].topic_id != old.topic_id
    assert seen.events == [
        ("created", "a.b", 0),
        ("deleted", "a.b", 0),
        ("topic deleted", "a.b"),
        ("created", "a_b", 0),
        ("deleted", "a_b", 0),
        ("topic deleted", "a_b"),
        ("created", "a.b", 0),
    ]


async def test_a_grown_topic_keeps_its_id_and_configs() -> None:
    cluster, seen = await started(FakeLogManager())
    await cluster.create_topic("orders", partitions=2, configs={"retention.ms": "5"})
    before = cluster.topics["orders"]
    assert (await cluster.create_partitions("orders", count=5, assignments=[[1], [1], [1]])).error == ErrorCode.NONE
    after = cluster.topics["orders"]
    assert (after.topic_id, after.configs, after.partitions) == (before.topic_id, before.configs, 5)
    assert seen.events[2:] == [("created", "orders", index) for index in (2, 3, 4)]


async def test_internal_topics_are_protected() -> None:
    cluster, _ = await started(FakeLogManager())
    for name in INTERNAL:
        assert (await cluster.delete_topic(name)).error == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await cluster.create_partitions(name, count=60)).error == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await cluster.create_topic(name)).error == ErrorCode.TOPIC_ALREADY_EXISTS
        change = [ConfigChange("cleanup.policy", "delete")]
        assert (await cluster.alter_topic_configs(name, change)).error == ErrorCode.INVALID_CONFIG
        assert (await cluster.alter_topic_configs(name, retention("9"))).error == ErrorCode.NONE


async def test_the_topic_of_share_groups_comes_when_it_is_wanted_and_for_nobody_else() -> None:
    name = "__share_group_state"
    logs = FakeLogManager()
    cluster, seen = await started(logs)
    assert (await cluster.create_topic(name)).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    metadata_log(logs).held = True
    for _ in range(3):
        cluster.want_internal_topic(name)
    await settled()
    assert name not in cluster.topics
    metadata_log(logs).release()
    metadata_log(logs).held = False
    await settled()
    assert seen.events == [("created", name, index) for index in range(50)]
    assert (cluster.topics[name].partitions, cluster.topics[name].internal) == (50, True)
    cluster.want_internal_topic(name)
    outcome = await cluster.create_automatically(name, "/::1")
    assert outcome.error == ErrorCode.TOPIC_ALREADY_EXISTS
    change = [ConfigChange("retention.ms", "1000")]
    assert (await cluster.alter_topic_configs(name, change)).error == ErrorCode.INVALID_CONFIG
    assert (await cluster.delete_topic(name)).error == ErrorCode.INVALID_TOPIC_EXCEPTION


# When a change shows


async def test_a_change_shows_when_it_is_durable_and_not_before() -> None:
    logs = FakeLogManager()
    cluster, seen = await started(logs)
    metadata_log(logs).held = True
    creating = asyncio.ensure_future(cluster.create_topic("orders"))
    await settled()
    assert "orders" not in cluster.topics
    assert not creating.done()
    metadata_log(logs).release()
    assert (await creating).error == ErrorCode.NONE
    assert seen.events == [("created", "orders", 0)]


async def test_changes_of_one_topic_take_turns_and_of_two_topics_share_a_sync() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    metadata_log(logs).held = True
    names = ["a", "a", "b", "c.d", "c_d"]
    creating = [asyncio.ensure_future(cluster.create_topic(name)) for name in names]
    await settled()
    assert metadata_log(logs).log_end_offset == 3 + 3
    metadata_log(logs).release()
    assert [outcome.error for outcome in await asyncio.gather(*creating)] == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


async def test_a_requester_that_goes_away_undoes_nothing() -> None:
    logs = FakeLogManager()
    cluster, seen = await started(logs)
    metadata_log(logs).held = True
    creating = asyncio.ensure_future(cluster.create_topic("orders"))
    waiting = asyncio.ensure_future(cluster.delete_topic("orders"))
    await settled()
    creating.cancel()
    await settled()
    assert not waiting.done()
    metadata_log(logs).held = False
    metadata_log(logs).release()
    assert (await waiting).error == ErrorCode.NONE
    assert [event[0] for event in seen.events] == ["created", "deleted", "topic deleted"]


async def test_all_listeners_hear_of_the_partitions_before_any_hears_of_their_topic() -> None:
    cluster, first = await started(FakeLogManager())
    second = Seen(cluster)
    cluster.subscribe(second)
    second.events = first.events
    await cluster.create_topic("orders", partitions=2)
    first.events.clear()
    await cluster.delete_topic("orders")
    one, two = ("deleted", "orders", 0), ("deleted", "orders", 1)
    assert first.events == [one, two, one, two, ("topic deleted", "orders"), ("topic deleted", "orders")]


async def test_another_address_is_an_event() -> None:
    cluster, seen = await started(FakeLogManager())
    cluster.advertise("PLAINTEXT", "elsewhere", 9093)
    assert seen.events == [("brokers", (Endpoint(1, "elsewhere", 9093),))]


async def test_a_listener_that_fails_leaves_nobody_waiting() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)

    class Broken(Seen):
        def partition_changed(self, *_: Any) -> None:
            raise RuntimeError("a listener's fault")

    cluster.subscribe(Broken(cluster))
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    assert (await cluster.create_topic("orders")).error == ErrorCode.NONE
    assert "orders" in cluster.topics
    assert len(complaints) == 1


async def test_a_change_that_cannot_be_written_does_not_happen() -> None:
    logs = FakeLogManager()
    cluster, seen = await started(logs)
    metadata_log(logs).held = True
    creating = asyncio.ensure_future(cluster.create_topic("orders"))
    await settled()
    metadata_log(logs).fail()
    assert (await creating).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.create_topic("other")).error == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(OSError, match="producer ids"):
        await cluster.allocate_block()
    assert list(cluster.topics) == INTERNAL
    assert seen.events == []


async def test_settings_of_a_group_that_cannot_be_written_stay_as_they_are() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    slower, slowest = ([ConfigChange("consumer.heartbeat.interval.ms", text)] for text in ("7000", "8000"))
    assert (await cluster.alter_group_configs("g", slower)).error == ErrorCode.NONE
    metadata_log(logs).held = True
    changing = asyncio.ensure_future(cluster.alter_group_configs("g", slowest))
    await settled()
    assert cluster.group_configs("g") == {"consumer.heartbeat.interval.ms": "7000"}
    metadata_log(logs).fail()
    assert (await changing).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.group_configs("g") == {"consumer.heartbeat.interval.ms": "7000"}


async def test_blocks_of_producer_ids_never_overlap() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    blocks = await asyncio.gather(*(cluster.allocate_block() for _ in range(5)))
    assert sorted(block.start for block in blocks) == [0, 1000, 2000, 3000, 4000]
    assert all(len(block) == 1000 for block in blocks)


async def test_a_block_is_durable_before_it_is_given_out() -> None:
    logs = FakeLogManager()
    cluster, _ = await started(logs)
    metadata_log(logs).held = True
    asking = asyncio.ensure_future(cluster.allocate_block())
    await settled()
    assert not asking.done()
    asking.cancel()
    await settled()
    metadata_log(logs).held = False
    metadata_log(logs).release()
    assert await cluster.allocate_block() == range(1000, 2000)


# Configs


async def test_changed_topic_configs_reach_the_listeners() -> None:
    cluster, seen = await started(FakeLogManager())
    await cluster.create_topic("orders", configs={"flush.messages": "3"})
    assert (await cluster.alter_topic_configs("orders", retention("5"))).error == ErrorCode.NONE
    assert cluster.topics["orders"].configs == {"flush.messages": "3", "retention.ms": "5"}
    await cluster.alter_topic_configs("orders", retention(None, ConfigOperation.DELETE))
    await cluster.alter_topic_configs("orders", retention("7"), replace=True)
    assert cluster.topics["orders"].configs == {"retention.ms": "7"}
    assert seen.events[1:] == [
        ("configs", "orders", 5),
        ("configs", "orders", 604_800_000),
        ("configs", "orders", 7),
    ]


async def test_appending_to_a_list_config_starts_from_the_brokers_default() -> None:
    cluster, _ = await started(FakeLogManager())
    await cluster.create_topic("orders")
    await cluster.alter_topic_configs("orders", [ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)])
    assert cluster.topics["orders"].configs == {"cleanup.policy": "delete,compact"}


async def test_a_wrong_change_leaves_the_configs_alone() -> None:
    cluster, _ = await started(FakeLogManager())
    await cluster.create_topic("orders")
    both = [ConfigChange("retention.ms", "5"), ConfigChange("no.such", "1")]
    assert (await cluster.alter_topic_configs("orders", both)).error == ErrorCode.INVALID_CONFIG
    assert cluster.topics["orders"].configs == {}
    assert (await cluster.alter_topic_configs("other", [])).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_changed_broker_default_reaches_every_topic_that_follows_it() -> None:
    cluster, seen = await started(FakeLogManager())
    await cluster.create_topic("own", configs={"retention.ms": "5"})
    await cluster.create_topic("follows")
    everyone, this = [ConfigChange("log.retention.ms", "8")], [ConfigChange("log.retention.ms", "9")]
    assert (await cluster.alter_broker_configs(None, everyone)).error == ErrorCode.NONE
    assert cluster.log_config("follows").retention_ms == 8
    assert (await cluster.alter_broker_configs(1, this)).error == ErrorCode.NONE
    assert cluster.log_config("follows").retention_ms == 9
    assert cluster.log_config("own").retention_ms == 5
    assert cluster.broker_configs(None) == {"log.retention.ms": "8"}
    assert cluster.broker_configs(1) == {"log.retention.ms": "9"}
    assert ("configs", "follows", 9) in seen.events


async def test_a_broker_setting_that_is_read_at_start_does_not_change() -> None:
    cluster, _ = await started(FakeLogManager())
    outcome = await cluster.alter_broker_configs(1, [ConfigChange("num.partitions", "4")])
    assert outcome.error == ErrorCode.INVALID_REQUEST
    assert outcome.message is not None
    assert "restart" in outcome.message


async def test_a_topic_has_its_rack_wherever_this_broker_has_one() -> None:
    """As it will have in the cluster that takes this directory over (consumer-groups.md 12.4)."""
    for rack, racks in ((None, ()), ("hall-1", (("hall-1",), ("hall-1",)))):
        cluster, _ = await started(FakeLogManager(), BrokerConfig(broker_rack=rack))
        await cluster.create_topic("orders", partitions=2)
        assert cluster.partition_racks("orders") == racks
        assert cluster.partition_racks("gone") == ()
