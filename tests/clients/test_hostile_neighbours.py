"""Unmodified clients beside one that takes a new transactional id and a new producer for all that it does, without a
pause (cases 53 and 54 of security.md 9.3), and what they are told who are beyond a limit themselves."""

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Self

import confluent_kafka
import pytest
from batches import data
from broker_process import BrokerProcess
from secured_clients import CLIENTS, PYTHON_CLIENTS, Access, SecuredClient, name_of, sasl
from waiting import wait_until

from eosin.cli import users
from eosin.client.addresses import Address
from eosin.client.admin import Admin
from eosin.client.client import Client, CoordinatorType
from eosin.client.connection import Connection
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MECHANISM, PASSWORD = "SCRAM-SHA-256", "secret"
AT_A_TIME = 50
SECURITY = ConnectionSecurity.of(
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="mallory" password="{PASSWORD}";',
    }
)


class Attack:
    """Mallory's two connections, in a thread of their own; a context manager."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = Address(host, int(port))
        self.ids: Counter[int] = Counter()
        """Answers to new transactional ids, by their error."""
        self.producers: Counter[int] = Counter()
        """Answers to batches of new producers."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), name="attack")
        self._is_over = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        async with Client(str(self._address), security=SECURITY) as client:
            await Admin(client).create_topic("of-mallory", 1)
            await client.coordinator(CoordinatorType.TRANSACTION, "of-mallory")
        await asyncio.gather(self._take_ids(), self._take_producers())

    async def _open(self) -> Connection:
        return await Connection.open(self._address, security=SECURITY, max_in_flight=AT_A_TIME)

    async def _take_ids(self) -> None:
        async with await self._open() as connection:
            for number in itertools.count(step=AT_A_TIME):
                if self._is_over:
                    return
                asked = [InitProducerIdRequest(f"of-mallory-{n}", 60_000) for n in range(number, number + AT_A_TIME)]
                requests = (connection.request(ApiKey.INIT_PRODUCER_ID, each, version=4) for each in asked)
                self.ids.update(answer.error_code for answer in await asyncio.gather(*requests))
                await asyncio.sleep(0.02)  # some two thousand in a second

    async def _take_producers(self) -> None:
        async with await self._open() as connection:
            for number in itertools.count(10_000_000):
                if self._is_over:
                    return
                batch = data(pid=number, seq=0, at=int(time.time() * 1000))
                topic = TopicProduceData("of-mallory", partition_data=(PartitionProduceData(index=0, records=batch),))
                request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=(topic,))
                answer = await connection.request(ApiKey.PRODUCE, request, version=9)
                self.producers[answer.responses[0].partition_responses[0].error_code] += 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A user may add one id and one producer in a second, and a hundred at once."""
    data_dir = tmp_path_factory.mktemp("neighbours") / "data"
    file = data_dir.parent / "password"
    file.write_text(PASSWORD)
    for name in ("alice", "mallory"):
        words = ["add", name, "--data-dir", str(data_dir), "--password-file", str(file), "--iterations", "4096"]
        assert users.main(words) == 0
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "eosin.principal.transactional.ids.rate": "1",
        "eosin.principal.producer.ids.rate": "1",
        "num.partitions": "1",
    }
    with BrokerProcess(data_dir, durability="os", settings=settings) as process:
        yield process
        assert "Traceback" not in process.log


@pytest.fixture(scope="module")
def attack(broker: BrokerProcess) -> Iterator[Attack]:
    """One that is beyond both limits."""
    with Attack(broker.address) as attack:
        wait_until(lambda: attack.ids[ErrorCode.POLICY_VIOLATION] > 0 and "producer.ids.rate" in broker.log)
        yield attack
    assert set(attack.ids) == {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}


def every(clients: Any, **how: Any) -> list[Any]:
    return [pytest.param(client, id=name_of(client), **how) for client in clients]


ALL = every(PYTHON_CLIENTS) + every(CLIENTS[3:], marks=pytest.mark.full)


@pytest.mark.parametrize("client", ALL)
def test_others_commit_and_abort_as_if_nothing_were(
    broker: BrokerProcess, attack: Attack, client: SecuredClient
) -> None:
    refused_before, appended_before = attack.ids[ErrorCode.POLICY_VIOLATION], attack.producers.total()
    access = sasl(broker.address, MECHANISM, "alice", PASSWORD)
    assert client(access, f"of-alice-{name_of(client)}") == [b"kept"]
    assert attack.ids[ErrorCode.POLICY_VIOLATION] - refused_before > 0, "it went on"
    wait_until(lambda: attack.producers.total() > appended_before)


def several(client: SecuredClient, access: Access) -> None:
    """Several new ids: one may come just when the next one is allowed."""
    for number in range(5):
        client(access, f"of-mallory-{name_of(client)}-{number}")


@pytest.mark.parametrize("client", ALL[1:])
def test_who_is_beyond_the_limit_is_told_so(broker: BrokerProcess, attack: Attack, client: SecuredClient) -> None:
    access = sasl(broker.address, MECHANISM, "mallory", PASSWORD)
    with pytest.raises(Exception, match=r"(?i)policy_?violation"):
        several(client, access)


def test_librdkafka_says_so_in_its_log_and_tries_again(
    broker: BrokerProcess, attack: Attack, caplog: pytest.LogCaptureFixture
) -> None:
    access = sasl(broker.address, MECHANISM, "mallory", PASSWORD)
    for attempt in range(5):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.address, **access.librdkafka, "transactional.id": f"of-mallory-{attempt}-rd"},
            logger=logging.getLogger("librdkafka"),
        )
        with contextlib.suppress(confluent_kafka.KafkaException):  # it gave up, by its timeout
            producer.init_transactions(3)
        producer.poll(0)  # which hands its lines to the logger
        if "Policy violation: retrying" in caplog.text:
            return
    raise AssertionError("never refused")
