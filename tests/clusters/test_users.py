"""Users of a cluster of several machines: the controllers keep them, and every broker lets them in (cluster.md 7)."""

import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from joined_broker import JoinedBroker
from kraft_node import QuorumController
from secured_clients import sasl, with_confluent
from toolchains import skipped_without
from waiting import HANG_S, wait_until

from eosin.cli import users

PASSWORD = "of the quorum"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[JoinedBroker]:
    """Brokers reach it by its first listener, clients by the one with SASL, too. Its cluster is its own: in that of the
    session the log of transactions may be where another test's broker has left it."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller")
    with made as controller:
        joined = JoinedBroker(
            tmp_path / "data",
            controller,
            node_id=1,
            settings={"listener.security.protocol.map": PROTOCOLS},
        )
        joined.options = (*joined.options, "--listen", "INSIDE=127.0.0.1:0")
        with joined:
            yield joined
            assert "Traceback" not in joined.log


def test_a_user_of_the_quorum_logs_in_to_a_joined_broker_until_deleted(broker: JoinedBroker, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    where = ["--bootstrap-server", broker.address]
    words = ["add", "alice", *where, "--password-file", str(file), "--iterations", "4096"]
    assert users.main(words) == 0
    inside = re.findall(r"127\.0\.0\.1:\d+", broker.ready_line)[1]
    access = sasl(inside, "SCRAM-SHA-512", "alice", PASSWORD)
    assert with_confluent(access, "by-a-user") == [b"kept"]
    producer = confluent_kafka.Producer({"bootstrap.servers": inside, **access.librdkafka})
    producer.produce("by-a-user", b"more")
    assert producer.flush(HANG_S) == 0
    assert users.main(["delete", "alice", *where]) == 0
    wait_until(lambda: "closing the connections of a deleted user" in broker.log)
    wait_until(lambda: "authentication failed with SCRAM-SHA-512" in broker.log)
    producer.close()
