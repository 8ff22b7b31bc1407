"""Consumer groups (KIP-848) of many members: the cost of a join and of a heartbeat, of a rebalance, of a load, of the
end of all sessions, and the longest time for which anybody else waits meanwhile.

The coordinator is called without sockets, on a log in memory, and its times are those of the processor; the last rows
are of a broker on loopback. A rebalance is
a member that leaves and another that joins, until every member has come to the new target, when each sends its
heartbeats as soon as it can: those of real clients come every 5 s.
"""

import asyncio
import gc
import random
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from broker_process import BrokerProcess

from bench.group_members import GROUP_ID, Cluster, Member, Members, Work, collections_of_a_broker
from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row, percentile
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from eosin.protocol.wire.codec import decode_response

GROUP: Final = "Consumer groups"
HEARTBEAT_P99_MS: Final = 5.0
REBALANCE_S: Final = 2.0
STEP_MS: Final = 20.0
SESSION_MS: Final = 5_000
"""Of the members whose sessions all end."""
LOADED_BEFORE_S: Final = 2.0
"""The first turns of what is measured are idle."""
TOPICS: Final = (1, 10)


def run(quick: bool = False) -> list[Row]:
    """Groups of more and more members, of one topic and of ten with as many partitions as members."""
    collections_of_a_broker()
    counts = (100, 1_000) if quick else (100, 1_000, 10_000)
    rows: list[Row] = []
    for count in counts:
        for topics in TOPICS:
            rows += asyncio.run(_of_coordinator(count, topics, heartbeats=2_000 if quick else 20_000))
        rows += asyncio.run(_memory(count))
    rows += asyncio.run(_ends(counts[-1]))
    rows += _of_broker(counts[-1], heartbeats=2_000 if quick else 20_000)
    return rows


def _row(name: str, value: float, unit: str, budget: float | None = None) -> Row:
    return Row(GROUP, name, value, unit, budget=budget)


def _turn(work: Work, label: str) -> Row:
    """The row of the longest turn of the event loop."""
    return _row(f"{label}: longest turn", work.steps.longest_ms, "ms", STEP_MS)


async def _of_coordinator(count: int, topics: int, *, heartbeats: int) -> list[Row]:
    members = Members(count, Cluster(topics, max(1, count // topics)))
    await members.groups.load()
    label = f"{count:,} members, {topics} topic{'s' if topics > 1 else ''}"
    with Work() as joins:
        await members.join_all()
    await members.settle()
    took_ms, cpu_us = await _heartbeats(members, heartbeats)
    await asyncio.sleep(1)  # the interval of targets
    begun = time.perf_counter()
    with Work() as rebalance:
        await members.leave(members.members.pop())
        members.members.append(Member("new"))
        await members.join(members.members[-1])
        await members.settle()
    took_s = time.perf_counter() - begun
    await members.groups.stop()
    return [
        _row(f"{label}: a join", joins.took_s / count * 1e6, "us"),
        _turn(joins, f"{label}, all join"),
        _row(f"{label}: a heartbeat", cpu_us, "us"),
        _row(f"{label}: heartbeat p99", percentile(took_ms, 0.99), "ms", HEARTBEAT_P99_MS),
        _row(f"{label}: a rebalance", rebalance.took_s, "s", REBALANCE_S),
        _row(f"{label}: a rebalance, by the wall clock", took_s, "s"),
        _turn(rebalance, f"{label}, a rebalance"),
    ]


async def _heartbeats(members: Members, count: int) -> tuple[list[float], float]:
    """The times of so many heartbeats without news, ms, and the mean, us."""
    took: list[float] = []
    for member in random.Random(1).choices(members.members, k=count):
        begun = time.thread_time()
        await members.heartbeat(member)
        took.append((time.thread_time() - begun) * 1e3)
    return took, sum(took) / count * 1e3


async def _memory(count: int) -> list[Row]:
    """The memory of a member with one partition, its name, its session and its target included."""
    members = Members(count, Cluster(1, count))
    await members.groups.load()
    gc.collect()
    tracemalloc.start()
    await members.join_all()
    await members.settle()
    for member in members.members:
        member.owned = frozenset()
    for log in members.logs.logs.values():
        log.written.clear()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await members.groups.stop()
    return [_row(f"{count:,} members: memory of a member", held / count, "bytes")]


async def _ends(count: int) -> list[Row]:
    """A group that is read from its log, and then loses all members at once."""
    members = Members(count, Cluster(1, count))
    await members.groups.load()
    await members.join_all()
    await members.settle()
    label = f"{count:,} members"
    members.session_timeout(SESSION_MS)
    with Work() as load:
        stopped = await members.restarted()
        await asyncio.sleep(0)
    del stopped
    await asyncio.sleep(SESSION_MS / 1000 - LOADED_BEFORE_S)
    assert len(members.group.members) == count
    with Work() as end:
        while members.group.members:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await members.groups.stop()
    return [
        _row(f"{label}: a load", load.took_s, "s"),
        _turn(load, f"{label}, a load"),
        _turn(end, f"{label}, all sessions end"),
    ]


# Over the wire


class _Client:
    """All members on one connection."""

    def __init__(self, port: int, count: int) -> None:
        self.wire = RawConnection(port)
        self.members = [Member(f"m{number}") for number in range(count)]

    def prepare(self, partitions: int) -> None:
        """Turn consumer groups on, and create the topic."""
        update = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
        answer = self.wire.call(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(60_000, (update,)))
        assert answer.error_code == ErrorCode.NONE, answer
        topic = CreatableTopic(name="topic", num_partitions=partitions, replication_factor=1)
        self.wire.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=60_000))

    def frames(self, members: Sequence[Member], **fields: Any) -> list[bytes]:
        """A heartbeat of each."""
        return [
            frame(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                1,
                ConsumerGroupHeartbeatRequest(
                    group_id=GROUP_ID, member_id=each.member_id, member_epoch=each.epoch, **fields
                ),
            )
            for each in members
        ]

    def send(self, members: Sequence[Member], **fields: Any) -> None:
        """A heartbeat of each, 100 on their way at once."""
        order = iter(members)

        def answered(answer: memoryview) -> None:
            found = decode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, answer)[1]
            assert found.error_code == ErrorCode.NONE, found
            next(order).epoch = found.member_epoch

        self.wire.pipeline(self.frames(members, **fields), answered, depth=100)


def _of_broker(count: int, *, heartbeats: int) -> list[Row]:
    label = f"over the wire, {count:,} members"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data", durability="os") as broker:
        client = _Client(broker.port, count)
        client.prepare(100)
        resident = broker.resident_bytes()
        begun = time.perf_counter()
        client.send(
            client.members, rebalance_timeout_ms=300_000, subscribed_topic_names=("topic",), topic_partitions=()
        )
        rows.append(_row(f"{label}: a join", (time.perf_counter() - begun) / count * 1e6, "us"))
        for _ in range(3):
            client.send(client.members, topic_partitions=())
            time.sleep(1)
        rows.append(_row(f"{label}: memory of a member", (broker.resident_bytes() - resident) / count, "bytes"))
        cpu, took = cpu_seconds(broker.pid), []
        frames = client.frames(random.Random(1).choices(client.members, k=heartbeats))
        for each in frames:
            begun = time.perf_counter()
            client.wire.send(each)
            client.wire.receive()
            took.append((time.perf_counter() - begun) * 1e3)
        cpu_us = (cpu_seconds(broker.pid) - cpu) / heartbeats * 1e6
        rows.append(_row(f"{label}: broker CPU of a heartbeat", cpu_us, "us"))
        rows.append(_row(f"{label}: heartbeat p99", percentile(took, 0.99), "ms", HEARTBEAT_P99_MS))
        begun = time.perf_counter()
        described = client.wire.call(
            ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=(GROUP_ID,))
        )
        rows.append(_row(f"{label}: its description", time.perf_counter() - begun, "s"))
        assert len(described.groups[0].members) == count
        client.wire.close()
    return rows
