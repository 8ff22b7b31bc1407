"""Hooks around requests: what they see, and what they may do to a request, its response and its connection."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_peer import FakePeer, host_of, turns
from manual_clock import ManualClock

from eosin.broker.services import Services
from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.network.link import FIN, RST, ClientLink
from eosin.network.request_hooks import HookChain, ObservedRequest, RequestHooks, RequestVerdict, SlowRequestLog
from eosin.node.node import Node
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from eosin.settings.broker import BrokerConfig

BEAT = ApiKey.HEARTBEAT


class Recorder(RequestHooks):
    """Writes down the steps, and interferes on request."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.seen: list[ObservedRequest] = []
        self.verdict: RequestVerdict | None = None
        self.fails_at: dict[str, Exception] = {}

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.fails_at:
            raise self.fails_at[name]

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        self._step("begun")
        return self.verdict

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        self._step("handled")
        return response

    def responded(self, observed: ObservedRequest) -> None:
        self.seen.append(observed)
        self._step("answered")


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


class Broker:
    """Heartbeats of one client, whose number comes back as the throttle time, on a clock of the test's."""

    def __init__(self, hooks: RequestHooks, *, takes_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.takes_ms = takes_ms
        self.begun: list[int] = []
        api = Api(key=BEAT, versions=range(0, 5), handle=self._handle, refuse=refuse)
        self.peer = FakePeer(host_of(api, services=SimpleNamespace(clock=self.clock), hooks=hooks))

    async def _handle(self, request: HeartbeatRequest, context: RequestContext, services: Services) -> Any:
        self.begun.append(request.generation_id)
        if self.takes_ms:
            await self.clock.sleep(self.takes_ms)
        if request.generation_id < 0:
            raise ZeroDivisionError
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    def send(self, *numbers: int) -> None:
        self.peer.send(BEAT, 4, *[HeartbeatRequest(group_id="g", generation_id=each) for each in numbers])

    def answers(self) -> list[int]:
        return [answer.throttle_time_ms for answer in self.peer.answers()]


@pytest.mark.parametrize("takes_ms", [0, 7])
async def test_a_hook_sees_a_request_begin_and_end_with_its_time_and_sizes(takes_ms: int) -> None:
    recorder = Recorder()
    broker = Broker(recorder, takes_ms=takes_ms)
    broker.send(1)
    await broker.clock.run(takes_ms)
    assert recorder.steps == ["begun", "handled", "answered"]
    (observed,) = recorder.seen
    assert (observed.api.key, observed.context.client_id, observed.request.generation_id) == (BEAT, "test", 1)
    assert observed.took_ms == takes_ms
    assert observed.peer == broker.peer.connection.peer
    (frame,) = broker.peer.transport.frames()
    assert observed.response_bytes == 4 + len(frame)
    assert observed.size_bytes == 24
    assert observed.error is ErrorCode.NONE


async def test_a_hook_refuses_a_request_before_its_handler_runs() -> None:
    recorder = Recorder()
    recorder.verdict = RequestVerdict(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    broker = Broker(recorder)
    broker.send(1)
    assert [answer.error_code for answer in broker.peer.answers()] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert broker.begun == []
    assert recorder.seen[0].error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_a_delayed_response_holds_up_those_behind_it_and_counts_as_time_taken() -> None:
    recorder = Recorder()
    recorder.verdict = RequestVerdict(delay_ms=50)
    broker = Broker(recorder)
    broker.send(1)
    recorder.verdict = None
    broker.send(2)
    await broker.clock.run(49)
    assert broker.begun == [1, 2]
    assert broker.answers() == []
    await broker.clock.run(1)
    assert broker.answers() == [1, 2]
    assert [observed.took_ms for observed in recorder.seen] == [50, 50]


async def test_the_throttle_time_is_the_longer_one_of_handler_and_hook() -> None:
    recorder = Recorder()
    recorder.verdict = RequestVerdict(throttle_time_ms=40)
    broker = Broker(recorder)
    broker.send(10, 90)
    assert broker.answers() == [40, 90]


async def test_a_request_without_a_response_is_not_throttled() -> None:
    async def handle(request: EndTxnRequest, context: RequestContext, services: Services) -> None:
        return None

    recorder = Recorder()
    recorder.verdict = RequestVerdict(throttle_time_ms=40)
    api = Api(key=ApiKey.END_TXN, versions=range(0, 6), handle=handle, refuse=lambda *_: EndTxnResponse())
    peer = FakePeer(host_of(api, services=SimpleNamespace(clock=ManualClock()), hooks=recorder))
    peer.send(ApiKey.END_TXN, 5, EndTxnRequest())
    assert peer.transport.frames() == []
    assert recorder.steps == ["begun", "handled", "answered"]


async def test_a_paused_connection_is_not_read_and_begins_nothing_until_the_pause_ends() -> None:
    recorder = Recorder()
    recorder.verdict = RequestVerdict(pause_ms=30)
    broker = Broker(recorder)
    broker.send(1, 2)
    assert broker.answers() == [1]
    assert not broker.peer.transport.reading
    recorder.verdict = None
    await broker.clock.run(29)
    assert broker.begun == [1]
    await broker.clock.run(1)
    await turns()
    assert broker.answers() == [2]
    assert broker.peer.transport.reading


async def test_a_client_that_goes_during_its_pause_leaves_no_timer() -> None:
    recorder = Recorder()
    recorder.verdict = RequestVerdict(pause_ms=30)
    broker = Broker(recorder)
    broker.send(1)
    broker.peer.transport.lose()
    await broker.clock.run(30)
    await turns()
    assert broker.begun == [1]


@pytest.mark.parametrize("step", ["begun", "handled"])
async def test_a_hook_can_close_the_connection(step: str) -> None:
    recorder = Recorder()
    recorder.fails_at[step] = CloseConnection()
    broker = Broker(recorder)
    broker.send(1)
    assert broker.peer.transport.is_closing()
    assert broker.answers() == []


@pytest.mark.parametrize(("step", "error"), [("begun", -1), ("handled", -1), ("answered", 0)])
async def test_a_fault_in_a_hook_is_logged_and_harms_no_other_request(
    step: str, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.fails_at[step] = ZeroDivisionError()
    broker = Broker(recorder)
    broker.send(1)
    recorder.fails_at.clear()
    broker.send(2)
    assert [answer.error_code for answer in broker.peer.answers()] == [error, 0]
    assert len(caplog.records) == 1


async def test_a_failed_handler_is_seen_as_unknown_server_error(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    broker = Broker(recorder)
    broker.send(-1)
    assert recorder.seen[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(caplog.records) == 1


def test_the_error_of_a_response_is_the_first_one_in_it() -> None:
    api: Any = None
    context: Any = SimpleNamespace(client_id=None)
    link: Any = SimpleNamespace(peer="?", requests=0)
    observed = ObservedRequest(api, context, None, link=link, size_bytes=0, begun_ms=0)
    assert observed.error is ErrorCode.NONE
    codes = (ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)
    parts = tuple(PartitionProduceResponse(index, code, -1) for index, code in enumerate(codes))
    observed.response = ProduceResponse((TopicProduceResponse("orders", bytes(16), parts),))
    assert observed.error is ErrorCode.INVALID_RECORD


async def test_of_several_hooks_all_observe_and_the_first_verdict_counts() -> None:
    first, second, third = Recorder(), Recorder(), Recorder()
    second.verdict, third.verdict = RequestVerdict(throttle_time_ms=5), RequestVerdict(throttle_time_ms=9)
    broker = Broker(HookChain((first, second, third)))
    broker.send(1)
    assert broker.answers() == [5]
    assert [len(each.seen) for each in (first, second, third)] == [1, 1, 1]


async def test_a_slow_request_is_logged_with_its_api_time_and_client(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(SlowRequestLog(from_ms=20), takes_ms=19)
    broker.send(1)
    await broker.clock.run(19)
    assert not caplog.records
    broker.takes_ms = 20
    broker.send(2)
    await broker.clock.run(20)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "a slow request")
    facts = vars(record)["eosin_fields"]
    assert (facts["api"], facts["took_ms"], facts["error"], facts["client_id"]) == ("HEARTBEAT", 20, "NONE", "test")


@pytest.mark.process
async def test_the_log_of_slow_requests_is_a_setting_and_off_by_default() -> None:
    listeners = ("PLAINTEXT://127.0.0.1:0",)
    for from_ms, expected in ((0, type(None)), (500, SlowRequestLog)):
        config = BrokerConfig(listeners=listeners, eosin_durability="memory", eosin_slow_request_log_ms=from_ms)
        server = await Node.alone(config).start()
        try:
            assert isinstance(server.host.hooks, expected)
        finally:
            await server.shutdown()
    await asyncio.sleep(0)


# The connection of a request


class Steering(RequestHooks):
    """Lets a test have its way with each request."""

    def __init__(self) -> None:
        self.links: list[ClientLink] = []
        self.ended: list[ClientLink] = []
        self.numbers: list[tuple[int, int]] = []
        self.at_begin: Callable[[ObservedRequest], Any] | None = None
        self.at_response: Callable[[ObservedRequest], Any] | None = None
        self.executed: list[Any] = []

    def connected(self, link: ClientLink) -> None:
        self.links.append(link)

    def lost(self, link: ClientLink) -> None:
        self.ended.append(link)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        self.numbers.append((observed.link.id, observed.number))
        if self.at_begin is not None:
            await self.at_begin(observed)
        return None

    def responded(self, observed: ObservedRequest) -> None:
        if self.at_response is not None:
            self.at_response(observed)


async def test_hooks_see_connections_come_and_go_and_number_their_requests() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    other = FakePeer(broker.peer.host, address="127.0.0.2")
    broker.send(1, 2)
    other.send(BEAT, 4, HeartbeatRequest(group_id="g", generation_id=3))
    assert [(each.id, each.peer, each.listener) for each in hooks.links] == [
        (1, "127.0.0.1:50000", "PLAINTEXT"),
        (2, "127.0.0.2:50000", "PLAINTEXT"),
    ]
    assert hooks.numbers == [(1, 1), (1, 2), (2, 1)]
    assert hooks.links[0].client_id == "test"
    other.transport.lose()
    assert [each.id for each in hooks.ended] == [2]
    assert [each.is_gone for each in hooks.links] == [False, True]


async def test_a_stalled_connection_sends_nothing_until_its_release_and_then_all_in_order() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    hooks.at_response = lambda observed: observed.link.stall() if observed.number == 2 else None
    broker.send(1, 2, 3)
    assert broker.begun == [1, 2, 3]
    assert broker.answers() == [1]
    broker.send(4)
    assert broker.answers() == []
    hooks.links[0].release()
    assert broker.answers() == [2, 3, 4]
    await turns()
    broker.send(5)
    assert broker.answers() == [5]


async def test_a_stalled_response_leaves_in_pieces() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    hooks.at_response = lambda observed: observed.link.stall()
    broker.send(7)
    assert await hooks.links[0].let_out(5) == 5
    assert len(broker.peer.transport.sent) == 5
    assert broker.answers() == []
    assert await hooks.links[0].let_out(1000) > 0
    assert broker.answers() == [7]


async def test_a_reset_drops_the_response_and_a_fin_sends_those_before_it() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    hooks.at_response = lambda observed: observed.link.close(RST)
    broker.send(1)
    assert (broker.answers(), broker.peer.transport.aborted) == ([], True)
    hooks = Steering()
    broker = Broker(hooks)
    hooks.at_response = lambda observed: observed.link.close(FIN) if observed.number == 2 else None
    broker.send(1, 2)
    await turns()
    assert (broker.answers(), broker.peer.transport.aborted) == ([1], False)
    assert broker.peer.connection.is_gone


async def test_a_held_connection_begins_nothing_behind_the_request_that_waits() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    released = asyncio.Event()

    async def hold(observed: ObservedRequest) -> None:
        if observed.number == 1:
            observed.link.hold()
            await released.wait()
            observed.link.go_on()

    hooks.at_begin = hold
    broker.send(1, 2)
    await turns()
    assert broker.begun == []
    released.set()
    await turns()
    assert broker.begun == [1, 2]
    assert broker.answers() == [1, 2]


async def test_a_request_can_be_executed_again_with_a_response_that_nobody_gets() -> None:
    hooks = Steering()
    broker = Broker(hooks)
    again: list[Any] = []

    async def handled(observed: ObservedRequest, response: Any) -> Any:
        again.append(await observed.execute(elsewhere=True))
        return response

    hooks.handled = handled  # type: ignore[method-assign]
    broker.send(4)
    assert broker.begun == [4, 4]
    assert [each.throttle_time_ms for each in again] == [4]
    assert broker.answers() == [4]
