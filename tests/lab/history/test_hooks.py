"""Requests on their way into the history: answered ones, those whose client has gone, those that a fault keeps."""

from types import SimpleNamespace
from typing import Any

from fake_peer import FakePeer, host_of
from manual_clock import ManualClock
from waiting import settled

from eosin.lab.history.hooks import RecordingHooks
from eosin.lab.history.reading import requests_in
from eosin.lab.history.recording import Recording
from eosin.network.api import Api, RequestContext
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse


class Stalling(RequestHooks):
    """Refuses the group `refused`, and keeps the responses of the group `stalled` from their client."""

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        if observed.request.group_id == "refused":
            observed.rule = "f1"
            return RequestVerdict(error=ErrorCode.UNKNOWN_MEMBER_ID)
        return None

    def responded(self, observed: ObservedRequest) -> None:
        if observed.request.group_id == "stalled":
            observed.rule = "f2"
            observed.link.stall()


class Recorded:
    """Heartbeats of one client, in a broker that keeps a history."""

    def __init__(self, inner: RequestHooks | None = None) -> None:
        self.clock = ManualClock()
        self.history = Recording(self.clock)
        api = Api(
            key=ApiKey.HEARTBEAT,
            versions=range(0, 5),
            handle=self._handle,
            refuse=lambda request, context, error: HeartbeatResponse(error_code=error),
        )
        hooks = RecordingHooks(self.history, inner)
        self.peer = FakePeer(host_of(api, services=SimpleNamespace(clock=self.clock), hooks=hooks))

    async def _handle(self, request: HeartbeatRequest, context: RequestContext, services: Any) -> HeartbeatResponse:
        if request.group_id == "slow":
            await self.clock.sleep(1000)
        return HeartbeatResponse()

    async def beat(self, group: str) -> None:
        self.peer.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, 1, "m"))
        await settled()

    def ends(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        found = requests_in(self.history.occurrences())
        return [(each.fate, each.code, each.rule, each.steps) for each in found]


async def test_a_request_is_answered_when_its_response_is_the_next_to_be_sent() -> None:
    recorded = Recorded()
    await recorded.beat("slow")
    assert recorded.ends() == [("", "", "", ())]
    recorded.clock.advance(1000)
    await settled()
    assert recorded.ends() == [("answered", "NONE", "", ())]
    assert [each.what for each in recorded.history.occurrences()] == ["connected", "asked", "answered"]
    assert recorded.history.occurrences()[1].link == recorded.history.occurrences()[0].link


async def test_requests_of_a_client_that_has_gone_are_lost() -> None:
    recorded = Recorded()
    await recorded.beat("slow")
    await recorded.beat("quick")
    recorded.peer.transport.lose()
    await settled()
    recorded.clock.advance(1000)
    await settled()
    assert recorded.ends() == [("lost", "", "", ()), ("lost", "", "", ())]
    assert [each.what for each in recorded.history.occurrences()][-1] == "closed"


async def test_the_rule_that_fired_and_what_it_did_are_kept() -> None:
    recorded = Recorded(Stalling())
    await recorded.beat("refused")
    await recorded.beat("stalled")
    assert recorded.ends() == [
        ("answered", "UNKNOWN_MEMBER_ID", "f1", ()),
        ("lost", "NONE", "f2", ("executed",)),
    ]
