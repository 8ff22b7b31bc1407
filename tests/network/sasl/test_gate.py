"""Connections of a SASL listener: who gets in, what the others hear, and what nobody gets to do before."""

import asyncio
import logging
from typing import Any

import pytest
from fake_peer import turns
from frame_fuzz import sized
from sasl_peer import PASSWORD, SCRAM, SaslBroker, SaslPeer, passed, users
from waiting import until

from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.network.known_addresses import KnownAddresses
from eosin.network.sasl.gate import EXCHANGE_MS
from eosin.network.unauthenticated_peers import UnauthenticatedPeerLimits, UnauthenticatedPeers
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.steps import Challenge, Mechanism
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.wire.codec import encode_request
from eosin.protocol.wire.frame_memory import CHECK_MS, FrameMemory
from eosin.protocol.wire.frames import BUFFER_BYTES
from eosin.runtime.chance import SeededChance
from eosin.security.sasl.exchanges import Authenticated, Step

pytestmark = pytest.mark.virtual

BEAT = ApiKey.HEARTBEAT
REFUSED = "Authentication failed with SASL mechanism SCRAM-SHA-256"


def _tell_versions(request: Any, context: RequestContext, services: Services) -> ApiVersionsResponse:
    return ApiVersionsResponse()


VERSIONS = Api(
    key=ApiKey.API_VERSIONS,
    versions=range(0, 5),
    respond=_tell_versions,
    refuse=lambda request, context, error: ApiVersionsResponse(error_code=error),
)


class Beats:
    """An API that notes who asked."""

    def __init__(self) -> None:
        self.by: list[str] = []
        self.gate: asyncio.Event | None = None
        """Heartbeats wait for it, if it is there."""
        self.api = Api(key=BEAT, versions=range(0, 5), handle=self._handle, refuse=self._refuse)

    async def _handle(self, request: Any, context: RequestContext, services: Services) -> HeartbeatResponse:
        self.by.append(str(context.session.principal))
        if self.gate is not None:
            await self.gate.wait()
        return HeartbeatResponse()

    def _refuse(self, request: Any, context: RequestContext, error: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=error)


@pytest.fixture
def beats() -> Beats:
    return Beats()


@pytest.fixture
async def broker(beats: Beats) -> SaslBroker:
    """A listener with the users alice and root."""
    return SaslBroker(users("alice", "root"), VERSIONS, beats.api)


async def beat(peer: SaslPeer) -> Any:
    return await peer.one(BEAT, 4, HeartbeatRequest(group_id="g"))


async def test_the_right_password_makes_the_client_that_user(broker: SaslBroker, beats: Beats) -> None:
    peer = broker.peer()
    answer = await peer.scram("alice")
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert await beat(peer) is not None
    assert beats.by == ["User:alice"]
    session = peer.connection.session
    assert (session.mechanism, session.listener, session.is_super) == (SCRAM, "INSIDE", False)
    assert session.expires_at_ms is None


async def test_a_super_user_is_known_as_one(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.scram("root")
    assert peer.connection.session.is_super


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)], ids=["a wrong password", "an unknown user"]
)
async def test_a_wrong_user_or_password_is_answered_with_one_text_and_a_close(
    broker: SaslBroker, user: str, password: str
) -> None:
    peer = broker.peer()
    assert await peer.scram(user, password) is None, "the answer is held back"
    assert not peer.is_closed
    await passed(broker, 125)
    (answer,) = peer.answers()
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED)
    assert answer.auth_bytes == b""
    assert peer.is_closed


async def test_nothing_is_read_while_a_failure_is_held_back(broker: SaslBroker, beats: Beats) -> None:
    peer = broker.peer()
    await peer.scram("alice", "wrong")
    peer.send(BEAT, 4, HeartbeatRequest(group_id="g"))
    await passed(broker, 10_000)
    assert len(peer.answers()) == 1, "that of the failure"
    assert beats.by == []


async def test_an_unknown_user_looks_like_a_known_one_also_after_a_restart() -> None:
    def shape(challenge: bytes) -> tuple[bytes, ...]:
        nonce, salt, iterations = challenge.split(b",")
        return nonce[:2], salt, iterations

    challenges = []
    for _ in range(2):
        peer = SaslBroker(users("alice")).peer()
        await peer.handshake()
        challenges.append((await peer.token(b"n,,n=nobody,r=nonce")).auth_bytes)
    first, second = challenges
    assert first != second, "the nonce is new each time"
    assert shape(first) == shape(second)


async def test_wrong_passwords_take_longer_and_longer(broker: SaslBroker) -> None:
    waited = []
    for _ in range(8):
        peer = broker.peer()
        await peer.scram("alice", "wrong")
        begun_ms = broker.clock.elapsed_ms()
        while not peer.answers():
            await passed(broker, 25)
        waited.append(broker.clock.elapsed_ms() - begun_ms)
    for attempt, ms in enumerate(waited):
        least = min(100 * 2**attempt, 5000)
        assert least <= ms <= least * 1.25 + 25
    assert (await broker.peer().scram("alice")).error_code == 0, "nobody is locked out, and who is right does not wait"


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS, BEAT, 7777])
async def test_a_request_before_the_handshake_ends_the_connection_without_an_answer(
    broker: SaslBroker, beats: Beats, key: int
) -> None:
    peer = broker.peer()
    peer.transport.feed(b"\0\0\0\x0a" + key.to_bytes(2, "big") + b"\0\0" + b"\0\0\0\x01" + b"\xff\xff")
    await turns()
    assert peer.is_closed
    assert not peer.transport.sent
    assert beats.by == []


async def test_a_fifth_api_versions_ends_the_connection(broker: SaslBroker) -> None:
    peer = broker.peer()
    for _ in range(4):
        answer = await peer.one(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1"))
        assert answer.error_code == 0
    assert await peer.one(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1")) is None
    assert peer.is_closed


@pytest.mark.parametrize("name", ["GSSAPI", "scram-sha-256", "x" * 30_000, ""])
async def test_a_mechanism_that_is_not_enabled_gets_the_list(broker: SaslBroker, name: str) -> None:
    peer = broker.peer()
    answer = await peer.handshake(name)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert peer.is_closed


async def test_a_second_handshake_is_illegal(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.handshake()
    answer = await peer.handshake()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.is_closed


async def test_another_request_in_the_exchange_is_refused_by_its_own_response(broker: SaslBroker, beats: Beats) -> None:
    peer = broker.peer()
    await peer.handshake()
    answer = await beat(peer)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.is_closed
    assert beats.by == []


async def test_one_in_a_version_that_is_not_served_is_closed(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.handshake()
    peer.transport.sent.clear()
    frame = b"".join(encode_request(ApiKey.METADATA, 1, 5, None, MetadataRequest()))
    peer.transport.feed(frame)
    await turns()
    assert peer.is_closed
    assert not peer.transport.sent


async def test_tokens_without_an_exchange_change_nothing_after_success(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.scram("alice")
    answer = await peer.token(b"more")
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await beat(peer) is not None


async def test_requests_may_come_in_one_piece(broker: SaslBroker, beats: Beats) -> None:
    """The proof needs the challenge, so a mechanism of one token stands in."""

    class Slow:
        async def step(self, token: bytes) -> Step:
            await broker.clock.sleep(50)
            return Authenticated(token.decode())

    broker = SaslBroker(users(), VERSIONS, beats.api, exchanges={"PLAIN": Slow})
    peer = broker.peer()
    frames = [
        peer.frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("x", "1")),
        peer.frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")),
        peer.frame(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"bob")),
        peer.frame(BEAT, 4, HeartbeatRequest(group_id="g")),
    ]
    peer.transport.feed(b"".join(frames))
    await turns()
    assert len(peer.answers()) == 2
    assert beats.by == [], "it waits for the step before it"
    await passed(broker, 50)
    assert len(peer.answers()) == 2
    assert beats.by == ["User:bob"]


async def test_a_peer_that_never_proves_anything_is_closed_in_time() -> None:
    broker = SaslBroker(users("alice"), timeout_ms=200)
    silent, slow, done = broker.peer(), broker.peer(), broker.peer()
    await slow.handshake()
    await done.scram("alice")
    assert broker.unauthenticated_peers.count == 2
    assert not silent.is_closed
    assert not slow.is_closed
    await until(lambda: silent.is_closed and slow.is_closed)
    assert not done.is_closed
    assert broker.unauthenticated_peers.count == 0


async def test_the_delay_of_a_failure_does_not_count_against_that_time() -> None:
    broker = SaslBroker(users("alice"), timeout_ms=100)
    peer = broker.peer()
    await peer.scram("alice", "wrong")
    await asyncio.sleep(0.2)
    assert not peer.is_closed
    assert broker.unauthenticated_peers.count == 1, "it counts as long as it is there"
    await passed(broker, 125)
    assert len(peer.answers()) == 1
    assert peer.is_closed
    await turns()
    assert broker.unauthenticated_peers.count == 0


@pytest.mark.parametrize("size", [131_073, 209_715_200, -1])
async def test_a_large_frame_before_authentication_ends_the_connection_at_its_size(
    broker: SaslBroker, size: int
) -> None:
    peer = broker.peer()
    peer.transport.feed(size.to_bytes(4, "big", signed=True))
    await turns()
    assert peer.is_closed
    authenticated = broker.peer()
    await authenticated.scram("alice")
    authenticated.transport.feed((131_073).to_bytes(4, "big"))
    await turns()
    assert not authenticated.is_closed


async def test_peers_without_a_login_share_their_memory_and_leave_that_of_others_alone(broker: SaslBroker) -> None:
    size = 120_000
    begun = size.to_bytes(4, "big") + b"\x00\x24\x00\x02" + bytes(20_000)
    broker.unauthenticated_peers.memory = FrameMemory(
        limit_bytes=5 * BUFFER_BYTES + size, others=lambda: broker.unauthenticated_peers.count * BUFFER_BYTES
    )
    first, front, second, third = (broker.peer() for _ in range(4))
    for peer in (first, front, second):
        peer.transport.feed(begun)
    assert [peer.transport.reading for peer in (first, front, second)] == [True, True, False]
    assert (await third.scram("alice")).error_code == 0, "who logs in at once needs none of it"
    assert third.transport.reading
    third.transport.feed(begun)
    assert broker.unauthenticated_peers.memory.held_bytes == 2 * size, "and has the memory of all from then on"
    assert broker.host.spare_buffers.memory.held_bytes == size
    first.transport.lose()
    await turns()
    assert second.transport.reading
    for peer in (front, second):
        peer.transport.lose()
    assert broker.unauthenticated_peers.memory.held_bytes == 0


async def test_a_peer_without_a_login_that_sends_slowly_gives_way_to_one_who_waits(broker: SaslBroker) -> None:
    broker.unauthenticated_peers = UnauthenticatedPeers(
        "INSIDE",
        UnauthenticatedPeerLimits(memory_bytes=2 * BUFFER_BYTES),
        KnownAddresses(),
        refusals=broker.host.refusals,
        clock=broker.clock,
        chance=SeededChance(1),
        loop=asyncio.get_running_loop(),
    )
    slow, waiting = broker.peer(), broker.peer()
    for peer in (slow, waiting):
        peer.transport.feed((120_000).to_bytes(4, "big") + b"\x00\x24\x00\x02" + bytes(20_000))
    assert (slow.transport.reading, waiting.transport.reading) == (True, False)
    for _ in range(2):
        await passed(broker, CHECK_MS)
    assert slow.is_closed
    assert waiting.transport.reading
    waiting.transport.lose()


async def test_the_ninth_token_of_an_exchange_ends_the_connection() -> None:
    class Endless:
        async def step(self, token: bytes) -> Step:
            return Challenge(token)

    peer = SaslBroker(users(), exchanges={"PLAIN": Endless}).peer()
    await peer.handshake("PLAIN")
    for _ in range(8):
        assert (await peer.token(b"x")).auth_bytes == b"x"
    assert await peer.token(b"x") is None
    assert peer.is_closed


async def test_an_old_client_sends_bare_tokens(broker: SaslBroker, beats: Beats) -> None:
    peer = broker.peer()
    await peer.handshake(version=0)
    client = ScramClient(Mechanism.SCRAM_SHA_256, "alice", PASSWORD, "nonce")
    token = client.first
    for _ in range(2):
        peer.transport.feed(len(token).to_bytes(4, "big") + token)
        await turns()
        (challenge,) = peer.transport.frames()
        step = client.step(challenge)
        token = step.token if isinstance(step, Challenge) else b""
    assert await beat(peer) is not None
    assert beats.by == ["User:alice"]


async def test_an_old_client_with_a_wrong_password_hears_nothing(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.handshake(version=0)
    peer.transport.feed(b"\0\0\0\x03abc")
    await turns()
    await passed(broker, 125)
    assert peer.is_closed
    assert not peer.transport.sent


@pytest.mark.parametrize("leaves", [False, True])
async def test_bare_tokens_that_come_in_one_piece_are_taken_one_by_one(
    broker: SaslBroker, leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    peer = broker.peer()
    await peer.handshake(version=0)
    peer.transport.feed(sized(b"nonsense") + sized(b"more of it") + sized(b""))
    if leaves:
        peer.transport.lose()
    await turns()
    await passed(broker, 6_250)
    assert peer.is_closed
    assert not peer.transport.sent
    assert not broker.host.running
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


async def test_an_error_inside_ends_the_connection_and_lets_nobody_in(
    beats: Beats, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def step(self, token: bytes) -> Step:
            raise RuntimeError("inside")

    broker = SaslBroker(users(), beats.api, exchanges={"PLAIN": Broken})
    for _ in range(3):
        peer = broker.peer()
        await peer.handshake("PLAIN")
        peer.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"x"))
        await passed(broker, 6_250)
        (answer,) = peer.answers()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "no other than that of a wrong password"
        assert peer.is_closed
    assert "inside" in caplog.text
    assert broker.listener.failures.failed(peer.connection.session.host) > 400, "each is a failed login of its address"


async def test_nobody_logs_in_as_the_user_of_those_who_prove_nothing(beats: Beats) -> None:
    """The limits of single users do not hold for it, and entries may give it what nobody has to prove."""

    class Nobody:
        async def step(self, token: bytes) -> Step:
            return Authenticated("ANONYMOUS")

    broker = SaslBroker(users(), beats.api, exchanges={"OAUTHBEARER": Nobody})
    peer = broker.peer()
    await peer.handshake("OAUTHBEARER")
    assert await peer.token(b"t") is None
    await passed(broker, 6_250)
    assert [each.error_code for each in peer.answers()] == [ErrorCode.SASL_AUTHENTICATION_FAILED]
    assert peer.is_closed


async def test_a_failure_is_in_the_log_once_with_its_cause(
    broker: SaslBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            peer = broker.peer()
            await peer.scram("alice", "wrong password")
            await passed(broker, 6_250)
    lines = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert lines == ["closing a connection: authentication failed with SCRAM-SHA-256: the proof is wrong"]
    assert "wrong password" not in caplog.text


# Sessions that end (KIP-368)


@pytest.fixture
async def short(beats: Beats) -> SaslBroker:
    """A listener whose sessions last 20 seconds."""
    return SaslBroker(users("alice", "bob"), beats.api, max_reauth_ms=20_000)


async def test_who_logs_in_again_is_no_connection_more(short: SaslBroker) -> None:
    short.host.max_connections = 40
    peers = []
    for user in ["alice"] * 38 + ["bob"] * 2:
        peers.append(short.peer())
        await peers[-1].scram(user)
    short.host.places.sample()
    assert [peer.is_closed for peer in peers] == [False] * 40
    await passed(short, 15_000)
    await peers[0].scram("alice")
    await turns()
    assert not peers[0].is_closed


async def test_a_session_is_renewed_by_its_user(short: SaslBroker, beats: Beats) -> None:
    peer = short.peer()
    assert (await peer.scram("alice")).session_lifetime_ms == 20_000
    await passed(short, 15_000)
    assert (await peer.scram("alice")).session_lifetime_ms == 20_000
    await passed(short, 15_000)
    assert await beat(peer) is not None
    assert not peer.is_closed


async def test_a_request_after_its_end_is_neither_answered_nor_carried_out(short: SaslBroker, beats: Beats) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 20_000)
    assert await beat(peer) is None
    assert peer.is_closed
    assert beats.by == []


async def test_an_expired_session_may_still_be_renewed(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 25_000)
    assert (await peer.scram("alice")).error_code == 0
    await passed(short, 19_000)
    assert await beat(peer) is not None


async def test_a_silent_connection_is_closed_half_a_minute_after_its_session(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 49_999)
    assert not peer.is_closed
    await passed(short, 1)
    assert peer.is_closed


async def test_a_renewal_that_is_begun_and_not_finished_ends_the_connection(short: SaslBroker) -> None:
    """Its parked Fetch would go on to receive records for ever."""
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 1_000)
    assert (await peer.handshake()).error_code == 0
    await passed(short, EXCHANGE_MS - 1)
    assert not peer.is_closed
    await passed(short, 1)
    assert peer.is_closed


async def test_a_renewal_begun_after_the_end_keeps_nothing_open(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    for _ in range(3):
        await passed(short, 16_000)
        if not peer.is_closed:
            await peer.handshake()
    assert peer.is_closed


async def test_a_renewal_in_time_leaves_no_deadline_behind(short: SaslBroker) -> None:
    peer = short.peer()
    for _ in range(5):
        await peer.scram("alice")
        await passed(short, EXCHANGE_MS + 1_000)
    assert not peer.is_closed


async def test_nobody_else_may_take_a_session_over(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 1_000)
    assert await peer.scram("bob") is None
    await passed(short, 125)
    (answer,) = peer.answers()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert peer.is_closed
    assert str(peer.connection.session.principal) == "User:alice"


async def test_another_mechanism_fails_at_its_first_token(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 1_000)
    assert (await peer.handshake("SCRAM-SHA-512")).error_code == 0
    assert await peer.token(b"n,,n=alice,r=x") is None
    await passed(short, 125)
    assert [each.error_code for each in peer.answers()] == [ErrorCode.SASL_AUTHENTICATION_FAILED]
    assert peer.is_closed


async def test_renewing_twice_in_a_second_is_refused_and_harms_nothing(short: SaslBroker) -> None:
    peer = short.peer()
    await peer.scram("alice")
    answer = await peer.handshake()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await beat(peer) is not None


async def test_a_session_without_an_end_is_not_renewed(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.scram("alice")
    await passed(broker, 5_000)
    assert (await peer.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await beat(peer) is not None


async def test_a_request_in_the_middle_of_a_renewal_is_illegal(short: SaslBroker, beats: Beats) -> None:
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 1_000)
    await peer.handshake()
    assert (await beat(peer)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.is_closed
    assert beats.by == []


async def test_requests_before_a_renewal_are_answered_before_it(short: SaslBroker, beats: Beats) -> None:
    beats.gate = asyncio.Event()
    peer = short.peer()
    await peer.scram("alice")
    await passed(short, 1_000)
    assert await beat(peer) is None
    assert await peer.handshake() is None
    beats.gate.set()
    await turns()
    first, second = peer.answers()
    assert isinstance(first, HeartbeatResponse)
    assert second.error_code == 0


async def test_a_token_that_ends_earlier_ends_the_session(beats: Beats) -> None:
    class Short:
        async def step(self, token: bytes) -> Step:
            return Authenticated("carol", expires_in_ms=3_000)

    peer = SaslBroker(users(), beats.api, max_reauth_ms=20_000, exchanges={"OAUTHBEARER": Short}).peer()
    await peer.handshake("OAUTHBEARER")
    assert (await peer.token(b"t")).session_lifetime_ms == 3_000


async def test_a_client_that_leaves_in_the_middle_harms_nobody(broker: SaslBroker) -> None:
    peer = broker.peer()
    await peer.scram("alice", "wrong")
    peer.transport.lose()
    await passed(broker, 20_000)
    assert not broker.host.connections
    assert not broker.host.running


async def test_random_tokens_never_get_in(broker: SaslBroker) -> None:
    for token in (
        b"",
        b"n,,",
        b"n,,n=alice,r=",
        b"\0alice\0" + PASSWORD.encode(),
        b"n,a=root,n=alice,r=x",
        b"\xff" * 99,
    ):
        peer = broker.peer()
        await peer.handshake()
        assert await peer.token(token) is None
        await passed(broker, 6_250)
        answers = peer.answers()
        assert [each.error_message for each in answers] == [REFUSED]
        assert isinstance(answers[0], SaslAuthenticateResponse)


async def test_a_user_who_is_deleted_during_the_login_does_not_get_in() -> None:
    """Whoever knows that he will be deleted keeps some logins open until then."""
    store = users("alice")
    broker = SaslBroker(store, delay_ms=0)
    peer = broker.peer()
    await peer.handshake()
    client = ScramClient(SCRAM, "alice", PASSWORD, "clientnonce")
    first = await peer.token(client.first)
    proof = client.step(first.auth_bytes)
    assert isinstance(proof, Challenge)
    store.remove("alice", 1)
    last = await peer.token(proof.token)
    assert (last.error_code, last.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED)
    await turns()
    assert peer.is_closed
