"""A client of the simulated broker: requests over wires that break, sent again until an answer is final."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request
from simulation.history import History
from simulation.loop import Process
from simulation.machine import Machine
from simulation.network import ConnectionLost, Link, Wire

ASK_AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Answers after which every client sends the same request again."""

NEVER_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INVALID_RECORD,
    }
)
"""Answers that no client here deserves."""


class Coordinated(NamedTuple):
    """What has a coordinator."""

    key_type: int
    """0 a group, 1 a transactional id."""
    key: str


Errors = Callable[[Any], ErrorCode]
"""The one code of an answer that decides whether it is final."""


class GaveUp(Exception):
    """The client has lost patience: nobody knows whether the request was carried out."""


class World:
    """What clients share."""

    retries_in_order = False
    """Whether a producer sends what was not taken batch by batch, as the Java client does: where leaders move, a later
    batch may else find the new one before the first of its producer does."""

    is_formatted = False
    """Whether the levels of features are those that controllers were formatted with."""

    oversleeps = 0.05
    """How likely a producer ends a transaction only when that has timed out."""

    def __init__(self, *, machine: Machine, network: Process, history: History, seed: str) -> None:
        self.machine = machine
        self.network = network
        self.history = history
        self.seed = seed
        self.there = Link(random.Random(f"{seed}/there"), delay_ms=2.0)
        """What happens to requests that may come late."""
        self.there_in_time = Link(random.Random(f"{seed}/there in time"), delay_ms=2.0)
        """What happens to requests for which a protocol has no defence when they come late."""
        self.back = Link(random.Random(f"{seed}/back"), delay_ms=2.0)
        self.request_timeout_ms = 1000.0
        self.waiting: dict[int, str] = {}
        """What clients wait for at the moment."""
        self.trace: Callable[[str], None] | None = None
        """Told of each request and answer, if anybody wants to know."""
        self._asked = 0

    @property
    def now_ms(self) -> int:
        """The time on the machine's clock, by which transactions time out."""
        return self.machine.clock.now_ms()

    def machine_for(self, session: "Session", request: Message) -> Machine:
        """Whom a client asks."""
        return self.machine

    async def look_again(self, session: "Session") -> None:
        """A client learns anew whom to ask."""

    async def open_transactions(self) -> tuple[str, ...]:
        """Ids and states of the transactions that have neither ended nor timed out."""
        return await open_transactions_of(self.machine)

    def is_excused(self, error: ErrorCode) -> bool:
        """Whether a broker may answer so to a client that names no leader epoch, for it may have been deposed without
        hearing of it."""
        return False

    def begin(self, what: str) -> int:
        """Somebody waits for `what`."""
        self._asked += 1
        self.waiting[self._asked] = what
        return self._asked

    def end(self, number: int) -> None:
        """It is answered for good."""
        self.waiting.pop(number, None)

    def fault(self, text: str) -> None:
        """The broker has done what no broker may."""
        self.history.faults.append(text)


class Session:
    """One client's connections. A lane is a connection of its own, as to a coordinator and to a leader."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        punctual: frozenset[str] = frozenset(),
        timeout_ms: float | None = None,
    ) -> None:
        """Requests over the lanes in `punctual` never come late. After `timeout_ms` a connection without an answer is
        given up; None: after the same time as others' are."""
        self.world = world
        self.name = name
        self.leaders: dict[TopicPartition, int] = {}
        """Whom it takes for the leaders of partitions, by node id, where there are several brokers."""
        self.coordinators: dict[Coordinated, int] = {}
        """The same for the coordinators of what it has asked for."""
        self.leader_epochs: dict[TopicPartition, int] = {}
        """The epochs of `leaders`."""
        self.heeds_epochs = False
        """Whether it believes nobody who knows an older leader epoch than it knows itself (KIP-320)."""
        self.nearest: dict[TopicPartition, int] = {}
        """Whom it fetches from in place of the leaders (KIP-392)."""
        self.any_broker = -1
        """The one that it asks what any broker knows."""
        self.only_broker: int | None = None
        """The one that it asks whatever it asks, if there is such a one."""
        self.chance = random.Random(f"{world.seed}/{name}")
        self._punctual = punctual
        self._timeout_ms = world.request_timeout_ms if timeout_ms is None else timeout_ms
        self._wires: dict[tuple[str, Machine], Wire] = {}
        self._sent = 0
        self.losses = 0
        """Answers that it never got."""

    def send(self, key: ApiKey, version: int, request: Message, *, lane: str = "data") -> Awaitable[Any]:
        """Send a request, now: requests of one lane arrive in the order in which this is called. The answer; raises
        ConnectionLost."""
        world = self.world
        machine = world.machine_for(self, request)
        wire = self._wires.get((lane, machine))
        if wire is None or wire.is_lost:
            there = world.there_in_time if lane in self._punctual else world.there
            wire = self._wires[lane, machine] = Wire(machine, world.network, there, world.back)
        self._sent += 1
        frame = b"".join(encode_request(key, version, self._sent, self.name, request))
        if world.trace is not None:
            world.trace(f"{self.name} asks {machine.name} for {key.name} v{version} {request}")
        return self._answer(wire, wire.call(frame), key, version)

    async def _answer(self, wire: Wire, answer: "asyncio.Future[bytes]", key: ApiKey, version: int) -> Any:
        world = self.world
        timer = world.network.call_later(self._timeout_ms / 1000, wire.abandon)
        try:
            frame = await answer
        except ConnectionLost:
            self.losses += 1
            if world.trace is not None:
                world.trace(f"{self.name} loses the answer to {key.name}")
            raise
        finally:
            timer.cancel()
        _, message = decode_response(key, version, frame)
        if world.trace is not None:
            world.trace(f"{self.name} hears {key.name} {message}")
        return message

    def leave(self) -> None:
        """End without waiting for anything. What was sent is still on its way."""
        for wire in self._wires.values():
            wire.abandon()

    def hang_up(self) -> None:
        """End without waiting for anything: brokers hear that the connections are gone, behind what was sent."""
        for wire in self._wires.values():
            wire.hang_up()

    async def insist(
        self,
        key: ApiKey,
        version: int,
        request: Message,
        error_of: Errors,
        *,
        lane: str = "data",
        patience_ms: float | None = None,
    ) -> Any:
        """Ask until the answer is final. Raises GaveUp after `patience_ms`."""
        world = self.world
        number = world.begin(f"{self.name}: {key.name} {request}")
        begun = world.network.time()
        try:
            while True:
                try:
                    response = await self.send(key, version, request, lane=lane)
                except ConnectionLost:
                    pass
                else:
                    error = error_of(response)
                    is_excused = world.is_excused(error)
                    if error in NEVER_EXPECTED and not is_excused:
                        world.fault(f"{self.name} was answered {error.name} to {key.name} {request}")
                    if error not in ASK_AGAIN and not is_excused:
                        return response
                if patience_ms is not None and world.network.time() - begun > patience_ms / 1000:
                    raise GaveUp
                await self.back_off()
        finally:
            world.end(number)

    async def back_off(self) -> None:
        """Wait before asking again."""
        await asyncio.sleep(0.02 + 0.1 * self.chance.random())
        await self.world.look_again(self)


async def open_transactions_of(machine: Machine) -> tuple[str, ...]:
    """Those that a machine's broker coordinates."""
    assert machine.server is not None
    listed = await machine.server.services.transactions.list_transactions()
    assert not isinstance(listed, ErrorCode), listed
    return tuple(
        f"{each.transactional_id} {each.state}"
        for each in listed.transactions
        if not each.state.startswith(("Complete", "Empty"))
    )
