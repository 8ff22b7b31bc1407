"""Checkpoint files, and leader epochs (storage.md 2.3, 2.4, 10)."""

import random
import threading

import pytest
from batches import TOPIC_ID

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import TopicPartition, uuid_text
from eosin.storage.checkpoints.checkpoint_file import CheckpointFile
from eosin.storage.disk.checkpoint_formats import (
    MalformedCheckpoint,
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
)
from eosin.storage.disk.space import DiskSpace
from eosin.storage.log.leader_epochs import LeaderEpochs


def test_offsets_are_lines_in_order() -> None:
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a", 10): 7, TopicPartition("a", 2): 0}
    content = encode_offsets(offsets)
    assert content == b"0\n3\na 2 0\na 10 7\nb 0 5\n"
    assert decode_offsets(content) == offsets
    assert decode_offsets(b"") == {}
    assert decode_offsets(b"0\n0\n") == {}
    assert decode_offsets(b"0\n1\na\t2   7") == {TopicPartition("a", 2): 7}


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n2\na 1 1\n", b"0\n1\na 1\n", b"0\n1\na x 1\n", b"0\n", b"\xff\xfe", b"0\n1\na 1 1 1\n"]
)
def test_malformed_offsets_are_reported(content: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        decode_offsets(content)


def test_partition_metadata_is_written_and_read_back() -> None:
    content = encode_partition_metadata(TOPIC_ID)
    assert content == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}".encode()
    assert decode_partition_metadata(content) == TOPIC_ID
    assert decode_partition_metadata(content.replace(b"version: 0", b"version: 3") + b"\n") == TOPIC_ID


@pytest.mark.parametrize(
    "content", [b"", b"version: 0", b"version: 0\ntopic_id: xyz", b"version: 0\ntopic_id: " + b"A" * 22]
)
def test_malformed_partition_metadata_is_reported(content: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        decode_partition_metadata(content)


def room_on(disk: LyingDisk) -> DiskSpace:
    return DiskSpace(disk, "/d", reserve_bytes=0, elapsed_ms=lambda: 0)


def test_the_newest_content_stays_however_the_writers_are_scheduled() -> None:
    disk = LyingDisk()
    disk.make_directory("/d")
    file = CheckpointFile(disk, "/d/c", durable=True, space=room_on(disk))
    jobs = []
    for number in range(20):
        file._newest += 1
        jobs.append((file._newest, b"%d" % number, True))
    random.Random(1).shuffle(jobs)
    threads = [threading.Thread(target=file._write, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read() == b"19"


def test_a_durable_write_is_durable_though_a_later_one_came_first() -> None:
    disk = LyingDisk()
    disk.make_directory("/d")
    disk.sync_directory("/d")
    disk.sync_everything()
    file = CheckpointFile(disk, "/d/c", durable=False, space=room_on(disk))
    file._write(2, b"later", False)
    assert disk.power_loss().size("/d/c") is None
    file._write(1, b"earlier", True)
    assert disk.power_loss().read_whole("/d/c") == b"later"


async def test_content_that_is_there_already_is_not_written_again() -> None:
    disk = LyingDisk()
    disk.make_directory("/d")
    file = CheckpointFile(disk, "/d/c", durable=True, space=room_on(disk))
    assert file.read() is None
    await file.save(b"x")
    calls = len(disk.calls)
    await file.save(b"x")
    file.save_now(b"x")
    assert len(disk.calls) == calls
    file.save_now(b"y")
    assert file.read() == b"y"


def test_epochs_only_grow_and_contradicted_entries_go() -> None:
    epochs = LeaderEpochs()
    assert epochs.assign(2, 0)
    assert not epochs.assign(2, 5)
    assert not epochs.assign(1, 5)
    assert not epochs.assign(-1, 5)
    assert epochs.assign(4, 10)
    assert epochs.assign(6, 10)
    assert list(epochs.entries) == [(2, 0), (6, 10)]
    assert epochs.latest == 6
    assert epochs.epoch_at(9) == 2
    assert epochs.epoch_at(10) == 6


def test_epochs_are_truncated_at_both_ends() -> None:
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    assert not epochs.truncate_from_end(21)
    assert epochs.truncate_from_end(20)
    assert list(epochs.entries) == [(1, 0), (2, 10)]
    assert not epochs.truncate_from_start(0)
    assert epochs.is_saved is False
    assert epochs.truncate_from_start(4)
    assert list(epochs.entries) == [(1, 4), (2, 10)]
    assert epochs.truncate_from_start(10)
    assert list(epochs.entries) == [(2, 10)]
    assert epochs.truncate_from_start(30)
    assert list(epochs.entries) == [(2, 30)]
    assert LeaderEpochs().truncate_from_start(5) is False


def test_epochs_before_the_first_and_in_gaps_end_where_the_next_begins() -> None:
    epochs = LeaderEpochs([(3, 7), (5, 10)])
    assert epochs.end_offset_for(1, 99) == (1, 7)
    assert epochs.end_offset_for(4, 99) == (3, 10)
    assert epochs.end_offset_for(5, 99) == (5, 99)
    assert epochs.end_offset_for(6, 99) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 99) == (-1, -1)


def test_epochs_are_read_back_from_their_file() -> None:
    epochs = LeaderEpochs([(1, 0), (4, 12)])
    assert epochs.encode() == b"0\n2\n1 0\n4 12\n"
    assert LeaderEpochs.decode(epochs.encode()).entries == epochs.entries
    for content in (b"0\n2\n4 0\n4 12\n", b"0\n2\n1 12\n4 0\n", b"1\n0\n"):
        with pytest.raises(MalformedCheckpoint):
            LeaderEpochs.decode(content)
