"""Sessions and share partitions that end while a fetch is under way (share-partitions.md 1.4, 2.8)."""

import asyncio
from typing import Any

import pytest
from data_broker import batch
from share_fakes import Workers, acquired
from waiting import settled

from eosin.broker.requests.share_fetch_pass import ShareFetchPass
from eosin.model.cluster import PartitionState
from eosin.protocol.names import TopicPartition


async def test_a_fetch_whose_session_ends_while_the_disk_is_read_keeps_no_record_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = await Workers.started()
    await workers.broker.produce(batch("a"))
    is_read, result = asyncio.Event(), ShareFetchPass._result

    async def slow(self: ShareFetchPass, *args: Any, **how: Any) -> Any:
        found = await result(self, *args, **how)
        await is_read.wait()
        return found

    monkeypatch.setattr(ShareFetchPass, "_result", slow)
    lost, anew = workers.member("m1"), workers.member("m1")
    unanswered = lost.begin(max_wait_ms=5000)
    await settled()
    waiting = anew.begin(max_wait_ms=5000)
    await settled()
    is_read.set()
    response = await anew.finish(waiting)
    assert acquired(response.responses[0].partitions[0]) == [(0, 0, 1)]
    response = await lost.finish(unanswered)
    assert not any(acquired(each) for topic in response.responses for each in topic.partitions)


async def test_a_session_that_opens_on_a_connection_that_has_ended_costs_nothing() -> None:
    workers = await Workers.started()
    await workers.broker.produce(batch("a"))
    late = workers.member()
    late.connection.close()
    assert not any(acquired(each) for topic in (await late.response()).responses for each in topic.partitions)
    assert (len(workers.sharing.sessions), workers.sharing.sessions.partition_count) == (0, 0)
    assert acquired(await workers.member("m2").fetch()) == [(0, 0, 1)]


async def test_a_topic_that_is_seen_deleted_and_made_anew_in_one_step_leaves_no_share_partition_behind() -> None:
    workers = await Workers.started()
    await workers.broker.produce(batch("a"))
    member = workers.member()
    await member.fetch()
    led, workers.sharing._partitions = workers.sharing._partitions, None  # it hears of neither
    await workers.broker.cluster.delete_topic("orders")
    await workers.broker.create_topic()
    workers.sharing._partitions = led
    node_id = workers.broker.cluster.node_id
    state = PartitionState(leader_id=node_id, leader_epoch=0, replicas=(node_id,), isr=(node_id,), offline=())
    workers.sharing.partition_changed(TopicPartition("orders", 0), state, state)
    assert len(workers.sharing.partitions) == 0
