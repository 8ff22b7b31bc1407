"""FindCoordinator at each version."""

import pytest
from data_broker import DataBroker

from eosin.broker.handlers.find_coordinator import API
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

ONE_KEY, MANY_KEYS = [version for version in API.versions if version < 4], [v for v in API.versions if v >= 4]


@pytest.mark.parametrize("version", ONE_KEY)
async def test_one_key_has_one_answer(version: int) -> None:
    broker = await DataBroker.started()
    for key_type in (0, 1) if version else (0,):
        answer = await broker.call(API, FindCoordinatorRequest("key", key_type), version)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "localhost", 9092)
        assert answer.coordinators == ()


@pytest.mark.parametrize("version", MANY_KEYS)
@pytest.mark.parametrize("key_type", [0, 1])
async def test_many_keys_are_answered_in_the_order_asked_and_as_often(version: int, key_type: int) -> None:
    broker = await DataBroker.started()
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("b", "a", "b", ""))
    answer = await broker.call(API, request, version)
    assert [(each.key, each.error_code, each.node_id, each.host, each.port) for each in answer.coordinators] == [
        (key, 0, 1, "localhost", 9092) for key in ("b", "a", "b", "")
    ]
    assert answer.error_code == 0


@pytest.mark.parametrize("version", MANY_KEYS)
async def test_no_keys_have_no_answers(version: int) -> None:
    broker = await DataBroker.started()
    assert (await broker.call(API, FindCoordinatorRequest(), version)).coordinators == ()


@pytest.mark.parametrize("key_type", [2, 3, -1])
async def test_a_key_of_another_type_is_an_invalid_request(key_type: int) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, FindCoordinatorRequest("key", key_type), 3)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    assert answer.error_message
    answer = await broker.call(API, FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a",)), 6)
    (each,) = answer.coordinators
    assert (each.key, each.error_code, each.node_id, each.host, each.port) == ("a", 42, -1, "", -1)


async def test_without_a_leader_the_client_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await DataBroker.started()
    monkeypatch.setattr(type(broker.cluster), "leader_of", lambda *_: -1)
    answer = await broker.call(API, FindCoordinatorRequest("key", 1), 3)
    assert (answer.error_code, answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_refusal_carries_its_error_where_its_version_has_room_for_it() -> None:
    request = FindCoordinatorRequest("key", 0, ("a", "b"))
    for version in API.versions:
        context = RequestContext(version, None, "/127.0.0.1", "PLAINTEXT")
        refusal = API.refuse(request, context, ErrorCode.UNKNOWN_SERVER_ERROR)
        if version < 4:
            assert (refusal.error_code, refusal.coordinators) == (-1, ())
        else:
            assert [each.error_code for each in refusal.coordinators] == [-1, -1]
