"""A producer's batches that overtake its first one, which was refused (storage.md 5.2.6, KAFKA-14359)."""

from collections.abc import Sequence
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import produce
from eosin.broker.producing.refused_batches import KEPT_MS, MOST
from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import Refused

PID = 4711
TAKEN = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
ORDERS = "orders"


def sent(sequence: int, *, epoch: int = 0, producer_id: int = PID) -> bytes:
    return batch(str(sequence), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def produced(broker: DataBroker, sequence: int, **how: Any) -> ErrorCode:
    return ErrorCode((await broker.produce(sent(sequence, **how))).error_code)


async def before_its_topic_is_known(**config: Any) -> DataBroker:
    """A broker that has refused the first batch of a producer, and leads its partition now."""
    broker = await DataBroker.started(**config)
    assert await produced(broker, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create_topic()
    return broker


async def test_the_first_batch_is_taken_though_those_behind_it_find_the_topic_and_it_did_not() -> None:
    broker = await before_its_topic_is_known()
    assert [await produced(broker, each) for each in (1, 2)] == [OUT_OF_ORDER] * 2
    assert [await produced(broker, each) for each in (0, 1, 2)] == [TAKEN] * 3
    assert broker.log().log_end_offset == 3


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_an_election_that_the_leader_hears_of_late_shuts_no_producer_out(
    error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    with monkeypatch.context() as late:
        late.setattr(broker.partitions, "get", lambda partition: error)
        assert [await produced(broker, each) for each in (5, 6)] == [error] * 2
    assert [await produced(broker, each) for each in (6, 7, 5, 6)] == [OUT_OF_ORDER, OUT_OF_ORDER, TAKEN, TAKEN]


async def test_a_topic_that_is_named_by_its_id_is_remembered_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await DataBroker.started()
    await broker.create_topic()

    async def by_id(sequence: int) -> ErrorCode:
        return ErrorCode((await broker.produce(sent(sequence), version=13)).error_code)

    with monkeypatch.context() as late:
        late.setattr(broker.cluster, "topic_by_id", lambda topic_id: None)
        assert await by_id(0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert [await by_id(each) for each in (1, 0, 1)] == [OUT_OF_ORDER, TAKEN, TAKEN]


class Leading:
    """What a leader of the cluster knows of its replicas."""

    def __init__(self) -> None:
        self.is_enough = True

    def has_enough_in_sync(self, log: Any) -> bool:
        return self.is_enough

    async def committed(self, batches: Sequence[Any], *, timeout_ms: int) -> None:
        for each in batches:
            error = await each.log.durable(each.outcome.last_offset + 1)
            if error is not ErrorCode.NONE:
                each.outcome = Refused(error)


async def test_a_replica_that_comes_into_sync_between_two_batches_shuts_no_producer_out() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    leading: Any = Leading()
    broker.services.led_partitions = leading
    leading.is_enough = False
    assert await produced(broker, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    leading.is_enough = True
    assert [await produced(broker, each) for each in (1, 0, 1)] == [OUT_OF_ORDER, TAKEN, TAKEN]


async def test_a_first_batch_that_was_cut_off_again_is_waited_for() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    leading: Any = Leading()
    broker.services.led_partitions = leading
    broker.flusher.held = True
    begun, log = broker.begin_produce(sent(0)), broker.log()
    await settle()
    log.become_follower()
    await log.truncate_to(0)
    log.become_leader(log.leader_epoch + 1)
    broker.flusher.held = False
    answer = await broker.answer(produce.API, begun, 11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [await produced(broker, each) for each in (1, 0, 1)] == [OUT_OF_ORDER, TAKEN, TAKEN]


async def test_other_producers_and_partitions_and_epochs_are_not_concerned() -> None:
    broker = await DataBroker.started()
    assert await produced(broker, 0, epoch=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create_topic(partitions=2)
    assert await produced(broker, 3, epoch=1) == OUT_OF_ORDER
    assert await produced(broker, 3, producer_id=PID + 1) == TAKEN
    assert (await broker.produce(sent(3, epoch=1), partition=1)).error_code == TAKEN
    assert await produced(broker, 3, epoch=2) == TAKEN, "it has begun anew by itself"


async def test_a_producer_that_has_been_heard_of_otherwise_goes_on() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    known = broker.log()
    assert await produced(broker, 0) == TAKEN
    broker.services.led_partitions = leading = Leading()  # type: ignore[assignment]
    leading.is_enough = False
    assert await produced(broker, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    broker.services.led_partitions = None
    assert await produced(broker, 2) == OUT_OF_ORDER, "the log says so by itself"
    assert await produced(broker, 1) == TAKEN
    assert known.log_end_offset == 2


async def test_a_batch_that_its_client_gave_up_is_forgotten_and_the_client_goes_on() -> None:
    broker = await before_its_topic_is_known()
    broker.clock.advance(KEPT_MS - 1)
    assert await produced(broker, 1) == OUT_OF_ORDER
    broker.clock.advance(KEPT_MS + 1)
    assert await produced(broker, 1) == TAKEN
    assert len(broker.partitions.refused_batches) == 0


async def test_a_batch_that_is_refused_again_and_again_is_remembered_all_the_time() -> None:
    broker = await DataBroker.started()
    for _ in range(5):
        assert await produced(broker, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.clock.advance(KEPT_MS - 1)
    await broker.create_topic()
    assert [await produced(broker, each) for each in (1, 0)] == [OUT_OF_ORDER, TAKEN]


async def test_remembered_batches_are_bounded_and_the_oldest_is_forgotten() -> None:
    broker = await DataBroker.started()
    for producer_id in range(MOST + 1):
        await produced(broker, 0, producer_id=producer_id)
    assert len(broker.partitions.refused_batches) == MOST
    await broker.create_topic()
    assert await produced(broker, 1, producer_id=0) == TAKEN
    assert await produced(broker, 1, producer_id=MOST) == OUT_OF_ORDER


async def test_batches_without_a_producer_and_refusals_of_the_producer_are_not_remembered() -> None:
    broker = await DataBroker.started()
    assert (await broker.produce(batch("a"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create_topic()
    assert [await produced(broker, each) for each in (0, 2)] == [TAKEN, OUT_OF_ORDER]
    assert len(broker.partitions.refused_batches) == 0


async def test_the_sequences_of_a_batch_that_is_too_large_are_used_again_before_what_is_behind_it() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(max_message_bytes="100")
    large = batch("x" * 200, producer_id=PID, producer_epoch=0, base_sequence=0)
    assert (await broker.produce(large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert [await produced(broker, each) for each in (1, 0, 1)] == [OUT_OF_ORDER, TAKEN, TAKEN]
    assert await produced(broker, 1, epoch=1) == OUT_OF_ORDER, "the log knows the producer"


async def test_who_takes_a_new_epoch_when_a_batch_was_refused_for_good_may_begin_anywhere() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(max_message_bytes="100")
    large = batch("x" * 200, producer_id=PID, producer_epoch=0, base_sequence=0)
    assert (await broker.produce(large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await produced(broker, 1, epoch=1) == TAKEN
