"""The control API of a broker with three nodes."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from eosin.lab.broker import ThreadedBroker
from eosin.lab.http.hosts import Lab
from eosin.lab.network.lab_network import LinkMatch
from eosin.lab.options import options_of

pytestmark = pytest.mark.process


class Control(Protocol):
    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the body of an answer."""


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A broker with three nodes and the topic `orders`."""
    held = await ThreadedBroker(options_of(topics={"orders": 3}, nodes=3)).start_async()
    yield Lab(held)
    await held.close_async()


async def test_nodes_die_stand_still_and_come_back(control: Control) -> None:
    assert (await control("GET", "/"))[1]["nodes"] == 3
    assert await control("POST", "/nodes/2/down") == (200, {"done": True})
    assert await control("POST", "/nodes/3/pause") == (200, {"done": True})
    status, seen = await control("GET", "/nodes")
    assert (status, [(each["node"], each["state"]) for each in seen]) == (200, [(1, "up"), (2, "down"), (3, "paused")])
    assert [each["in_metadata"] for each in seen] == [True, False, True]
    assert {"topic": "orders", "partition": 1} in seen[2]["leads"]
    for node in (2, 3):
        assert (await control("POST", f"/nodes/{node}/up"))[0] == 200
    assert [each["state"] for each in (await control("GET", "/nodes"))[1]] == ["up", "up", "up"]
    status, answer = await control("POST", "/nodes/4/up")
    assert (status, answer["error"]["code"]) == (404, "unknown_node")


async def test_leaders_and_coordinators_move(control: Control) -> None:
    _, first = await control("POST", "/leaders/move", {"topic": "orders", "to": 3})
    assert await control("POST", "/leaders/move", {"topic": "orders", "to": 2}) == (
        200,
        {"leader_epoch": first["leader_epoch"] + 1},
    )
    assert await control("POST", "/coordinators/move", {"kind": "group", "key": "g", "to": 3}) == (200, {"node": 3})
    status, answer = await control("POST", "/coordinators/move", {"kind": "groups", "key": "g"})
    assert (status, answer["error"]["code"]) == (400, "unknown_kind")
    status, answer = await control("POST", "/leaders/move", {"topic": "order"})
    assert (status, answer["error"]["code"]) == (400, "unknown_topic")


async def test_a_reset_brings_all_nodes_and_leaders_back(control: Control) -> None:
    before = (await control("GET", "/nodes"))[1]
    await control("POST", "/leaders/move", {"topic": "orders"})
    await control("POST", "/nodes/2/down")
    await control("POST", "/nodes/3/pause")
    assert (await control("POST", "/broker/reset"))[0] == 200
    assert (await control("GET", "/nodes"))[1] == before


async def test_clients_wait_until_each_node_has_an_address(control: Control, lab: Lab) -> None:
    ports = [int(address.rpartition(":")[2]) for address in lab.broker.bootstrap.split(",")]
    lab.held.broker.network.partition(LinkMatch(), refuse=False)
    for number, listener in ((1, "NODE2"), (2, "NODE3"), (0, "PLAINTEXT")):
        assert not lab.held.broker.network.is_plain
        body = {"listener": listener, "address": f"localhost:{ports[number]}"}
        assert (await control("PUT", "/advertise", body))[0] == 200
    assert lab.held.broker.network.is_plain
    told = lab.held.broker.node.services.config.advertised_listeners
    assert sorted(map(str, told)) == sorted(
        f"{name}://localhost:{port}" for name, port in zip(("PLAINTEXT", "NODE2", "NODE3"), ports, strict=True)
    )
