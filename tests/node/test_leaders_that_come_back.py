"""Replicas of brokers that were away: what nobody else has, and what there is no more, goes (cluster.md 4.10, 8). Whole
brokers on simulated time and disks."""

import asyncio

import pytest
from virtual_cluster import VirtualPair
from waiting import until

from eosin.client.admin import Admin

pytestmark = pytest.mark.virtual

FIRST, SECOND = VirtualPair.node_ids


async def test_a_leader_that_comes_back_drops_what_was_never_committed() -> None:
    async with VirtualPair({"replica.lag.time.max.ms": "60000", "replica.fetch.wait.max.ms": "50"}) as pair:
        first, second = pair.brokers
        partition = await pair.create()
        sent = [b"kept-%d" % number for number in range(10)]
        await pair.write(partition, *sent)
        sent.append(b"kept-10")
        await pair.write(partition, sent[-1], acks=1)
        await until(lambda: sent[-1] in second.holds(partition))
        second.pause(2.0)  # shorter than its session: it stays in sync
        await asyncio.sleep(1)  # its last fetch has had its answer
        await pair.write(partition, b"never-committed", acks=1)
        assert b"never-committed" in first.holds(partition)
        assert set(pair.now(partition).isr) == {FIRST, SECOND}
        first.kill()
        await pair.led_by(partition, SECOND)
        sent.append(b"kept-11")
        await pair.write(partition, sent[-1])
        await first.start()
        await pair.in_sync(partition, FIRST, SECOND)
        assert await pair.read(partition) == sent
        await first.stop()
        await second.stop()
        assert b"never-committed" not in first.holds(partition)
        assert first.holds(partition) == second.holds(partition)


async def test_a_topic_made_anew_while_a_broker_was_away_is_not_mixed_with_the_old_one() -> None:
    async with VirtualPair() as pair:
        first, second = pair.brokers
        partition = await pair.create()
        await pair.write(partition, *(b"old-%d" % number for number in range(20)))
        second.kill()
        await Admin(pair.client).delete_topics([partition.topic])
        assert await pair.create(partition.topic) == partition
        await pair.write(partition, b"new")
        assert b"old" in second.holds(partition)
        await second.start()
        await pair.in_sync(partition, FIRST, SECOND)
        assert await pair.read(partition) == [b"new"]
        await first.stop()
        await second.stop()
        assert b"old" not in second.holds(partition)
        assert first.holds(partition) == second.holds(partition)
