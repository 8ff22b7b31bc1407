"""A connection that has ended goes by the counts of its references: nobody need collect it, so it may be frozen while
it lives (ADR 58)."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from fake_peer import FakePeer, host_of, turns

from eosin.network.api import Api
from eosin.network.connection import ServerConnection
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse

pytestmark = pytest.mark.virtual


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


class Hooks:
    """Those of a lab or a recorder, which keep nothing."""

    def connected(self, link: Any) -> None: ...

    def lost(self, link: Any) -> None: ...


async def beat(request: HeartbeatRequest, *_: Any) -> HeartbeatResponse:
    return HeartbeatResponse()


def living() -> int:
    """The number of connections that are in memory."""
    return sum(type(each) is ServerConnection for each in gc.get_objects())


@pytest.mark.parametrize("hooks", [None, Hooks()])
async def test_one_whose_client_goes_is_freed(hooks: Any) -> None:
    host = host_of(Api(key=ApiKey.HEARTBEAT, versions=range(0, 5), handle=beat, refuse=lambda *_: HeartbeatResponse()))
    before = living()
    host.hooks = hooks
    peer = FakePeer(host)
    host.hooks = None
    peer.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"))
    await turns()
    assert living() == before + 1
    peer.transport.lose()
    del peer
    await turns()
    assert living() == before
