"""Throws mutated frames at a broker, through fake transports or over sockets, and looks whether it still serves.

    python fuzz_broker.py --frames 10000000 --seed 1 [--first-chunk 0]
    python fuzz_broker.py --frames 100000 --sockets
    python fuzz_broker.py --frames 10000 --security     # each is a connection to listeners with TLS and logins
    python fuzz_broker.py --frames 1000 --large         # whole requests of up to 16 MiB: the longest step of the loop
    python fuzz_broker.py --frames 10000 --members      # of members of groups, who know what they were told

Every second chunk goes to a broker with an authorizer, from those who may do everything and from those who may not.
Frames come in chunks; each chunk is a fresh broker and follows from (seed, chunk) alone, so a failing chunk is replayed
by `--seed S --first-chunk C --frames 20000`; `fuzz_campaign.py` throws all kinds, and goes on where it was stopped. A
failure is a traceback in the log, a connection that harms another, or a broker that does not answer afterwards; of a
large request also a step of the event loop that takes too long, or a response that is too large. It names the command
that repeats it.
"""

import argparse
import asyncio
import itertools
import logging
import random
import socket
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from descendants import end_with_me
from fake_peer import FakePeer, turns
from frame_fuzz import mutations, request_frames, sized
from fuzz_members import Members
from fuzz_requests import USERS, Attacked
from fuzz_security import SecuredTarget
from guarded_broker import ADMIN
from hostile_requests import drawn
from local_broker import local_broker
from waiting import until

from eosin.broker.handlers.registry import APIS
from eosin.model.principals import Principal
from eosin.node.running import RunningNode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.security.session import EVERYBODY_MAY, Session
from eosin.settings.broker import STANDARD_AUTHORIZER

CHUNK_FRAMES = 20_000
CHUNK_ATTACKS = 1_000
CHUNK_LARGE = 50
CHUNK_OF_MEMBERS = 5_000
CLIENTS = 4
TURN_EVERY = 16
"""Frames between two turns of the event loop."""


LIMITS: dict[str, Any] = {
    "socket_request_max_bytes": 1_000_000,
    "eosin_shutdown_timeout_ms": 200,
    "eosin_connection_refused_delay_ms": 0,
}


@dataclass
class Outcome:
    """The figures of a run."""

    frames: int = 0
    connections: int = 0
    failures: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    longest: str = ""
    """The longest step of the event loop that a large request took."""


class _Tracebacks(logging.Handler):
    """Keeps log records that tell of a fault of the broker."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))

    def from_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's exception handler: what nobody caught."""
        error = context.get("exception")
        self.found.append(context["message"] + "".join(traceback.format_exception(error) if error else ()))


async def fuzz(
    *,
    frames: int,
    seed: int,
    first_chunk: int = 0,
    sockets: bool = False,
    security: bool = False,
    large: bool = False,
    members: bool = False,
    verbose: bool = False,
) -> Outcome:
    """Throw `frames` frames, chunk by chunk. Stops at the first chunk with a failure."""
    outcome = Outcome()
    tracebacks = _Tracebacks()
    logger = logging.getLogger("eosin")
    logger.addHandler(tracebacks)
    # Every frame that closes a connection is worth a line to an operator, but not a million of them here.
    before, logger.propagate = logger.propagate, False
    asyncio.get_running_loop().set_exception_handler(tracebacks.from_loop)
    chunk, started = first_chunk, time.monotonic()
    kinds = {"sockets": sockets, "security": security, "large": large, "members": members}
    throw, whole = KINDS[next((name for name, is_so in kinds.items() if is_so), "")]
    try:
        while outcome.frames < frames and not outcome.failures:
            size = min(whole, frames - outcome.frames)
            await throw(seed * 1_000_000 + chunk, size, outcome)
            outcome.failures += [f"seed {seed} chunk {chunk}: {text}" for text in tracebacks.found]
            if outcome.failures:
                how = "".join(f" --{name}" for name, is_so in kinds.items() if is_so)
                outcome.failures.append(
                    f"again: fuzz_broker.py{how} --seed {seed} --first-chunk {chunk} --frames {whole}"
                )
            chunk += 1
            if verbose:
                rate = outcome.frames / (time.monotonic() - started)
                print(
                    f"chunk {chunk - 1}: {outcome.frames} frames, {outcome.connections} connections, {rate:.0f}/s",
                    flush=True,
                )
    finally:
        logger.removeHandler(tracebacks)
        logger.propagate = before
    return outcome


async def _chunk(seed: int, size: int, outcome: Outcome) -> None:
    rights = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ADMIN} if seed % 2 else {}
    async with local_broker(**LIMITS, **rights) as server:
        chance = random.Random(seed)
        damaged = _damaged(seed, chance)
        witness = FakePeer(server.host)
        peers = [_connect(server, outcome) for _ in range(CLIENTS)]
        for number, frame in enumerate(itertools.islice(damaged, size)):
            index = chance.randrange(CLIENTS)
            peer = peers[index]
            if peer.transport.is_closing() or not peer.transport.reading:
                peer.transport.lose()
                peer = peers[index] = _connect(server, outcome)
            peer.transport.feed(frame)
            peer.transport.sent.clear()
            if number % TURN_EVERY == 0:
                await asyncio.sleep(0)
        outcome.frames += size
        await turns()
        witness.send(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("fuzz", "1"))
        await turns()
        answers = witness.answers()
        if len(answers) != 1 or answers[0].error_code != 0:
            outcome.failures.append(f"a client that did nothing wrong is not answered any more: {answers}")
        for peer in (*peers, witness):
            peer.transport.lose()


def _damaged(seed: int, chance: random.Random) -> Iterator[bytes]:
    """Frames with their sizes, a few of which are wrong too."""
    for frame in mutations(request_frames(seed, keys=[api.key for api in APIS]), seed):
        yield chance.randbytes(4) + frame if chance.randrange(50) == 0 else sized(frame)


def _connect(server: RunningNode, outcome: Outcome) -> FakePeer:
    outcome.connections += 1
    peer = FakePeer(server.host)
    if server.services.authorizer is not EVERYBODY_MAY:
        kind, _, name = (ADMIN if outcome.connections % 4 else "User:nobody").partition(":")
        principal = Principal(kind, name)
        peer.connection.adopt(Session(principal=principal, host="127.0.0.1", authorizer=server.services.authorizer))
    return peer


async def _chunk_over_sockets(seed: int, size: int, outcome: Outcome) -> None:
    async with local_broker(**{**LIMITS, "listeners": ("PLAINTEXT://127.0.0.1:0",)}) as server:
        port = int(server.addresses[0].rpartition(":")[2])
        frames = list(itertools.islice(_damaged(seed, random.Random(seed)), size))
        outcome.connections += await asyncio.to_thread(_throw, port, frames)
        outcome.frames += size
        with _Caller(port) as caller:
            if not await asyncio.to_thread(caller.ask, b""):
                outcome.failures.append("a new client is not answered any more")


async def _chunk_of_attacks(seed: int, size: int, outcome: Outcome) -> None:
    async with SecuredTarget(seed) as target:

        def attacks() -> list[str]:
            return [wrong for number in range(size) if (wrong := target.attack(number)) is not None]

        outcome.failures += await asyncio.to_thread(attacks)
        outcome.connections += size
        outcome.frames += size
        silent = await asyncio.to_thread(target.serves)
        outcome.failures += [f"a new client of listener {name} is not answered any more" for name in silent]
        await until(lambda: not target.open_connections(), "connections are left of all attacks")


async def _chunk_of_large(seed: int, size: int, outcome: Outcome) -> None:
    keys = [api.key for api in APIS]
    async with Attacked.started() as attacked:
        for number in range(size):
            hostile = drawn(seed * 1000 + number, keys)
            await attacked.warm([hostile._replace(count=min(hostile.count, 2))])
            took = await attacked.took(hostile, random.Random(f"{hostile}").choice(USERS))
            outcome.frames += 1
            if took.longest_s > outcome.longest_s:
                outcome.longest_s, outcome.longest = took.longest_s, f"{took}"
            if took.wrong:
                outcome.failures.append(f"request {number}: {took.wrong}: {took}")
        outcome.connections += len(USERS)


async def _chunk_of_members(seed: int, size: int, outcome: Outcome) -> None:
    async with Members.started(seed, **LIMITS) as members:
        for _ in range(size):
            await members.ask()
            if members.failures:
                break
        outcome.failures += members.failures
        outcome.frames += size
        outcome.connections += members.connections
        await members.serve_others()


KINDS: Mapping[str, tuple[Callable[[int, int, Outcome], Awaitable[None]], int]] = {
    "": (_chunk, CHUNK_FRAMES),
    "sockets": (_chunk_over_sockets, CHUNK_FRAMES),
    "security": (_chunk_of_attacks, CHUNK_ATTACKS),
    "large": (_chunk_of_large, CHUNK_LARGE),
    "members": (_chunk_of_members, CHUNK_OF_MEMBERS),
}
"""How a chunk is thrown, and how many frames a whole one has."""


def _throw(port: int, frames: list[bytes]) -> int:
    """Send frames one by one, over a new socket whenever the broker closed the last; how many sockets it took."""
    connections, caller = 0, None
    for frame in frames:
        if caller is None:
            caller = _Caller(port)
            connections += 1
        if not caller.ask(frame):
            caller.close()
            caller = None
    if caller is not None:
        caller.close()
    return connections


class _Caller:
    """A socket that sends a damaged frame and a whole request behind it, and waits for the answer to that."""

    QUESTION = b"".join(encode_request(ApiKey.API_VERSIONS, 4, 0x5EA1, "fuzz", ApiVersionsRequest("fuzz", "1")))

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        # Some damaged requests ask the broker to wait, and answers leave in order.
        self._socket.settimeout(0.05)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, frame: bytes) -> bool:
        """True if the connection survived `frame`."""
        try:
            self._socket.sendall(frame + self.QUESTION)
            while not self._answered():
                piece = self._socket.recv(262_144)
                if not piece:
                    return False
                self._received += piece
        except OSError:
            return False
        return True

    def _answered(self) -> bool:
        data = self._received
        while len(data) >= 8 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
            answer = bytes(data[4 : 4 + size])
            del data[: 4 + size]
            if int.from_bytes(answer[:4], "big") == 0x5EA1:
                return bool(decode_response(ApiKey.API_VERSIONS, 4, answer)[1].error_code == 0)
        return False


def main() -> int:
    """Run from the command line; exit code 1 when something failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--frames", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first-chunk", type=int, default=0)
    options.add_argument("--sockets", action="store_true")
    options.add_argument("--security", action="store_true")
    options.add_argument("--large", action="store_true")
    options.add_argument("--members", action="store_true")
    given = options.parse_args()
    outcome = asyncio.run(
        fuzz(
            frames=given.frames,
            seed=given.seed,
            first_chunk=given.first_chunk,
            sockets=given.sockets,
            security=given.security,
            large=given.large,
            members=given.members,
            verbose=True,
        )
    )
    for failure in outcome.failures:
        print(failure, file=sys.stderr)
    said = f"{outcome.frames} frames over {outcome.connections} connections, {len(outcome.failures)} failures"
    longest = f"; longest step: {outcome.longest}" if outcome.longest else ""
    print(f"seed {given.seed}: {said}{longest}")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
