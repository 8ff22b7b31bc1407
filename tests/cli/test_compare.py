"""`eosin compare`: replicas are equal batch by batch below both high watermarks, or the first difference is told."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from inspected import exported
from logs import Logs, appended, read_now

from eosin.cli.__main__ import main
from eosin.cli.compare import Compared, compared
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, stamp
from eosin.protocol.records.header import batches
from eosin.storage.inspection.comparison import PartitionCompared
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import FollowerAppend

SMALL = LogConfig(internal_segment_bytes=600)
LARGE = LogConfig(internal_segment_bytes=2000)
HISTORY_END = 45


class Pair:
    """A leader in /a and its follower in /b."""

    def __init__(self, *, config: LogConfig = SMALL, follower_config: LogConfig = LARGE) -> None:
        self.disk = LyingDisk()
        self.leader = Logs(disk=self.disk, data_dir="/a", replicated=True, config=config)
        self.follower = Logs(disk=self.disk, data_dir="/b", replicated=True, config=follower_config)

    async def open(self) -> tuple[PartitionLog, PartitionLog]:
        log, copy = await self.leader.open(), await self.follower.open()
        log.become_leader(1)
        copy.become_follower()
        return log, copy

    async def found(self) -> PartitionCompared:
        """Stop both and compare orders-0."""
        await self.leader.manager.close()
        await self.follower.manager.close()
        found, summary = compared(self.disk, "/a", "/b")
        assert isinstance(found, PartitionCompared)
        assert isinstance(summary, Compared)
        assert (summary.equal, summary.different) == ((1, 0) if found.difference is None else (0, 1))
        return found


def write(log: PartitionLog) -> None:
    """Ten plain batches, and a transaction."""
    for index in range(10):
        appended(log.append(data(1 + index % 7), now_ms=NOW_MS))
    appended(log.append(data(10, pid=1, epoch=0, seq=0, txn=True), now_ms=NOW_MS))
    appended(log.append_marker(marker(1, 0, commit=False), now_ms=NOW_MS))


def replicate(log: PartitionLog, copy: PartitionLog) -> None:
    while copy.log_end_offset < log.log_end_offset:
        records = bytes(read_now(log, copy.log_end_offset, isolation=None).records)
        assert isinstance(copy.append_as_follower(records, max_epoch=100, now_ms=NOW_MS), FollowerAppend)


def commit(*logs: PartitionLog) -> None:
    for log in logs:
        log.advance_high_watermark(log.log_end_offset)


async def test_replicas_are_equal_whatever_their_segments() -> None:
    pair = Pair()
    log, copy = await pair.open()
    write(log)
    replicate(log, copy)
    commit(log, copy)
    assert len(log.segments) > len(copy.segments)
    found = await pair.found()
    assert found == PartitionCompared("orders-0", start_offset=0, end_offset=HISTORY_END, batches=12)


async def test_records_that_are_not_committed_everywhere_may_differ() -> None:
    pair = Pair()
    log, copy = await pair.open()
    write(log)
    replicate(log, copy)
    commit(copy)
    log.advance_high_watermark(HISTORY_END)
    appended(log.append(data(3), now_ms=NOW_MS))
    copy.become_leader(2)
    appended(copy.append(data(2), now_ms=NOW_MS))
    copy.advance_high_watermark(HISTORY_END + 2)
    found = await pair.found()
    assert (found.difference, found.end_offset) == (None, HISTORY_END)


async def test_batches_of_two_leaders_at_one_offset_are_a_difference() -> None:
    pair = Pair()
    log, copy = await pair.open()
    write(log)
    replicate(log, copy)
    appended(log.append(data(3), now_ms=NOW_MS))
    copy.become_leader(2)
    appended(copy.append(data(3), now_ms=NOW_MS))
    commit(log, copy)
    found = await pair.found()
    assert (found.offset, found.batches) == (HISTORY_END, 12)
    assert found.difference == (
        "/a has a batch of offsets 45..47 of leader epoch 1 (115 bytes), /b has a batch of offsets 45..47 of leader"
        " epoch 2 (115 bytes)"
    )


async def test_other_bytes_under_the_same_header_are_a_difference() -> None:
    pair = Pair()
    log, copy = await pair.open()
    appended(log.append(data(3, key=b"a"), now_ms=NOW_MS))
    other = data(3, key=b"b")
    records = stamp(base_offset=0, size=len(other), partition_leader_epoch=1) + other[16:]
    copy.append_as_follower(records, max_epoch=1, now_ms=NOW_MS)
    commit(log, copy)
    found = await pair.found()
    assert found.difference is not None
    assert found.difference.endswith(", with other bytes in it")


@pytest.mark.parametrize("lacks", ["/a", "/b"])
async def test_a_batch_that_one_lacks_is_a_difference(lacks: str) -> None:
    pair = Pair()
    log, copy = await pair.open()
    batches = [stamp(base_offset=at, size=len(data()), partition_leader_epoch=1) + data()[16:] for at in range(3)]
    log.become_follower()
    for each, name in ((log, "/a"), (copy, "/b")):
        kept = [batches[0], batches[2]] if name == lacks else batches
        each.append_as_follower(b"".join(kept), max_epoch=1, now_ms=NOW_MS)
    commit(log, copy)
    found = await pair.found()
    has = "/b" if lacks == "/a" else "/a"
    assert found.offset == 1
    assert found.difference is not None
    assert found.difference.startswith(f"{has} has a batch of offsets 1..1 of leader epoch 1")
    assert f"{lacks} has a batch of offsets 2..2" in found.difference


async def test_a_log_that_ends_below_both_high_watermarks_is_a_difference() -> None:
    pair = Pair()
    log, copy = await pair.open()
    write(log)
    replicate(log, copy)
    commit(log, copy)
    await pair.follower.manager.close()
    last = copy.segments.bases[-1]
    pair.disk.unlink(f"/b/orders-0/{last:020d}.log")
    await pair.leader.manager.close()
    found, _ = compared(pair.disk, "/a", "/b")
    assert isinstance(found, PartitionCompared)
    assert found.difference is not None
    assert found.difference.endswith("/b has nothing more from there on")


async def test_damage_below_both_high_watermarks_is_a_difference() -> None:
    pair = Pair()
    log, copy = await pair.open()
    write(log)
    replicate(log, copy)
    commit(log, copy)
    await pair.leader.manager.close()
    await pair.follower.manager.close()
    pair.disk.damage(f"/b/orders-0/{0:020d}.log", 70)
    found, _ = compared(pair.disk, "/a", "/b")
    assert isinstance(found, PartitionCompared)
    assert found.difference is not None
    assert found.difference.startswith("/b is damaged: ")
    assert "wrong checksum" in found.difference


@pytest.mark.parametrize("who", ["leader", "follower", "both"])
async def test_a_cleaner_may_have_been_at_one_of_them_or_at_both(who: str) -> None:
    config = LogConfig(internal_segment_bytes=600, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    pair = Pair(config=config, follower_config=config)
    log, copy = await pair.open()
    for index in range(20):
        appended(log.append(data(2, key=b"%d" % (index % 3)), now_ms=NOW_MS))
    replicate(log, copy)
    commit(log, copy)
    logs = {"leader": [pair.leader], "follower": [pair.follower], "both": [pair.leader, pair.follower]}[who]
    for each in logs:
        await each.manager.checkpoint(force=True)
        await each.manager.cleaner.round()
    sizes = (log.size_bytes, copy.size_bytes)
    assert (sizes[0] == sizes[1]) == (who == "both")
    found = await pair.found()
    assert (found.difference, found.end_offset) == (None, 40)


COMPACTED = LogConfig(internal_segment_bytes=600, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)


async def followers_of_a_cleaned_leader(pair: Pair, partition: TopicPartition) -> tuple[PartitionLog, PartitionLog]:
    """/a followed before the leader, a third broker, compacted its log, /b afterwards; nobody cleaned theirs. Of two
    keys twenty transactions were written, some of them aborted, and a tombstone for a third key."""
    third = Logs(disk=pair.disk, data_dir="/c", replicated=True, config=COMPACTED)
    for each in (third, pair.leader, pair.follower):
        await each.manager.open()
    leader, early, late = (each.log(partition) for each in (third, pair.leader, pair.follower))
    leader.become_leader(1)
    early.become_follower()
    late.become_follower()
    gone = build_batch([NewRecord(b"gone", None, timestamp=NOW_MS)], timestamp=NOW_MS)
    appended(leader.append(bytes(gone), now_ms=NOW_MS))
    for index in range(20):
        batch = data(2, pid=1, epoch=0, seq=2 * index, txn=True, key=b"%d" % (index % 2))
        appended(leader.append(batch, now_ms=NOW_MS))
        appended(leader.append_marker(marker(1, 0, commit=index % 5 != 0), now_ms=NOW_MS))
    replicate(leader, early)
    commit(leader)
    await third.manager.checkpoint(force=True)
    await third.manager.cleaner.round()
    replicate(leader, late)
    assert late.size_bytes < early.size_bytes
    commit(early, late)
    await third.manager.close()
    return early, late


async def test_a_follower_of_a_cleaned_leader_lacks_what_was_replaced() -> None:
    pair = Pair(config=COMPACTED, follower_config=COMPACTED)
    early, _ = await followers_of_a_cleaned_leader(pair, STATE)
    found = await pair.found()
    assert (found.difference, found.end_offset) == (None, early.log_end_offset)


async def test_a_follower_of_a_cleaned_leader_lacks_what_was_replaced_in_a_topic_that_the_other_has_cleaned() -> None:
    pair = Pair(config=COMPACTED, follower_config=COMPACTED)
    await followers_of_a_cleaned_leader(pair, ORDERS)
    await pair.leader.manager.checkpoint(force=True)
    await pair.leader.manager.cleaner.round()
    assert (await pair.found()).difference is None


async def test_nothing_is_replaced_in_a_topic_that_nobody_has_cleaned() -> None:
    pair = Pair(config=COMPACTED, follower_config=COMPACTED)
    await followers_of_a_cleaned_leader(pair, ORDERS)
    found = await pair.found()
    assert found.difference is not None
    assert found.difference.startswith("/a has a batch of offsets ")


@pytest.mark.parametrize("replaced", ["by nothing", "by an aborted record", "by a committed record"])
async def test_a_record_that_one_lacks_is_a_difference_unless_it_was_replaced(replaced: str) -> None:
    pair = Pair()
    for each in (pair.leader, pair.follower):
        await each.manager.open()
    log, copy = pair.leader.log(STATE), pair.follower.log(STATE)
    log.become_leader(1)
    copy.become_follower()
    appended(log.append(data(1, key=b"kept"), now_ms=NOW_MS))
    appended(log.append(data(1, key=b"lost"), now_ms=NOW_MS))
    if replaced != "by nothing":
        appended(log.append(data(1, pid=1, epoch=0, seq=0, txn=True, key=b"lost"), now_ms=NOW_MS))
        appended(log.append_marker(marker(1, 0, commit=replaced == "by a committed record"), now_ms=NOW_MS))
    appended(log.append(data(1, key=b"last"), now_ms=NOW_MS))
    records = bytes(read_now(log, isolation=None).records)
    kept = [records[at : at + header.size] for at, header in batches(records) if header.base_offset != 1]
    copy.append_as_follower(b"".join(kept), max_epoch=100, now_ms=NOW_MS)
    commit(log, copy)
    found = await pair.found()
    if replaced == "by a committed record":
        assert found.difference is None
    else:
        assert found.offset == 1


async def test_replicas_of_two_topics_of_one_name_are_a_difference() -> None:
    pair = Pair()
    log, _ = await pair.open()
    write(log)
    other = pair.follower.manager.create_log(TopicPartition("x", 0), TOPIC_ID, SMALL, 0)
    other.become_leader(1)
    appended(other.append(data(), now_ms=NOW_MS))
    await pair.leader.manager.close()
    await pair.follower.manager.close()
    pair.disk.rename("/b/x-0", "/b/orders-0")
    pair.disk.write_atomic("/b/orders-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    found, _ = compared(pair.disk, "/a", "/b")
    assert isinstance(found, PartitionCompared)
    assert found.difference == "the directories belong to two topics of this name"


# The command --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def folders(tmp_path: Path) -> Callable[[bool], list[str]]:
    """Two directories, with equal replicas or different ones, as arguments."""

    async def filled(name: str, count: int) -> str:
        logs = Logs(replicated=True)
        log = await logs.open()
        log.become_leader(1)
        appended(logs.append(log, data(count)))
        commit(log)
        if name == "b":
            more = logs.log(TopicPartition("more", 0))
            more.become_leader(1)
            appended(more.append(data(), now_ms=NOW_MS))
        await logs.manager.close()
        folder = tmp_path / name
        folder.mkdir()
        return str(exported(logs.fake, folder))

    a, b, c = await filled("a", 2), await filled("b", 2), await filled("c", 3)
    return lambda equal: ["--data-dir", a, "--data-dir", b if equal else c]


def test_equal_replicas_are_0(folders: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *folders(True)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"   {ORDERS}: equal in offsets 0..1, batches: 1",
        "partitions: 1 equal, 0 different, 1 in one of the two directories only",
    ]
    assert err == ""


def test_a_difference_is_1_and_told_in_one_line(
    folders: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = folders(False)
    # Only what both have committed is compared: let them agree that the third record is.
    Path(arguments[1], "replication-offset-checkpoint").write_bytes(b"0\n1\norders 0 3\n")
    assert main(["compare", *arguments]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("!! orders-0: first difference at offset 0: ")
    assert lines[-1] == "partitions: 0 equal, 1 different, 0 in one of the two directories only"


def test_json_is_one_object_for_each_line(
    folders: Callable[[bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--json", *folders(True)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["type"] for each in found] == ["comparison", "summary"]
    assert (found[0]["file"], found[0]["end_offset"], found[1]["elsewhere"]) == ("orders-0", 2, 1)


@pytest.mark.parametrize("arguments", [[], ["--data-dir", "/nowhere"], ["--data-dir", "/x", "--data-dir", "/x"]])
def test_two_directories_are_needed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == 2
    assert capsys.readouterr().err == "eosin compare: give two data directories: --data-dir A --data-dir B\n"


def test_a_missing_data_directory_is_exit_code_2(
    folders: Callable[[bool], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = folders(True)
    assert main(["compare", *arguments[:3], str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err == f"eosin compare: there is no directory {tmp_path / 'nothing'}\n"
