"""A real broker at durability `fsync` after kill -9: its journal is missing, or its logs have lost what was not synced.

Every torn write and every order of syncs is for `tests/storage/journal`; here a process wrote the files.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from wire import Wire, data_offsets, headers, now_ms
from wire_group import fetch_offset
from wire_producer import RawProducer, idempotent, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, batches, build_batch, iter_records
from eosin.storage.disk.system import ReadOnlyDisk
from eosin.storage.journal.found import find_journal

NONE = ErrorCode.NONE
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
ROUNDS = 12
NOTE = ".eosin_unclean"

pytestmark = pytest.mark.slow


@dataclass
class Work:
    """What was acknowledged."""

    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    groups: dict[str, tuple[TopicPartition, int]] = field(default_factory=dict)
    retried: tuple[RawProducer, TopicPartition, bytearray, int] | None = None
    """The last batch of a producer, and its offset."""
    undecided: tuple[RawProducer, TopicPartition, int] | None = None
    """A transaction that is open, and where it began."""

    async def do(self, wire: Wire) -> None:
        partitions = [await wire.partition() for _ in range(3)]
        committing, single = [await transactional(wire) for _ in range(3)], await idempotent(wire)
        for number in range(ROUNDS):
            for index, producer in enumerate(committing):
                group = f"group-{index}"
                for partition in partitions[index:]:
                    await self._append(producer, partition, b"%d of %d" % (number, index))
                assert await producer.commit_offsets(group, partitions[0], number) == NONE
                await producer.commit()
                self.groups[group] = partitions[0], number
            await self._append(single, partitions[0], b"%d alone" % number)
        batch = single.batch(partitions[1])
        answer = await single.resend(partitions[1], batch)
        assert answer.error_code == NONE
        self.values[partitions[1]].append(b"v" * 5)
        self.retried = single, partitions[1], batch, answer.base_offset
        begun = await committing[0].append(partitions[2])
        self.undecided = committing[0], partitions[2], begun

    async def _append(self, producer: RawProducer, partition: TopicPartition, value: bytes) -> None:
        sequence = producer.sequences.get(partition, 0)
        producer.sequences[partition] = sequence + 1
        batch = build_batch(
            [NewRecord(b"k", value)],
            timestamp=now_ms(),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=producer.transactional_id is not None,
        )
        assert (await producer.resend(partition, batch)).error_code == NONE
        self.values.setdefault(partition, []).append(value)

    async def check(self, wire: Wire) -> None:
        """Everything is there, once and in order, and whoever was in the middle of something goes on."""
        assert self.retried is not None
        assert self.undecided is not None
        producer, partition, begun = self.undecided
        single, retried_in, batch, offset = self.retried
        single.wire = producer.wire = wire
        answer = await single.resend(retried_in, batch)
        assert (answer.error_code, answer.base_offset) == (NONE, offset)
        for each, values in self.values.items():
            found = await wire.fetch(each, partition_max_bytes=4 << 20)
            assert found.error_code == NONE
            read = [
                record.value
                for position, header in batches(found.records)
                if not header.is_control
                for record in iter_records(memoryview(found.records)[position:])
            ]
            assert read == values + [b"v" * 5] * (each == partition), each
            offsets = [header.base_offset for header in headers(found.records)]
            assert offsets == list(range(len(offsets)))
        for group, (each, offset) in self.groups.items():
            assert await fetch_offset(wire, group, each, require_stable=True) == [(NONE, offset)]
        assert await wire.stable_offset(partition) == begun
        await producer.commit()
        await wire.until_stable(partition, await wire.end_offset(partition))
        last = await wire.fetch_committed(partition, partition_max_bytes=4 << 20)
        assert len(data_offsets(last.records)) == len(self.values[partition]) + 1


@pytest.fixture
async def killed(tmp_path: Path) -> AsyncIterator[tuple[BrokerProcess, Work]]:
    """A broker that was killed right after it had acknowledged some work."""
    process, work = BrokerProcess(tmp_path / "data", durability="fsync", settings=FEW).start(), Work()
    wire = await Wire.open(process.address)
    await work.do(wire)
    process.kill()
    await wire.close()
    yield process, work
    if process.running:
        process.stop()


async def has_everything(process: BrokerProcess, work: Work) -> None:
    process.start()
    wire = await Wire.open(process.address)
    await work.check(wire)
    await wire.close()
    assert process.stop() == 0
    assert "is offline" not in process.log
    assert "Traceback" not in process.log


def partitions_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.glob("*/*")}


async def test_a_start_without_its_journal_is_refused_and_one_with_it_has_every_record(
    killed: tuple[BrokerProcess, Work], tmp_path: Path
) -> None:
    process, work = killed
    journal = sorted(process.data_dir.glob(".eosin_journal-*"))
    assert journal
    aside = {path: tmp_path / path.name for path in journal}
    before = partitions_of(process.data_dir)
    for path in journal:
        path.rename(aside[path])
    for _ in range(2):  # it is not forgotten either
        with pytest.raises(AssertionError, match="did not start"):
            process.start()
        assert process.log.splitlines()[-1] == (
            f"eosin serve: cannot use the data directory {process.data_dir}: {journal[0]} is missing, and the last stop"
            f" was not clean: put it back, or remove {NOTE} to start without the journal: what was acknowledged shortly"
            " before the stop is lost then, if the machine stopped, too"
        )
    assert partitions_of(process.data_dir) == before
    for path in journal:
        aside[path].rename(path)
    await has_everything(process, work)


async def test_after_a_kill_removing_the_journal_as_told_loses_nothing(
    killed: tuple[BrokerProcess, Work],
) -> None:
    process, work = killed
    for path in process.data_dir.glob(".eosin_journal-*"):
        path.unlink()
    (process.data_dir / NOTE).unlink()
    await has_everything(process, work)


def never_synced(directory: Path) -> dict[Path, int]:
    """From which byte on each segment is vouched for by nothing but the journal."""
    journal = find_journal(ReadOnlyDisk(), str(directory))
    assert journal is not None
    saved = {}
    checkpoint = directory / "recovery-point-offset-checkpoint"
    for line in checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else ():
        topic, partition, offset = line.split()
        saved[TopicPartition(topic, int(partition))] = int(offset)
    found = {}
    for partition, topics in journal.logs.items():
        (topic_id,) = topics
        ends: list[int] = []
        first = None
        for entry in journal.entries_of(partition, topic_id):
            if not ends or entry.base_offset != ends[-1]:
                first = entry.base_offset  # what lies between was synced in the log itself
            ends.append(entry.end_offset)
        assert first is not None
        path = directory / str(partition) / f"{0:020d}.log"
        content = path.read_bytes()
        known = [(at, header) for at, header in batches(content)]
        assert known[-1][1].next_offset >= ends[-1]
        first = max(first, saved.get(partition, 0))
        found[path] = next((at for at, header in known if header.base_offset >= first), len(content))
    return found


@pytest.mark.parametrize("left", ["nothing", "zeros", "half a batch"])
async def test_after_a_power_loss_the_journal_restores_records_that_were_never_synced(
    killed: tuple[BrokerProcess, Work], left: str
) -> None:
    process, work = killed
    (process.data_dir / ".eosin_boot_id").unlink()  # the machine has started anew
    lost = 0
    for path, position in never_synced(process.data_dir).items():
        content = path.read_bytes()
        lost += len(content) - position
        rest = {
            "nothing": b"",
            "zeros": bytes(len(content) - position),
            "half a batch": content[position : position + 70],
        }
        path.write_bytes(content[:position] + rest[left])
        for index in (*path.parent.glob("*.index"), *path.parent.glob("*.timeindex")):
            index.write_bytes(b"")
    assert lost > 5_000
    await has_everything(process, work)
    restored = {line.split(": offsets")[0].split()[-1] for line in process.log.splitlines() if "journal only" in line}
    assert restored >= {str(partition) for partition in work.values}
