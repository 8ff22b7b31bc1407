"""Committed offsets of a cluster whose topics change while nobody coordinates their group (groups.md 9). Whole brokers
on simulated time and disks."""

import pytest
from virtual_cluster import VirtualPair

from eosin.client.admin import Admin
from eosin.client.client import CoordinatorType
from eosin.client.groups import GroupAdmin

pytestmark = pytest.mark.virtual

GROUP = "g"
ON_ONE = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}


async def test_a_topic_made_anew_while_the_coordinator_was_away_has_no_committed_offset() -> None:
    async with VirtualPair(ON_ONE) as pair:
        groups = GroupAdmin(pair.client)
        partition, other = await pair.create(), await pair.create()
        await pair.write(partition, b"old-0", b"old-1", b"old-2")
        await groups.commit(GROUP, {partition: 3, other: 7})
        coordinator = pair.brokers[await pair.client.coordinator(CoordinatorType.GROUP, GROUP) - 1]
        coordinator.kill()
        await pair.client.retry(lambda: Admin(pair.client).delete_topics([partition.topic]))
        assert await pair.create(partition.topic) == partition
        await coordinator.start()
        assert await groups.offsets(GROUP) == {other: 7}
        await groups.commit(GROUP, {partition: 1})
        assert await groups.offsets(GROUP) == {other: 7, partition: 1}
