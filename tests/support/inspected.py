"""Directories for the commands that look at them: written by a real log on a fake disk, then damaged on purpose."""

from pathlib import Path

from batches import NOW_MS, ORDERS, data, marker
from fake_disk import FakeDisk
from logs import DATA_DIR, Logs

from eosin.storage.inspection.dump import DumpOptions, dump_file
from eosin.storage.inspection.names import named
from eosin.storage.inspection.values import Problem, Value
from eosin.storage.log_config import LogConfig
from eosin.storage.partition_log import PartitionLog

FOLDER = f"{DATA_DIR}/{ORDERS}"
SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=200)


async def written(logs: Logs | None = None) -> FakeDisk:
    """orders-0 with three segments: plain, idempotent, committed, aborted and still open records, stopped cleanly."""
    logs = logs or Logs(config=SMALL)
    log = await logs.open()
    write_history(logs, log)
    await logs.manager.close()
    return logs.fake


def write_history(logs: Logs, log: PartitionLog) -> None:
    """The records of `written`."""
    for round_ in range(12):
        at = NOW_MS + 1000 * round_
        logs.append(log, data(3, at=at, size=40))
        logs.append(log, data(2, pid=1, seq=2 * round_, at=at, size=40))
        logs.append(log, data(2, pid=2, seq=2 * round_, txn=True, at=at, size=40))
        logs.append(log, data(1, pid=3, seq=round_, txn=True, at=at + 500, size=40))
        log.append_marker(marker(2, 0, commit=round_ % 2 == 0), now_ms=at + 600)
        if round_ % 3 == 2 and round_ < 11:
            log.append_marker(marker(3, 0, commit=False), now_ms=at + 700)


def dumped(disk: FakeDisk, name: str, *, deep: bool = False, topic: str | None = None) -> list[Value]:
    """What is found in a file of orders-0."""
    file = named(f"{FOLDER}/{name}" if "/" not in name else name)
    assert file is not None
    return list(dump_file(disk, file, DumpOptions(deep=deep, topic=topic)))


def problems(values: list[Value]) -> list[Problem]:
    """What is wrong among the values."""
    return [value for value in values if isinstance(value, Problem)]


def exported(disk: FakeDisk, folder: Path) -> Path:
    """The data directory of `disk` on the system's disk."""
    for path in disk.paths():
        target = folder / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.read_whole(path))
    return folder / DATA_DIR.removeprefix("/")
