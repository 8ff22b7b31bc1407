"""FindCoordinator on the wire: one key in a request, then many (transactions.md 2)."""

import pytest
from wire import Wire, unique
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.fixture(autouse=True)
async def _coordinators(wire: Wire, group: str) -> None:
    """Both coordinators are ready."""
    await transactional(wire)


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", range(4))
async def test_one_coordinator_is_found_by_its_key(wire: Wire, version: int, kind: int) -> None:
    answer = await wire.ask(FindCoordinatorRequest(key="any", key_type=kind), version)
    assert answer.error_code == NONE
    assert answer.node_id >= 0
    assert answer.port == wire.connection.address.port


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", [4, 5, 6])
async def test_many_coordinators_are_found_in_one_request(wire: Wire, version: int, kind: int) -> None:
    keys = tuple(unique("key") for _ in range(3))
    answer = await wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), version)
    assert [each.key for each in answer.coordinators] == list(keys)
    assert {(each.error_code, each.port) for each in answer.coordinators} == {(NONE, wire.connection.address.port)}


async def test_no_keys_are_answered_with_nothing(wire: Wire) -> None:
    answer = await wire.ask(FindCoordinatorRequest(key_type=TRANSACTION), 4)
    assert (answer.error_code, answer.coordinators) == (NONE, ())


async def test_a_repeated_coordinator_key_is_answered_twice(wire: Wire) -> None:
    answer = await wire.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=("a", "a")), 4)
    assert [each.key for each in answer.coordinators] == ["a", "a"]


@pytest.mark.parametrize("kind", [3, 7, -1])
async def test_an_unknown_coordinator_type_is_an_invalid_request(wire: Wire, kind: int) -> None:
    single = await wire.ask(FindCoordinatorRequest(key="any", key_type=kind), 3)
    assert (single.error_code, single.node_id, single.host, single.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    many = await wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=("a", "b")), 4)
    assert [each.error_code for each in many.coordinators] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_share_groups_have_no_coordinator(wire: Wire, version: int) -> None:
    answer = await wire.ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=("a:b:0",)), version)
    assert answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


async def test_looking_for_a_coordinator_creates_nothing(wire: Wire) -> None:
    name = unique("tx")
    await wire.ask(FindCoordinatorRequest(key=name, key_type=TRANSACTION), 3)
    assert (await wire.init(name)).producer_epoch == 0
