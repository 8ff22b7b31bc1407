"""A broker whose coordinators have much to read listens meanwhile, and says so (transactions.md 8.2, groups.md 13)."""

from pathlib import Path
from typing import Any

import pytest
from waiting import until
from wire import Wire, unique
from wire_group import commit_offset, fetch_offset
from wire_producer import transactional

from eosin.broker.hanging_transactions import HangingTransactions
from eosin.coordinator.groups.log.loader import Loader
from eosin.node import loading
from eosin.node.node import Node
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eosin.settings.broker import BrokerConfig
from eosin.storage.compaction.cleaner import Cleaner

pytestmark = pytest.mark.process

FEW: dict[str, Any] = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}


def config_of(directory: Path) -> BrokerConfig:
    where: dict[str, Any] = {"log_dirs": (str(directory),), "eosin_durability": "os"}
    return BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), **where, **FEW)


async def test_requests_are_answered_while_the_coordinators_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await Node.alone(config_of(tmp_path)).start()
    wire = await Wire.open(server.addresses[0])
    partition: TopicPartition = await wire.partition()
    name, group = unique("tx"), unique("group")
    producer = await transactional(wire, name)
    await producer.append(partition)
    assert await producer.commit_offsets(group, partition, 4) == ErrorCode.NONE
    await producer.commit()
    for offset in range(400):  # several slices of loading
        assert await commit_offset(wire, "other", partition, offset) == ErrorCode.NONE
    await wire.close()
    await server.shutdown()

    monkeypatch.setattr(loading, "LOAD_BEFORE_LISTENING_MS", 0)
    held = Held(monkeypatch)
    server = await Node.alone(config_of(tmp_path)).start()
    wire = await Wire.open(server.addresses[0])
    assert await wire.append(partition) == 2
    assert (await wire.init(name)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = await wire.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=None),)), 8)
    assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await wire.ask(FindCoordinatorRequest(key=group, key_type=0), 2)).error_code == ErrorCode.NONE
    held.is_open = True

    async def is_loaded() -> bool:
        return (await wire.init(name)).error_code == ErrorCode.NONE

    await until(is_loaded)
    assert await fetch_offset(wire, group, partition) == [(ErrorCode.NONE, 4)]
    await wire.close()
    assert await server.shutdown()


async def test_a_broker_stops_in_the_middle_of_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await Node.alone(config_of(tmp_path)).start()
    wire = await Wire.open(server.addresses[0])
    partition = await wire.partition()
    assert await commit_offset(wire, "group", partition, 3) == ErrorCode.NONE
    await wire.close()
    await server.shutdown()
    for opened in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(loading, "LOAD_BEFORE_LISTENING_MS", 0)
            Held(patch).is_open = opened
            server = await Node.alone(config_of(tmp_path)).start()
            assert await server.shutdown()


async def test_compaction_waits_until_the_coordinators_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []
    monkeypatch.setattr(loading, "LOAD_BEFORE_LISTENING_MS", 0)
    monkeypatch.setattr(Cleaner, "interval_ms", 1)
    monkeypatch.setattr(Cleaner, "round", lambda _: rounds.append(held.is_open))
    monkeypatch.setattr("eosin.node.running.ROUND_INTERVAL_MS", 1)
    others: list[bool] = []
    monkeypatch.setattr(HangingTransactions, "round", lambda _: others.append(True))
    held = Held(monkeypatch)
    server = await Node.alone(config_of(tmp_path)).start()

    async def has_had_its_turn() -> bool:
        return len(others) > 5

    async def is_compacting() -> bool:
        return bool(rounds)

    await until(has_had_its_turn)
    assert rounds == []
    held.is_open = True
    await until(is_compacting)
    assert all(rounds)
    assert await server.shutdown()


class Held:
    """Keeps every load of `__consumer_offsets` from ending until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_open = False
        load = Loader.load

        async def slow(loader: Loader, log: Any, *then: Any) -> None:
            async def opened() -> bool:
                return self.is_open

            await until(opened)
            await load(loader, log, *then)

        monkeypatch.setattr(Loader, "load", slow)
