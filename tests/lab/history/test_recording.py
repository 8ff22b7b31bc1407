"""The history: what is kept of requests and decisions, how much of it, and who waits for the next event."""

import asyncio
from typing import Any

import pytest
from manual_clock import ManualClock

from eosin.lab.common.errors import LabError
from eosin.lab.common.values import PartitionName
from eosin.lab.history import reading
from eosin.lab.history.matching import match_in, match_of
from eosin.lab.history.occurrences import HistorySpan, LinkSeen, Occurrence
from eosin.lab.history.recording import Recording
from eosin.lab.history.requests import first_error
from eosin.lab.history.transcript import transcript
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

SHOP = LinkSeen(3, "127.0.0.1:5", "invoicing-1", "librdkafka 2.16")
NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED


def recording(**options: Any) -> Recording:
    return Recording(ManualClock(), **options)


def end_txn(history: Recording, code: ErrorCode = NONE, *, link: LinkSeen = SHOP, rule: str = "") -> int:
    """One EndTxn from its beginning to its end; the number of its beginning."""
    number = history.began(ApiKey.END_TXN, 1, EndTxnRequest("invoicing-1", 7, 4, committed=True), link)
    history.ended(number, link.link, ApiKey.END_TXN, EndTxnResponse(error_code=code), rule=rule)
    return number


def produce(*values: bytes) -> ProduceRequest:
    batch = bytes(build_batch([NewRecord(None, each) for each in values], timestamp=0))
    return ProduceRequest(
        "t", topic_data=(TopicProduceData("orders", partition_data=(PartitionProduceData(2, batch),)),)
    )


# What is kept


def test_a_request_is_kept_with_whose_it_is_and_what_became_of_it() -> None:
    history = recording()
    number = end_txn(history, FENCED, rule="f1")
    (request,) = reading.requests_in(history.occurrences())
    assert (request.number, request.api, request.version, request.transactional_id) == (
        number,
        "EndTxn",
        1,
        "invoicing-1",
    )
    assert (request.link, request.detail, request.code, request.rule) == (SHOP, "commit epoch 4", FENCED.name, "f1")
    assert request.fate == "answered"
    assert request.duration_us is not None


@pytest.mark.parametrize(
    ("key", "message", "transactional_id", "group", "partitions", "detail"),
    [
        (ApiKey.PRODUCE, produce(b"x"), "t", "", ["orders-2"], ""),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t", v3_and_below_topics=(AddPartitionsToTxnTopic("orders", (0, 1)),)
            ),
            "t",
            "",
            ["orders-0", "orders-1"],
            "",
        ),
        (
            ApiKey.TXN_OFFSET_COMMIT,
            TxnOffsetCommitRequest(
                "t",
                "g",
                topics=(TxnOffsetCommitRequestTopic("orders", partitions=(TxnOffsetCommitRequestPartition(0, 5),)),),
            ),
            "t",
            "g",
            ["orders-0"],
            "to 5",
        ),
        (
            ApiKey.OFFSET_COMMIT,
            OffsetCommitRequest(
                "g", topics=(OffsetCommitRequestTopic("o", b"", (OffsetCommitRequestPartition(0, 5),)),)
            ),
            "",
            "g",
            ["o-0"],
            "to 5",
        ),
        (ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m"), "", "g", [], ""),
    ],
)
def test_each_api_is_kept_with_what_it_is_about(
    key: ApiKey, message: Any, transactional_id: str, group: str, partitions: list[str], detail: str
) -> None:
    history = recording()
    history.began(key, 3, message, SHOP)
    (event,) = history.occurrences()
    assert (event.transactional_id, event.group, event.detail) == (transactional_id, group, detail)
    assert [str(each) for each in event.partitions] == partitions


def test_topics_that_a_request_names_by_id_are_kept_by_name() -> None:
    history = recording(topic_name=lambda topic_id: f"named-{topic_id.hex()[:2]}")
    data = TopicProduceData(topic_id=b"\x07" * 16, partition_data=(PartitionProduceData(0, None),))
    history.began(ApiKey.PRODUCE, 13, ProduceRequest("t", topic_data=(data,)), SHOP)
    assert history.occurrences()[0].partitions == (PartitionName("named-07", 0),)


def test_a_request_of_very_many_partitions_is_kept_with_the_first_ones() -> None:
    history = recording()
    many = AddPartitionsToTxnTopic("orders", tuple(range(10_000)))
    history.began(ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest(v3_and_below_topics=(many,)), SHOP)
    assert len(history.occurrences()[0].partitions) == 20


def test_the_values_of_records_are_kept_at_the_level_full_alone() -> None:
    plain, full = recording(), recording(level="full")
    for each in (plain, full):
        each.began(ApiKey.PRODUCE, 9, produce(b"one book", b"two"), SHOP)
    assert plain.occurrences()[0].detail == ""
    assert full.occurrences()[0].detail == "b'one book' b'two'"


def test_records_that_nobody_can_read_are_said_to_be_so() -> None:
    full = recording(level="full")
    data = TopicProduceData("orders", partition_data=(PartitionProduceData(0, b"x" * 200),))
    full.began(ApiKey.PRODUCE, 9, ProduceRequest("t", topic_data=(data,)), SHOP)
    assert full.occurrences()[0].detail == "unreadable"


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (EndTxnResponse(error_code=FENCED), "PRODUCER_FENCED"),
        (HeartbeatResponse(), "NONE"),
        (ProduceResponse(), "NONE"),
        (FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "FETCH_SESSION_ID_NOT_FOUND"),
        (
            AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=(
                    AddPartitionsToTxnTopicResult(
                        "o", (AddPartitionsToTxnPartitionResult(0), AddPartitionsToTxnPartitionResult(1, FENCED))
                    ),
                )
            ),
            "PRODUCER_FENCED",
        ),
        (EndTxnResponse(error_code=9999), "9999"),
        (None, ""),
    ],
)
def test_a_response_is_kept_as_its_first_error(response: Any, code: str) -> None:
    assert first_error(response) == code


# How much


def test_the_oldest_events_go_and_are_counted_and_an_assertion_over_the_rest_is_refused() -> None:
    history = recording(most=4)
    for _ in range(5):
        end_txn(history)
    assert [each.number for each in history.occurrences()] == [7, 8, 9, 10]
    assert history.span == HistorySpan("protocol", 10, 6)
    with pytest.raises(LabError, match=r"has lost its first 6 events: call history.clear\(\) before"):
        reading.check_whole(history.span)
    history.clear()
    assert history.span.truncated == 0
    reading.check_whole(history.span)
    end_txn(history)
    assert [each.number for each in history.occurrences()] == [11, 12]
    assert history.span.truncated == 0


def test_events_since_a_number_are_those_after_it() -> None:
    history = recording()
    for _ in range(10):
        end_txn(history)
    for since in (0, 3, 15, 19, 20, 30):
        assert [each.number for each in history.occurrences(since)] == list(range(since + 1, 21))


async def test_whoever_waits_for_an_event_is_woken_by_the_next_one_and_not_before() -> None:
    history = recording()
    end_txn(history)
    assert await history.changed(1, 60_000) == 2
    waiting = asyncio.create_task(history.changed(2, 60_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    history.record("complete", transactional_id="t")
    assert await waiting == 3
    assert await history.changed(3, 0) == 3


# Questions


def test_a_match_fits_by_patterns_of_every_field() -> None:
    history = recording()
    end_txn(history)
    end_txn(history, FENCED, link=LinkSeen(4, "127.0.0.1:6", "other", ""))
    history.began(ApiKey.PRODUCE, 9, produce(b"x"), SHOP)
    events = history.occurrences()

    def count(api: str | None = None, **fields: Any) -> int:
        return len(reading.matching(events, match_of(api, **fields)))

    assert count() == 3
    assert count("EndTxn") == count("END_TXN") == count("endtxn") == 2
    assert count("EndTxn", code="PRODUCER_FENCED") == count(code=FENCED) == count(client_id="oth*") == 1
    assert count(transactional_id="invoicing-*") == 2
    assert count(topic="ord*", partition=2) == 1
    assert count(topic="ord*", partition=1) == 0
    assert count(link=3, fate="answered") == 1
    assert count(software="librdkafka*") == 2


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"api": "EndTransaction"}, 'there is no API "EndTransaction"; did you mean EndTxn?'),
        ({"transactionalid": "t"}, 'no field of a request "transactionalid"; did you mean transactional_id?'),
        ({"code": "FENCED"}, 'there is no error code "FENCED"'),
        ({"partition": "one"}, "a request is not matched so: Expected `int | null`, got `str`"),
    ],
)
def test_a_match_of_what_does_not_exist_is_refused_with_what_does(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError) as refused:
        match_in(fields)
    assert sentence in str(refused.value)


def test_events_of_an_id_are_its_requests_to_their_end_and_its_decisions() -> None:
    history = recording()
    end_txn(history)
    history.record("prepared", transactional_id="other")
    history.record("complete", transactional_id="invoicing-1", detail="commit")
    assert [each.what for each in reading.about(history.occurrences(), "invoicing-1")] == [
        "asked",
        "answered",
        "complete",
    ]


def test_two_requests_are_in_order_unless_they_overlap() -> None:
    history = recording()
    end_txn(history)
    held = history.began(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"), SHOP)
    end_txn(history)
    first, beat, second = reading.requests_in(history.occurrences())
    assert (reading.order(first, beat), reading.order(beat, first), reading.order(beat, second)) == (-1, 1, 0)
    history.ended(held, 3, ApiKey.HEARTBEAT, HeartbeatResponse())
    between = reading.between(history.occurrences(), first, second)
    assert [each.number for each in between] == [held]


def test_a_search_goes_on_with_the_events_that_follow() -> None:
    history = recording()
    search = reading.RequestSearch(match_of("EndTxn", code="NONE"))
    history.began(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"), SHOP)
    number = history.began(ApiKey.END_TXN, 1, EndTxnRequest("t", 7, 4, committed=True), SHOP)
    search.read(history.occurrences(apis=("EndTxn",)))
    assert search.ended == []
    last = history.last
    history.ended(number, 3, ApiKey.END_TXN, EndTxnResponse())
    end_txn(history, FENCED)
    search.read(history.occurrences(last, apis=("EndTxn",)))
    assert [each.number for each in search.ended] == [number]


def test_requests_that_were_wanted_in_an_order_are_found_between_others() -> None:
    history = recording()
    for code in (NONE, FENCED, NONE):
        end_txn(history, code)
    events = history.occurrences()
    end, fenced = match_of("EndTxn"), match_of("EndTxn", code=FENCED)
    assert reading.first_missing(events, [end, end, end]) is None
    assert reading.first_missing(events, [fenced, end]) is None
    assert reading.first_missing(events, [end, fenced, fenced]) == 2


# Words


def test_the_transcript_has_a_line_for_each_request_and_each_decision() -> None:
    history = recording()
    end_txn(history, FENCED, rule="f1")
    history.began(ApiKey.FETCH, 12, FetchRequest(), SHOP)
    lost = history.began(ApiKey.END_TXN, 1, EndTxnRequest("t", 7, 4, committed=False), LinkSeen(4, "127.0.0.1:6"))
    history.record("executed", request=lost, api=ApiKey.END_TXN, link=4, code="NONE")
    history.record("lost", request=lost, api=ApiKey.END_TXN, link=4, rule="f2")
    history.record("prepared", transactional_id="t", partitions=[("orders", 0)], detail="commit epoch 5")
    said = [line.partition(" ms  ")[2] for line in transcript(history.occurrences())]
    took = said[0].rpartition("after ")[2]
    assert said == [
        f"#3 invoicing-1 (librdkafka 2.16)  EndTxn v1 commit epoch 4  ->  PRODUCER_FENCED after {took}",
        "#4 127.0.0.1:6  EndTxn v1 t abort epoch 4  ->  executed, answer lost (rule f2)",
        "prepared t orders-0 commit epoch 5",
    ]
    assert "(rule f1)" in took
    assert any("Fetch v12" in line for line in transcript(history.occurrences(), everything=True))


def test_a_quiet_request_that_went_wrong_is_in_the_transcript() -> None:
    history = recording()
    beat = history.began(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"), SHOP)
    history.ended(beat, 3, ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert ["UNKNOWN_MEMBER_ID" in line for line in transcript(history.occurrences())] == [True]


def test_the_transcript_tells_that_the_brokers_clock_was_moved() -> None:
    clock = ManualClock()
    history = Recording(clock)
    history.record("prepared", transactional_id="t")
    clock.advance(61_000)
    history.record("timeout", transactional_id="t")
    told = [line.partition(" ms  ")[2] for line in transcript(history.occurrences())]
    assert told == ["prepared t", "the broker's clock was moved by 61.0 s", "timeout t"]


def test_connections_are_told_as_they_were_known_last() -> None:
    history = recording()
    history.connected(LinkSeen(3, "127.0.0.1:5"))
    end_txn(history)
    history.disconnected(3)
    assert reading.links_in(history.occurrences()) == [SHOP]
    assert isinstance(history.occurrences()[0], Occurrence)
