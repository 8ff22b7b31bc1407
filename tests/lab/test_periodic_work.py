"""A round of periodic work after a long time does what a round at each interval would have done."""

from typing import Any

import pytest
from lab_broker_in_loop import DAY_MS, HOUR_MS, MINUTE_MS, Lab, lab

from eosin.client.groups import GroupAdmin
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.memory import MemoryDisk

pytestmark = pytest.mark.virtual

DAYS = 3
SETTINGS: dict[str, Any] = {
    "transactional_id_expiration_ms": DAY_MS,
    "producer_id_expiration_ms": DAY_MS,
    "offsets_retention_minutes": 24 * 60,
}


async def begun(broker: Lab) -> None:
    """Something for each kind of periodic work."""
    operations = broker.operations
    small = {"segment.ms": "1000", "retention.ms": str(DAY_MS), "file.delete.delay.ms": "60000"}
    await operations.create_topic("orders", 1, small)
    compacted = {"cleanup.policy": "compact", "segment.ms": "1000", "max.compaction.lag.ms": str(HOUR_MS)}
    await operations.create_topic("latest", 1, {**compacted, "min.cleanable.dirty.ratio": "0.01"})
    for number in range(8):
        await broker.clock.wire.sleep(1500)  # the next ones are too late for their segments
        await broker.write(f"{number}" * 20)
        await operations.produce("latest", [f"{number}"], f"k{number % 2}", {}, None, None, None, True)
    await broker.write("in a transaction", transactional_id="t")
    await broker.write("left open", transactional_id="left-open", commit=False)
    await GroupAdmin(broker.client).commit("readers", {TopicPartition("orders", 0): 3})


async def after(step_ms: int) -> dict[str, object]:
    """What is left of it three days later."""
    disk = MemoryDisk()
    async with lab(disk=disk, **SETTINGS) as broker:
        await begun(broker)
        for _ in range(DAYS * DAY_MS // step_ms):
            await broker.operations.advance(step_ms, False)
        await broker.operations.advance(2 * MINUTE_MS, False)  # files that are renamed go later
        assert await broker.operations.transaction("t") is None
        assert (await broker.operations.committed_offset("readers", "orders", 0)) is None
        files = {path: content for path, content in disk._files.items() if path.endswith((".log", ".deleted"))}
        # Tombstones that are written in one round share a batch, so internal logs may differ in size.
        found: dict[str, object] = {path: "__" in path or len(content) for path, content in files.items()}
        for partition, log in broker.node.logs.logs.items():
            found[str(partition)] = (log.log_start_offset, log.log_end_offset, log.last_stable_offset)
        found["latest"] = [
            (each.key, each.value) for each in await broker.operations.read("latest", "read_committed", 0)
        ]
        found["outcomes"] = await broker.operations.outcomes("left-open")
        return found


async def test_one_jump_of_three_days_leaves_what_three_days_of_hours_leave() -> None:
    at_once, by_the_hour = await after(DAYS * DAY_MS), await after(HOUR_MS)
    assert at_once == by_the_hour
    assert at_once["latest"] == [(b"k0", b"6"), (b"k1", b"7")]
    assert not [path for path in at_once if path.endswith(".deleted")]
