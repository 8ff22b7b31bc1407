"""The response to a request of very many names is written beside the event loop (security.md 6.2)."""

import threading
from typing import Any

import pytest
from guarded_broker import guarded_broker

from eosin.network import many_items
from eosin.network.many_items import ITEMS_PER_STEP
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import encode_body

NAMES = tuple(f"name-{index}" for index in range(ITEMS_PER_STEP + 1))
REQUESTS: dict[ApiKey, tuple[str, Message]] = {
    ApiKey.FIND_COORDINATOR: ("coordinators", FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES)),
    ApiKey.DESCRIBE_GROUPS: ("groups", DescribeGroupsRequest(groups=NAMES)),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transaction_states", DescribeTransactionsRequest(transactional_ids=NAMES)),
    ApiKey.METADATA: ("topics", MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES))),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
async def test_a_long_response_is_encoded_in_a_thread(key: ApiKey, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def encoded(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return encode_body(*given)

    monkeypatch.setattr(many_items, "encode_body", encoded)
    field, request = REQUESTS[key]
    async with guarded_broker() as broker:
        response = await broker.ask("User:mallory", key, request)
    items = getattr(response, field)
    assert len(items) == len(NAMES)
    assert ErrorCode.NONE not in {each.error_code for each in items}
    assert len(threads) == 1
    assert threads[0] != threading.main_thread().name
