"""The broker's own logs, over many transactions: small on disk, quick to load, and complete (storage.md 14.8)."""

import pytest
from compaction import AT_ONCE
from logs import Logs
from msgspec.structs import replace

from eosin.cluster.metadata.internal_topics import consumer_offsets_configs
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.log.loader import StateReplay
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.node.node import Node
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.scan import sound_batches
from eosin.settings.broker import BrokerConfig
from eosin.settings.topics import with_overrides
from eosin.storage.compaction.choice import INTERNAL_UNCOMPACTED_BYTES, INTERNAL_UNCOMPACTED_FACTOR
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Appended, AppendOrigin, Marker

PARTITIONS = 50
IDS = 1000
PER_ROUND = 2000
STATES = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def records_of(index: int, now_ms: int) -> list[bytes]:
    """What the coordinator writes for one transaction of one id."""
    txn = Txn(
        transactional_id=f"copier-{index}",
        producer_id=1000 + index,
        producer_epoch=3,
        state=TransactionState.ONGOING,
        timeout_ms=60_000,
        partitions=frozenset(
            {TopicPartition("orders", index % 12), TopicPartition(CONSUMER_OFFSETS_TOPIC, index % 50)}
        ),
        start_ms=now_ms,
        updated_ms=now_ms,
        client_transaction_version=2,
    )
    return [encode_batch([replace(txn, state=state)], now_ms=now_ms, transaction_version=2) for state in STATES]


@pytest.mark.slow
@pytest.mark.parametrize("transactions", [60_000, pytest.param(200_000, marks=pytest.mark.full)])
async def test_many_transactions_leave_a_log_that_is_small_and_quick_to_load(transactions: int) -> None:
    logs = Logs(
        config=LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=104_857_600),
        cleaner=AT_ONCE,
        disk=MemoryDisk(),
        durability=Durability.MEMORY,
    )
    await logs.manager.open()
    now_ms = logs.clock.now_ms()
    parts = [logs.log(TopicPartition(TRANSACTION_STATE_TOPIC, index)) for index in range(PARTITIONS)]
    scripts = [(parts[partition_for(f"copier-{each}", PARTITIONS)], records_of(each, now_ms)) for each in range(IDS)]
    largest = written = 0
    for number in range(transactions):
        log, batches = scripts[number % IDS]
        for batch in batches:
            assert isinstance(log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), Appended)
            written += len(batch)
        if number % PER_ROUND == PER_ROUND - 1:
            # A second in the life of a busy broker: one round of each.
            await logs.manager.checkpoint()
            await logs.manager.cleaner.round()
            largest = max(largest, sum(part.size_bytes for part in parts))
    live = sum(len(batches[-1]) for _, batches in scripts)
    per_part = max(INTERNAL_UNCOMPACTED_BYTES, INTERNAL_UNCOMPACTED_FACTOR * live // PARTITIONS)
    backlog = 3 * PER_ROUND * len(scripts[0][1][0])  # until a round rolls, and another one compacts
    assert largest <= PARTITIONS * per_part + live + 2 * backlog
    assert largest < written * 20_000 / transactions, "more than 20,000 of them write"
    txns: dict[str, Txn] = {}
    batches_read = 0
    for part in parts:
        found = StateReplay()
        for run in part.runs():
            for head in sound_batches(run):
                found.apply(run, head)
                batches_read += 1
        txns |= found.txns()
    assert batches_read < 30_000, "some microseconds for each: well below a second"
    assert len(txns) == IDS
    assert all(txn.state is TransactionState.COMPLETE_COMMIT for txn in txns.values())
    await logs.manager.close()


async def test_the_markers_of_transactional_offset_commits_do_not_pile_up() -> None:
    config = with_overrides(LogConfig(), consumer_offsets_configs(BrokerConfig()))
    logs = Logs(config=config, cleaner=AT_ONCE, disk=MemoryDisk(), durability=Durability.MEMORY)
    await logs.manager.open()
    log = logs.log(TopicPartition(CONSUMER_OFFSETS_TOPIC, 7))
    largest = written = 0
    for number in range(15_000):
        pid, epoch = number % 10, number // 10
        now_ms = logs.clock.now_ms()
        batch = build_batch(
            [NewRecord(b"group-%d" % pid, b"an offset" * 10)],
            timestamp=now_ms,
            producer_id=pid,
            producer_epoch=epoch,
            transactional=True,
        )
        assert isinstance(log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), Appended)
        marker = Marker(
            producer_id=pid, producer_epoch=epoch + 1, commit=number % 5 > 0, coordinator_epoch=1, transaction_version=2
        )
        assert isinstance(log.append_marker(marker, now_ms=now_ms), Appended)
        written += len(batch) + 78
        logs.clock.advance(100)
        if number % 100 == 99:
            await logs.manager.checkpoint()
            await logs.manager.cleaner.round()
            largest = max(largest, log.size_bytes)
    assert largest < written / 6
    assert log.last_stable_offset == log.log_end_offset
    await logs.manager.close()


@pytest.mark.process
async def test_a_coordinator_that_starts_on_compacted_logs_knows_every_transactional_id() -> None:
    disk = MemoryDisk()
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        eosin_durability="memory",
        transaction_state_log_num_partitions=1,
        offsets_topic_num_partitions=1,
    )
    pairs: dict[str, tuple[int, int]] = {}
    state = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
    for life in range(2):
        server = await Node.alone(config, disk=disk).start()
        logs = server.services.partitions._log_manager
        transactions = server.services.transactions
        for number in range(400):
            name = f"id-{number % 7}"
            producer_id, epoch = pairs.get(name, (-1, -1))
            began = await transactions.init_producer_id(
                name, timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
            )
            assert began.error == ErrorCode.NONE, (life, number)
            if producer_id >= 0:
                assert began.producer_id == producer_id
            assert began.producer_epoch == epoch + 1
            pairs[name] = began.producer_id, began.producer_epoch
        size = logs.logs[state].size_bytes
        logs.logs[state].roll(server.clock.now_ms())
        await logs.checkpoint(force=True)
        await logs.cleaner.round()
        assert logs.logs[state].size_bytes < size / 10
        assert await server.shutdown()
