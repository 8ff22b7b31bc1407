"""`__transaction_state` over a long life: 10,000 transactional ids, and ever more transactions.

What keeping it small costs, how large it ever is beside its live records (budget: 10 times), and how long a coordinator
needs to load it (budget: a second). The records are those that a coordinator writes, a round of checkpoints and
compaction comes after every 2,000 transactions, and the files are in memory: what is measured is the broker's own work.
"""

import asyncio
import time
from typing import NamedTuple

from manual_clock import ManualClock
from msgspec.structs import replace

from bench.compaction import CONFIG, storage
from bench.report import Row
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.log.loader import StateReplay
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.scan import sound_batches
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import AppendOrigin

GROUP = "Transaction log"
IDS = 10_000
PARTITIONS = 50
PER_ROUND = 2000
_STATES = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


class Life(NamedTuple):
    """The cost of a life."""

    round_us: float
    """CPU of checkpoints and compaction, per transaction."""
    largest: float
    """Bytes, as a multiple of the live records', which are all of an equal size."""
    final_mib: float
    load_s: float
    """CPU of reading everything back."""


def _records(index: int) -> list[bytes]:
    txn = Txn(
        transactional_id=f"id-{index}",
        producer_id=index,
        producer_epoch=1,
        state=TransactionState.ONGOING,
        timeout_ms=60_000,
        partitions=frozenset(
            {TopicPartition("orders", index % 12), TopicPartition(CONSUMER_OFFSETS_TOPIC, index % 50)}
        ),
        start_ms=1,
        updated_ms=1,
        client_transaction_version=2,
    )
    return [encode_batch([replace(txn, state=state)], now_ms=1, transaction_version=2) for state in _STATES]


def _load(logs: list[PartitionLog]) -> float:
    began = time.process_time()
    known = 0
    for log in logs:
        found = StateReplay()
        for run in log.runs():
            for head in sound_batches(run):
                found.apply(run, head)
        known += len(found.txns())
    assert known == IDS, f"{known} ids are left"
    return time.process_time() - began


async def _live(transactions: int) -> Life:
    # On a clock that stands still nothing rests: CPU is measured, and nobody else works.
    manager = storage(MemoryDisk(), "memory", Durability.MEMORY, pace_clock=ManualClock())
    await manager.open()
    logs = [
        manager.create_log(TopicPartition(TRANSACTION_STATE_TOPIC, index), bytes(15) + b"\1", CONFIG, 0)
        for index in range(PARTITIONS)
    ]
    scripts = [(logs[partition_for(f"id-{index}", PARTITIONS)], _records(index)) for index in range(IDS)]
    spent = largest = 0.0
    for number in range(transactions):
        log, batches = scripts[number % IDS]
        for batch in batches:
            log.append(batch, now_ms=1, origin=AppendOrigin.COORDINATOR)
        if number % PER_ROUND == PER_ROUND - 1:
            began = time.process_time()
            await manager.checkpoint()
            await manager.cleaner.round()
            spent += time.process_time() - began
            largest = max(largest, sum(log.size_bytes for log in logs))
    final = sum(log.size_bytes for log in logs)
    load_s = _load(logs)
    await manager.close()
    live = sum(len(batches[-1]) for _, batches in scripts)
    return Life(spent / transactions * 1e6, largest / live, final / (1 << 20), load_s)


def run(quick: bool = False) -> list[Row]:
    """Ever longer lives."""
    rows: list[Row] = []
    for transactions in (20_000,) if quick else (200_000, 1_000_000, 5_000_000):
        life = asyncio.run(_live(transactions))
        what = f"{IDS:,} ids, {transactions:,} transactions"
        rows += [
            Row(GROUP, f"CPU of compaction per transaction, {what}", life.round_us, "us"),
            Row(GROUP, f"largest size over live size, {what}", life.largest, "x", budget=10),
            Row(GROUP, f"size in the end, {what}", life.final_mib, "MiB"),
            Row(GROUP, f"CPU to load it, {what}", life.load_s, "s", budget=1),
        ]
    return rows
