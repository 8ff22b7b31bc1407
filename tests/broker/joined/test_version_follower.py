"""The coordinator's transaction version follows the cluster's (cluster.md 1.6)."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from coordinator_fakes import FakeBroker, Producer
from scripted_controller import ScriptedCluster

from eosin.broker.joined.version_follower import GroupVersionFollower, TransactionVersionFollower
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import iter_records
from eosin.protocol.schemas.records import metadata as records


def level(of: int, name: str = "transaction.version") -> records.FeatureLevelRecord:
    return records.FeatureLevelRecord(name, of)


def test_the_coordinator_is_told_the_level_at_first_and_of_each_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = ScriptedCluster()
    world.publish(level(2))
    told: list[int] = []
    transactions: Any = SimpleNamespace(use_transaction_version=told.append)
    world.cluster.subscribe(TransactionVersionFollower(transactions, world.cluster))
    assert told == [2]
    world.publish(level(1))
    world.publish(records.FeatureLevelRecord("metadata.version", 33))
    world.publish(level(2))
    world.publish(level(0))
    assert told == [2, 1, 2, 0]
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster's transaction.version is 1 now, and was 2",
        "the cluster's transaction.version is 2 now, and was 1",
        "the cluster's transaction.version is 0 now, and was 2",
    ]


async def test_records_and_forced_ends_are_of_the_present_level() -> None:
    broker = FakeBroker()
    await broker.start()

    async def fenced_at(level: int) -> tuple[int, int]:
        """The value version of the last record, and the version in the marker, when a new instance ends a transaction
        of the one before."""
        broker.transactions.use_transaction_version(level)
        name = f"tx-{level}"
        assert await Producer(broker, name).init() is ErrorCode.NONE
        first = Producer(broker, name)
        assert await first.init() is ErrorCode.NONE
        assert await first.add(TopicPartition("orders", 0)) is ErrorCode.NONE
        await Producer(broker, name).init()
        value = next(iter_records(broker.log.stored[-1])).value
        assert value is not None
        return int.from_bytes(value[:2], "big"), broker.log.contents()[name].client_transaction_version

    assert await fenced_at(2) == (1, 2)
    assert await fenced_at(1) == (1, 1)
    assert (await fenced_at(0))[0] == 0
    assert await fenced_at(2) == (1, 2)


def test_a_change_of_group_version_is_told_with_the_groups_that_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = ScriptedCluster()
    held: list[str] = []
    groups: Any = SimpleNamespace(
        consumer_groups_with_members=lambda most: held[:most],
        share=SimpleNamespace(with_members=lambda most: ["queue"]),
        streams=SimpleNamespace(with_members=lambda most: []),
    )
    world.cluster.subscribe(GroupVersionFollower(groups, world.cluster))
    assert world.cluster.features.level("group.version") == 0
    world.publish(level(1, "group.version"))
    assert world.cluster.features.level("group.version") == 1
    epoch = world.cluster.features.epoch
    world.publish(level(0, "group.version"))
    assert world.cluster.features.epoch > epoch, "clients keep what has the highest epoch"
    world.publish(level(1, "group.version"))
    held += ["a", "b", "c", "d"]
    world.publish(level(2), level(0, "group.version"))
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster's group.version is 1 now, and was 0",
        "the cluster's group.version is 0 now, and was 1",
        "the cluster's group.version is 1 now, and was 0",
        "the cluster's group.version is 0 now, and was 1",
        "consumer groups with members are served no more, as a, b, c: their members need group.protocol=classic, and"
        " leave when their sessions end",
    ]


def test_a_change_of_share_or_streams_groups_is_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = ScriptedCluster()
    groups: Any = SimpleNamespace(
        consumer_groups_with_members=lambda most: [],
        share=SimpleNamespace(with_members=lambda most: ["queue"]),
        streams=SimpleNamespace(with_members=lambda most: ["counts"]),
    )
    world.publish(level(1, "share.version"))
    world.cluster.subscribe(GroupVersionFollower(groups, world.cluster))
    world.publish(level(0, "share.version"), level(1, "streams.version"))
    world.publish(level(0, "streams.version"))
    assert [each.getMessage() for each in caplog.records] == [
        "the cluster's share.version is 0 now, and was 1",
        "share groups with members are served no more, as queue: their members leave when their sessions end",
        "the cluster's streams.version is 1 now, and was 0",
        "the cluster's streams.version is 0 now, and was 1",
        "streams groups with members are served no more, as counts: their members need group.protocol=classic, and"
        " leave when their sessions end",
    ]
