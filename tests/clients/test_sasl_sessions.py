"""Sessions that end: clients renew their login under load (KIP-368), and a deleted user is gone."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from broker_process import BrokerProcess
from secured_clients import Access, sasl
from waiting import HANG_S, wait_until

from eosin.cli import users

USER, PASSWORD = "alice", "secret"
LIFETIME_MS = 2500
LOAD_S = 7
LONGER_MS = 10_000
"""librdkafka renews a login after nine tenths of a session. A busy machine may need longer than a quarter of a second
for it; the connection is closed then, which is no defect of anybody."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Its sessions last 2.5 seconds."""
    with serving(tmp_path_factory.mktemp("sessions") / "data", LIFETIME_MS) as process:
        yield process


@contextmanager
def serving(data_dir: Path, lifetime_ms: int) -> Iterator[BrokerProcess]:
    """A broker of such sessions."""
    file = data_dir.parent / "password"
    file.write_text(PASSWORD)
    for name in (USER, "gone"):
        words = ["add", name, "--data-dir", str(data_dir), "--password-file", str(file), "--iterations", "4096"]
        assert users.main(words) == 0
    process = BrokerProcess(
        data_dir,
        settings={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "connections.max.reauth.ms": str(lifetime_ms),
            "eosin.log.level": "debug",
        },
    )
    with process:
        yield process
        assert "Traceback" not in process.log
        assert PASSWORD not in process.log


@pytest.fixture
def access(broker: BrokerProcess) -> Access:
    return access_to(broker)


def access_to(broker: BrokerProcess) -> Access:
    return sasl(broker.address, "SCRAM-SHA-256", USER, PASSWORD)


def logins(broker: BrokerProcess) -> int:
    return broker.log.count("authenticated")


@pytest.mark.full
def test_librdkafka_renews_its_login_under_load(tmp_path: Path) -> None:
    failures: list[Any] = []
    with serving(tmp_path / "data", LONGER_MS) as broker:
        access = access_to(broker)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": access.address, **access.librdkafka, "error_cb": failures.append, "linger.ms": 1}
        )

        def load() -> None:
            producer.produce("renewed", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
            producer.poll(0.002)

        load()
        wait_until(lambda: logins(broker) >= 2, lambda: broker.log)
        first = logins(broker)
        wait_until(lambda: [load()] and logins(broker) >= first + 3, lambda: broker.log, every_s=0)  # one of them twice
        assert producer.flush(HANG_S) == 0
        assert failures == []


@pytest.mark.full
def test_kafka_python_renews_its_login_under_load(broker: BrokerProcess, access: Access) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=access.address, **access.python)
    before = logins(broker)
    for number in range(1_000_000):
        if number % 50 == 0 and logins(broker) - before >= 4:
            break
        producer.send("renewed", b"x").get(HANG_S)
    producer.close(5)
    assert logins(broker) - before >= 4


@pytest.mark.full
def test_aiokafka_which_never_renews_is_closed_and_comes_again(broker: BrokerProcess, access: Access) -> None:
    async def load() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=access.address, **access.python, enable_idempotence=True
        ) as producer:
            end = time.monotonic() + LOAD_S
            while time.monotonic() < end:
                await producer.send_and_wait("renewed", b"x")
                await asyncio.sleep(0.01)

    before = logins(broker)
    asyncio.run(asyncio.wait_for(load(), HANG_S))
    assert logins(broker) - before >= 3
    assert "a request after the end of its session" in broker.log


def test_a_deleted_user_is_closed(broker: BrokerProcess, tmp_path: Path) -> None:
    access = sasl(broker.address, "SCRAM-SHA-512", "gone", PASSWORD)
    lost: list[confluent_kafka.KafkaError] = []

    def note(error: confluent_kafka.KafkaError) -> None:
        if error.code() in (confluent_kafka.KafkaError._TRANSPORT, confluent_kafka.KafkaError._ALL_BROKERS_DOWN):
            lost.append(error)

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": access.address,
            **access.librdkafka,
            "group.id": "g",
            "fetch.wait.max.ms": 20_000,
            "error_cb": note,
        }
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": access.address, **access.librdkafka})
    producer.produce("read", b"x")
    assert producer.flush(HANG_S) == 0
    consumer.assign([confluent_kafka.TopicPartition("read", 0, confluent_kafka.OFFSET_END)])
    consumer.poll(0.5)
    admin = tmp_path / "admin.properties"
    admin.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"eosin.sasl.username={USER}\neosin.sasl.password.file={tmp_path / 'password'}\n"
    )
    (tmp_path / "password").write_text(PASSWORD)
    where = ["--bootstrap-server", broker.address, "--command-config", str(admin)]
    assert users.main(["delete", "gone", *where]) == 0
    wait_until(lambda: "closing the connections of a deleted user" in broker.log)
    wait_until(lambda: [consumer.poll(0.05)] and lost)
    consumer.close()
    wait_until(lambda: "authentication failed with SCRAM-SHA-512" in broker.log)
