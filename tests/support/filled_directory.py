"""A data directory with a long life behind it, made quickly: `python filled_directory.py DIR --transactions N`.

A real broker runs in this process, with everything that it does by the clock; only its logs are written directly, with
what a transactional copier leaves behind: for each transaction a batch of records and a marker, a group offset and a
marker, and three records of transaction state (by the older protocol, so that one epoch serves for all of them). The
last transactions are left as PrepareCommit, or PrepareAbort: the next start has to finish them. In the end the process
kills itself, as kill -9 does.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eosin.coordinator.groups.log.records import offset_record, transactional_batch
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.settings.broker import BrokerConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, AppendOrigin, Marker

TOPIC: Final = "history"
_PER_TURN: Final = 200
"""Transactions written between two turns of the event loop."""
_PER_ROUND: Final = 20_000
"""Transactions written between two rounds of checkpoints and compaction: time is compressed here, so a broker that did
what is due by its clock alone would be minutes behind with it."""


@dataclass(slots=True)
class Copier:
    """One transactional id and where it writes."""

    name: str
    producer_id: int
    producer_epoch: int
    output: PartitionLog
    offsets: PartitionLog
    state: PartitionLog
    offset_batch: bytes
    records: tuple[bytes, ...]
    """The state records of a transaction: Ongoing, PrepareCommit, CompleteCommit; and PrepareAbort."""
    sequence: int = 0

    def transact(self, value: bytes, now_ms: int, *, complete: bool, abort: bool = False) -> None:
        """One transaction; not `complete` leaves it as it is right after the decision, which may be to `abort`."""
        data = build_batch(
            [NewRecord(self.name.encode(), value)],
            timestamp=now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += 1
        _append(self.state, self.records[0], now_ms)
        _append(self.output, data, now_ms)
        _append(self.offsets, self.offset_batch, now_ms)
        _append(self.state, self.records[3 if abort else 1], now_ms)
        if complete:
            marker = Marker(self.producer_id, self.producer_epoch, True, 0, 1)
            for log in (self.output, self.offsets):
                assert isinstance(log.append_marker(marker, now_ms=now_ms), Appended)
            _append(self.state, self.records[2], now_ms)


def _append(log: PartitionLog, batch: bytes | bytearray, now_ms: int) -> None:
    result = log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
    assert isinstance(result, Appended), result


async def _copier(server: RunningNode, name: str, partitions: int, index: int) -> Copier:
    services = server.services
    answer = None
    while answer is None or answer.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # a block of ids is being fetched
        await asyncio.sleep(0)
        answer = await services.transactions.init_producer_id(
            name, timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
    assert answer.error is ErrorCode.NONE, answer
    pid, epoch = answer.producer_id, answer.producer_epoch
    output = TopicPartition(TOPIC, index % partitions)
    offsets = TopicPartition(CONSUMER_OFFSETS_TOPIC, services.groups.partition_for(name))
    state = TopicPartition(TRANSACTION_STATE_TOPIC, services.transactions.partition_for(name))
    logs = [services.partitions.get(each) for each in (output, offsets, state)]
    now_ms = server.clock.now_ms()
    commit = offset_record(name, OffsetToCommit(output, 7), now_ms=now_ms)
    records = [
        Txn(
            name,
            producer_id=pid,
            producer_epoch=epoch,
            timeout_ms=60_000,
            state=each,
            partitions=frozenset() if each is TransactionState.COMPLETE_COMMIT else frozenset((output, offsets)),
            start_ms=now_ms,
            updated_ms=now_ms,
            client_transaction_version=1,
        )
        for each in (
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.PREPARE_ABORT,
        )
    ]
    assert not any(isinstance(log, ErrorCode) for log in logs)
    return Copier(
        name,
        pid,
        epoch,
        *logs,  # type: ignore[arg-type]
        transactional_batch([commit], GroupConfig(), now_ms=now_ms, producer_id=pid, producer_epoch=epoch),
        tuple(encode_batch([txn], now_ms=now_ms, transaction_version=2) for txn in records),
    )


async def _catch_up(server: RunningNode) -> None:
    cleaner = server.logs.cleaner
    for _ in range(2):  # what has ended in the first round can be compacted once it is saved
        await server.logs.checkpoint(force=True)
        await _until_idle(server)
        await cleaner.round()


async def _until_idle(server: RunningNode) -> None:
    while server.logs.cleaner._work is not None:  # noqa: ASYNC110 - the cleaner tells nobody when it is done
        await asyncio.sleep(0.01)


async def fill(
    directory: str, *, transactions: int, ids: int, partitions: int, record_bytes: int, undecided: int, aborting: int
) -> None:
    """Start a broker on `directory`, write it all, and die."""
    settings = {"listeners": ("PLAINTEXT://127.0.0.1:0",), "log_dirs": (directory,), "eosin_durability": "os"}
    server = await Node.alone(BrokerConfig(**settings)).start()
    await server.services.cluster.create_topic(TOPIC, partitions=partitions)
    copiers = [await _copier(server, f"copier-{index}", partitions, index) for index in range(ids)]
    value = os.urandom(record_bytes)
    for number in range(transactions):
        now_ms = server.clock.now_ms()
        left = transactions - number
        copiers[number % ids].transact(value, now_ms, complete=left > undecided, abort=left <= aborting)
        if number % _PER_TURN == _PER_TURN - 1:
            await asyncio.sleep(0)
        if number % _PER_ROUND == _PER_ROUND - 1 and transactions - number > _PER_ROUND:
            await _catch_up(server)
    await _until_idle(server)  # or the next start would put a compacted segment in its place, and change what is here
    os.kill(os.getpid(), signal.SIGKILL)


def filled_directory(directory: Path, **how: int) -> None:
    """Run this module in a process of its own, which ends as it means to: killed."""
    command = [sys.executable, __file__, str(directory)]
    for name, value in how.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def main() -> None:
    """Fill one directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--ids", type=int, default=1000, help="transactional ids that share them")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic that they write to")
    parser.add_argument("--undecided", type=int, default=100, help="of the last transactions have no markers yet")
    parser.add_argument("--aborting", type=int, default=0, help="of these last ones are to be aborted")
    parser.add_argument("--record-bytes", type=int, default=850, help="size of the one record of each transaction")
    given = parser.parse_args()
    started = time.monotonic()
    print(f"filling {given.directory}", flush=True)
    asyncio.run(fill(**vars(given)))
    print(f"in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
