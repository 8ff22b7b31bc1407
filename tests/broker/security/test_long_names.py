"""A request of few names, but long ones, takes as many turns as one of many short ones (security.md 6.2).

A frame of 16 MiB has room for 511 names of 32 KiB. Each is copied, hashed, looked up and sent back.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker

from eosin.coordinator.groups import shards
from eosin.network import large_exchange
from eosin.network.many_items import CHARS_PER_ITEM, ITEMS_PER_TURN, pieces
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_request

LONG = 32_000
NAMES = tuple(f"{number}".ljust(LONG, "x") for number in range(60))


@pytest.fixture
async def broker() -> AsyncIterator[GuardedBroker]:
    async with guarded_broker() as running:
        yield running


REQUESTS: dict[ApiKey, tuple[int, str, str, Message]] = {
    ApiKey.DESCRIBE_GROUPS: (5, "groups", "group_id", DescribeGroupsRequest(groups=NAMES)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        0,
        "results",
        "user",
        DescribeUserScramCredentialsRequest(tuple(UserName(name) for name in NAMES)),
    ),
    ApiKey.METADATA: (
        12,
        "topics",
        "name",
        MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES)),
    ),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
async def test_threads_decode_a_request_of_long_names_and_encode_its_response(
    broker: GuardedBroker, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bool] = []
    encoded: list[bool] = []

    def is_main() -> bool:
        return threading.current_thread() is threading.main_thread()

    def decode(*given: Any) -> Any:
        decoded.append(is_main())
        return decode_request(*given)

    def encode(*given: Any) -> Any:
        encoded.append(is_main())
        return encode_response(*given)

    encode_response = large_exchange.encode_response
    monkeypatch.setattr(large_exchange, "encode_response", encode)
    monkeypatch.setattr(broker.server.host, "decode_request", decode)
    version, field, name, request = REQUESTS[key]
    response = await broker.ask(ADMIN, key, request, version=version)
    assert [getattr(each, name) for each in getattr(response, field)] == list(NAMES)
    assert (decoded, encoded) == ([False], [False])


async def test_long_names_of_groups_are_hashed_a_few_in_a_turn(
    broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's hash of one of them takes a millisecond and more: fifty at once took 100 ms."""
    loop, of_turns = asyncio.get_running_loop(), [0]
    partition_for = shards.partition_for

    def counted(name: str, count: int) -> int:
        if not of_turns[-1]:
            loop.call_soon(of_turns.append, 0)
        of_turns[-1] += len(name)
        return partition_for(name, count)

    monkeypatch.setattr(shards, "partition_for", counted)
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES)
    response = await broker.ask(ADMIN, ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=groups), version=9)
    assert [each.group_id for each in response.groups] == list(NAMES)
    assert {each.error_code for each in response.groups} == {ErrorCode.NONE}
    assert max(of_turns) <= 2 * LONG


def test_topics_of_long_names_come_in_smaller_pieces() -> None:
    topics = [OffsetFetchRequestTopics(name="x" * CHARS_PER_ITEM * ITEMS_PER_TURN, partition_indexes=(0, 1))] * 3
    assert [len(piece) for piece in pieces(topics, "partition_indexes")] == [1, 1, 1]
    short = [OffsetFetchRequestTopics(name="x", partition_indexes=(0,))] * (ITEMS_PER_TURN + 1)
    assert [len(piece) for piece in pieces(short, "partition_indexes")] == [ITEMS_PER_TURN, 1]
