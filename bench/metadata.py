"""The metadata of a broker alone, of 100,000 partitions: what a start, their memory and a change cost.

Beside it the same cluster as the records that a quorum has for it, read by a broker of several machines (ADR 50). The
files are in memory: what is measured is the broker's own work, in CPU time.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from bench.report import Row, percentile
from eosin.cluster.metadata.adoption import topic_records
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.cluster.metadata.image import MetadataImage
from eosin.cluster.metadata.log import MetadataLog
from eosin.cluster.opened_logs import open_logs
from eosin.cluster.quorum import bootstrap
from eosin.cluster.quorum.rules.batches import data_records, whole_batches
from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.cluster.quorum.rules.replay import Replay
from eosin.model.cluster import METADATA_PARTITION, ConfigChange, Outcome
from eosin.protocol.errors import ErrorCode
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.manager import LogManager

GROUP: Final = "Metadata of a broker alone"
TOPICS: Final = 1000
PARTITIONS: Final = 100
"""Of each topic, and of one that is created."""
_CHANGES: Final = 100
_CONFIG: Final = BrokerConfig(eosin_durability="memory")
_MIB: Final = 1024 * 1024
T = TypeVar("T")


class Cost(NamedTuple):
    """The cost of one way to read the cluster."""

    cpu_ms: float
    held_mib: float


def _cluster(logs: LogManager) -> EmbeddedCluster:
    return EmbeddedCluster(config=_CONFIG, log_manager=logs, clock=SystemClock(), chance=SystemChance())


async def _with_topics(topics: int) -> LogManager:
    """Logs with the metadata of so many topics."""
    logs = open_logs(_CONFIG, clock=SystemClock(), chance=SystemChance(), disk=MemoryDisk())
    await logs.open()
    cluster = _cluster(logs)
    await cluster.start()
    for number in range(topics):
        made = await cluster.create_topic(f"many-{number}", partitions=PARTITIONS, configs={"retention.ms": "3600000"})
        assert made.error is ErrorCode.NONE, made
    return logs


async def _cost(read: Callable[[], Awaitable[T]], rounds: int) -> Cost:
    """The median of some rounds, and the memory that is held after one more."""
    times = []
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        await read()
        times.append(time.process_time() - began)
    gc.collect()
    tracemalloc.start()
    read_by_now = await read()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del read_by_now
    return Cost(percentile(times, 0.5) * 1e3, held / _MIB)


async def _started(logs: LogManager) -> EmbeddedCluster:
    cluster = _cluster(logs)
    await cluster.start()
    return cluster


def _as_of_a_quorum(logs: LogManager) -> bytes:
    """The same topics as a snapshot of a quorum's metadata."""
    image = MetadataImage()
    for key, value in MetadataLog(logs.logs[METADATA_PARTITION], SystemClock()).records():
        image.apply(key, value)
    records = topic_records(image, node_id=1, directory_id=b"d" * 16, leader_epoch=image.start_count)
    return bootstrap.snapshot(records, now_ms=1)


async def _replayed(snapshot: bytes) -> ClusterImage:
    replay = Replay()
    for batch in whole_batches(snapshot):
        for offset, record in () if batch.is_control else data_records(batch):
            replay.apply(offset, record)
        replay.advance(batch.last_offset, batch.epoch)
    return replay.publish().after


async def _change_us(change: Callable[[int], Awaitable[Outcome]], number: int) -> float:
    began = time.process_time()
    outcome = await change(number)
    took = time.process_time() - began
    assert outcome.error is ErrorCode.NONE, outcome
    return took * 1e6


async def _changes(logs: LogManager) -> dict[str, float]:
    """The CPU time of changes, by name (us)."""
    cluster = await _started(logs)
    changes: dict[str, Callable[[int], Awaitable[Outcome]]] = {
        f"a new topic of {PARTITIONS} partitions": lambda number: cluster.create_topic("new", partitions=PARTITIONS),
        "a setting of a topic": lambda number: cluster.alter_topic_configs(
            "many-1", (ConfigChange("retention.ms", str(number)),)
        ),
        f"a topic of {PARTITIONS} partitions deleted": lambda number: cluster.delete_topic("new"),
    }
    times: dict[str, list[float]] = {name: [] for name in changes}
    for number in range(1, 1 + _CHANGES):
        for name, change in changes.items():
            times[name].append(await _change_us(change, number))
    return {name: percentile(found, 0.5) for name, found in times.items()}


async def _measure(topics: int, rounds: int) -> list[Row]:
    logs = await _with_topics(topics)
    snapshot = _as_of_a_quorum(logs)
    own = await _cost(lambda: _started(logs), rounds)
    theirs = await _cost(lambda: _replayed(snapshot), rounds)
    changes = await _changes(logs)
    await logs.close()
    size = f"{topics * PARTITIONS:,} partitions"
    reference = "records of a quorum"
    return [
        Row(GROUP, f"a start that reads {size}", own.cpu_ms, "ms", theirs.cpu_ms, reference),
        Row(GROUP, f"memory of {size}", own.held_mib, "MiB", theirs.held_mib, reference),
        *(Row(GROUP, f"{name}, of {size}", took, "us") for name, took in changes.items()),
    ]


def run(quick: bool = False) -> list[Row]:
    """All of it, of few topics when `quick`."""
    return asyncio.run(_measure(20 if quick else TOPICS, 1 if quick else 5))
