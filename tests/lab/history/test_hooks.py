"""Requests on their way into the history: answered ones, those whose client has gone, those that a fault keeps."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_peer import FakePeer, host_of
from manual_clock import ManualClock
from waiting import settled

from eosin.lab.history.hooks import RecordingHooks
from eosin.lab.history.reading import links_in, requests_in
from eosin.lab.history.recording import Recording
from eosin.lab.history.transcript import transcript
from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse


class Faults(RequestHooks):
    """Does to a request what the name of its group says, as rule f1."""

    fired: Callable[[str, ObservedRequest | None, str], None]

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        if observed.request.group_id != "refused":
            return None
        self.fired("fired", observed, "f1")
        return RequestVerdict(error=ErrorCode.UNKNOWN_MEMBER_ID)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        if observed.request.group_id == "executed":
            self.fired("fired", observed, "f1")
            raise CloseConnection
        return response

    def responded(self, observed: ObservedRequest) -> None:
        if observed.request.group_id in ("stalled", "lost"):
            self.fired("fired", observed, "f1")
        if observed.request.group_id == "stalled":
            observed.link.stall()
        if observed.request.group_id == "lost":
            observed.link.close("rst")


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
        self.hooks = RecordingHooks(self.history, inner)
        if isinstance(inner, Faults):
            inner.fired = self.hooks.fired
        self.peer = FakePeer(host_of(api, services=SimpleNamespace(clock=self.clock), hooks=self.hooks))

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


async def test_a_rule_that_fired_is_named_with_the_request() -> None:
    recorded = Recorded(Faults())
    await recorded.beat("refused")
    await recorded.beat("")
    assert recorded.ends() == [("answered", "UNKNOWN_MEMBER_ID", "f1", ()), ("answered", "NONE", "", ())]
    assert "UNKNOWN_MEMBER_ID" in transcript(recorded.history.occurrences())[0]
    assert "(rule f1)" in transcript(recorded.history.occurrences())[0]


@pytest.mark.parametrize("group", ["executed", "lost"])
async def test_an_answer_that_a_rule_loses_was_executed_and_is_lost(group: str) -> None:
    recorded = Recorded(Faults())
    await recorded.beat(group)
    assert recorded.ends() == [("lost", "NONE", "f1", ("executed",))]
    assert "->  executed, answer lost (rule f1)" in transcript(recorded.history.occurrences())[0]


async def test_an_answer_that_is_withheld_leaves_later_or_is_lost_with_its_connection() -> None:
    for is_released in (True, False):
        recorded = Recorded(Faults())
        await recorded.beat("stalled")
        assert recorded.ends() == [("", "NONE", "f1", ("executed",))]
        if is_released:
            recorded.peer.connection.linked().release()
            await recorded.beat("")
        else:
            recorded.peer.transport.lose()
            await settled()
        assert recorded.ends()[0] == ("answered" if is_released else "lost", "NONE", "f1", ("executed",))


async def test_a_rule_that_fires_inside_the_broker_is_an_event_of_its_own() -> None:
    recorded = Recorded(Faults())
    recorded.hooks.fired("fired", None, "f7")
    (event,) = [each for each in recorded.history.occurrences() if each.what == "fired"]
    assert (event.rule, event.request, event.link) == ("f7", 0, None)


async def test_what_was_under_way_when_a_broker_starts_anew_is_lost() -> None:
    recorded = Recorded()
    await recorded.beat("slow")
    again = RecordingHooks(recorded.history)
    assert recorded.ends() == [("lost", "", "", ())]
    again.connected(recorded.peer.connection.linked())
    assert [each.link for each in links_in(recorded.history.occurrences())] == [1, 2]
