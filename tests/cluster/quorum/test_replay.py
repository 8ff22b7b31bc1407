"""What records make of an image, rule by rule (cluster.md 3.8, 3.9 and 1.8)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eosin.cluster.quorum.rules.errors import QuorumUnreadable
from eosin.cluster.quorum.rules.image import (
    EMPTY,
    MIGRATING_DIRECTORY,
    BrokerEndpoint,
    ClusterImage,
    ImageDelta,
    PartitionChange,
    PartitionRegistration,
    QuotaEntity,
    RegisteredBroker,
    ScramKey,
)
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message

EPOCH = 4
ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
DIRECTORIES = tuple(bytes((number,)) * 16 for number in (1, 2, 3))
TOPIC = records.TopicRecord("orders", ID)
PARTITION = records.PartitionRecord(
    partition_id=0,
    topic_id=ID,
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=5,
    partition_epoch=9,
    directories=DIRECTORIES,
)
REGISTRATION = PartitionRegistration(
    replicas=(1, 2, 3),
    isr=(1, 2),
    removing=(),
    adding=(),
    elr=(),
    last_known_elr=(),
    directories=DIRECTORIES,
    leader=1,
    leader_epoch=5,
    partition_epoch=9,
    recovering=False,
)
BROKER = records.RegisterBrokerRecord(
    broker_id=7,
    incarnation_id=ID,
    broker_epoch=30,
    end_points=(records.BrokerEndpoint("PLAINTEXT", "one", 9092, 0),),
    features=(records.BrokerFeature("metadata.version", 25, 30),),
    rack="r",
    log_dirs=DIRECTORIES[:1],
)
ORDERS_0 = TopicPartition("orders", 0)


def grown(replay: Replay, *of: Message) -> Replay:
    """Apply `of` as one batch."""
    first = replay.offset + 1
    for offset, record in enumerate(of, first):
        replay.apply(offset, record)
    replay.advance(first + len(of) - 1, EPOCH)
    return replay


def delta_of(*of: Message, before: ClusterImage = EMPTY) -> ImageDelta:
    return grown(Replay(before), *of).publish()


def image_of(*of: Message) -> ClusterImage:
    return delta_of(*of).after


def changed(**fields: object) -> PartitionRegistration:
    """`PARTITION` after one PartitionChangeRecord with `fields`."""
    change = records.PartitionChangeRecord(partition_id=0, topic_id=ID, **fields)  # type: ignore[arg-type]
    found = image_of(TOPIC, PARTITION, change).partition("orders", 0)
    assert found is not None
    return found


# Brokers


def test_a_registration_stands_for_the_whole_broker() -> None:
    """cluster.md 3.8"""
    image = image_of(BROKER)
    assert image.brokers[7] == RegisteredBroker(
        node_id=7,
        epoch=30,
        incarnation_id=ID,
        endpoints={"PLAINTEXT": BrokerEndpoint("PLAINTEXT", "one", 9092, 0)},
        features={"metadata.version": (25, 30)},
        rack="r",
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=DIRECTORIES[:1],
        cordoned_log_dirs=None,
    )
    again = records.RegisterBrokerRecord(broker_id=7, broker_epoch=31, fenced=False)
    assert image_of(BROKER, again).brokers[7].endpoints == {}
    assert image_of(BROKER, again).brokers[7].epoch == 31


def test_a_change_of_a_registration_changes_what_it_names() -> None:
    """cluster.md 3.8: 17, and 7 and 8 in its old form"""

    def after(*of: Message) -> RegisteredBroker:
        return image_of(BROKER, *of).brokers[7]

    def change(**fields: object) -> records.BrokerRegistrationChangeRecord:
        return records.BrokerRegistrationChangeRecord(7, 30, **fields)  # type: ignore[arg-type]

    assert after(change()) == image_of(BROKER).brokers[7]
    assert not after(change(fenced=-1)).fenced
    assert after(change(fenced=-1), change(fenced=1)).fenced
    assert after(change(in_controlled_shutdown=1), change()).in_controlled_shutdown
    assert after(change(log_dirs=DIRECTORIES)).log_dirs == DIRECTORIES
    assert after(change(cordoned_log_dirs=())).cordoned_log_dirs == ()
    assert after(change(cordoned_log_dirs=DIRECTORIES), change()).cordoned_log_dirs == DIRECTORIES
    assert not after(records.UnfenceBrokerRecord(7, 30)).fenced
    assert after(records.UnfenceBrokerRecord(7, 30), records.FenceBrokerRecord(7, 30)).fenced


def test_an_unregistered_broker_is_gone() -> None:
    delta = delta_of(records.UnregisterBrokerRecord(7, 30), before=image_of(BROKER))
    assert not delta.after.brokers
    assert delta.brokers_changed


@pytest.mark.parametrize(
    "record",
    [
        records.BrokerRegistrationChangeRecord(7, 29, fenced=-1),
        records.BrokerRegistrationChangeRecord(8, 30, fenced=-1),
        records.BrokerRegistrationChangeRecord(7, 30, fenced=2),
        records.BrokerRegistrationChangeRecord(7, 30, in_controlled_shutdown=-1),
        records.UnregisterBrokerRecord(7, 31),
        records.UnregisterBrokerRecord(6, 30),
        records.FenceBrokerRecord(7, 31),
        records.UnfenceBrokerRecord(6, 30),
    ],
)
def test_a_change_of_another_epoch_or_an_unknown_broker_contradicts_the_image(record: Message) -> None:
    """cluster.md 1.8"""
    with pytest.raises(QuorumUnreadable, match=rf"{type(record).__name__} at offset 1 of the metadata log"):
        delta_of(BROKER, record)


# Topics and partitions


def test_a_topic_begins_without_partitions_and_gets_them_one_by_one() -> None:
    """cluster.md 3.8"""
    assert not image_of(TOPIC).topics["orders"].partitions
    image = image_of(TOPIC, PARTITION)
    assert image.topics["orders"].partitions == {0: REGISTRATION}
    assert image.topic_by_id(ID) is image.topics["orders"]
    assert image.topic_by_id(OTHER_ID) is None
    assert image.partition("orders", 0) == REGISTRATION
    assert image.partition("orders", 1) is None
    assert image.partition("other", 0) is None
    assert image.partition_count == 1


def test_a_partition_without_directories_counts_as_migrating() -> None:
    """cluster.md 3.9"""
    image = image_of(TOPIC, records.PartitionRecord(0, ID, replicas=(1, 2), isr=(1,), leader_recovery_state=1))
    found = image.partition("orders", 0)
    assert found is not None
    assert found.directories == (MIGRATING_DIRECTORY,) * 2
    assert found.recovering


def test_each_change_raises_the_partition_epoch_and_nothing_else_that_it_does_not_name() -> None:
    """cluster.md 3.9"""
    assert changed() == replace(REGISTRATION, partition_epoch=10)


def test_other_replicas_keep_the_directories_that_a_change_does_not_name() -> None:
    """cluster.md 3.9: in their order, whoever stands there now"""
    assert changed(replicas=(4, 5, 6)).directories == DIRECTORIES


@pytest.mark.parametrize("leader", [1, 2, -1])
def test_a_leader_that_is_named_raises_the_leader_epoch_also_when_it_is_the_same(leader: int) -> None:
    """cluster.md 3.9"""
    found = changed(leader=leader)
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (leader, 6, 10)


def test_a_change_replaces_the_lists_that_it_names() -> None:
    """cluster.md 3.9"""
    found = changed(
        isr=(),
        replicas=(3, 4),
        removing_replicas=(1,),
        adding_replicas=(4,),
        leader_recovery_state=1,
        directories=DIRECTORIES[:2],
        eligible_leader_replicas=(2,),
        last_known_elr=(1,),
    )
    assert found == PartitionRegistration(
        replicas=(3, 4),
        isr=(),
        removing=(1,),
        adding=(4,),
        elr=(2,),
        last_known_elr=(1,),
        directories=DIRECTORIES[:2],
        leader=1,
        leader_epoch=5,
        partition_epoch=10,
        recovering=True,
    )


@pytest.mark.parametrize(
    "record",
    [
        records.PartitionRecord(0, OTHER_ID),
        records.PartitionRecord(1, ID, replicas=(1, 2), directories=DIRECTORIES),
        records.PartitionRecord(1, ID, leader_recovery_state=2),
        records.PartitionChangeRecord(0, OTHER_ID),
        records.PartitionChangeRecord(1, ID),
        records.PartitionChangeRecord(0, ID, directories=DIRECTORIES[:1]),
        records.PartitionChangeRecord(0, ID, replicas=(1, 2)),
        records.PartitionChangeRecord(0, ID, leader_recovery_state=3),
        records.RemoveTopicRecord(OTHER_ID),
        records.TopicRecord("orders", OTHER_ID),
        records.TopicRecord("other", ID),
        records.ClearElrRecord("other"),
        records.RemoveAccessControlEntryRecord(ID),
        records.EndTransactionRecord(),
        records.AbortTransactionRecord(),
    ],
)
def test_a_record_that_does_not_fit_the_image_is_refused(record: Message) -> None:
    """cluster.md 1.8"""
    with pytest.raises(QuorumUnreadable, match=rf"{type(record).__name__} at offset 2 of the metadata log"):
        delta_of(TOPIC, PARTITION, record)


def test_a_removed_topic_takes_its_partitions_and_settings_along() -> None:
    """cluster.md 3.8"""
    before = image_of(TOPIC, PARTITION, records.ConfigRecord(2, "orders", "retention.ms", "1"))
    delta = delta_of(records.RemoveTopicRecord(ID), before=before)
    assert delta.after.topics == {}
    assert delta.after.configs == {}
    assert delta.after.topic_by_id(ID) is None
    assert delta.after.partition_count == 0
    assert delta.topics_deleted == [before.topics["orders"]]
    assert delta.partitions_changed == [PartitionChange(ORDERS_0, REGISTRATION, None)]
    assert delta.configs_changed == {(2, "orders")}


def test_cleared_eligible_leader_replicas_are_empty_where_there_were_any() -> None:
    """cluster.md 3.8: of one topic, or of all"""
    with_elr = records.PartitionRecord(0, ID, replicas=(1,), eligible_leader_replicas=(1,), last_known_elr=(1,))
    without = records.PartitionRecord(1, ID, replicas=(1,), partition_epoch=4)
    other = records.PartitionRecord(0, OTHER_ID, replicas=(1,), last_known_elr=(1,))
    before = image_of(TOPIC, with_elr, without, records.TopicRecord("other", OTHER_ID), other)
    one = delta_of(records.ClearElrRecord("orders"), before=before)
    assert [change.partition for change in one.partitions_changed] == [ORDERS_0]
    every = delta_of(records.ClearElrRecord(""), before=before)
    assert [change.partition for change in every.partitions_changed] == [ORDERS_0, TopicPartition("other", 0)]
    for topic in every.after.topics.values():
        assert not any(each.elr or each.last_known_elr for each in topic.partitions.values())


# Settings and the rest


def test_settings_are_kept_by_resource_whatever_their_type_and_name() -> None:
    """cluster.md 3.8: also those that a newer controller knows alone"""
    image = image_of(
        records.ConfigRecord(2, "orders", "retention.ms", "1"),
        records.ConfigRecord(2, "orders", "from.the.future", "2"),
        records.ConfigRecord(4, "", "log.retention.ms", "3"),
        records.ConfigRecord(32, "group", "x", "4"),
    )
    assert image.configs == {
        (2, "orders"): {"retention.ms": "1", "from.the.future": "2"},
        (4, ""): {"log.retention.ms": "3"},
        (32, "group"): {"x": "4"},
    }
    gone = delta_of(records.ConfigRecord(4, "", "log.retention.ms", None), before=image)
    assert (4, "") not in gone.after.configs
    assert gone.configs_changed == {(4, "")}


def test_a_feature_at_level_zero_is_off() -> None:
    """cluster.md 3.8"""
    image = image_of(
        records.FeatureLevelRecord("metadata.version", 30), records.FeatureLevelRecord("transaction.version", 2)
    )
    assert image.metadata_version == 30
    delta = delta_of(records.FeatureLevelRecord("transaction.version", 0), before=image)
    assert delta.after.features == {"metadata.version": 30}
    assert delta.features_changed
    assert EMPTY.metadata_version == 0


def test_records_that_only_later_phases_use_are_kept() -> None:
    acl = records.AccessControlEntryRecord(id=ID, resource_name="orders")
    scram = records.UserScramCredentialRecord("alice", 1, b"salt")
    token = records.DelegationTokenRecord(token_id="t")
    controller = records.RegisterControllerRecord(controller_id=1000)
    other = records.RegisterControllerRecord(controller_id=1001)
    left = records.UnregisterControllerRecord(1001)
    entity = (records.EntityData("user", None), records.EntityData("client-id", "c"))
    image = image_of(
        *(acl, scram, token, controller, other, left, records.NoOpRecord(), records.ZkMigrationStateRecord(1)),
        records.ClientQuotaRecord(entity, "producer_byte_rate", 10.0),
        records.ClientQuotaRecord(entity[1:], "producer_byte_rate", 11.0),
        records.ProducerIdsRecord(7, 30, 2000),
    )
    key = (QuotaEntity("client-id", "c"), QuotaEntity("user", None))
    assert image.acls == {ID: acl}
    assert image.scram == {ScramKey("alice", 1): scram}
    assert image.tokens == {"t": token}
    assert image.controllers == {1000: controller}
    assert image.quotas == {key: {"producer_byte_rate": 10.0}, key[:1]: {"producer_byte_rate": 11.0}}
    assert image.next_producer_id == 2000
    gone = delta_of(
        records.RemoveAccessControlEntryRecord(ID),
        records.RemoveUserScramCredentialRecord("alice", 1),
        records.RemoveUserScramCredentialRecord("bob", 2),
        records.RemoveDelegationTokenRecord("t"),
        records.ClientQuotaRecord(entity, "producer_byte_rate", 0.0, remove=True),
        before=image,
    )
    assert not gone.after.acls
    assert not gone.after.scram
    assert not gone.after.tokens
    assert list(gone.after.quotas) == [key[:1]]
    assert gone.acls_changed == {ID}
    assert (gone.scram_changed, gone.tokens_changed, gone.quotas_changed) == (True,) * 3
    assert (gone.brokers_changed, gone.features_changed, gone.controllers_changed) == (False,) * 3


def test_a_quota_of_a_default_and_one_of_a_name_stand_beside_each_other() -> None:
    image = image_of(
        records.ClientQuotaRecord((records.EntityData("user", "a"),), "k", 1.0),
        records.ClientQuotaRecord((records.EntityData("user", None),), "k", 2.0),
    )
    assert list(image.quotas.values()) == [{"k": 2.0}, {"k": 1.0}]


# Publications


def test_a_publication_names_each_changed_partition_once_with_what_it_was_and_is() -> None:
    before = image_of(TOPIC, PARTITION)
    replay = grown(Replay(before), records.PartitionChangeRecord(0, ID, leader=2))
    grown(replay, records.PartitionChangeRecord(0, ID, leader=3), records.PartitionRecord(1, ID, replicas=(1,)))
    delta = replay.publish()
    assert delta.before is before
    assert [(change.partition, change.before) for change in delta.partitions_changed] == [
        (ORDERS_0, REGISTRATION),
        (TopicPartition("orders", 1), None),
    ]
    after = delta.partitions_changed[0].after
    assert after is not None
    assert (after.leader, after.leader_epoch) == (3, 7)
    assert (delta.after.offset, delta.after.epoch) == (4, EPOCH)
    assert before.partition("orders", 0) == REGISTRATION
    assert replay.publish().partitions_changed == []


def test_a_topic_of_the_same_name_with_another_id_is_a_deletion_first() -> None:
    """cluster.md 4.16"""
    before = image_of(TOPIC, PARTITION)
    new = records.PartitionRecord(0, OTHER_ID, replicas=(2,))
    delta = delta_of(records.RemoveTopicRecord(ID), records.TopicRecord("orders", OTHER_ID), new, before=before)
    assert [topic.topic_id for topic in delta.topics_deleted] == [ID]
    assert [topic.topic_id for topic in delta.topics_created] == [OTHER_ID]
    gone, come = delta.partitions_changed
    assert gone == PartitionChange(ORDERS_0, REGISTRATION, None)
    assert (come.partition, come.before) == (ORDERS_0, None)
    assert come.after is not None
    assert come.after.replicas == (2,)


def test_a_topic_that_came_and_went_between_two_publications_is_in_none() -> None:
    delta = delta_of(TOPIC, PARTITION, records.RemoveTopicRecord(ID))
    assert (delta.topics_created, delta.topics_deleted, delta.partitions_changed) == ([], [], [])
    assert delta.after.partition_count == 0


def test_images_share_what_has_not_changed() -> None:
    before = image_of(BROKER, TOPIC, PARTITION)
    after = delta_of(records.FeatureLevelRecord("a", 1), before=before).after
    assert after.topics is before.topics
    assert after.brokers is before.brokers


# Transactions of the controller (KIP-868; cluster.md 3.6.2)


def test_nothing_of_an_open_transaction_is_published() -> None:
    replay = grown(Replay(), TOPIC)
    grown(replay, records.BeginTransactionRecord("t"), PARTITION)
    assert replay.is_in_transaction
    assert replay.publishable_offset() == 0
    first = replay.publish()
    assert first.after.offset == 0
    assert first.partitions_changed == []
    grown(replay, records.PartitionChangeRecord(0, ID, leader=2))
    assert replay.publishable_offset() == 0
    grown(replay, records.EndTransactionRecord())
    assert not replay.is_in_transaction
    second = replay.publish()
    assert second.after.offset == replay.publishable_offset() == 4
    assert [change.partition for change in second.partitions_changed] == [ORDERS_0]


def test_an_abort_drops_everything_since_the_begin() -> None:
    replay = grown(Replay(), TOPIC)
    grown(replay, records.BeginTransactionRecord(), PARTITION, records.ConfigRecord(2, "orders", "a", "b"), BROKER)
    grown(replay, records.AbortTransactionRecord("reason"))
    delta = replay.publish()
    assert delta.after.offset == 5
    assert delta.partitions_changed == []
    assert delta.configs_changed == frozenset()
    assert not delta.brokers_changed
    assert not delta.after.topics["orders"].partitions
    assert delta.after.partition_count == 0
    grown(replay, PARTITION)
    assert [change.after for change in replay.publish().partitions_changed] == [REGISTRATION]


def test_a_begin_inside_a_transaction_is_refused() -> None:
    with pytest.raises(QuorumUnreadable, match="a transaction is open already"):
        delta_of(records.BeginTransactionRecord(), records.BeginTransactionRecord())


# Snapshots (cluster.md 3.5)


def snapshot_after(before: ClusterImage, *of: Message) -> ImageDelta:
    return grown(Replay(before, is_snapshot=True), *of).publish()


def test_a_snapshot_is_published_as_the_difference_to_the_image_before() -> None:
    before = image_of(
        TOPIC,
        PARTITION,
        records.TopicRecord("gone", OTHER_ID),
        records.PartitionRecord(0, OTHER_ID, replicas=(1,)),
        records.ConfigRecord(2, "gone", "a", "b"),
        records.ConfigRecord(2, "orders", "a", "b"),
        BROKER,
    )
    delta = snapshot_after(
        before, TOPIC, PARTITION, records.PartitionRecord(1, ID), records.ConfigRecord(2, "orders", "a", "b"), BROKER
    )
    assert [topic.name for topic in delta.topics_deleted] == ["gone"]
    assert delta.topics_created == []
    assert [(change.partition, change.after is None) for change in delta.partitions_changed] == [
        (TopicPartition("gone", 0), True),
        (TopicPartition("orders", 1), False),
    ]
    assert delta.configs_changed == {(2, "gone")}
    assert not delta.brokers_changed
    assert not delta.features_changed


def test_after_a_snapshot_the_log_goes_on() -> None:
    replay = Replay(image_of(TOPIC, PARTITION), is_snapshot=True)
    grown(replay, TOPIC, PARTITION)
    assert replay.publish().partitions_changed == []
    grown(replay, records.PartitionChangeRecord(0, ID, leader=2))
    assert [change.partition for change in replay.publish().partitions_changed] == [ORDERS_0]


def test_a_large_snapshot_is_compared_in_small_steps() -> None:
    """cluster.md 2.10"""
    replay = Replay(is_snapshot=True)
    of: Sequence[Message] = [records.PartitionRecord(number, ID, replicas=(1,)) for number in range(3000)]
    grown(replay, TOPIC, *of)
    steps = replay.publish_in_steps()
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            delta = end.value
            break
        count += 1
        assert replay.published is EMPTY
    assert count >= 3000 // 256
    assert len(delta.partitions_changed) == delta.after.partition_count == 3000
    assert replay.published is delta.after
