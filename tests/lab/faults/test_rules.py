"""Rules as they are written: what they match, at which occurrences they fire, what is refused and with which words."""

import asyncio
from typing import Any

import pytest
from batches import data
from fake_peer import turns
from faulty_broker import ID, FaultyBroker, faulty_broker
from msgspec.structs import replace

from eosin.lab.common.errors import LabError
from eosin.lab.faults.armed_rules import ArmedRules
from eosin.lab.faults.counting import Counting
from eosin.lab.faults.rules import rule_in, when_in
from eosin.lab.history.requests import first_error
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.runtime.clock import SystemClock

ERROR = {"action": "error", "code": "NOT_LEADER_OR_FOLLOWER"}


def rules() -> ArmedRules:
    return ArmedRules(seed=7, wire=SystemClock())


def test_what_waits_in_the_event_loop_that_a_crash_has_left_is_forgotten() -> None:
    every = rules()
    held = every.arm({"match": {"api": "EndTxn"}, "do": {"action": "hold"}})
    loop = asyncio.new_event_loop()
    waits = [loop.create_task(every.pause(60_000)), loop.create_task(held.hold())]

    async def spawned() -> None:
        waits.append(every.spawn(held.hold()))
        await turns()

    loop.run_until_complete(spawned())
    for each in waits:
        each._log_destroy_pending = False  # type: ignore[attr-defined]  # a crash leaves them as they are
    loop.close()
    held.release()
    every.end()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"match": {"api": "EndTransaction"}, "do": ERROR}, 'there is no API "EndTransaction"; did you mean EndTxn?'),
        ({"match": {"topik": "a"}, "do": ERROR}, 'there is no field of a match "topik"; did you mean topic?'),
        ({"match": {"api": "EndTxn", "fields": {"comitted": True}}, "do": ERROR}, "did you mean committed?"),
        ({"match": {"fields": {"committed": True}}, "do": ERROR}, "name its api beside them"),
        (
            {"match": {"api": "InitProducerId", "versions": [0, 2], "fields": {"producer_id": 1}}, "do": ERROR},
            "InitProducerId has no field producer_id at the versions 0 to 2",
        ),
        ({"match": {"api": "EndTxn", "versions": [70, 80]}, "do": ERROR}, "EndTxn has the versions 0 to 5"),
        ({"do": {"action": "error", "code": "NOT_LEADER"}}, "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ({"do": {"action": "eror", "code": "NONE"}}, 'there is no action "eror"; did you mean error?'),
        ({"do": {"action": "delay", "msec": 5}}, 'there is no argument of delay "msec"; did you mean ms?'),
        ({"do": {"action": "delay", "ms": -5}}, "a delay is 0 ms or more, not -5"),
        ({"do": {"action": "delay", "ms": "long"}}, "the action delay cannot be read"),
        ({"do": ERROR, "at": "anser"}, 'there is no point "anser"; did you mean answer?'),
        ({"do": ERROR, "at": "answer"}, "the action error stands at request or handled, not at answer"),
        ({"do": {"action": "delay", "ms": 5}, "at": "prepared"}, "never reaches the point prepared: it needs"),
        ({"do": ERROR, "when": {"time": 2}}, 'there is no field of when "time"; did you mean times?'),
        ({"do": ERROR, "when": {"times": 0}}, 'times is 1 or more, or "always", not 0'),
        ({"do": ERROR, "when": {"probability": 2}}, "a probability is above 0 and at most 1, not 2"),
        ({"do": ERROR, "per": "topic"}, 'there is no field of a rule "per"'),
        ({"match": {"api": "EndTxn"}}, "a rule has an action"),
        ({"do": {"action": "call"}}, "runs a function of the test's"),
        ({"do": {"action": "lose", "what": "everything"}}, "the action lose cannot be read"),
        ({"do": {"action": "reorder", "behind": {"api": "Produse"}}}, 'no API "Produse"; did you mean Produce?'),
    ],
)
def test_a_rule_that_could_never_fire_is_refused_when_it_is_armed(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(LabError) as refused:
        rules().arm(rule)
    assert words in str(refused.value)


def test_names_may_be_written_as_in_kafka_s_own_schemas() -> None:
    rule = rule_in({"match": {"api": ["END_TXN", "produce"], "fields": {}}, "do": ERROR})
    assert rule.match.api == ("EndTxn", "Produce")
    rule = rule_in({"match": {"api": "EndTxn", "fields": {"producerEpoch": 4}}, "do": ERROR})
    assert rule.match.fields == {"producer_epoch": 4}


@pytest.mark.parametrize(
    ("when", "fires_at"),
    [
        ({}, [1]),
        ({"times": 3}, [1, 2, 3]),
        ({"times": "always"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"after": 2}, [3]),
        ({"after": 2, "times": 2}, [3, 4]),
        ({"nth": [1, 4]}, [1, 4]),
        ({"nth": 2}, [2]),
        ({"every": 3}, [3, 6]),
        ({"every": 3, "times": 1}, [3]),
        ({"every": 2, "after": 1}, [3, 5, 7]),
        ({"from": 1003, "until": 1005, "times": "always"}, [3, 4]),
    ],
)
def test_occurrences_decide_when_a_rule_fires(when: dict[str, Any], fires_at: list[int]) -> None:
    counting, conditions = Counting("f1", 7), when_in(when)
    found = []
    for number in range(1, 9):
        if counting.decide(conditions, None, 1000 + number):
            counting.fire(None)
            found.append(number)
    assert found == fires_at
    assert counting.matched == 8


def test_luck_depends_on_the_seed_the_rule_and_the_number_of_the_match_alone() -> None:
    def luck(rule_id: str, seed: int) -> list[bool]:
        counting, conditions = Counting(rule_id, seed), when_in({"probability": 0.5})
        return [counting.decide(conditions, None, 0) for _ in range(40)]

    assert luck("f1", 7) == luck("f1", 7)
    assert luck("f1", 7) != luck("f2", 7)
    assert luck("f1", 7) != luck("f1", 8)
    assert 5 < sum(luck("f1", 7)) < 35


def test_matches_count_apart_for_each_of_what_a_rule_says() -> None:
    counting, conditions = Counting("f1", 7), when_in({"nth": [2], "per": "transactional_id"})
    fired = []
    for key in ("a", "b", "a", "b", "a"):
        if counting.decide(conditions, key, 0):
            counting.fire(key)
            fired.append(key)
    assert fired == ["a", "b"]


# What a rule matches


async def codes(broker: FaultyBroker, version: int, request: ProduceRequest | FetchRequest, key: ApiKey) -> Any:
    broker.peer.send(key, version, request)
    await turns()
    (answer,) = broker.peer.answers()
    lists = "partition_responses" if key is ApiKey.PRODUCE else "partitions"
    number = "index" if key is ApiKey.PRODUCE else "partition_index"
    return {
        getattr(each, number): ErrorCode(each.error_code).name
        for topic in answer.responses
        for each in getattr(topic, lists)
    }


async def test_an_error_hits_the_partitions_that_match_and_the_others_are_executed() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"topic": "ord*", "partition": 1}, "do": ERROR})
        found = await codes(broker, 9, broker.produce(0, 1, 2), ApiKey.PRODUCE)
        assert found == {0: "NONE", 1: "NOT_LEADER_OR_FOLLOWER", 2: "NONE"}
        assert ends(broker) == [1, 0, 1]


def ends(broker: FaultyBroker) -> list[int]:
    """The high watermarks of orders."""
    logs = broker.node.logs.logs
    return [log.high_watermark for partition, log in sorted(logs.items()) if partition.topic == "orders"]


async def test_an_error_after_hits_the_partitions_that_match_when_all_are_executed() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"partition": [1, 2]}, "do": {**ERROR, "after": True}})
        found = await codes(broker, 9, broker.produce(0, 1, 2), ApiKey.PRODUCE)
        assert found == {0: "NONE", 1: "NOT_LEADER_OR_FOLLOWER", 2: "NOT_LEADER_OR_FOLLOWER"}
        assert ends(broker) == [1, 1, 1]


async def test_an_error_in_all_partitions_executes_nothing() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"topic": "orders"}, "do": ERROR})
        assert set((await codes(broker, 9, broker.produce(0, 2), ApiKey.PRODUCE)).values()) == {ERROR["code"]}
        broker.rules.arm({"match": {"partition": 0}, "do": {**ERROR, "scope": "all"}})
        assert set((await codes(broker, 9, broker.produce(0, 2), ApiKey.PRODUCE)).values()) == {ERROR["code"]}
        assert ends(broker) == [0, 0, 0]


async def test_a_topic_id_is_resolved() -> None:
    async with faulty_broker() as broker:
        every = (await broker.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics
        (topic,) = (each for each in every if each.name == "orders")
        broker.rules.arm({"match": {"topic": "orders", "partition": 0}, "do": ERROR})
        request = ProduceRequest(
            acks=-1,
            topic_data=(TopicProduceData(topic_id=topic.topic_id, partition_data=(PartitionProduceData(0, data(1)),)),),
        )
        assert await codes(broker, 13, request, ApiKey.PRODUCE) == {0: "NOT_LEADER_OR_FOLLOWER"}
        broker.rules.arm({"match": {"api": "Fetch", "topic": "orders", "partition": 1}, "do": ERROR})
        partitions = tuple(FetchPartition(index, partition_max_bytes=1000) for index in range(2))
        fetch = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=(FetchTopic(topic_id=topic.topic_id, partitions=partitions),)
        )
        assert await codes(broker, 13, fetch, ApiKey.FETCH) == {0: "NONE", 1: "NOT_LEADER_OR_FOLLOWER"}


async def test_a_fetch_of_a_session_is_about_all_of_its_partitions() -> None:
    async with faulty_broker() as broker:
        partitions = tuple(FetchPartition(index, partition_max_bytes=1000) for index in range(2))
        first = FetchRequest(max_wait_ms=0, session_epoch=0, topics=(FetchTopic("orders", partitions=partitions),))
        broker.peer.send(ApiKey.FETCH, 12, first)
        await turns()
        (answer,) = broker.peer.answers()
        rule = broker.rules.arm({"match": {"api": "Fetch", "topic": "ord*", "partition": 1}, "do": ERROR})
        later = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=answer.session_id, session_epoch=1)
        assert await codes(broker, 12, later, ApiKey.FETCH) == {1: "NOT_LEADER_OR_FOLLOWER"}
        assert rule.counting.fired == 1


@pytest.mark.parametrize(
    ("match", "fires"),
    [
        ({"transactional_id": "inv-*"}, True),
        ({"transactional_id": "other"}, False),
        ({"client_id": "te?t"}, True),
        ({"client_id": "no"}, False),
        ({"fields": {"committed": True}}, True),
        ({"fields": {"committed": False}}, False),
        ({"fields": {"transactional_id": "inv*"}}, True),
        ({"producer_epoch": 0}, True),
        ({"producer_epoch": 1}, False),
        ({"versions": [3, 3]}, True),
        ({"versions": [4, 5]}, False),
        ({"peer": "127.0.0.1:*"}, True),
        ({"peer": "127.0.0.2:*"}, False),
        ({"connection": 1}, True),
        ({"connection": 2}, False),
        ({"listener": "PLAINTEXT"}, True),
        ({"group": "g"}, False),
        ({"topic": "orders"}, False),
        ({"software": "librdkafka"}, False),
    ],
)
async def test_a_rule_fires_at_the_requests_that_it_matches(match: dict[str, Any], fires: bool) -> None:
    async with faulty_broker() as broker:
        rule = broker.rules.arm({"match": {"api": "EndTxn", **match}, "do": {"action": "delay", "ms": 0}})
        broker.send(ApiKey.END_TXN)
        await broker.clock.run(0)
        assert rule.counting.fired == int(fires)


async def test_the_producer_id_tells_the_transactional_id_of_a_produce() -> None:
    async with faulty_broker() as broker:
        rule = broker.rules.arm({"match": {"api": "Produce", "transactional_id": ID}, "do": ERROR})
        producer_id, epoch = broker.producer
        records = data(1, pid=producer_id, epoch=epoch, seq=0)
        request = broker.produce(0)
        (topic,) = request.topic_data
        request = replace(request, topic_data=(replace(topic, partition_data=(PartitionProduceData(0, records),)),))
        assert await codes(broker, 9, request, ApiKey.PRODUCE) == {0: "NOT_LEADER_OR_FOLLOWER"}
        assert rule.counting.fired == 1


# Several rules, and what they leave behind


async def test_the_first_rule_that_fires_decides_and_the_others_count() -> None:
    async with faulty_broker() as broker:
        first = broker.rules.arm({"match": {"api": "EndTxn"}, "do": {**ERROR, "code": "NOT_COORDINATOR"}})
        second = broker.rules.arm({"match": {"api": "EndTxn"}, "do": {**ERROR, "code": "COORDINATOR_NOT_AVAILABLE"}})
        found = []
        for _ in range(3):
            broker.send(ApiKey.END_TXN)
            await turns()
            found += [first_error(each) for each in broker.peer.answers()]
        assert found == ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "NONE"]
        assert (first.counting.matched, second.counting.matched) == (3, 3)
        assert broker.rules.complaints == []


async def test_rules_that_never_fired_are_complained_of_in_their_own_words() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"api": "EndTxn"}, "do": {"action": "lose", "what": "answer"}})
        broker.rules.arm({"match": {"api": "EndTxn"}, "do": ERROR, "optional": True})
        broker.rules.arm({"match": {"api": "Fetch"}, "do": ERROR, "when": {"after": 5}, "name": "late"})
        broker.send(ApiKey.FETCH)
        await turns()
        assert broker.rules.complaints == [
            "rule f1 (EndTxn: answer lost, connection reset, at answer) never fired: nothing matched it",
            "rule late (Fetch: NOT_LEADER_OR_FOLLOWER, at request) never fired: 1 matched it, which its conditions let"
            " pass",
        ]


async def test_a_barrier_opens_when_enough_wait() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"api": ["EndTxn", "Fetch"]}, "do": {"action": "hold", "until": 2}})
        broker.send(ApiKey.FETCH)
        await turns()
        assert broker.executed == []
        broker.other.send(ApiKey.END_TXN, 3, EndTxnRequest(ID, *broker.producer, committed=True))
        await turns()
        assert sorted(broker.executed) == [ApiKey.FETCH, ApiKey.END_TXN]


async def test_a_function_that_fails_harms_no_request_and_fails_the_test() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"api": "EndTxn"}, "do": {"action": "call"}}, lambda _: 1 // 0)
        broker.send(ApiKey.END_TXN)
        await turns()
        assert [first_error(each) for each in broker.peer.answers()] == ["NONE"]
        (complaint,) = broker.rules.complaints
        assert "its request went on without it: ZeroDivisionError" in complaint


async def test_a_code_for_which_a_version_has_no_room_is_complained_of() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"api": "Metadata"}, "do": ERROR})
        broker.peer.send(ApiKey.METADATA, 8, MetadataRequest(topics=()))
        await turns()
        (complaint,) = broker.rules.complaints
        assert "changed nothing: version 8 has no room for it" in complaint


async def test_requests_that_are_held_are_dropped_when_the_broker_ends() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"api": "EndTxn"}, "do": {"action": "hold"}})
        broker.send(ApiKey.END_TXN)
        await turns()
        broker.rules.end()
        await turns()
        assert broker.peer.connection.is_gone
        assert ApiKey.END_TXN not in broker.executed


async def test_a_produce_without_answers_is_lost_in_part_as_well() -> None:
    async with faulty_broker() as broker:
        broker.rules.arm({"match": {"partition": 1}, "do": ERROR})
        broker.peer.send(ApiKey.PRODUCE, 9, broker.produce(0, 1, acks=0))
        await turns()
        assert ends(broker) == [1, 0, 0]
        assert broker.peer.answers() == []
