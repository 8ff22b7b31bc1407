"""SASL on the wire, byte by byte: what Eosin answers, and what Apache Kafka 4.3.1 was asked in the same words
(security.md 9.2). Where they differ, the row says so."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from free_ports import free_port
from toolchains import skipped_without
from waiting import HANG_S

from eosin.cli import users
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.plain import plain_message
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.scram_credentials import salted_password
from eosin.protocol.sasl.steps import Challenge, Mechanism
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.wire.codec import decode_response, encode_request

CLOSED: Final = "closed"
SCRAM: Final = "SCRAM-SHA-256"
USER, PASSWORD = "alice", "alice-secret"
SHORT_SALT: Final = "bob"
"""A user whose credential has a salt of four bytes."""


class Peer:
    """One connection of raw requests."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)

    def close(self) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, version: int, message: Any) -> Any:
        """The answer, or `CLOSED`."""
        return self.answer(key, version) if self.send(encode_request(key, version, 1, "t", message)) else CLOSED

    def send(self, buffers: list[Any]) -> bool:
        try:
            self._socket.sendall(b"".join(buffers))
        except OSError:
            return False
        return True

    def frame(self) -> bytes | None:
        try:
            size = self._exactly(4)
            return None if size is None else self._exactly(int.from_bytes(size, "big"))
        except ConnectionError:
            return None

    def answer(self, key: ApiKey, version: int) -> Any:
        frame = self.frame()
        return CLOSED if frame is None else decode_response(key, version, frame)[1]

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                return None
            data += more
        return data

    def handshake(self, mechanism: str = SCRAM, version: int = 1) -> Any:
        return self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))

    def metadata(self) -> Any:
        return self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=()))

    def versions(self, version: int = 3, name: str = "x") -> Any:
        return self.ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest(name, "1"))

    def scram(self, user: str = USER, password: str = PASSWORD) -> Any:
        """The last answer of a whole exchange."""
        handshake = self.handshake()
        if handshake == CLOSED or handshake.error_code:
            return handshake
        client = ScramClient(Mechanism.SCRAM_SHA_256, user, password, "clientnonce")
        first = self.token(client.first)
        if first == CLOSED or first.error_code:
            return first
        proof = client.step(first.auth_bytes)
        assert isinstance(proof, Challenge)
        return self.token(proof.token)


def code(answer: Any) -> Any:
    """The error of an answer, or `CLOSED`."""
    return answer if answer == CLOSED else answer.error_code


Row = Callable[[Peer], Any]


def _bare(peer: Peer) -> Any:
    peer.handshake(version=0)
    client = ScramClient(Mechanism.SCRAM_SHA_256, USER, PASSWORD, "clientnonce")
    token = client.first
    for _ in range(2):
        peer.send([len(token).to_bytes(4, "big"), token])
        answer = peer.frame()
        if answer is None:
            return CLOSED
        step = client.step(answer)
        token = step.token if isinstance(step, Challenge) else b""
    return code(peer.metadata()) == CLOSED or "authenticated"


def _all_of(*steps: Row) -> Row:
    return lambda peer: [step(peer) for step in steps]


ROWS: Final[dict[str, tuple[Row, Any, Any]]] = {
    # what is done: the steps, what Apache Kafka answers, what Eosin answers
    "log in": (lambda peer: code(peer.scram()), 0, 0),
    "log in with a salt of four bytes": (lambda peer: code(peer.scram(SHORT_SALT)), 0, 0),
    "log in with bare tokens": (_bare, "authenticated", "authenticated"),
    "a wrong password": (lambda peer: code(peer.scram(password="x")), 58, 58),
    "an unknown user": (lambda peer: code(peer.scram("nobody")), 58, 58),
    "a wrong password with bare tokens": (
        lambda peer: (peer.handshake(version=0), peer.send([b"\0\0\0\3abc"]), peer.frame())[2],
        None,
        None,
    ),
    "Metadata first": (lambda peer: code(peer.metadata()), CLOSED, CLOSED),
    "SaslAuthenticate first": (lambda peer: code(peer.token(b"x")), CLOSED, CLOSED),
    "an unknown API first": (
        lambda peer: (peer.send([b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff"]), peer.frame())[1],
        None,
        None,
    ),
    "ApiVersions, then log in": (lambda peer: [code(peer.versions()), code(peer.scram())], [0, 0], [0, 0]),
    "ApiVersions twice": (lambda peer: [code(peer.versions()), code(peer.versions())], [0, CLOSED], [0, 0]),
    "ApiVersions in an unknown version, then log in": (
        lambda peer: [
            code(peer.answer(ApiKey.API_VERSIONS, 0)) if peer.send(_api_versions(99)) else CLOSED,
            code(peer.scram()),
        ],
        [35, 0],
        [35, 0],
    ),
    "ApiVersions with a bad name, then log in": (
        lambda peer: [code(peer.versions(name="!")), code(peer.scram())],
        [42, 0],
        [42, 0],
    ),
    "GSSAPI": (
        lambda peer: [code(peer.handshake("GSSAPI")), code(peer.metadata())],
        [33, CLOSED],
        [33, CLOSED],
    ),
    "a mechanism in small letters": (lambda peer: code(peer.handshake("scram-sha-256")), 33, 33),
    "a second handshake": (
        lambda peer: [code(peer.handshake()), code(peer.handshake()), code(peer.metadata())],
        [0, 34, CLOSED],
        [0, 34, CLOSED],
    ),
    "Metadata instead of a token": (
        lambda peer: [code(peer.handshake()), peer.metadata() == CLOSED, code(peer.token(b"x"))],
        [0, False, CLOSED],
        [0, False, CLOSED],
    ),
    "ApiVersions instead of a token": (
        lambda peer: [code(peer.handshake()), code(peer.versions()), code(peer.token(b"x"))],
        [0, 34, CLOSED],
        [0, 34, CLOSED],
    ),
    "SaslAuthenticate after success": (
        lambda peer: [code(peer.scram()), code(peer.token(b"x")), peer.metadata() == CLOSED],
        [0, 34, False],
        [0, 34, False],
    ),
    "a handshake after success, without an expiry": (
        lambda peer: [code(peer.scram()), code(peer.handshake()), peer.metadata() == CLOSED],
        [0, 34, False],
        [0, 34, False],
    ),
    "an authzid of another user": (
        lambda peer: (peer.handshake(), code(peer.token(b"n,a=admin,n=alice,r=abc")))[1],
        58,
        58,
    ),
    "channel binding": (lambda peer: (peer.handshake(), code(peer.token(b"p=tls-unique,,n=alice,r=abc")))[1], 58, 58),
    "the flag y": (lambda peer: (peer.handshake(), code(peer.token(b"y,,n=alice,r=abc")))[1], 58, 0),
    "PLAIN": (
        lambda peer: (peer.handshake("PLAIN"), code(peer.token(plain_message(USER, PASSWORD))))[1],
        0,
        0,
    ),
    "PLAIN with a wrong password": (
        lambda peer: (peer.handshake("PLAIN"), code(peer.token(plain_message(USER, "x"))))[1],
        58,
        58,
    ),
}


def _api_versions(version: int) -> list[bytes]:
    body = ApiKey.API_VERSIONS.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\1t\0\2x\2y\0"
    return [len(body).to_bytes(4, "big"), body]


def upsert(
    name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt of tests"
) -> ScramCredentialUpsertion:
    made = Mechanism.SCRAM_SHA_256 if mechanism == 1 else Mechanism.SCRAM_SHA_512
    salted = salted_password(made, PASSWORD, salt, max(iterations, 1) if iterations < 20_000 else 1)
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)


def changed(
    peer: Peer, *wanted: ScramCredentialDeletion | ScramCredentialUpsertion
) -> dict[str, tuple[int, str | None]]:
    """What AlterUserScramCredentials answers."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in wanted if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in wanted if isinstance(each, ScramCredentialUpsertion)),
    )
    answer = peer.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def described(peer: Peer, *names: str) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
    """What DescribeUserScramCredentials answers."""
    request = DescribeUserScramCredentialsRequest(tuple(UserName(name) for name in names) or None)
    answer = peer.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert answer.error_code == 0
    return {
        each.user: (
            each.error_code,
            each.error_message,
            sorted((info.mechanism, info.iterations) for info in each.credential_infos),
        )
        for each in answer.results
    }


TWICE: Final = (92, "A user credential cannot be altered twice in the same request")
NOBODY: Final = (91, "Attempt to delete a user credential that does not exist")
CHANGES: Final[dict[str, tuple[tuple[Any, ...], dict[str, tuple[int, str | None]]]]] = {
    "good": ((upsert("a"),), {"a": (0, None)}),
    "good and bad": ((upsert("a"), upsert("b", iterations=1)), {"a": (0, None), "b": (93, "Too few iterations")}),
    "too many iterations": ((upsert("a", iterations=16_385),), {"a": (93, "Too many iterations")}),
    "short salts": (
        (upsert("a", salt=b"salt"), upsert("d", salt=b"s"), upsert("e", salt=b"")),
        {"a": (0, None), "d": (0, None), "e": (0, None)},
    ),
    "no name": ((upsert(""),), {"": (93, "Username must not be empty")}),
    "an unknown mechanism": ((upsert("a", mechanism=5),), {"a": (33, "Unknown SCRAM mechanism")}),
    "nobody is deleted": ((ScramCredentialDeletion("nobody", 1),), {"nobody": NOBODY}),
    "another mechanism is deleted": ((ScramCredentialDeletion("a", 2),), {"a": NOBODY}),
    "an unknown mechanism is deleted": ((ScramCredentialDeletion("a", 5),), {"a": (33, "Unknown SCRAM mechanism")}),
    "twice, two mechanisms": ((upsert("a"), upsert("a", 2)), {"a": TWICE}),
    "deleted and set": ((ScramCredentialDeletion("a", 1), upsert("a")), {"a": TWICE}),
    "twice, and another": ((upsert("a"), upsert("a"), upsert("c")), {"a": TWICE, "c": (0, None)}),
    "deleted": (
        tuple(ScramCredentialDeletion(each, 1) for each in "acde"),
        dict.fromkeys("acde", (0, None)),
    ),
}


@pytest.fixture(scope="module")
def eosin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of Eosin without and with SASL."""
    data_dir = tmp_path_factory.mktemp("sasl") / "data"
    file = data_dir.parent / "password"
    file.write_text(PASSWORD)
    words = ["--data-dir", str(data_dir), "--password-file", str(file), "--iterations", "4096"]
    assert users.main(["add", USER, *words]) == 0
    process = BrokerProcess(
        data_dir,
        settings={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "connection.failed.authentication.delay.ms": "1",
        },
    )
    process.options = ("--listen", "INSIDE=127.0.0.1:0")
    with process:
        ports = [int(each.rpartition(":")[2].rstrip(",")) for each in process.ready_line.split(" in ")[0].split()[4:]]
        with connected(ports[0]) as peer:
            assert changed(peer, upsert(SHORT_SALT, salt=b"salt")) == {SHORT_SALT: (0, None)}
        yield ports[0], ports[1]
        assert "Traceback" not in process.log


@contextlib.contextmanager
def connected(port: int) -> Iterator[Peer]:
    peer = Peer(port)
    try:
        yield peer
    finally:
        peer.close()


@pytest.mark.smoke
@pytest.mark.parametrize("name", ROWS)
def test_each_step_is_answered_as_the_table_says(eosin: tuple[int, int], name: str) -> None:
    steps, _, expected = ROWS[name]
    with connected(eosin[1]) as peer:
        assert steps(peer) == expected


def test_changes_of_users_are_answered_as_by_apache_kafka(eosin: tuple[int, int]) -> None:
    with connected(eosin[0]) as peer:
        for name, (wanted, expected) in CHANGES.items():
            assert changed(peer, *wanted) == expected, name
        assert _told(peer) == TOLD


TOLD: Final = {
    USER: (0, "", [(1, 4096)]),
    "nobody": (91, "Attempt to describe a user credential that does not exist: nobody", []),
}


def _told(peer: Peer) -> Any:
    told = described(peer, USER, "nobody")
    return {USER: (*told[USER][:2], [each for each in told[USER][2] if each[0] == 1]), "nobody": told["nobody"]}


def test_a_handshake_on_a_plain_listener_is_refused_and_harms_nothing(eosin: tuple[int, int]) -> None:
    with connected(eosin[0]) as peer:
        assert _on_a_plain_listener(peer) == ON_A_PLAIN_LISTENER


ON_A_PLAIN_LISTENER: Final = [(34, ()), 34, False]


def _on_a_plain_listener(peer: Peer) -> Any:
    handshake = peer.handshake()
    return [(handshake.error_code, handshake.mechanisms), code(peer.token(b"x")), peer.metadata() == CLOSED]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_apache_kafka_answers_as_the_tables_say(tmp_path: Path) -> None:
    with skipped_without():
        kafka = ApacheKafka(tmp_path / "kafka", settings=_kafka_settings(port := free_port()))
    kafka._settings["listeners"] += f",INSIDE://127.0.0.1:{port}"
    kafka._settings["advertised.listeners"] += f",INSIDE://127.0.0.1:{port}"
    with kafka:
        with connected(kafka.port) as peer:
            users = upsert(USER), upsert(SHORT_SALT, salt=b"salt")
            assert changed(peer, *users) == {USER: (0, None), SHORT_SALT: (0, None)}
            for name, (wanted, expected) in CHANGES.items():
                assert changed(peer, *wanted) == expected, name
            assert _told(peer) == TOLD
        with connected(kafka.port) as peer:
            assert _on_a_plain_listener(peer) == ON_A_PLAIN_LISTENER
        differences = {}
        for name, (steps, expected, _) in ROWS.items():
            with connected(port) as peer:
                answered = steps(peer)
                if answered != expected:
                    differences[name] = answered
        assert differences == {}


def _kafka_settings(port: int) -> dict[str, str]:
    security = "org.apache.kafka.common.security"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "connection.failed.authentication.delay.ms": "1",
        "listener.name.inside.scram-sha-256.sasl.jaas.config": f"{security}.scram.ScramLoginModule required;",
        "listener.name.inside.plain.sasl.jaas.config": (
            f'{security}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
    }
