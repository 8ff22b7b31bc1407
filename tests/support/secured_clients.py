"""All client libraries with the security settings that a test hands in: a transaction that aborts and one that commits,
and what a reader sees of them."""

import asyncio
import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import aiokafka
import confluent_kafka
import kafka
from certificates import Authority, Issued
from java_stores import JavaStore, key_store, trust_store
from real_clients import franz_go, java, kafkajs
from real_clients.remote import RemoteClient
from toolchains import skipped_without
from waiting import HANG_S


@dataclass(frozen=True)
class Trust:
    """The files that clients need for TLS: an authority, and a certificate with its key if they shall show one. Files
    are PEM, but those of Java, which are of its own kinds."""

    ca: str
    certificate: str | None = None
    java: JavaStore | None = None
    java_certificate: JavaStore | None = None

    @classmethod
    def made(cls, folder: Path, authority: Authority, issued: Issued | None = None) -> Self:
        """Files for all clients. Without a JDK there are none of Java, and its harness says what is missing."""
        folder.mkdir()
        ca = authority.write(folder / "ca.pem")
        certificate = None if issued is None else issued.write(folder / "client.pem")
        if shutil.which("keytool") is None:
            return cls(ca, certificate)
        java_certificate = None if issued is None else key_store(folder / "client.p12", issued)
        return cls(ca, certificate, trust_store(folder / "ca.jks", ca), java_certificate)

    def alone(self) -> "Trust":
        """The same without a certificate of one's own."""
        return replace(self, certificate=None, java_certificate=None)

    def context(self) -> ssl.SSLContext:
        """For the Python clients."""
        made = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            made.load_cert_chain(self.certificate)
        return made


@dataclass(frozen=True)
class Access:
    """The settings with which clients reach a broker, each in its own words."""

    address: str
    librdkafka: Mapping[str, Any] = field(default_factory=dict)
    python: Mapping[str, Any] = field(default_factory=dict)
    """Of kafka-python and aiokafka, which share their names."""
    java: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, str] = field(default_factory=dict)
    """Of the harnesses of franz-go and kafkajs, as `real_clients.remote` lists it."""


def certified(address: str, trust: Trust) -> Access:
    """Over TLS without a login, with a certificate if there is one."""
    return _over(address, "SSL", trust)


def sasl(address: str, mechanism: str, user: str, password: str, *, trust: Trust | None = None) -> Access:
    """By a mechanism with a password; over TLS with the files of an authority."""
    base = _over(address, "SASL_PLAINTEXT" if trust is None else "SASL_SSL", trust)
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = [each.replace("\\", "\\\\").replace('"', '\\"') for each in (user, password)]
    jaas = 'org.apache.kafka.common.security.{} required username="{}" password="{}";'.format(module, *quoted)
    return Access(
        address,
        {**base.librdkafka, "sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password},
        {
            **base.python,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        },
        {**base.java, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas},
        {**base.other, "mechanism": mechanism, "user": user, "password": password},
    )


def bearing(
    address: str, token: Callable[[], str], *, provider: Any, token_file: str, trust: Trust | None = None
) -> Access:
    """By OAUTHBEARER: with a function that makes tokens, the object that the Python client of the test takes, and the
    URL of a file with a token, since Java reads one."""
    base = _over(address, "SASL_PLAINTEXT" if trust is None else "SASL_SSL", trust)
    return Access(
        address,
        {**base.librdkafka, "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": lambda _: (token(), time.time() + 60)},
        {**base.python, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider},
        {
            **base.java,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class": f"{_OAUTH}.FileJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": token_file,
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": token_file,
        },
        {**base.other, "mechanism": "OAUTHBEARER", "token": token()},
    )


_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"


def _over(address: str, protocol: str, trust: Trust | None) -> Access:
    librdkafka, python = {"security.protocol": protocol}, {"security_protocol": protocol}
    java = dict(librdkafka)
    if trust is None:
        return Access(address, librdkafka, python, java)
    other = {"ca": trust.ca}
    librdkafka |= {"ssl.ca.location": trust.ca}
    if trust.java is not None:
        java |= trust.java.settings("ssl.truststore")
    if trust.certificate is not None:
        librdkafka |= {"ssl.certificate.location": trust.certificate, "ssl.key.location": trust.certificate}
        other["certificate"] = trust.certificate
    if trust.java_certificate is not None:
        java |= trust.java_certificate.settings("ssl.keystore")
    return Access(address, librdkafka, {**python, "ssl_context": trust.context()}, java, other)


def with_confluent(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """confluent-kafka."""
    settings = {"bootstrap.servers": access.address, **access.librdkafka}
    producer = confluent_kafka.Producer({**settings, "transactional.id": transactional_id or topic})
    producer.init_transactions(HANG_S)
    for value, is_kept in ((b"aborted", False), (b"kept", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(HANG_S)
        producer.commit_transaction(HANG_S) if is_kept else producer.abort_transaction(HANG_S)
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(HANG_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return [bytes(message.value() or b"")]


def with_kafka_python(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """kafka-python."""
    settings: dict[str, Any] = {"bootstrap_servers": access.address, **access.python}
    producer = kafka.KafkaProducer(**settings, transactional_id=transactional_id or topic)
    try:
        producer.init_transactions()
        for value, is_kept in ((b"aborted", False), (b"kept", True)):
            producer.begin_transaction()
            producer.send(topic, value).get(HANG_S)
            producer.commit_transaction() if is_kept else producer.abort_transaction()
    finally:
        producer.close(5)
    consumer = kafka.KafkaConsumer(
        **settings, auto_offset_reset="earliest", isolation_level="read_committed", group_id=None
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = consumer.poll(timeout_ms=HANG_S * 1000)
    consumer.close()
    return [record.value for record in found.get(partition, ())]


def with_aiokafka(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """aiokafka."""
    settings: dict[str, Any] = {"bootstrap_servers": access.address, **access.python}

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings, transactional_id=transactional_id or topic)
        try:
            await producer.start()
            for value, is_kept in ((b"aborted", False), (b"kept", True)):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value)
                await (producer.commit_transaction() if is_kept else producer.abort_transaction())
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            return [bytes((await consumer.getone()).value)]

    return asyncio.run(asyncio.wait_for(run(), HANG_S))


def _with_process(client: RemoteClient, access: Access, topic: str, transactional_id: str | None) -> list[bytes]:
    """The same by the interface of all client libraries, whose admin client makes the topic."""
    with skipped_without():
        client.start()
    own = client.secured(access.java if client is java.CLIENT else access.other)
    admin = own.admin(access.address)
    try:
        admin.create_topic(topic)
    finally:
        admin.close()
    producer = own.producer(access.address, transactional_id=transactional_id or topic)
    try:
        producer.init()
        for value, is_kept in ((b"aborted", False), (b"kept", True)):
            producer.begin()
            producer.send(topic, value)
            producer.flush()
            producer.commit() if is_kept else producer.abort()
    finally:
        producer.close()
    # In the group of the topic's name, since kafkajs reads in groups alone.
    consumer = own.consumer(access.address, group=topic)
    try:
        consumer.subscribe([topic])
        return [each.value or b"" for each in consumer.read(1)]
    finally:
        consumer.close()


def with_java(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """Apache's Java client."""
    return _with_process(java.CLIENT, access, topic, transactional_id)


def with_franz_go(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """franz-go."""
    return _with_process(franz_go.CLIENT, access, topic, transactional_id)


def with_kafkajs(access: Access, topic: str, transactional_id: str | None = None) -> list[bytes]:
    """kafkajs."""
    return _with_process(kafkajs.CLIENT, access, topic, transactional_id)


SecuredClient = Callable[..., list[bytes]]
PYTHON_CLIENTS: Final[Sequence[SecuredClient]] = (with_confluent, with_kafka_python, with_aiokafka)
CLIENTS: Final[Sequence[SecuredClient]] = (*PYTHON_CLIENTS, with_java, with_franz_go, with_kafkajs)


def name_of(client: SecuredClient) -> str:
    """The name of its library, as a test's parameter has it."""
    return client.__name__.removeprefix("with_")
