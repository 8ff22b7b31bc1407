"""One client's connection: order, limits, backpressure, and what happens to peers that misbehave."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_peer import FakePeer, host_of, turns
from manual_clock import ManualClock
from waiting import until

from eosin.broker.handlers import api_versions
from eosin.broker.services import Services
from eosin.model.close_connection import CloseConnection
from eosin.model.principals import Principal
from eosin.network.api import Api, RequestContext
from eosin.network.connection import TURN_MS
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.runtime.loop_watch import STALL_MS, LoopWatch
from eosin.security.session import Session

pytestmark = pytest.mark.virtual

Handler = Callable[[HeartbeatRequest, RequestContext, Services], Any]

BEAT = ApiKey.HEARTBEAT


def refuse(request: HeartbeatRequest, context: RequestContext, error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def beating(handle: Handler) -> Api:
    """Heartbeat is small, and carries a number and texts both ways: a good stand-in for any API."""
    return Api(key=BEAT, versions=range(0, 5), handle=handle, refuse=refuse)


async def echo(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


def beats(*numbers: int) -> list[HeartbeatRequest]:
    return [HeartbeatRequest(group_id="g", generation_id=number, member_id="m") for number in numbers]


def numbers(answers: list[HeartbeatResponse]) -> list[int]:
    return [answer.throttle_time_ms for answer in answers]


class Gate:
    """A handler whose answers a test lets go one by one."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[HeartbeatResponse]] = {}
        self.begun: list[int] = []

    async def __call__(
        self, request: HeartbeatRequest, context: RequestContext, services: Services
    ) -> HeartbeatResponse:
        self.begun.append(request.generation_id)
        future: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()
        self.waiting[request.generation_id] = future
        return await future

    def open(self, number: int) -> None:
        self.waiting.pop(number).set_result(HeartbeatResponse(throttle_time_ms=number))


@pytest.mark.parametrize("piece", [1, 3, 7, 64, 100_000])
async def test_requests_in_pieces_of_any_size_are_answered_in_order(piece: int) -> None:
    peer = FakePeer(host_of(beating(echo)))
    data = b"".join(peer.frame(BEAT, 4, beat) for beat in beats(*range(100)))
    peer.transport.feed(data, piece=piece)
    await turns()
    assert numbers(peer.answers()) == list(range(100))


async def test_the_answers_to_one_read_leave_in_one_write() -> None:
    peer = FakePeer(host_of(beating(echo)))
    peer.send(BEAT, 4, *beats(1, 2, 3))
    assert peer.transport.writes == 1
    assert numbers(peer.answers()) == [1, 2, 3]


async def test_an_answer_that_is_ready_early_waits_for_those_before_it() -> None:
    gate = Gate()
    peer = FakePeer(host_of(beating(gate)))
    peer.send(BEAT, 4, *beats(1, 2, 3))
    gate.open(3)
    gate.open(2)
    await turns()
    assert peer.answers() == []
    gate.open(1)
    await turns()
    assert numbers(peer.answers()) == [1, 2, 3]
    assert peer.transport.writes == 1


async def test_a_request_behind_one_that_waits_does_not_begin_before_it() -> None:
    begun: list[int] = []

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> Any:
        begun.append(request.generation_id)
        if request.generation_id % 2:
            await asyncio.sleep(0)
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    peer = FakePeer(host_of(beating(handle)))
    peer.send(BEAT, 4, *beats(1, 2, 3, 4))
    await turns()
    assert begun == [1, 2, 3, 4]
    assert numbers(peer.answers()) == [1, 2, 3, 4]


async def test_at_the_limit_of_requests_in_flight_nothing_more_is_begun_or_read() -> None:
    gate = Gate()
    peer = FakePeer(host_of(beating(gate), max_in_flight=3))
    peer.send(BEAT, 4, *beats(*range(8)))
    await turns()
    assert gate.begun == [0, 1, 2]
    assert not peer.transport.reading
    gate.open(1)
    await turns()
    assert gate.begun == [0, 1, 2], "a request behind an unanswered one still takes a place"
    gate.open(0)
    await turns()
    assert gate.begun == [0, 1, 2, 3, 4]
    for number in (2, 3, 4):
        gate.open(number)
    await turns()
    assert gate.begun == list(range(8))
    assert peer.transport.reading
    for number in (5, 6, 7):
        gate.open(number)
    await turns()
    assert numbers(peer.answers()) == list(range(8))


async def test_a_peer_that_does_not_read_its_answers_is_paused() -> None:
    begun = []

    async def verbose(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        begun.append(request.generation_id)
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    peer = FakePeer(host_of(beating(verbose), write_buffer_bytes=100, max_frames_per_turn=4))
    peer.transport.read_slowly()
    peer.send(BEAT, 4, *beats(*range(1000)))
    await turns()
    # 16 bytes an answer: a hundred bytes and one turn's worth, whatever else was sent.
    assert len(begun) <= 12
    assert len(peer.transport.unsent) <= 12 * 16
    assert not peer.transport.reading
    peer.transport.read_all()
    await turns()
    assert numbers(peer.answers()) == list(range(1000))
    assert peer.transport.reading


async def test_answers_of_one_turn_are_bounded_too() -> None:
    begun = []

    async def verbose(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        begun.append(request.generation_id)
        return HeartbeatResponse()

    peer = FakePeer(host_of(beating(verbose), write_buffer_bytes=30, max_frames_per_turn=1000))
    peer.transport.read_slowly()
    peer.send(BEAT, 4, *beats(*range(100)))
    assert len(begun) == 2


async def test_one_fetch_of_a_connection_is_answered_before_the_next_is_begun() -> None:
    begun: list[int] = []
    waiting: list[asyncio.Future[FetchResponse]] = []

    async def fetch(request: FetchRequest, context: RequestContext, services: Services) -> Any:
        begun.append(request.max_wait_ms)
        if request.max_wait_ms == 0:
            return FetchResponse()
        waiting.append(asyncio.get_running_loop().create_future())
        return await waiting[-1]

    gate = Gate()
    api = Api(key=ApiKey.FETCH, versions=range(4, 18), handle=fetch, refuse=lambda *_: FetchResponse())
    peer = FakePeer(host_of(api, beating(gate)))
    frames = [
        peer.frame(BEAT, 4, beats(1)[0]),
        *(peer.frame(ApiKey.FETCH, 4, FetchRequest(max_wait_ms=wait)) for wait in (0, 1, 0)),
        peer.frame(BEAT, 4, beats(2)[0]),
    ]
    peer.transport.feed(b"".join(frames))
    await turns()
    assert begun == [0], "its answer is there, and waits for the one before it"
    assert not peer.transport.reading
    gate.open(1)
    await turns()
    assert begun == [0, 1]
    waiting[0].set_result(FetchResponse())
    await turns()
    assert begun == [0, 1, 0]
    assert gate.begun == [1, 2]
    gate.open(2)
    await turns()
    assert len(peer.answers()) == 5
    assert peer.transport.reading


async def test_a_fetch_waits_until_another_request_is_behind_it() -> None:
    async def fetch(request: FetchRequest, context: RequestContext, services: Services) -> FetchResponse:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert context.connection is not None
        context.connection.fetch_waits(lambda: ended.done() or ended.set_result(None))
        await ended
        return FetchResponse(throttle_time_ms=request.max_wait_ms)

    api = Api(key=ApiKey.FETCH, versions=range(4, 18), handle=fetch, refuse=lambda *_: FetchResponse())
    peer = FakePeer(host_of(api, beating(echo)))
    peer.send(ApiKey.FETCH, 4, FetchRequest(max_wait_ms=7))
    await turns()
    assert not peer.transport.unsent
    peer.send(BEAT, 4, *beats(1))
    await turns()
    assert numbers(peer.answers()) == [7, 1]


async def test_one_connection_cannot_starve_another() -> None:
    order: list[str] = []

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        order.append(request.group_id)
        return HeartbeatResponse()

    host = host_of(beating(handle), max_frames_per_turn=10)
    greedy, modest = FakePeer(host), FakePeer(host)
    greedy.send(BEAT, 4, *[HeartbeatRequest(group_id="greedy")] * 500)
    modest.send(BEAT, 4, HeartbeatRequest(group_id="modest"))
    await turns()
    assert order.index("modest") == 10
    assert len(order) == 501


async def test_requests_that_take_long_give_other_connections_a_turn_after_each() -> None:
    order = []
    clock = ManualClock()

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        order.append(request.group_id)
        clock.advance(1)
        return HeartbeatResponse()

    host = host_of(beating(handle), services=SimpleNamespace(clock=clock))
    greedy, modest = FakePeer(host), FakePeer(host)
    greedy.send(BEAT, 4, *[HeartbeatRequest(group_id="greedy")] * 10)
    modest.send(BEAT, 4, HeartbeatRequest(group_id="modest"))
    await turns()
    assert order.index("modest") == TURN_MS
    assert len(order) == 11


@pytest.mark.parametrize("took_ms", [STALL_MS, STALL_MS + 1])
async def test_a_turn_that_kept_the_loop_is_told_with_its_last_request(took_ms: int) -> None:
    clock = ManualClock()

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        clock.advance(took_ms if request.group_id == "long" else 0)
        return HeartbeatResponse()

    host = host_of(beating(handle), services=SimpleNamespace(clock=clock))
    host.loop_watch = watch = LoopWatch(clock, worked_ns=lambda: clock.elapsed_ms() * 1_000_000)
    watch.is_looking = True
    peer = FakePeer(host, address="10.0.0.7")
    peer.connection.adopt(Session(principal=Principal("User", "app"), host="10.0.0.7"))
    frames = [peer.frame(BEAT, 4, HeartbeatRequest(group_id=each)) for each in ("short", "long", "last")]
    peer.transport.feed(b"".join(frames))
    await turns()
    assert len(peer.answers()) == 3
    watch.check()
    told = [(each.cause, each.ms, each.step) for each in watch.recent]
    if took_ms <= STALL_MS:
        assert told == []
        return
    ((cause, ms, step),) = told
    assert step is not None
    assert (cause, ms) == ("request", took_ms)
    assert (step.api, step.principal, step.client_id, step.peer) == ("HEARTBEAT", "User:app", "test", "10.0.0.7:50000")
    assert step.size_bytes == len(frames[1]) - 4


async def test_the_request_that_ended_last_is_kept_until_the_next_look() -> None:
    clock = ManualClock()
    released = asyncio.get_running_loop().create_future()

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        await released
        clock.advance(300)
        return HeartbeatResponse()

    host = host_of(beating(handle), services=SimpleNamespace(clock=clock))
    host.loop_watch = watch = LoopWatch(clock, worked_ns=lambda: clock.elapsed_ms() * 1_000_000)
    watch.is_looking = True
    peer = FakePeer(host)
    peer.send(BEAT, 4, HeartbeatRequest())
    await turns()
    released.set_result(None)
    await turns()
    assert len(peer.answers()) == 1
    watch.check()
    (stall,) = watch.recent
    assert stall.step is not None
    assert (stall.cause, stall.step.api) == ("other", "HEARTBEAT")
    assert watch.ended is None


async def test_an_unserved_version_of_api_versions_is_answered_as_version_0(caplog: pytest.LogCaptureFixture) -> None:
    peer = FakePeer(host_of(api_versions.API, beating(echo)))
    # A header as version 2 with tags and a body of the future.
    body = b"\x00\x12\x00\x63" + (77).to_bytes(4, "big") + b"\x00\x01x" + b"\x00future"
    peer.transport.feed(len(body).to_bytes(4, "big") + body)
    (frame,) = peer.transport.frames()
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, frame)
    assert correlation_id == 77
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 5)]
    peer.send(BEAT, 4, *beats(1))
    assert numbers(peer.answers()) == [1]
    assert not caplog.records


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff", "unknown api key: 999"),
        (b"\x00\x00\x00\x0a\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff", "a version that is not served: 99 of HEARTBEAT"),
        (b"\x00\x00\x00\x0a\x00\x0c\xff\xff\x00\x00\x00\x01\xff\xff", "a version that is not served: -1 of HEARTBEAT"),
        (b"\x00\x00\x00\x0a\x00\x0c\x00\x00\x00\x00\x00\x01\xff\xff", "malformed request"),
        (b"\x00\x00\x00\x02\x00\x0c", "malformed request"),
        (b"\x00\x00\x00\x00", "malformed request"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x00\x0f\x42\x41", "a frame of 1000001 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"GET / HTTP/1.1\r\nHost: localhost:9092\r\n\r\n", "HTTP"),
    ],
)
async def test_a_peer_that_sends_nonsense_is_closed_with_one_log_line(
    data: bytes, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = host_of(beating(echo))
    bad, good = FakePeer(host), FakePeer(host)
    bad.transport.feed(data + data)
    await turns()
    assert bad.transport.is_closing()
    assert bad.answers() == []
    assert [(record.levelno, complaint in record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, True)
    ]
    assert list(host.connections) == [good.connection]
    good.send(BEAT, 4, *beats(5))
    assert numbers(good.answers()) == [5]


async def test_requests_before_a_malformed_one_are_answered() -> None:
    peer = FakePeer(host_of(beating(echo)))
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0]) + b"\x00\x00\x00\x02\x00\x0c")
    assert numbers(peer.answers()) == [1]
    assert peer.transport.is_closing()


async def test_a_handler_that_fails_is_logged_and_answered_with_unknown_server_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> Any:
        if request.generation_id == 1:
            raise ZeroDivisionError
        if request.generation_id == 2:
            await asyncio.sleep(0)
            raise OSError("disk")
        return HeartbeatResponse()

    peer = FakePeer(host_of(beating(handle)))
    peer.send(BEAT, 4, *beats(1, 2, 3))
    await turns()
    assert [answer.error_code for answer in peer.answers()] == [-1, -1, 0]
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ZeroDivisionError, OSError]


async def test_an_answer_that_cannot_be_encoded_is_refused_instead(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=2**40)

    peer = FakePeer(host_of(beating(handle)))
    peer.send(BEAT, 4, *beats(1))
    assert [answer.error_code for answer in peer.answers()] == [-1]
    assert len(caplog.records) == 1


async def test_when_not_even_the_refusal_works_the_connection_closes(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    peer = FakePeer(host_of(Api(key=BEAT, versions=range(0, 5), handle=broken, refuse=broken)))
    peer.send(BEAT, 4, *beats(1))
    assert peer.transport.is_closing()
    assert len(caplog.records) == 2


async def test_a_request_without_an_answer_gets_none_and_the_next_is_answered() -> None:
    async def handle(
        request: HeartbeatRequest, context: RequestContext, services: Services
    ) -> HeartbeatResponse | None:
        return HeartbeatResponse(throttle_time_ms=2) if request.generation_id == 2 else None

    peer = FakePeer(host_of(beating(handle)))
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0]))
    peer._asked.clear()
    peer.send(BEAT, 4, *beats(2))
    assert numbers(peer.answers()) == [2]


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_handler_can_close_the_connection(awaited: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> Any:
        if awaited:
            await asyncio.sleep(0)
        raise CloseConnection

    peer = FakePeer(host_of(beating(handle)))
    peer.send(BEAT, 4, *beats(1))
    await turns()
    assert peer.transport.is_closing()
    assert not caplog.records


async def test_requests_of_a_client_that_left_go_on() -> None:
    gate = Gate()
    host = host_of(beating(gate))
    peer = FakePeer(host)
    peer.send(BEAT, 4, *beats(1))
    peer.transport.lose()
    assert not host.connections
    assert len(host.running) == 1
    gate.open(1)
    await turns()
    assert not host.running


async def test_an_answer_that_comes_after_the_connection_was_closed_is_dropped() -> None:
    gate = Gate()
    peer = FakePeer(host_of(beating(gate)))
    peer.send(BEAT, 4, *beats(1))
    peer.transport.feed(b"\x00\x00\x00\x00")
    gate.open(1)
    await turns()
    assert peer.answers() == []


async def test_the_context_tells_who_asks_at_which_version_over_which_listener() -> None:
    seen: list[tuple[Any, ...]] = []

    async def handle(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        seen.append((context.api_version, context.client_id, context.client_host, context.listener))
        return HeartbeatResponse()

    peer = FakePeer(host_of(beating(handle)), listener="INSIDE")
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0], client_id="a"))
    peer.transport.feed(peer.frame(BEAT, 3, beats(1)[0], client_id="a"))
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0], client_id="b"))
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0], client_id=None))
    where = ("/127.0.0.1", "INSIDE")
    assert seen == [(4, "a", *where), (3, "a", *where), (4, "b", *where), (4, None, *where)]


async def test_a_connection_is_idle_when_nothing_came_and_nothing_runs() -> None:
    gate = Gate()
    peer = FakePeer(host_of(beating(gate)))
    assert peer.connection.is_idle()
    peer.send(BEAT, 4, *beats(1))
    assert not peer.connection.is_idle()
    assert not peer.connection.is_idle(), "a request is being answered"
    gate.open(1)
    await turns()
    assert peer.connection.is_idle()


async def test_a_connection_that_stops_beginning_still_answers_what_runs() -> None:
    gate = Gate()
    peer = FakePeer(host_of(beating(gate), max_in_flight=2))
    peer.send(BEAT, 4, *beats(1, 2, 3))
    peer.connection.stop_beginning()
    gate.open(1)
    gate.open(2)
    await turns()
    assert numbers(peer.answers()) == [1, 2]
    assert gate.begun == [1, 2]


async def test_a_clients_software_is_kept_for_all_its_requests() -> None:
    seen: list[str] = []

    async def handle(request: Any, context: RequestContext, services: Services) -> HeartbeatResponse:
        seen.append(f"{context.client_software_name} {context.client_software_version}")
        return HeartbeatResponse()

    async def learn(request: ApiVersionsRequest, context: RequestContext, services: Services) -> Any:
        context.client_software_name = request.client_software_name
        context.client_software_version = request.client_software_version
        return api_versions.refuse(request, context, ErrorCode.UNSUPPORTED_VERSION)

    versions = Api(key=ApiKey.API_VERSIONS, versions=range(0, 5), handle=learn, refuse=api_versions.refuse)
    peer = FakePeer(host_of(versions, beating(handle)))
    peer.send(BEAT, 4, *beats(1))
    told = ApiVersionsRequest(client_software_name="a-client", client_software_version="1.2")
    peer.transport.feed(b"".join(encode_request(ApiKey.API_VERSIONS, 3, 9, "x", told)))
    peer.send(BEAT, 4, *beats(1))
    assert seen == [" ", "a-client 1.2"]
    assert peer.connection.software == ("a-client", "1.2")


UNSERVED = b"\x00\x00\x00\x0a\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff"


async def test_a_peer_that_is_refused_again_and_again_is_kept_waiting_and_is_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = host_of(beating(echo), refused_delay_ms=40, max_refused=2)
    peers = [FakePeer(host) for _ in range(5)]
    for peer in peers:
        peer.transport.feed(UNSERVED + UNSERVED)
    await turns()
    assert [peer.transport.is_closing() for peer in peers] == [True, False, False, True, True]
    assert not peers[1].transport.reading
    assert host.refused == 2
    peers[1].transport.lose()
    assert host.refused == 1
    await until(lambda: all(peer.transport.is_closing() for peer in peers) and not host.connections)
    assert (host.refused, host.connections) == (0, {})
    host.refusals.report()
    assert [record.getMessage() for record in caplog.records] == [
        "closing a connection: a request in a version that is not served: 99 of HEARTBEAT",
        "closed more connections: a request in a version that is not served",
    ]


async def test_a_peer_that_waits_to_be_closed_is_sent_what_it_was_answered_and_begins_nothing() -> None:
    begun: list[int] = []

    async def counted(request: HeartbeatRequest, context: RequestContext, services: Services) -> HeartbeatResponse:
        begun.append(request.generation_id)
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    host = host_of(beating(counted), refused_delay_ms=40)
    FakePeer(host).transport.feed(UNSERVED)
    peer = FakePeer(host)
    peer.transport.feed(peer.frame(BEAT, 4, beats(1)[0]) + UNSERVED + peer.frame(BEAT, 4, beats(2)[0]))
    await turns()
    assert not peer.transport.is_closing()
    assert (begun, numbers(peer.answers())) == ([1], [1])


async def test_a_client_that_is_gone_leaves_no_fetch_waiting() -> None:
    ended: list[type[BaseException]] = []

    async def fetch(request: FetchRequest, context: RequestContext, services: Services) -> Any:
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            ended.append(type(error))
            raise

    gate = Gate()
    api = Api(key=ApiKey.FETCH, versions=range(4, 18), handle=fetch, refuse=lambda *_: FetchResponse())
    host = host_of(api, beating(gate))
    peer = FakePeer(host)
    peer.send(BEAT, 4, *beats(1))
    peer.send(ApiKey.FETCH, 4, FetchRequest(max_wait_ms=2**31 - 1))
    peer.transport.lose()
    await turns()
    assert ended == [asyncio.CancelledError]
    assert list(host.running.values()) == [BEAT], "what is no mere question goes on"
    gate.open(1)
    await turns()
    assert not host.running


async def test_an_idle_connection_holds_no_memory_of_the_socket_nor_does_one_whose_fetch_waits() -> None:
    async def fetch(request: FetchRequest, context: RequestContext, services: Services) -> Any:
        return await asyncio.get_running_loop().create_future()

    gate = Gate()
    api = Api(key=ApiKey.FETCH, versions=range(4, 18), handle=fetch, refuse=lambda *_: FetchResponse())
    host = host_of(api, beating(gate))
    spare = host.spare_buffers.free
    peers = [FakePeer(host) for _ in range(3)]
    for peer in peers:
        peer.send(ApiKey.FETCH, 4, FetchRequest(max_wait_ms=1000))
    assert len(spare) == 1, "they took turns with one buffer"
    beating_peer = FakePeer(host)
    beating_peer.send(BEAT, 4, *beats(1))
    assert not spare, "what is under way may view it"
    gate.open(1)
    await turns()
    assert len(spare) == 1
    gone = FakePeer(host)
    gone.send(BEAT, 4, *beats(2, 3))
    gone.transport.lose()
    gate.open(2)
    await turns()
    assert not spare, "of a client that is gone, a request is still under way"
    gate.open(3)
