"""Users of a cluster of several machines: the controllers keep them, and every broker lets them in (cluster.md 7)."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, QuorumController
from secured_clients import sasl, with_confluent
from toolchains import skipped_without
from waiting import HANG_S, wait_until

from eosin.cli import users
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request

PASSWORD = "of the quorum"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT"


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[QuorumController]:
    """Its cluster is the test's own: in that of the session the log of transactions may be where another test's broker
    has left it."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller", settings=SHORT_SESSIONS)
    with made as running:
        yield running


@pytest.fixture
def broker(controller: QuorumController, tmp_path: Path) -> Iterator[JoinedBroker]:
    """Brokers reach it by its first listener, clients by the one with SASL, too."""
    with joined(tmp_path / "data", controller, node_id=1) as first:
        yield first
        assert "Traceback" not in first.log


def joined(folder: Path, controller: QuorumController, *, node_id: int) -> JoinedBroker:
    """A broker with such listeners."""
    made = JoinedBroker(folder, controller, node_id=node_id, settings={"listener.security.protocol.map": PROTOCOLS})
    made.options = (*made.options, "--listen", "INSIDE=127.0.0.1:0")
    return made


def inside(broker: JoinedBroker) -> str:
    """The address of its listener with SASL."""
    return re.findall(r"127\.0\.0\.1:\d+", broker.ready_line)[1]


def test_a_user_of_the_quorum_logs_in_to_a_joined_broker_until_deleted(broker: JoinedBroker, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    where = ["--bootstrap-server", broker.address]
    words = ["add", "alice", *where, "--password-file", str(file), "--iterations", "4096"]
    assert users.main(words) == 0
    access = sasl(inside(broker), "SCRAM-SHA-512", "alice", PASSWORD)
    assert with_confluent(access, "by-a-user") == [b"kept"]
    producer = confluent_kafka.Producer({"bootstrap.servers": inside(broker), **access.librdkafka})
    producer.produce("by-a-user", b"more")
    assert producer.flush(HANG_S) == 0
    assert users.main(["delete", "alice", *where]) == 0
    wait_until(lambda: "closing the connections of a deleted user" in broker.log)
    wait_until(lambda: "authentication failed with SCRAM-SHA-512" in broker.log)
    producer.close()


def salt_of(address: str, user: str) -> str:
    """What a broker tells of a user's salt before it knows who asks."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=HANG_S) as peer, peer.makefile("rb") as answers:

        def ask(key: ApiKey, version: int, message: Message) -> Any:
            peer.sendall(b"".join(encode_request(key, version, 1, "t", message)))
            return decode_response(key, version, answers.read(int.from_bytes(answers.read(4), "big")))[1]

        ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
        first = ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=nonce".encode()))
    fields = dict(each.split("=", 1) for each in first.auth_bytes.decode().split(","))
    return fields["s"]


def test_a_user_who_is_not_there_has_the_same_salt_at_every_broker_and_after_a_restart(
    controller: QuorumController, broker: JoinedBroker, tmp_path: Path
) -> None:
    """As a real one has: else the difference would tell which names are users (security.md 3.4.9)."""
    with joined(tmp_path / "second", controller, node_id=2) as second:
        salts = {name: salt_of(inside(second), name) for name in ("alice", "nobody")}
        assert salts["alice"] != salts["nobody"]
        assert {name: salt_of(inside(broker), name) for name in salts} == salts
        second.stop()
        second.start()
        assert {name: salt_of(inside(second), name) for name in salts} == salts
