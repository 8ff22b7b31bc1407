"""Metrics of share groups (docs/share-groups.md)."""

from data_broker import batch
from share_fakes import REJECT, RELEASE, Workers
from waiting import settled

from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.model.features import DEAD_LETTERS_LEVEL, SHARE_VERSION
from eosin.observe.metrics.share_metrics import ShareMetrics
from eosin.protocol.errors import ErrorCode


async def read(workers: Workers) -> dict[str, float]:
    return {
        family.name + key: number
        async for family in ShareMetrics(workers.broker.services).families()
        for key, number in zip(family.keys, family.numbers, strict=True)
    }


async def test_a_broker_without_share_groups_has_no_metrics_of_them() -> None:
    assert await read(await Workers.started()) == {}


async def test_metrics_tell_what_is_under_way_and_since_when_it_stands() -> None:
    workers = await Workers.started()
    for value in "abc":
        await workers.broker.produce(batch(value))
    member = workers.member()
    await member.fetch(max_records=2)
    assert await member.acknowledge((0, 0, (RELEASE,))) is ErrorCode.NONE
    workers.broker.clock.advance(7000)
    labels = '{sharegroup="workers",topic="orders",partition="0"}'
    found = await read(workers)
    assert found[f"eosin_share_acquired_records{labels}"] == found[f"eosin_share_returned_records{labels}"] == 1
    assert found[f"eosin_share_oldest_record_seconds{labels}"] == 7
    assert found["eosin_share_sessions"] == found["eosin_share_partitions"] == 1
    workers.broker.clock.advance(30_000)
    await member.fetch()
    found = await read(workers)
    assert found["eosin_share_delivered_records_total"] == 5
    assert found["eosin_share_redelivered_records_total"] == 2
    assert found["eosin_share_lock_timeouts_total"] == 1


async def test_metrics_tell_of_dead_letters_under_kafkas_names() -> None:
    config = ShareGroupConfig(auto_offset_reset="earliest", deadletterqueue_topic_name="dlq.orders")
    workers = await Workers.started(config=config)
    await workers.broker.cluster.finalize_levels({SHARE_VERSION: DEAD_LETTERS_LEVEL})
    await workers.broker.create_topic("dlq.orders", errors_deadletterqueue_group_enable="true")
    await workers.broker.produce(batch("a", "b"))
    workers.broker.logs.space.refuses_records = True
    member = workers.member()
    await member.fetch()
    assert await member.acknowledge((0, 1, (REJECT,))) is ErrorCode.NONE
    await settled()
    archiving = 'eosin_share_archiving_records{sharegroup="workers",topic="orders",partition="0"}'
    assert (await read(workers))[archiving] == 2
    workers.broker.logs.space.refuses_records = False
    workers.broker.clock.advance(1000)
    await settled()
    found = await read(workers)
    kafkas = "kafka_server_sharegroupmetrics_deadletterqueue"
    named = ("recordcount", "totalproducerequests", "failedproducerequests")
    numbers = [found[f'{kafkas}{each}_total{{group="workers"}}'] for each in named]
    assert (numbers, found[archiving]) == ([2, 2, 1], 0)
