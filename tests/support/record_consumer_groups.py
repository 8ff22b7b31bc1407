"""Records what a coordinator of Apache Kafka writes about consumer groups: tests/coordinator/groups/consumer/logs.

    .venv/bin/python tests/support/record_consumer_groups.py        # make logs-of-groups

The file has the batches of the only partition of `__consumer_offsets`, as they lie on its disk, and what the
coordinator told of each group when it had written them. Needs `java` 17; the jars come from Maven once (`maven.py`).
"""

import asyncio
import base64
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from apache_kafka import ApacheKafka
from waiting import until
from wire import Wire
from wire_consumer_group import ConsumerMember, described, fetch_as_member
from wire_group import RawMember, commit_offset
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription

FOLDER: Final = Path(__file__).resolve().parents[1] / "coordinator" / "groups" / "consumer" / "logs"
RACK: Final = "hall-1"
PARTITIONS: Final = {"orders": 4, "audit": 3}
_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "broker.rack": RACK,
    "group.consumer.assignment.interval.ms": "0",
}
_ORDERS: Final = TopicPartition("orders", 0)
SUBSCRIPTION: Final = encode_value(ConsumerProtocolSubscription(("orders",)), 1)


async def record(address: str) -> dict[str, Any]:
    """Make the groups; returns what is told of them."""
    wire = await Wire.open(address)
    for name, partitions in PARTITIONS.items():
        await wire.create_topic(name, partitions=partitions)
    await _reconciling(wire)
    await _converted(wire, "converted")
    new = await _converted(wire, "classic-again")
    assert await new.leave() == ErrorCode.NONE
    gone = await ConsumerMember(wire, "empty", "gone").joined("orders", partitions=4)
    assert await commit_offset(wire, "empty", _ORDERS, 3, version=9, **_at(gone)) == ErrorCode.NONE
    assert await gone.leave() == ErrorCode.NONE
    groups = {name: await _told(wire, name) for name in ("reconciling", "converted", "empty")}
    topics = {name: {"id": wire.topic_id(name).hex(), "partitions": count} for name, count in PARTITIONS.items()}
    await wire.close()
    return {"rack": RACK, "topics": topics, "groups": groups}


def _at(member: ConsumerMember) -> dict[str, Any]:
    return {"member_id": member.member_id, "generation_id_or_member_epoch": member.epoch}


async def _reconciling(wire: Wire) -> None:
    """Members of all kinds, one that is to revoke partitions, one that is away, and an offset in a transaction."""
    group = "reconciling"
    first = await ConsumerMember(wire, group, "first").joined("orders", partitions=4)
    static = ConsumerMember(wire, group, "static", instance_id="i")
    regex = ConsumerMember(wire, group, "regex")
    await static.join("orders")
    await regex.join(subscribed_topic_names=None, subscribed_topic_regex="aud.*|ord.*")

    async def all_have_some() -> bool:
        for each in (first, static, regex):
            await each.confirm()
        stable = (await described(wire, group)).group_state == "Stable"
        return stable and all(each.assigned for each in (first, static, regex))

    await until(all_have_some)
    assert await commit_offset(wire, group, _ORDERS, 5, version=9, **_at(first)) == ErrorCode.NONE
    classic = RawMember(wire, group, member_id="", protocols=(("range", SUBSCRIPTION),))
    await classic.joined()
    await classic.sync()
    assert await static.leave(-2) == ErrorCode.NONE
    for each in (first, regex):
        await each.confirm()
    producer = await transactional(wire, "t")
    assert await producer.commit_offsets(group, _ORDERS, 7) == ErrorCode.NONE
    assert (await fetch_as_member(wire, group, _ORDERS))[1] == 5


async def _converted(wire: Wire, group: str) -> ConsumerMember:
    """A classic group that became a consumer group when this member joined."""
    classic = RawMember(wire, group, protocols=(("range", SUBSCRIPTION),))
    await classic.assigned(*(TopicPartition("orders", number) for number in range(4)))
    assert await classic.commit(_ORDERS, 9) == ErrorCode.NONE
    new = ConsumerMember(wire, group, "new")
    answer = await new.join("orders")
    assert answer.error_code == ErrorCode.NONE
    return new


async def _told(wire: Wire, group: str) -> dict[str, Any]:
    found = await described(wire, group)
    members = {
        each.member_id: {
            "epoch": each.member_epoch,
            "instance_id": each.instance_id,
            "topics": sorted(each.subscribed_topic_names),
            "regex": each.subscribed_topic_regex or "",
            "assigned": _places(each.assignment),
            "target": _places(each.target_assignment),
            "is_classic": each.member_type == 0,
        }
        for each in found.members
    }
    return {
        "state": found.group_state,
        "epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "members": members,
    }


def _places(assignment: Any) -> list[str]:
    return sorted(f"{topic.topic_name}-{each}" for topic in assignment.topic_partitions for each in topic.partitions)


def main() -> None:
    """Write the file of the release that the other tests go by."""
    with tempfile.TemporaryDirectory(prefix="groups-") as folder:
        with ApacheKafka(Path(folder), settings=_SETTINGS) as node:
            facts = asyncio.run(record(node.address))
            node.stop()
            release = node.version
        (log,) = (Path(folder) / "data" / "__consumer_offsets-0").glob("*.log")
        batches = base64.b64encode(log.read_bytes()).decode()
    content = {"release": release, "recorded_by": f"tests/support/{Path(__file__).name}", **facts, "batches": batches}
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"apache-kafka-{release}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
