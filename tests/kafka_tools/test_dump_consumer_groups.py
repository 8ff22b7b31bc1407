"""Apache Kafka's DumpLogSegments decodes each record of a consumer group that Eosin writes, and of each change between
classic and consumer group (consumer-groups.md 12, 16, 17)."""

from pathlib import Path
from typing import Any

from group_fakes import Broker, subscription, turns
from kafka_dump import parse
from kafka_tools import KafkaTools

from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.model.cluster import Topic
from eosin.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
KINDS = {2, 3, 5, 6, 7, 8, 16}
"""The kinds of records that a group of either kind has; each is written, and deleted."""
NOTHING_ASSIGNED = b"\0\0" + bytes(4) + b"\xff\xff\xff\xff"


class Topics(NoTopics):
    """Two topics."""

    metadata_version = 1

    def __init__(self) -> None:
        self.topics = {name: Topic(name, name.encode().ljust(16, b"_"), 4) for name in ("orders", "audit")}


async def heartbeat(broker: Broker, member_id: str, epoch: int = 0, **fields: Any) -> int:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 100, "topics": ("orders",), "owned": frozenset(), **fields}
    answer = await broker.groups.consumer_heartbeat("g", ConsumerHeartbeat(member_id, epoch, **fields))
    assert answer.error is NONE, answer
    return answer.epoch


async def written() -> list[bytes]:
    """The batches of a group that changes its kind, and back."""
    config = GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
    broker = await Broker(config, topics=Topics()).started()
    old = await broker.join(protocols=(("range", subscription("orders")),), api_version=3)
    await broker.sync(old, {old.member_id: NOTHING_ASSIGNED})
    await heartbeat(broker, "regex", topics=(), regex="aud.*", rack_id="r", client_id="c")
    await turns()
    epoch = await heartbeat(broker, "static", instance_id="i", assignor="range")
    await heartbeat(broker, "static", -2, instance_id="i")
    epoch = await heartbeat(broker, "static-2", instance_id="i", assignor="range")
    assert epoch > 1
    for leaving in ("static-2", "regex"):
        await heartbeat(broker, leaving, -1, **({"instance_id": "i"} if leaving == "static-2" else {}))
    await turns()
    assert not isinstance(broker.groups.describe("g"), ErrorCode), "it is a classic group again"
    await broker.groups.stop()
    return broker.log.written


async def test_every_record_of_consumer_groups_and_of_their_changes_of_kind_is_known_to_apache_kafka(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    log = folder / f"{0:020}.log"
    log.write_bytes(b"".join(await written()))
    run = kafka_tools.dump([log], "--offsets-decoder")
    assert run.code == 0, run.err
    dumped = parse(run.out)
    assert not dumped.complaints
    assert "Unknown" not in run.out
    assert "Error" not in run.out
    rows = dumped.rows(log, "record")
    kinds = [int(row["key"]["type"]) for row in rows]
    assert set(kinds) == KINDS
    deleted = {kind for kind, row in zip(kinds, rows, strict=True) if not isinstance(row["payload"], dict)}
    assert deleted == KINDS, "each kind has had a tombstone"
