"""A large response is let go of in turns, which needs that nobody else holds it (security.md 6.2)."""

import sys
from typing import Any

import pytest
from guarded_broker import ADMIN, guarded_broker
from waiting import until

from eosin.broker.handlers import describe_acls
from eosin.broker.handlers.registry import BY_KEY
from eosin.model.resources import Operation
from eosin.network import many_items
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_log_dirs import DescribeLogDirsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.types import Message

REQUESTS: dict[str, tuple[ApiKey, Message]] = {
    "metadata of some topics": (
        ApiKey.METADATA,
        MetadataRequest(topics=(MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="hidden"))),
    ),
    "metadata of all topics": (ApiKey.METADATA, MetadataRequest(topics=None)),
    "access control entries": (
        ApiKey.DESCRIBE_ACLS,
        DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
    ),
    "log directories": (ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None)),
    "groups": (ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("a", "b"))),
    "all groups": (ApiKey.LIST_GROUPS, ListGroupsRequest()),
    "coordinators": (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=("a", "b"))),
    "configs": (ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest((DescribeConfigsResource(2, "orders"),))),
}
ONE_HOLDER = 2
"""Its list, and who asks for the count."""


@pytest.mark.parametrize("name", REQUESTS)
async def test_nobody_holds_a_response_when_it_is_let_go_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holders: list[int] = []

    async def noted(whole: list[Any]) -> None:
        holders.append(sys.getrefcount(whole[0]))
        for field in whole[0].__struct_fields__:
            inner = getattr(whole[0], field)
            if type(inner) is tuple and inner:
                holders.append(sys.getrefcount(inner[-1]))

    monkeypatch.setattr(many_items, "dropped", noted)
    monkeypatch.setattr(describe_acls, "dropped", noted)
    monkeypatch.setattr(describe_acls, "FEW", 1)
    monkeypatch.setattr(many_items, "ITEMS_PER_STEP", -1)
    key, request = REQUESTS[name]
    async with guarded_broker() as broker:
        await broker.create_topics("orders")
        for name in ("orders", "own"):
            await broker.grant("User:mallory", Operation.DESCRIBE, name)
        peer = broker.peer("User:mallory" if key is ApiKey.METADATA else ADMIN)
        peer.send(key, BY_KEY[key].versions[-1], request)
        await until(lambda: bool(holders))
        assert set(holders) == {ONE_HOLDER}
