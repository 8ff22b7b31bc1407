"""Sessions: who a connection's peer is, and how handlers ask what it may do."""

from typing import Any

from fake_peer import FakePeer, host_of

from eosin.broker.services import Services
from eosin.model.principals import ANONYMOUS, Principal
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.security.authorized_operations import ON_A_TOPIC
from eosin.security.session import SecurityProtocol, Session

BEAT = ApiKey.HEARTBEAT


class Contexts:
    """An API that keeps the contexts of its requests."""

    def __init__(self) -> None:
        self.seen: list[RequestContext] = []
        self.api = Api(key=BEAT, versions=range(0, 5), respond=self._respond, refuse=self._refuse)

    def _respond(self, request: Any, context: RequestContext, services: Services) -> HeartbeatResponse:
        self.seen.append(context)
        return HeartbeatResponse()

    def _refuse(self, request: Any, context: RequestContext, error: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=error)


class Rules:
    """An authorizer whose answers a test writes."""

    def __init__(self, *allowed: tuple[Operation, ResourceType, str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[Operation, str, bool]] = []

    def may(self, session: Session, operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> bool:
        self.asked.append((operation, name, quiet))
        return (operation, kind, name) in self.allowed

    def may_any(self, session: Session, operation: Operation, kind: ResourceType, *, quiet: bool) -> bool:
        return any(each[:2] == (operation, kind) for each in self.allowed)


def test_a_peer_that_proved_nothing_has_one_turn_however_many_addresses_of_ipv6_it_has() -> None:
    """One /64 has more addresses than there could be turns."""
    hosts = ("2001:db8::1", "2001:db8::2:ffff", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2")
    owners = [Session(host=host).owner for host in hosts]
    assert owners == ["2001:db8::/64", "2001:db8::/64", "2001:db8:0:1::/64", "192.0.2.1", "192.0.2.2"]
    alice = Principal("User", "alice")
    assert Session(principal=alice, host=hosts[0]).owner == alice


async def test_a_plain_connection_is_born_anonymous() -> None:
    peer = FakePeer(host_of(), listener="INSIDE")
    session = peer.connection.session
    assert (session.principal, str(session.principal)) == (ANONYMOUS, "User:ANONYMOUS")
    assert (session.listener, session.security_protocol) == ("INSIDE", SecurityProtocol.PLAINTEXT)
    assert session.host == peer.connection.peer.rpartition(":")[0]
    assert session.mechanism is None
    assert session.expires_at_ms is None
    assert not session.is_super


async def test_no_request_sees_the_session_before() -> None:
    contexts = Contexts()
    peer = FakePeer(host_of(contexts.api))
    peer.send(BEAT, 4, HeartbeatRequest(), HeartbeatRequest())
    alice = Session(principal=Principal("User", "alice"), host="192.0.2.1")
    peer.connection.adopt(alice)
    peer.send(BEAT, 4, HeartbeatRequest())
    first, second, third = contexts.seen
    assert first is second, "requests of one API and version share their context"
    assert first.session.principal == ANONYMOUS
    assert third.session is alice
    assert third.client_host == "/192.0.2.1"


def test_without_an_authorizer_everything_is_allowed() -> None:
    session = Session()
    names = ["a", "b"]
    assert session.may(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert session.may_any(Operation.WRITE, ResourceType.TOPIC)
    assert session.filter(Operation.READ, ResourceType.TOPIC, names) is names
    assert session.operations(ResourceType.TOPIC, "a") == ON_A_TOPIC


def test_with_an_authorizer_it_decides() -> None:
    topic = ResourceType.TOPIC
    rules = Rules((Operation.READ, topic, "a"), (Operation.DESCRIBE, topic, "a"), (Operation.READ, topic, "c"))
    session = Session(authorizer=rules)
    assert session.may(Operation.READ, topic, "a")
    assert not session.may(Operation.READ, topic, "b", quiet=True)
    assert rules.asked == [(Operation.READ, "a", False), (Operation.READ, "b", True)]
    assert session.may_any(Operation.READ, topic)
    assert not session.may_any(Operation.WRITE, topic)
    assert list(session.filter(Operation.READ, topic, ["c", "b", "a"])) == ["c", "a"]
    assert session.operations(topic, "a") == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert all(quiet for _, _, quiet in rules.asked[2:]), "sets and lists of what is allowed are no denials"


async def test_the_sessions_of_a_broker_ask_its_authorizer() -> None:
    rules = Rules()
    peer = FakePeer(host_of(authorizer=rules))
    assert not peer.connection.session.may(Operation.READ, ResourceType.TOPIC, "t")
