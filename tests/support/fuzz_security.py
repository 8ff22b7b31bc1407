"""Attacks on the doors of a secured broker, over sockets: damaged records of TLS, plain bytes where TLS is spoken, and
messages of SASL in any order, damaged or not. Nobody here knows a password, so nobody may be let in.

    async with SecuredTarget(seed) as target:
        target.attack(number)               # from any thread; what is wrong, or None

An attack follows from (seed, number) alone. Keys, certificates and nonces do not, so its bytes differ from run to run.
"""

import base64
import contextlib
import random
import socket
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from certificates import Authority
from frame_fuzz import damaged, sized
from tls_broker import pem_text
from waiting import HANG_S

from eosin.node.configuration import load_config
from eosin.node.node import Node
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import encode_request
from eosin.settings.broker import STANDARD_AUTHORIZER

LISTENERS: Final = ("TLS", "LOGIN", "BOTH")
_SECRET: Final = b"127.0.0.1"
"""In an answer to Metadata, which nobody may get before a login, and in nothing else."""
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "GSSAPI", "", "ü" * 300)
_TOKENS: Final = (
    b"n,,n=alice,r=nonce",
    b"n,a=root,n=alice,r=nonce",
    b"c=biws,r=noncenonce,p=" + base64.b64encode(bytes(32)),
    b"\0alice\0secret",
    b"root\0alice\0secret",
    b"",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
    b"\x01",
)


def _asked(key: ApiKey, version: int, message: Message) -> bytes:
    return b"".join(encode_request(key, version, 1, "fuzz", message))


QUESTION: Final = _asked(ApiKey.API_VERSIONS, 0, ApiVersionsRequest("", ""))
FORBIDDEN: Final = _asked(ApiKey.METADATA, 1, MetadataRequest(topics=None))


class SecuredTarget:
    """A broker in this loop whose listeners speak TLS, ask for a login, and do both. An async context manager."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        authority = Authority.root()
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trusting.load_verify_locations(cadata=pem_text(authority))
        with tempfile.TemporaryDirectory() as folder:
            text = Path(authority.issue().write(Path(folder, "broker.pem"))).read_text()
        key, end, chain = text.partition("-----END PRIVATE KEY-----\n")
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "listener.security.protocol.map": "TLS:SSL,LOGIN:SASL_PLAINTEXT,BOTH:SASL_SSL",
            "ssl.keystore.key": key + end,
            "ssl.keystore.certificate.chain": chain,
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
            "eosin.allow.cleartext.passwords": "true",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "socket.request.max.bytes": "1000000",
            "eosin.connection.refused.delay.ms": "0",
            "connection.failed.authentication.delay.ms": "0",
        }
        self._node = Node.alone(
            load_config(
                flags={"eosin.durability": "memory"},
                assignments=[f"{name}={value}" for name, value in settings.items()],
            ).config
        )

    async def __aenter__(self) -> Self:
        self._server = await self._node.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.shutdown()

    def attack(self, number: int) -> str | None:
        """One connection by which somebody tries something; what is wrong with what came of it."""
        chance = random.Random(f"attack-{self.seed}-{number}")
        listener = chance.choice(LISTENERS)
        peer = _Peer(self._port(listener))
        try:
            received = chance.choice(_ATTACKS[listener])(self, peer, chance)
        except TimeoutError:
            return f"attack {number}: listener {listener} did not close the connection"
        finally:
            peer.close()
        if _SECRET in received and listener != "TLS":
            return f"attack {number}: listener {listener} has answered somebody without a login"
        return None

    def serves(self) -> list[str]:
        """The listeners that do not answer a client that does nothing wrong."""
        return [name for name in LISTENERS if not self._answers(name)]

    def open_connections(self) -> int:
        """The connections that are left of all attacks."""
        host = self._server.host
        return len(host.connections) + len(host.layers) + host.arriving

    def notices(self) -> bool:
        """True if an answer to Metadata, from the listener without a login, shows what the others must not tell."""
        peer, engine = _Peer(self._port("TLS")), _Engine(self._trusting)
        try:
            peer.shake(engine)
            engine.tls.write(FORBIDDEN)
            return _SECRET in engine.plaintext(peer.all_of([engine.outgoing.read()]))
        finally:
            peer.close()

    def _port(self, listener: str) -> int:
        return int(self._server.addresses[LISTENERS.index(listener)].rpartition(":")[2])

    def _answers(self, listener: str) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port(listener)), HANG_S) as plain:
                client = (
                    plain if listener == "LOGIN" else self._trusting.wrap_socket(plain, server_hostname="localhost")
                )
                with client:
                    client.sendall(QUESTION)
                    return client.recv(8)[4:8] == b"\0\0\0\1"
        except OSError:
            return False

    # Attacks on TLS

    def noise(self, peer: "_Peer", chance: random.Random) -> bytes:
        """Bytes of any kind, some of which begin as a record does."""
        start = chance.choice((b"", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\xff\xff\x01", b"\x15\x03\x03\0\2\2\0"))
        return peer.all_of(_pieces(start + chance.randbytes(chance.choice((0, 1, 5, 200, 70_000))), chance))

    def plain(self, peer: "_Peer", chance: random.Random) -> bytes:
        """A client that does not know of TLS."""
        return peer.all_of(_pieces(QUESTION + FORBIDDEN, chance))

    def greeting(self, peer: "_Peer", chance: random.Random) -> bytes:
        """A ClientHello: whole, cut off or damaged, in pieces."""
        engine = _Engine(self._trusting)
        with contextlib.suppress(ssl.SSLWantReadError):
            engine.tls.do_handshake()
        return peer.all_of(_pieces(_perhaps_damaged(engine.outgoing.read(), chance), chance))

    def records(self, peer: "_Peer", chance: random.Random) -> bytes:
        """Good requests in damaged records, behind a good handshake."""
        engine = _Engine(self._trusting)
        if not peer.shake(engine):
            return b""
        engine.tls.write(chance.choice((QUESTION, QUESTION + FORBIDDEN, sized(b""), chance.randbytes(30_000))))
        return engine.plaintext(peer.all_of(_pieces(_perhaps_damaged(engine.outgoing.read(), chance), chance)))

    # Attacks on a login

    def login(self, peer: "_Peer", chance: random.Random) -> bytes:
        """Messages of SASL in any order, and a request that needs a login."""
        return peer.all_of(_pieces(_conversation(chance), chance))

    def login_over_tls(self, peer: "_Peer", chance: random.Random) -> bytes:
        """The same in good records."""
        engine = _Engine(self._trusting)
        if not peer.shake(engine):
            return b""
        engine.tls.write(_conversation(chance))
        return engine.plaintext(peer.all_of(_pieces(engine.outgoing.read(), chance)))


Attack = Callable[[SecuredTarget, "_Peer", random.Random], bytes]
_ON_TLS: Final[Sequence[Attack]] = (
    SecuredTarget.noise,
    SecuredTarget.plain,
    SecuredTarget.greeting,
    SecuredTarget.greeting,
    SecuredTarget.records,
    SecuredTarget.records,
)
_ATTACKS: Final[dict[str, Sequence[Attack]]] = {
    "TLS": _ON_TLS,
    "LOGIN": (SecuredTarget.noise, SecuredTarget.plain, *[SecuredTarget.login] * 4),
    "BOTH": (*_ON_TLS, *[SecuredTarget.login_over_tls] * 4),
}


def _conversation(chance: random.Random) -> bytes:
    said = [_message(chance) for _ in range(chance.randint(1, 6))]
    said.insert(chance.randint(0, len(said)), FORBIDDEN)
    return b"".join(said)


def _message(chance: random.Random) -> bytes:
    """One message of a login as a frame; half of them are damaged, and some are bare tokens, as old clients send."""
    kind = chance.randrange(8)
    token = chance.choice((*_TOKENS, chance.randbytes(chance.choice((1, 40, 5000)))))
    if kind == 0:
        frame = token
    elif kind == 1:
        frame = QUESTION[4:]
    elif kind <= 4:
        frame = _asked(ApiKey.SASL_HANDSHAKE, chance.randrange(2), SaslHandshakeRequest(chance.choice(_MECHANISMS)))[4:]
    else:
        frame = _asked(ApiKey.SASL_AUTHENTICATE, chance.randrange(3), SaslAuthenticateRequest(token))[4:]
    if chance.randrange(2):
        frame = damaged(frame, chance)
    return chance.randbytes(4) + frame if chance.randrange(50) == 0 else sized(frame)


def _perhaps_damaged(data: bytes, chance: random.Random) -> bytes:
    return damaged(data, chance) if chance.randrange(8) else data


def _pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """The same bytes in one piece, a few, or very many."""
    most = chance.choice((len(data) + 1, 1 + len(data) // 3, 1 + len(data) // 40))
    found, at = [], 0
    while at < len(data):
        size = chance.randint(1, max(1, most))
        found.append(data[at : at + size])
        at += size
    return found


class _Engine:
    """A client's side of TLS without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def plaintext(self, data: bytes) -> bytes:
        """The plaintext of the records that came."""
        self.incoming.write(data)
        found = bytearray()
        with contextlib.suppress(ssl.SSLError):
            while piece := self.tls.read(65_536):
                found += piece
        return bytes(found)


class _Peer:
    """A socket that says something and then hangs up."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), HANG_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def all_of(self, pieces: Sequence[bytes]) -> bytes:
        """Send them and no more; what comes until the broker has closed. Raises TimeoutError when it does not."""
        received = bytearray()
        with contextlib.suppress(OSError):  # it may have hung up before
            for piece in pieces:
                self._socket.sendall(piece)
            self._socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := self._socket.recv(262_144):
                received += piece
        return bytes(received)

    def shake(self, engine: _Engine) -> bool:
        """A whole handshake."""
        for _ in range(10):
            try:
                engine.tls.do_handshake()
                self._socket.sendall(engine.outgoing.read())
                return True
            except ssl.SSLWantReadError:
                self._socket.sendall(engine.outgoing.read())
                engine.incoming.write(self._socket.recv(65_536))
        return False
