"""Quotas look at each item of a request of many in turns with everybody else (security.md 6.2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from loop_steps import LoopSteps
from waiting import until

from eosin.network.many_items import ITEMS_PER_TURN, list_in_turns
from eosin.network.quotas import enforcement
from eosin.network.quotas.mutations import TopicMutations
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

MOST_S = 0.03
COUNT = 20_000
REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        yield running


async def limit(broker: GuardedBroker, key: str, value: float) -> None:
    entry = RequestEntryData((EntityData("user", "admin"),), (OpData(key, value, False),))
    response = await broker.ask(ADMIN, ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest((entry,)))
    assert response.entries[0].error_code == ErrorCode.NONE


@pytest.mark.virtual
async def test_the_topics_that_a_request_changes_are_counted_in_turns_and_answered_in_their_order(
    broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_topics(*(f"mine-{number}" for number in range(20)))
    await limit(broker, "controller_mutation_rate", 1)
    loop, of_turns = asyncio.get_running_loop(), [0]
    cost = TopicMutations._cost

    def counted(mutations: TopicMutations, *args: Any) -> float:
        if not of_turns[-1]:
            loop.call_soon(of_turns.append, 0)
        of_turns[-1] += 1
        return cost(mutations, *args)

    monkeypatch.setattr(TopicMutations, "_cost", counted)
    names = [*(f"none-{number}" for number in range(3 * ITEMS_PER_TURN)), *(f"mine-{number}" for number in range(20))]
    request = DeleteTopicsRequest(topics=tuple(DeleteTopicState(name) for name in names), timeout_ms=1000)
    response = await broker.ask(ADMIN, ApiKey.DELETE_TOPICS, request)
    assert max(of_turns) <= ITEMS_PER_TURN + 1
    assert [each.name for each in response.responses] == names
    codes = [each.error_code for each in response.responses]
    assert set(codes[:-20]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, "what does not exist costs nothing"
    assert (codes[-20], codes[-1]) == (ErrorCode.NONE, REFUSED)


@pytest.mark.slow
async def test_a_quota_of_very_many_topics_keeps_the_event_loop_for_milliseconds(broker: GuardedBroker) -> None:
    await limit(broker, "controller_mutation_rate", 1)
    peer = broker.peer(ADMIN)
    names = tuple(f"none-{number}" for number in range(COUNT))
    frame = peer.frame(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=names, timeout_ms=1000))
    with LoopSteps() as steps:
        steps.begin(peer.transport.feed, frame, piece=len(frame))
        await until(lambda: len(peer.transport.sent) > 4)
    assert steps.longest_s < MOST_S, steps.longest


@pytest.mark.virtual
async def test_the_partitions_of_a_response_are_counted_in_turns_and_all_of_them(
    broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_topics("orders")
    await limit(broker, "consumer_byte_rate", 1)
    monkeypatch.setattr(enforcement, "NAMES_PER_TURN", 100)
    of_turns: list[int] = []

    async def counted(items: Any, clock: Any, *, per_turn: int) -> list[int]:
        of_turns.append(per_turn)
        return await list_in_turns(items, clock, per_turn=per_turn)

    monkeypatch.setattr(enforcement, "list_in_turns", counted)
    partitions = tuple(FetchPartition(index, partition_max_bytes=100) for index in range(300))
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=(FetchTopic("orders", partitions=partitions),))
    first = await broker.ask(ADMIN, ApiKey.FETCH, request, version=12)
    assert len(first.responses[0].partitions) == 300, "the first response fits, however large it is"
    second = await broker.ask(ADMIN, ApiKey.FETCH, request, version=12, host="127.0.0.2")
    assert (second.responses, second.throttle_time_ms) == ((), 15_000)
    assert of_turns == [100, 100]
