"""The offset at which a share group begins to read a partition (share.auto.offset.reset; share-partitions.md 2.2)."""

from data_broker import batch
from share_fakes import Workers, values
from waiting import until

from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import UNKNOWN_OFFSET
from eosin.storage.results.log_results import Marker


async def begun(workers: Workers) -> None:
    """Wait until the only partition has its first offset, which a thread looks for."""
    states, key = workers.store.states, workers.key()
    await until(lambda: key in states and states[key].start_offset != UNKNOWN_OFFSET)


async def test_records_of_the_wanted_age_in_an_open_transaction_are_read_once_it_is_committed() -> None:
    config = ShareGroupConfig(auto_offset_reset="by_duration:PT1M", isolation_level="read_committed")
    workers = await Workers.started(config=config, transaction_partition_verification_enable=False)
    now_ms = workers.broker.clock.now_ms()
    await workers.broker.produce(batch("old", timestamp=now_ms - 90_000))
    young = batch(
        "young", timestamp=now_ms - 30_000, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    await workers.broker.produce(young, transactional_id="t")
    member = workers.member()
    waiting = member.begin(max_wait_ms=60_000)
    await begun(workers)
    workers.broker.log().append_marker(Marker(1, 0, True, 0), now_ms=now_ms)
    data = (await member.finish(waiting)).responses[0].partitions[0]
    assert values(data) == ["young"]


async def test_a_setting_of_before_that_is_no_duration_holds_up_no_group() -> None:
    for text in ("by_duration:P1W", "by_duration:P" + "9" * 400 + "D"):
        workers = await Workers.started(config=ShareGroupConfig(auto_offset_reset=text))
        await workers.broker.produce(batch("a", timestamp=1))
        member = workers.member()
        waiting = member.begin(max_wait_ms=60_000)
        await begun(workers)
        await workers.broker.produce(batch("b"))
        assert values((await member.finish(waiting)).responses[0].partitions[0]) == ["b"]


async def test_a_duration_that_reaches_before_all_time_is_from_the_first_record_on() -> None:
    workers = await Workers.started(config=ShareGroupConfig(auto_offset_reset="by_duration:P400000D"))
    await workers.broker.produce(batch("a", timestamp=1))
    assert values(await workers.member().fetch(max_wait_ms=1000)) == ["a"]
