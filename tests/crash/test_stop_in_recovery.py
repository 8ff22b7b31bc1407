"""A broker that is told to stop while it recovers a large directory, and another process that waits for the directory.

The threads of such a start are looked at in `tests/storage/test_given_up_start.py`; here the processes are real.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from filled_directory import TOPIC, filled_directory
from waiting import HANG_S, wait_until
from wire import Wire, data_offsets
from wire_group import fetch_offset

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

PARTITIONS = 8
TRANSACTIONS = 32_000
IDS = 80
UNDECIDED = 16
ABORTED = 8
"""Of the undecided ones."""
WAITS_S = (0.0, 0.05, 0.15)
"""How long recovery runs before it is stopped: a quiet machine has recovered all after 0.4 s."""

pytestmark = [pytest.mark.slow, pytest.mark.full]


def contents(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time of the last change and inode of every file and folder."""
    found = {}
    for path in (directory, *directory.rglob("*")):
        status = path.stat()
        found[str(path)] = status.st_size, status.st_mtime_ns, status.st_ino
    return found


def segments(directory: Path) -> dict[Path, bytes]:
    """The records of every partition, as they are on the disk."""
    return {path: path.read_bytes() for path in sorted(directory.glob("*/*.log"))}


def recovers(process: BrokerProcess) -> bool:
    """Whether it has opened a segment of the data."""
    found = []
    for each in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"/proc/{process.pid}/fd/{each}"))
    return any(f"/{TOPIC}-" in path for path in found)


@contextlib.contextmanager
def lock_taken(directory: Path) -> Iterator[None]:
    """Take the directory as soon as it is free, and let it go in the end."""
    descriptor = os.open(directory / ".lock", os.O_RDWR)
    try:
        deadline = time.monotonic() + HANG_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline, "the lock is never let go"
                time.sleep(0.0002)
        yield
    finally:
        os.close(descriptor)


def seen_when_free(directory: Path) -> None:
    """Take the directory when it is let go, and see that nothing in it changes any more."""
    with lock_taken(directory):
        before = contents(directory)
        time.sleep(0.5)
        assert contents(directory) == before


def started_at_last(process: BrokerProcess) -> BrokerProcess:
    """Start it again and again, as a supervisor does, until it gets the directory."""
    for _ in range(100):
        with contextlib.suppress(AssertionError):
            return process.start()
        assert process.log.splitlines()[-1].startswith("eosin serve: cannot use the data directory"), process.log
    raise AssertionError("it never got the directory")


async def test_a_stop_in_recovery_releases_the_directory_last_and_the_next_process_has_every_record_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    directory = tmp_path / "data"
    filled_directory(
        directory,
        transactions=TRANSACTIONS,
        ids=IDS,
        partitions=PARTITIONS,
        record_bytes=3000,
        undecided=UNDECIDED,
        aborting=ABORTED,
    )
    # Otherwise it would depend on the moment of the last checkpoint, if there was one, how much there is to recover.
    (directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    before = segments(directory)
    assert sum(map(len, before.values())) > 100_000_000
    (tmp_path / "same").symlink_to(directory)  # under another name it has a log of its own
    as_it_was = {"log.cleaner.enable": "false"}  # what is compacted does not begin as it did
    first, second = (BrokerProcess(each, settings=as_it_was) for each in (directory, tmp_path / "same"))
    request.addfinalizer(lambda: [each.kill() for each in (first, second) if each.running])
    with ThreadPoolExecutor(1) as pool:
        for wait_s in WAITS_S:
            first.launch()
            wait_until(lambda: recovers(first))
            await asyncio.sleep(wait_s)
            seen = pool.submit(seen_when_free, directory)
            assert first.stop() == 0
            seen.result(HANG_S)
        first.launch()
        wait_until(lambda: recovers(first))
        os.kill(first.pid, signal.SIGSTOP)  # it shall not be done before the other one has come
        starting = pool.submit(started_at_last, second)
        wait_until(lambda: (tmp_path / "same.log").exists() and "another process holds" in second.log)
        os.kill(first.pid, signal.SIGCONT)
        assert first.stop() == 0
        starting.result(HANG_S)
    assert first.log.count("the start was given up") == len(WAITS_S) + 1
    assert "Traceback" not in first.log + second.log
    assert "recovering" in second.log
    wire = await Wire.open(second.address)
    try:
        for index in range(PARTITIONS):
            partition = TopicPartition(TOPIC, index)
            each = TRANSACTIONS // PARTITIONS
            await wire.until_stable(partition, 2 * each)  # a record and a marker for each
            assert await wire.end_offset(partition) == 2 * each
            last = await wire.fetch_committed(partition, 2 * each - 40, partition_max_bytes=1 << 20)
            aborted = sorted(found.first_offset for found in last.aborted_transactions or ())
            assert aborted == data_offsets(last.records)[-ABORTED // PARTITIONS :]
        for index in range(IDS):
            output = TopicPartition(TOPIC, index % PARTITIONS)
            assert await fetch_offset(wire, f"copier-{index}", output) == [(ErrorCode.NONE, 7)]
    finally:
        await wire.close()
    assert second.stop() == 0
    for path, content in before.items():
        assert path.read_bytes().startswith(content), path
    assert not list(directory.glob("*/*.truncated-*"))
