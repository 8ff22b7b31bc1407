"""Places that there are few of: connections, memory for frames, handshakes, logins."""

import asyncio
import base64
import itertools
import json
import random
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.plain import plain_message
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from hostile.field import Attack, Case, Field, Who, source_of
from hostile.peer import GONE, Peer, frame_of, handshake, scram, token

TEN: Final = 10
"""Addresses."""
OF_EACH: Final = 100
"""Connections of an address that may be without a login."""
DRIP_S: Final = 1.0
_RESET: Final = struct.pack("ii", 1, 0)


def _dripping(field: Field, first: bytes, drip: bytes) -> Callable[[Peer], Coroutine[Any, Any, None]]:
    """Begins something, and then sends a few bytes a second."""
    begun: set[Peer] = set()

    async def does(peer: Peer) -> None:
        if peer in begun:
            await field.pause(DRIP_S)
            await peer.send(drip)
        else:
            begun.add(peer)
            await peer.send(first)

    return does


async def announced_frames(field: Field) -> None:
    """Batches of 100 MiB are announced, and come at 54 bytes a second."""
    first = struct.pack(">i", 100 << 20) + struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1)
    await field.as_user(Who.SMALL, _dripping(field, first, bytes(54)), connections=field.sized(61))


async def unfinished_requests(field: Field) -> None:
    """The first half of a request, and then a byte each second."""
    first = struct.pack(">i", 60_000) + struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1) + bytes(30_000)
    await field.as_user(Who.SMALL, _dripping(field, first, b"\0"), connections=field.sized(200), addresses=TEN)


async def unfinished_before_login(field: Field) -> None:
    """The same before a login, with the largest frame that may come then."""
    first = struct.pack(">i", 131_072) + struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 2, 1, -1) + bytes(65_536)
    await field.as_user(
        Who.NOBODY, _dripping(field, first, b"\0"), connections=field.sized(TEN * OF_EACH // 2), addresses=TEN
    )


async def silent(field: Field) -> None:
    """All places of ten addresses are taken, and nothing is said."""
    await _held(field, b"")


async def handshakes_begun(field: Field) -> None:
    """The same behind a greeting of TLS, whose answer nobody takes."""
    out = ssl.MemoryBIO()
    tls = field.tls.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        await _held(field, out.read())


async def _held(field: Field, said: bytes) -> None:
    async def does(peer: Peer) -> None:
        await peer.send(said)
        field.bout()
        await peer.until_closed()
        raise EOFError

    await field.again(
        lambda number: field.open_plain(source_of(number % TEN)), does, connections=field.sized(TEN * OF_EACH)
    )


async def handshakes(field: Field) -> None:
    """Whole handshakes of TLS, one after the other."""

    async def does(peer: Peer) -> None:
        field.drop(peer)
        field.drop(await field.open(Who.NOBODY))

    await field.as_user(Who.NOBODY, does, connections=4)


async def resets(field: Field) -> None:
    """Connections that are reset at once."""
    while True:
        for _ in range(20):
            with socket.socket() as each:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.setblocking(False)
                try:
                    await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", field.place.port))
                except OSError:
                    field.turned_away += 1
        field.bout()
        await asyncio.sleep(0)


async def logins(field: Field) -> None:
    """A user that logs in, asks something and leaves, from many addresses."""
    asked = frame_of(ApiKey.API_VERSIONS, 2, ApiVersionsRequest())

    async def one(number: int) -> None:
        for turn in itertools.count(number, 4):
            try:
                peer = await field.open(Who.SMALL, source_of(turn % 200))
                await peer.ask(asked)
                field.drop(peer)
            except GONE:
                field.turned_away += 1
            field.bout()

    await asyncio.gather(*map(one, range(4)))


def logins_with(mechanism: Mechanism, *messages: bytes) -> Attack:
    """Logins that fail: each message in turn, on a connection of its own, from ten addresses."""

    async def attack(field: Field) -> None:
        said = itertools.cycle(messages)

        async def does(peer: Peer) -> None:
            await peer.ask(handshake(mechanism))
            await peer.send(token(next(said)), token(b"\x01"))
            field.bout()
            await peer.until_closed()
            raise EOFError

        await field.as_user(Who.NOBODY, does, connections=field.sized(40, 2), addresses=TEN)

    return attack


def _bearer(header: object, claims: object) -> bytes:
    """A token that nobody signed."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    return b"n,,\x01auth=Bearer " + b".".join([*parts, b"AAAA"]) + b"\x01\x01"


_CLAIMS: Final = {"sub": "admin", "aud": "kafka", "exp": 1 << 40}
_ALGORITHMS: Final[Sequence[object]] = (["RS256"], {"a": 1}, 7, None, "none", "HS256")
_HEADERS: Final[Sequence[object]] = ([], "x", {"alg": "RS256", "kid": ["rsa"]}, {"crit": {}})
_CONTENTS: Final[Sequence[object]] = ([], None, {"exp": []}, [[[[[[]]]]]] * 1000)
_BEARERS: Final = (
    *(_bearer({"alg": each, "kid": "rsa"}, _CLAIMS) for each in _ALGORITHMS),
    *(_bearer(each, _CLAIMS) for each in _HEADERS),
    *(_bearer({"alg": "RS256", "kid": "rsa"}, each) for each in _CONTENTS),
    b"n,,\x01auth=Bearer ..\x01\x01",
    b"n,,\x01auth=Bearer " + b"A" * 60_000 + b"\x01\x01",
)


async def renewals_begun(field: Field) -> None:
    """Users that begin to log in anew, never finish, and go on asking."""
    asked = frame_of(ApiKey.API_VERSIONS, 2, ApiVersionsRequest())

    async def does(peer: Peer) -> None:
        await peer.send(handshake(Mechanism.SCRAM_SHA_512), token(scram(Who.SMALL, "").first), asked)
        field.bout()
        await peer.until_closed()
        raise EOFError

    await field.as_user(Who.SMALL, does, connections=field.sized(40), addresses=TEN)


_HTTP_WAIT_S: Final = 0.2
_HTTP: Final = (
    b"GET / HTTP/1.1\r\nHost: printer.local\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /console/facts HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000,
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 5_000 + b"\r\n",
)


async def http(field: Field) -> None:
    """Requests to the console's listener without its token, most of them with something wrong."""
    chance = random.Random(1)

    async def does(peer: Peer) -> None:
        await peer.send(chance.choice(_HTTP) if chance.randrange(8) else chance.randbytes(2000) + b"\r\n\r\n")
        await peer.heard(_HTTP_WAIT_S)
        raise EOFError

    await field.again(lambda _: field.open_plain(port=field.place.http_port), does, connections=field.sized(40, 2))


CASES: Final = (
    Case("announced-frames", "S2", Who.SMALL, "61 frames of 100 MiB, at 54 bytes a second", announced_frames),
    Case(
        "unfinished-requests", "S2", Who.SMALL, "half a request on 200 connections", unfinished_requests, addresses=TEN
    ),
    Case(
        *("unfinished-before-login", "S2", Who.NOBODY, "half a frame of 128 KiB on 500 connections"),
        unfinished_before_login,
        addresses=TEN,
    ),
    Case("silent", "S5", Who.NOBODY, "nothing, on 1000 connections of ten addresses", silent, addresses=TEN),
    Case(
        *("handshakes-begun", "S5", Who.NOBODY, "a greeting of TLS and no more, on 1000 connections"),
        handshakes_begun,
        addresses=TEN,
    ),
    Case("handshakes", "S5", Who.NOBODY, "whole handshakes of TLS", handshakes),
    Case("resets", "S5", Who.NOBODY, "connections that are reset at once", resets),
    Case("logins", "S5", Who.SMALL, "logins that ask something and leave", logins, addresses=200),
    Case(
        *("wrong-passwords", "S8", Who.NOBODY, "wrong passwords of users who are there and who are not"),
        logins_with(
            Mechanism.PLAIN, *(plain_message(user, "wrong") for user in (Who.SMALL, "nobody-1", Who.ADMIN, "nobody-2"))
        ),
        addresses=TEN,
    ),
    Case(
        *("odd-tokens", "S9", Who.NOBODY, "tokens of OAUTHBEARER that are none"),
        logins_with(Mechanism.OAUTHBEARER, *_BEARERS),
        addresses=TEN,
    ),
    Case("renewals-begun", "S11", Who.SMALL, "new logins that are begun and left", renewals_begun, addresses=TEN),
    Case("http", "S13", Who.NOBODY, "the console's listener without a token", http),
)
