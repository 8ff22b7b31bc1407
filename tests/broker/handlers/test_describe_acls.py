"""DescribeAcls of very many entries (case 45 of security.md 9.3): nobody else waits for it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from call_counter import CallCounter, counted
from manual_clock import TickingClock

from eosin.broker.handlers.describe_acls import FEW, handle
from eosin.broker.services import Services
from eosin.cluster.metadata.acl_entries import found_in_turns
from eosin.model.acls import Acl, AclFilter
from eosin.network.api import RequestContext
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from eosin.protocol.wire.codec import EncodedBody, decode_body, encode_response
from eosin.runtime.turns import TURN_MS

EVERYTHING = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
CONTEXT = RequestContext(3, None, "/127.0.0.1", "PLAINTEXT")


class Entries:
    """So many entries, two of each topic."""

    def __init__(self, count: int) -> None:
        self.acls = [Acl(2, f"topic-{number // 2}", 3, f"User:{number % 2}", "*", 3, 3) for number in range(count)]

    async def found(self, wanted: AclFilter) -> list[Acl]:
        return await found_in_turns(self.acls, wanted, TickingClock())


def services(count: int) -> Services:
    return cast(Services, SimpleNamespace(acls=Entries(count), clock=TickingClock()))


def checked(response: Any, count: int) -> None:
    assert len(response.resources) == count // 2
    assert {len(each.acls) for each in response.resources} == {2}
    assert {each.resource_name for each in response.resources} == {f"topic-{number}" for number in range(count // 2)}


async def test_few_entries_are_described_at_once() -> None:
    response = await handle(EVERYTHING, CONTEXT, services(FEW))
    assert isinstance(response, DescribeAclsResponse)
    checked(response, FEW)


@pytest.mark.parametrize("count", [FEW + 2, pytest.param(100_000, marks=pytest.mark.full)])
async def test_many_entries_leave_turns_of_the_loop_to_others(count: int) -> None:
    response, turns = await counted(handle(EVERYTHING, CONTEXT, services(count)))
    assert isinstance(response, EncodedBody)
    assert len(turns) > count // TURN_MS
    assert max(turns) < 10 * FEW
    with CallCounter() as sending:
        encode_response(ApiKey.DESCRIBE_ACLS, 3, 7, response)
    assert sending.calls < 100
    checked(decode_body(ApiKey.DESCRIBE_ACLS, 3, response), count)
