"""Produce, from the wire to a real log and back."""

import asyncio
import errno
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import produce
from eosin.model.close_connection import CloseConnection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import read_header
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PID = 4711


def idempotent(*values: str, sequence: int, epoch: int = 0) -> bytes:
    return batch(*values, producer_id=PID, producer_epoch=epoch, base_sequence=sequence)


async def broker_with_topic(**config: Any) -> DataBroker:
    broker = await DataBroker.started(**config)
    await broker.create_topic(partitions=2)
    return broker


@pytest.mark.parametrize("version", produce.API.versions)
async def test_every_version_appends_and_tells_the_offset(version: int) -> None:
    broker = await broker_with_topic()
    assert (await broker.produce(batch("a", "b"), version=version)).base_offset == 0
    answer = await broker.produce(batch("c"), version=version)
    assert (answer.index, answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, 2, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert broker.log().log_end_offset == 3


def test_versions_below_3_are_announced_but_not_served() -> None:
    assert produce.API.versions == range(3, 14)
    assert produce.API.advertised == range(0, 14)


async def test_a_topic_that_stamps_its_records_answers_the_time() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(message_timestamp_type="LogAppendTime")
    answer = await broker.produce(batch("a", timestamp=5))
    assert answer.log_append_time_ms == broker.clock.now_ms()


# Durability
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
async def test_acks_1_and_acks_all_both_wait_until_the_batch_is_durable(acks: int) -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    begun = broker.begin_produce(batch("a"), acks=acks)
    assert broker.log().log_end_offset == 1, "appended before the handler returned"
    await settle()
    assert not begun.done()
    broker.flusher.release()
    answer = await broker.answer(produce.API, begun, 11)
    assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_a_batch_that_is_durable_at_once_is_answered_without_a_wait() -> None:
    broker = await broker_with_topic()
    assert isinstance(broker.begin_produce(batch("a")), produce.ProduceResponse)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("timeout_ms", [-1, 0, 1000])
async def test_a_sync_that_takes_longer_than_the_requests_timeout_is_waited_for(acks: int, timeout_ms: int) -> None:
    # Its timeout is for the wait for other replicas: an error makes a client without idempotence write it twice.
    broker = await broker_with_topic()
    broker.flusher.held = True
    begun = broker.begin_produce(batch("a"), acks=acks, timeout_ms=timeout_ms)
    broker.clock.advance(60_000)
    await settle()
    assert not begun.done()
    broker.flusher.release()
    answer = (await begun).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


async def test_a_failed_sync_is_a_storage_error_for_this_batch_and_all_later_ones() -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    begun = broker.begin_produce(batch("a"))
    broker.flusher.release(error=OSError(errno.EIO, "lost"))
    broker.flusher.held = False
    answer = (await begun).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (await broker.produce(batch("b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await broker.produce(batch("b"), partition=1)).error_code == ErrorCode.NONE


async def test_a_duplicate_waits_for_its_original_to_be_durable_and_gets_its_offset() -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    first = broker.begin_produce(idempotent("a", sequence=0))
    again = broker.begin_produce(idempotent("a", sequence=0))
    await settle()
    assert not first.done()
    assert not again.done()
    broker.flusher.release()
    answers = [(await each).responses[0].partition_responses[0] for each in (first, again)]
    assert [each.base_offset for each in answers] == [0, 0]
    assert broker.log().log_end_offset == 1


async def test_requests_of_one_connection_are_appended_in_order_however_long_their_sync_takes() -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    begun = [broker.begin_produce(idempotent(str(n), sequence=n)) for n in range(5)]
    broker.flusher.release()
    answers = [(await each).responses[0].partition_responses[0] for each in begun]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, n) for n in range(5)]


async def test_a_deleted_topic_ends_the_wait() -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    begun = broker.begin_produce(batch("a"))
    deleting = asyncio.create_task(broker.cluster.delete_topic("orders"))
    await settle()
    broker.flusher.held = False
    broker.flusher.release()
    await deleting
    # Whatever came first, the sync or the deletion, the client is answered.
    answer = (await begun).responses[0].partition_responses[0]
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (await broker.call(produce.API, request_for("orders"), 11)).responses[0].partition_responses[
        0
    ].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# acks=0
# -----------------------------------------------------------------------------------------------------------------


async def test_acks_0_has_no_answer() -> None:
    broker = await broker_with_topic()
    assert broker.begin_produce(batch("a"), acks=0) is None
    assert broker.log().log_end_offset == 1


async def test_acks_0_with_an_error_closes_the_connection() -> None:
    broker = await broker_with_topic()
    with pytest.raises(CloseConnection, match="UNKNOWN_TOPIC_OR_PARTITION"):
        broker.begin(produce.API, request_for("nowhere", acks=0), 11)
    assert produce.API.refuse(request_for("orders", acks=0), Any, ErrorCode.UNKNOWN_SERVER_ERROR) is None  # type: ignore[arg-type]


async def test_acks_0_is_held_back_while_syncing_is_far_behind() -> None:
    broker = await broker_with_topic()
    broker.flusher.held = True
    assert broker.begin_produce(batch("a"), acks=0) is None
    broker.flusher.backlog_bytes = produce.FLUSH_BACKLOG_MAX_BYTES + 1
    begun = broker.begin_produce(batch("b"), acks=0)
    await settle()
    assert not begun.done()
    broker.flusher.release()
    assert await begun is None


# Checks
# -----------------------------------------------------------------------------------------------------------------


def request_for(
    topic: str, *records: "bytes | None", acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    partitions = tuple(PartitionProduceData(index, each) for index, each in enumerate(records or (batch("a"),)))
    return ProduceRequest(transactional_id, acks, 1000, (TopicProduceData(topic, partition_data=partitions),))


async def errors(broker: DataBroker, request: ProduceRequest, version: int = 11, client_id: str = "test") -> list[str]:
    response = await broker.call(produce.API, request, version, client_id=client_id)
    return [ErrorCode(each.error_code).name for topic in response.responses for each in topic.partition_responses]


async def test_an_unknown_topic_or_partition_is_unknown_and_is_not_created() -> None:
    broker = await broker_with_topic()
    assert await errors(broker, request_for("nowhere")) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    good = batch("a")
    assert await errors(broker, request_for("orders", good, good, good)) == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert "nowhere" not in broker.cluster.topics


async def test_an_unknown_topic_id_is_told_from_an_unknown_partition() -> None:
    broker = await broker_with_topic()
    topic_id = broker.cluster.topics["orders"].topic_id
    records = (PartitionProduceData(0, batch("a")), PartitionProduceData(9, batch("a")))
    topics = (TopicProduceData("", b"?" * 16, records), TopicProduceData("", topic_id, records))
    response = await broker.call(produce.API, ProduceRequest(None, -1, 1000, topics), 13)
    answered = [[each.error_code for each in topic.partition_responses] for topic in response.responses]
    assert answered == [[ErrorCode.UNKNOWN_TOPIC_ID] * 2, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
    assert [topic.topic_id for topic in response.responses] == [b"?" * 16, topic_id]


async def test_a_partition_takes_exactly_one_batch_of_the_current_format() -> None:
    broker = await broker_with_topic()
    old = bytearray(batch("a"))
    old[16] = 1
    assert await errors(broker, request_for("orders", None, b"")) == ["INVALID_RECORD"] * 2
    assert await errors(broker, request_for("orders", bytes(old), batch("a") * 2)) == ["INVALID_RECORD"] * 2
    assert await errors(broker, request_for("orders", batch("a")[:-1], b"short")) == ["CORRUPT_MESSAGE"] * 2
    assert broker.log().log_end_offset == 0


async def test_zstd_needs_version_7() -> None:
    broker = await broker_with_topic()
    packed = batch("a" * 100, compression=Compression.ZSTD)
    assert await errors(broker, request_for("orders", packed), 6) == ["UNSUPPORTED_COMPRESSION_TYPE"]
    assert await errors(broker, request_for("orders", packed), 7) == ["NONE"]


async def test_acks_are_minus_one_zero_or_one() -> None:
    broker = await broker_with_topic()
    assert await errors(broker, request_for("orders", batch("a"), acks=2)) == ["INVALID_REQUIRED_ACKS"]
    assert await errors(broker, request_for("nowhere", acks=2)) == ["UNKNOWN_TOPIC_OR_PARTITION"]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_clients_do_not_write_to_internal_topics_whatever_they_call_themselves(topic: str) -> None:
    broker = await broker_with_topic()
    assert await errors(broker, request_for(topic)) == ["INVALID_TOPIC_EXCEPTION"]
    assert await errors(broker, request_for(topic), client_id="__admin_client") == ["INVALID_TOPIC_EXCEPTION"]
    assert await errors(broker, request_for("__eosin_metadata")) == ["UNKNOWN_TOPIC_OR_PARTITION"]


async def test_the_wrong_leader_names_the_right_one_from_version_10_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await broker_with_topic()
    del broker.partitions._logs["orders", 1]  # type: ignore[arg-type]
    monkeypatch.setattr(broker.cluster, "leader_of", lambda _: 2)
    answer = await broker.produce(batch("a"), partition=1, version=10)
    assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    monkeypatch.setattr(broker.cluster, "leader_of", lambda _: 1)
    assert (await broker.produce(batch("a"), partition=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_faulty_records_are_named_from_version_8_on() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(cleanup_policy="compact")
    faulty = batch("a", "b", "c", keys=(b"k", None, None))
    answer = await broker.produce(faulty, version=8)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1, 2]
    assert answer.error_message
    assert (await broker.produce(faulty, version=7)).error_code == ErrorCode.INVALID_RECORD


async def test_one_partitions_error_does_not_keep_the_others_from_being_written() -> None:
    broker = await broker_with_topic()
    assert await errors(broker, request_for("orders", b"short", batch("a"))) == ["CORRUPT_MESSAGE", "NONE"]


async def test_transactional_batches_need_a_transactional_id_or_the_whole_request_is_refused() -> None:
    broker = await broker_with_topic()
    mine = batch("a", producer_id=PID, producer_epoch=0, base_sequence=0, transactional=True)
    expected = ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2
    assert await errors(broker, request_for("orders", batch("b"), mine)) == expected
    assert broker.log().log_end_offset == 0


async def test_transactional_batches_of_two_producers_do_not_go_together() -> None:
    broker = await broker_with_topic()
    one = batch("a", producer_id=PID, producer_epoch=0, base_sequence=0, transactional=True)
    two = batch("a", producer_id=PID, producer_epoch=1, base_sequence=0, transactional=True)
    request = request_for("orders", one, two, transactional_id="tx")
    assert await errors(broker, request) == ["INVALID_PRODUCER_ID_MAPPING"] * 2
    assert broker.log().log_end_offset == 0


async def test_a_refusal_reaches_every_partition() -> None:
    request = request_for("orders", batch("a"), batch("a"))
    response = produce.API.refuse(request, Any, ErrorCode.UNKNOWN_SERVER_ERROR)  # type: ignore[arg-type]
    assert [each.error_code for each in response.responses[0].partition_responses] == [-1, -1]


# Idempotence
# ------------------------------------------------------------------------------------------------------------


async def test_sequences_wrap_around_and_a_retry_is_still_recognised() -> None:
    """transactions.md 13.1 case 1."""
    broker = await broker_with_topic()
    top = 2**31 - 1
    await broker.produce(idempotent("seen", sequence=top - 8))
    twenty = idempotent(*(str(n) for n in range(20)), sequence=top - 7)
    first = await broker.produce(twenty)
    assert (first.error_code, first.base_offset) == (0, 1)
    again = await broker.produce(twenty)
    assert (again.error_code, again.base_offset) == (0, 1)
    gap = await broker.produce(idempotent("x", sequence=13))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await broker.produce(idempotent("next", sequence=12))).base_offset == 21


async def test_an_old_duplicate_is_told_from_a_gap() -> None:
    broker = await broker_with_topic()
    for n in range(7):
        assert (await broker.produce(idempotent(str(n), sequence=n))).base_offset == n
    assert (await broker.produce(idempotent("1", sequence=1))).error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert (await broker.produce(idempotent("4", sequence=4))).base_offset == 4
    assert (await broker.produce(idempotent("9", sequence=9))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_producer_may_bump_its_epoch_by_itself() -> None:
    """transactions.md 13.1 case 7."""
    broker = await broker_with_topic()
    await broker.produce(idempotent("a", sequence=0))
    assert (await broker.produce(idempotent("b", sequence=0, epoch=1))).error_code == ErrorCode.NONE
    assert (await broker.produce(idempotent("c", sequence=1))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_batch_in_the_log_is_the_producers_own_but_for_offset_and_epoch() -> None:
    broker = await broker_with_topic()
    sent = idempotent("a", "b", sequence=0)
    await broker.produce(batch("before"))
    await broker.produce(sent)
    stored = bytes(list(broker.log().batches())[1])
    assert stored[16:] == sent[16:]
    assert read_header(stored).base_offset == 1
    assert read_header(stored).partition_leader_epoch == broker.log().leader_epoch
