"""Requests of one connection arrive in their order, whatever the network does to each."""

import asyncio
from typing import Any, cast

import pytest
from group_fakes import turns

from eosin.lab.network import lab_network
from eosin.lab.network.lab_network import LabNetwork, NetworkHooks
from eosin.model.close_connection import CloseConnection
from eosin.network.request_hooks import ObservedRequest, RequestHooks


class Travel:
    """A connection, whose requests are under way until the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.network = LabNetwork(lambda: 0.5)
        self.hooks = NetworkHooks(self.network, RequestHooks())
        self.link: Any = type("Link", (), {})()
        self.under_way: list[asyncio.Future[None]] = []
        self.arrived: list[int] = []
        self.network.connected(self.link)

        async def wait_until(way: Any, at_ms: float) -> None:
            self.under_way.append(asyncio.get_running_loop().create_future())
            await self.under_way[-1]

        monkeypatch.setattr(lab_network._Way, "wait_until", wait_until)

    def send(self, number: int) -> "asyncio.Task[None]":
        async def arrive() -> None:
            observed = type("Observed", (), {"link": self.link, "size_bytes": 10})()
            await self.hooks.begun(cast(ObservedRequest, observed))
            self.arrived.append(number)

        return asyncio.get_running_loop().create_task(arrive())


async def test_a_request_waits_for_the_one_before_it_though_its_own_time_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    travel = Travel(monkeypatch)
    travel.network.slow(30, 20)
    sent = [travel.send(each) for each in range(3)]
    await turns()
    for each in reversed(travel.under_way):
        assert travel.arrived == []
        each.set_result(None)
        await turns()
    assert travel.arrived == [0, 1, 2]
    await asyncio.gather(*sent)


async def test_a_request_does_not_overtake_when_the_network_is_quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    travel = Travel(monkeypatch)
    travel.network.slow(30, 0)
    first = travel.send(0)
    await turns()
    travel.network.slow(0, 0)
    second = travel.send(1)
    await turns()
    travel.under_way[1].set_result(None)
    await turns()
    assert travel.arrived == []
    travel.under_way[0].set_result(None)
    await asyncio.gather(first, second)
    assert travel.arrived == [0, 1]
    assert await travel.send(2) is None
    assert len(travel.under_way) == 2


async def test_a_request_whose_connection_ends_while_it_waits_for_another_never_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    travel = Travel(monkeypatch)
    travel.network.slow(30, 20)
    sent = [travel.send(each) for each in range(2)]
    await turns()
    travel.under_way[1].set_result(None)
    await turns()
    travel.network.lost(travel.link)
    travel.under_way[0].set_exception(CloseConnection())
    for each in sent:
        with pytest.raises(CloseConnection):
            await each
    assert travel.arrived == []
