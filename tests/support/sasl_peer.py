"""A client of a SASL listener over a fake transport, and a listener for it, with users in memory."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from fake_peer import FakePeer, host_of, turns
from manual_clock import ManualClock

from eosin.broker.handlers import sasl_authenticate, sasl_handshake
from eosin.model.credentials import Credentials, StoredCredential
from eosin.network.api import Api
from eosin.network.host import ConnectionHost
from eosin.network.known_addresses import KnownAddresses
from eosin.network.sasl.failure_delays import FailureDelays
from eosin.network.sasl.gate import SaslGate, SaslListener
from eosin.network.unauthenticated_peers import (
    UnauthenticatedPeer,
    UnauthenticatedPeerLimits,
    UnauthenticatedPeers,
)
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.scram_credentials import credential_of
from eosin.protocol.sasl.steps import Challenge, Mechanism, Success
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.security.sasl.exchanges import ScramExchange, ServerExchange
from eosin.security.sasl.lookup import MECHANISMS, NUMBERS
from eosin.security.session import SecurityProtocol

SCRAM = Mechanism.SCRAM_SHA_256
PASSWORD = "correct horse"


def users(*names: str) -> Credentials:
    """A store in which these have `PASSWORD`, for SCRAM-SHA-256 alone."""
    credentials = Credentials()
    credentials.secret = b"s" * 32
    for name in names:
        made = credential_of(SCRAM, PASSWORD, name.encode().ljust(8), 4096)
        stored = StoredCredential(made.salt, made.stored_key, made.server_key, made.iterations)
        credentials.put(name, NUMBERS[SCRAM], stored)
    return credentials


class SaslBroker:
    """The broker behind the connections of one SASL listener."""

    def __init__(
        self,
        credentials: Credentials,
        *apis: Api,
        max_reauth_ms: int = 0,
        delay_ms: int = 100,
        exchanges: dict[str, Callable[[], ServerExchange]] | None = None,
        timeout_ms: int = 10_000,
    ) -> None:
        """`timeout_ms`, of the time that really passes, is how long a peer may take."""
        if exchanges is None:
            exchanges = {each: partial(ScramExchange, each, credentials) for each in MECHANISMS.values()}
        self.clock = ManualClock()
        self.host: ConnectionHost = host_of(
            sasl_handshake.API, sasl_authenticate.API, *apis, services=SimpleNamespace(clock=self.clock)
        )
        self.listener = SaslListener(
            protocol=SecurityProtocol.SASL_PLAINTEXT,
            exchanges={each: lambda _, make=make: make() for each, make in exchanges.items()},
            failures=FailureDelays(self.clock, SeededChance(1), delay_ms=delay_ms),
            max_receive_bytes=131_072,
            max_reauth_ms=dict.fromkeys(Mechanism, max_reauth_ms),
            is_super=lambda principal: principal.name == "root",
        )
        self.unauthenticated_peers = UnauthenticatedPeers(
            "INSIDE",
            UnauthenticatedPeerLimits(timeout_ms=timeout_ms),
            KnownAddresses(),
            refusals=self.host.refusals,
            clock=SystemClock(),
            chance=SeededChance(1),
            loop=asyncio.get_running_loop(),
        )

    def peer(self, address: str = "127.0.0.1") -> "SaslPeer":
        """A client that has just connected."""
        return SaslPeer(self, address)


class SaslPeer(FakePeer):
    """A client library reduced to its bytes, SASL included."""

    def __init__(
        self, broker: SaslBroker, address: str = "127.0.0.1", unauthenticated: UnauthenticatedPeer | None = None
    ) -> None:
        """`unauthenticated`: it has its place already."""
        unauthenticated = unauthenticated or broker.unauthenticated_peers.admit(address)
        assert unauthenticated is not None, "there is no place for it"
        super().__init__(
            broker.host,
            listener="INSIDE",
            address=address,
            new_gate=lambda connection: SaslGate(broker.listener, connection, broker.host, unauthenticated),
        )

    async def one(self, key: ApiKey, version: int, message: Any) -> Any:
        """Send one request; its answer, or None while there is none."""
        self.send(key, version, message)
        await turns()
        answers = self.answers()
        return answers[0] if answers else None

    async def handshake(self, mechanism: str = SCRAM, version: int = 1) -> Any:
        """Choose a mechanism."""
        return await self.one(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))

    async def token(self, token: bytes, version: int = 2) -> Any:
        """Send a token of the exchange."""
        return await self.one(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))

    async def scram(self, user: str, password: str = PASSWORD, *, mechanism: Mechanism = SCRAM) -> Any:
        """A whole exchange: the last answer, None while it is held back. A good one proves the broker, too."""
        assert (await self.handshake(mechanism)).error_code == 0
        client = ScramClient(mechanism, user, password, "clientnonce")
        first = await self.token(client.first)
        if first is None or first.error_code:
            return first
        proof = client.step(first.auth_bytes)
        assert isinstance(proof, Challenge)
        last = await self.token(proof.token)
        if last is not None and not last.error_code:
            assert isinstance(client.step(last.auth_bytes), Success), "the broker does not know the password"
        return last

    @property
    def is_closed(self) -> bool:
        """True if the broker has closed the connection."""
        return self.transport.is_closing()


async def passed(broker: SaslBroker, ms: float) -> None:
    """Let time pass, and everything happen that it brings."""
    broker.clock.advance(ms)
    await asyncio.sleep(0)
    await turns()
