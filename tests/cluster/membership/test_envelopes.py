"""Clients' requests on their way to the controllers: unread, in order for each user, in turns, and never late."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from stub_broker import StubBroker
from virtual_controllers import VirtualControllers
from waiting import settled, until

from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.envelopes import LANES, Envelopes, ForwardedResponse, opened_envelope, principal_data
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request, encode_response
from eosin.runtime.clock import SystemClock

HOST = bytes((127, 0, 0, 1))


class Leader(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


def leader(controller: StubBroker) -> Leader:
    return Leader(1000, 1, *controller.address)


@asynccontextmanager
async def envelopes_to(find: Callable[[], Leader | None]) -> AsyncIterator[Envelopes]:
    clock = SystemClock()
    envelopes = Envelopes(lambda: ControllerChannel(find, clock=clock, client_id="broker-1-forwarding"), clock)
    try:
        yield envelopes
    finally:
        await envelopes.close()


def client_request(correlation_id: int = 77) -> bytes:
    """A client's frame without its size."""
    return b"".join(encode_request(ApiKey.LIST_TRANSACTIONS, 1, correlation_id, "me", ListTransactionsRequest()))[4:]


def controller_response(correlation_id: int = 77) -> bytes:
    body = ListTransactionsResponse(error_code=ErrorCode.NONE)
    return b"".join(encode_response(ApiKey.LIST_TRANSACTIONS, 1, correlation_id, body))[4:]


@pytest.mark.process
async def test_a_forwarded_request_and_its_response_pass_unread() -> None:
    async with StubBroker() as controller, envelopes_to(lambda: leader(controller)) as envelopes:
        controller.answers[ApiKey.ENVELOPE] = lambda *_: EnvelopeResponse(response_data=controller_response())
        forwarded = await envelopes.forward(client_request(), principal=principal_data(), client_host=HOST)
        assert forwarded.error_code is ErrorCode.NONE
        assert decode_response(ApiKey.LIST_TRANSACTIONS, 1, forwarded.frame)[0] == 77
        (envelope,) = controller.requests(ApiKey.ENVELOPE)
        assert envelope == EnvelopeRequest(client_request(), principal_data(), HOST)


async def test_a_forwarded_request_without_a_controller_times_out() -> None:
    async with envelopes_to(lambda: None) as envelopes:
        forwarded = await envelopes.forward(client_request(), principal=b"", client_host=b"", timeout_ms=50)
        assert forwarded.error_code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("error", "told"),
    [(35, ErrorCode.UNSUPPORTED_VERSION), *((code, ErrorCode.UNKNOWN_SERVER_ERROR) for code in (31, 97, 42, 5))],
)
def test_an_error_of_the_envelope_is_told_as_the_table_says(error: int, told: ErrorCode) -> None:
    response = EnvelopeResponse(error_code=error, response_data=controller_response())
    assert opened_envelope(client_request(), response).error_code is told


def test_a_response_to_another_request_is_not_passed_on() -> None:
    response = EnvelopeResponse(response_data=controller_response(78))
    assert opened_envelope(client_request(77), response).error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_principal_is_written_as_kafka_reads_it() -> None:
    assert principal_data() == b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0" + b"\0"
    assert principal_data("x" * 200)[7:9] == bytes((0xC9, 0x01))


# Turns


class SlowControllers:
    """Controllers that answer an Envelope when a test lets them; topics are named as its first letters say."""

    def __init__(self) -> None:
        self._model = VirtualControllers()
        self._sound = self._model.quorum.answer
        self._model.quorum.answer = self._answer  # type: ignore[method-assign]
        self._on_their_way: dict[str, asyncio.Event] = {}
        self.order: list[str] = []
        """The topics that were asked for, as the requests came."""

    async def _answer(self, controller: int, request: Message) -> Message | None:
        if isinstance(request, EnvelopeRequest):
            (name,) = (each for each in NAMES if each.encode() in request.request_data)
            self.order.append(name)
            event = self._on_their_way[name] = asyncio.Event()
            await event.wait()
        return await self._sound(controller, request)

    async def let(self, name: str) -> None:
        """It is answered when it has come."""
        await until(lambda: name in self._on_their_way)
        self._on_their_way.pop(name).set()
        await settled()

    @property
    def leader(self) -> Leader:
        return Leader(self._model.quorum.log.leader, 1, "127.0.0.1", self._model.quorum.log.leader)


NAMES = [f"{user}-{number}" for user in ("ann", "ben", "cleo", "dan", "eve") for number in range(3)]


def asked(envelopes: Envelopes, name: str, *, user: str = "", host: bytes = HOST) -> asyncio.Task[ForwardedResponse]:
    """A user asks for a topic, which begins with its name."""
    message = CreateTopicsRequest((CreatableTopic(name, 1, 1),), timeout_ms=10_000)
    frame = b"".join(encode_request(ApiKey.CREATE_TOPICS, 7, 5, "me", message))[4:]
    principal = principal_data(user or name.partition("-")[0])
    return asyncio.create_task(envelopes.forward(frame, principal=principal, client_host=host))


@pytest.mark.virtual
async def test_a_slow_request_holds_up_those_of_its_user_and_of_nobody_else() -> None:
    controllers = SlowControllers()
    async with envelopes_to(lambda: controllers.leader) as envelopes:
        slow, later = asked(envelopes, "ann-0"), asked(envelopes, "ann-1")
        await until(lambda: controllers.order == ["ann-0"])
        other = asked(envelopes, "ben-0")
        await controllers.let("ben-0")
        assert (await other).error_code is ErrorCode.NONE
        assert not slow.done()
        assert controllers.order == ["ann-0", "ben-0"], "a user's requests come in their order"
        await controllers.let("ann-0")
        await controllers.let("ann-1")
        assert [(await each).error_code for each in (slow, later)] == [ErrorCode.NONE] * 2


@pytest.mark.virtual
async def test_when_all_connections_are_taken_users_have_turns() -> None:
    controllers = SlowControllers()
    users = ["ann", "ben", "cleo", "dan", "eve"]
    assert len(users) == LANES + 1
    async with envelopes_to(lambda: controllers.leader) as envelopes:
        tasks = [asked(envelopes, f"{user}-{number}") for user in users[:LANES] for number in range(2)]
        await until(lambda: len(controllers.order) == LANES)
        tasks.append(asked(envelopes, "eve-0"))
        await controllers.let("ann-0")
        await until(lambda: len(controllers.order) > LANES)
        assert controllers.order[LANES:] == ["eve-0"], "who has had no turn comes before who has had one"
        for name in ("eve-0", "ben-0", "cleo-0", "dan-0", "ann-1", "ben-1", "cleo-1", "dan-1"):
            await controllers.let(name)
        await asyncio.gather(*tasks)


@pytest.mark.virtual
async def test_users_without_a_name_are_told_apart_by_their_addresses() -> None:
    controllers = SlowControllers()
    async with envelopes_to(lambda: controllers.leader) as envelopes:
        tasks = [asked(envelopes, f"ann-{number}", user="ANONYMOUS") for number in range(2)]
        tasks.append(asked(envelopes, "ben-0", user="ANONYMOUS", host=bytes((192, 0, 2, 7))))
        await until(lambda: len(controllers.order) == 2)
        assert controllers.order == ["ann-0", "ben-0"]
        for name in ("ann-0", "ann-1", "ben-0"):
            await controllers.let(name)
        await asyncio.gather(*tasks)


@pytest.mark.virtual
async def test_however_many_requests_of_a_user_wait_in_vain_the_log_has_one_line_and_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with envelopes_to(lambda: None) as envelopes:
        asked_for = [
            envelopes.forward(client_request(), principal=principal_data(user), client_host=HOST, timeout_ms=50)
            for user in ("ann", *["ben"] * 200)
        ]
        answers = await asyncio.gather(*asked_for)
        assert {each.error_code for each in answers} == {ErrorCode.REQUEST_TIMED_OUT}
        await asyncio.sleep(2)
    lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(lines) == 3, "one of each, and how many more"
    assert lines[-1].endswith("; 199 more like that")


@pytest.mark.virtual
async def test_who_waits_for_a_turn_gives_up_in_time_and_asks_for_nothing_later() -> None:
    controllers = SlowControllers()
    async with envelopes_to(lambda: controllers.leader) as envelopes:
        slow = asked(envelopes, "ann-0")
        await until(lambda: controllers.order == ["ann-0"])
        waits = await envelopes.forward(
            client_request(), principal=principal_data("ann"), client_host=HOST, timeout_ms=50
        )
        assert waits.error_code is ErrorCode.REQUEST_TIMED_OUT
        await controllers.let("ann-0")
        assert (await slow).error_code is ErrorCode.NONE
        last = asked(envelopes, "ann-1")
        await controllers.let("ann-1")
        assert (await last).error_code is ErrorCode.NONE
        assert controllers.order == ["ann-0", "ann-1"]
