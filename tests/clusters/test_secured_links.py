"""Links between brokers of a secured cluster while what they rest upon changes: authorities and certificates on both
sides, sessions that end, and users (cluster.md 7.1, 7.2; security.md 2.5, 3.3)."""

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from certificates import Authority, Issued, pem
from cluster_topics import ClusterTopics
from committing import Committing
from cryptography import x509
from joined_broker import JoinedBroker
from real_clients import confluent
from secured_cluster import PASSWORDS, SecuredCluster, login
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import unique

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import AuthenticationFailed
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.security.settings import read_settings

pytestmark = pytest.mark.full

SESSION_MS = 4000
KAFKA = 3
_TRIES = 3
_CUT = "cannot fetch from the leader"
"""What a follower says that has lost its connection."""
_EXPIRED = "a request after the end of its session"
_LOGIN = "authenticated principal=User:broker"
_OWN_LOGINS = [f"listener.name.{each}.scram-sha-512.sasl.jaas.config" for each in ("sasl_ssl", "controller")]
"""Who a broker is to other brokers, and to controllers."""


class Links:
    """Two brokers that ask each other, and clients, for certificates. Each has stores of its own, and looks often
    whether they have changed."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self.cluster = cluster
        self.old, self.new = cluster.authority, Authority.root("next root")
        cluster.client_certificate = self.old.issue("client").write(cluster.folder / "client.pem")
        self.first, self.second = (self._broker(node_id) for node_id in (1, 2))

    @property
    def brokers(self) -> tuple[JoinedBroker, JoinedBroker]:
        return self.first, self.second

    @property
    def addresses(self) -> str:
        return f"{self.first.address},{self.second.address}"

    def _broker(self, node_id: int) -> JoinedBroker:
        return self.cluster.broker(node_id, self.settings(node_id))

    def settings(self, node_id: int) -> dict[str, str]:
        """What a broker has beside the cluster's; its stores are made."""
        self.identify(node_id, self.old)
        self.trust(node_id, self.old)
        return {
            "listener.name.sasl_ssl.ssl.client.auth": "required",
            "ssl.keystore.location": str(self._store(node_id)),
            "ssl.truststore.location": str(self._trusted(node_id)),
            "listener.name.controller.ssl.truststore.location": self.cluster.ca,
            "connections.max.reauth.ms": str(SESSION_MS),
            "eosin.ssl.reload.interval.ms": "300",
            "eosin.log.level": "debug",
        }

    def _store(self, node_id: int) -> Path:
        return self.cluster.folder / f"own-{node_id}.pem"

    def _trusted(self, node_id: int) -> Path:
        return self.cluster.folder / f"trusted-{node_id}.pem"

    def identify(self, node_id: int, authority: Authority) -> Issued:
        """Put a certificate of that authority in the broker's key store, at one stroke."""
        issued = authority.issue("broker")
        issued.write(fresh := self._store(node_id).with_suffix(".new"))
        fresh.replace(self._store(node_id))
        return issued

    def trust(self, node_id: int, *authorities: Authority) -> None:
        """Have the broker trust these authorities and no others."""
        fresh = self._trusted(node_id).with_suffix(".new")
        fresh.write_bytes(pem(*(each.certificate for each in authorities)))
        fresh.replace(self._trusted(node_id))

    def context(self, client: Authority | None) -> ssl.SSLContext:
        """A client that trusts both authorities, with a certificate of one."""
        made = ssl.create_default_context(
            cadata="".join(pem(each.certificate).decode() for each in (self.old, self.new))
        )
        if client is not None:
            made.load_cert_chain(client.issue("client").write(self.cluster.folder / f"{unique('client')}.pem"))
        return made


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Links]:
    with skipped_without():
        # Nothing is killed here, so a busy machine may keep a heartbeat for long.
        settings = {"connections.max.reauth.ms": str(SESSION_MS), "broker.session.timeout.ms": "9000"}
        cluster = SecuredCluster(tmp_path_factory.mktemp("links"), settings)
    with cluster:
        made = Links(cluster)
        with made.first, made.second:
            # Now: a broker that joins for one test alone must hold no replica of the coordinators' log.
            access = cluster.access(made.first, "admin", PASSWORDS["admin"])
            producer = confluent.CLIENT.producer(
                made.addresses, transactional_id=unique("tx"), security=access.librdkafka
            )
            producer.init()
            producer.close()
            yield made
            for broker in made.brokers:
                assert "Traceback" not in broker.log
                assert not [each for each in PASSWORDS.values() if each in broker.log]


def admin_of(links: Links, broker: JoinedBroker) -> tuple[str, ...]:
    return "--bootstrap-server", broker.address, "--command-config", links.cluster.admin()


def topics_of(links: Links) -> ClusterTopics:
    return ClusterTopics(links.first.address, links.cluster.admin())


def are_in_sync(links: Links, topic: str, replicas: Sequence[tuple[int, ...]]) -> bool:
    return [each.isr for each in topics_of(links).partitions(topic)] == [set(each) for each in replicas]


def serial_shown(broker: JoinedBroker, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection to the broker sees."""
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=HANG_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def is_let_in(broker: JoinedBroker, context: ssl.SSLContext) -> bool:
    """Whether the broker waits for a request; one that misses the certificate ends the connection."""
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=HANG_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        secured.settimeout(HANG_S)
        try:
            secured.recv(1)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False


def is_logged_in(links: Links, broker: JoinedBroker, user: str, password: str) -> bool:
    """Whether that broker takes the password."""

    async def log_in() -> bool:
        security = ConnectionSecurity.of(read_settings(links.cluster.command_config(user, password)))
        try:
            async with await Connection.open(Address("127.0.0.1", broker.port), security=security):
                return True
        except AuthenticationFailed:
            return False

    return asyncio.run(log_in())


def goes_on(load: Committing, more: int = 20) -> None:
    """Wait for so many more commits."""
    load.progress(more)
    assert load.error is None


def connections(*ports: int) -> frozenset[tuple[str, str]]:
    """Both ends of every open connection to these ports of this machine."""
    rows = (line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return frozenset((here, there) for here, there, state in rows if state == "01" and int(there[-4:], 16) in ports)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("beside", ["eosin", pytest.param("kafka", marks=pytest.mark.long)])
def test_sessions_between_nodes_are_renewed_on_their_connections_while_clients_commit(
    links: Links, beside: str
) -> None:
    with ExitStack() as stack:
        ports = [each.port for each in links.brokers] + [links.cluster.controller.port]
        replicas = [(1, 2), (2, 1)]
        if beside == "kafka":
            kafka = stack.enter_context(links.cluster.kafka_broker(KAFKA, links.settings(KAFKA)))
            ports.append(kafka.port)
            replicas = [(KAFKA, 1, 2), (1, 2, KAFKA), (2, KAFKA, 1)]
        topic = topics_of(links).create(*replicas)
        access = links.cluster.access(links.first, "admin", PASSWORDS["admin"])
        load = Committing(links.addresses, topic, partitions=len(replicas), security=access.librdkafka)
        stack.callback(load.stop)
        goes_on(load)
        for _ in range(_TRIES):  # a busy machine may end a connection by a request's timeout
            renewed = [each.log.count(_LOGIN) for each in links.brokers]
            before = [connections(port) for port in ports]
            time.sleep(2.5 * SESSION_MS / 1000)
            goes_on(load)
            if all(old <= connections(port) for old, port in zip(before, ports, strict=True)):
                break
        else:
            raise AssertionError("no connection outlives its first session")
        assert all(before), "each node is reached by somebody"
        # The other broker has two or more connections here: of its fetcher, its coordinator, or its verification.
        assert all(each.log.count(_LOGIN) - count >= 4 for each, count in zip(links.brokers, renewed, strict=True)), (
            "sessions are renewed"
        )
        assert not any(_EXPIRED in each.log for each in links.brokers)
        assert are_in_sync(links, topic, replicas)


def test_a_password_that_is_changed_at_one_broker_counts_at_all_and_a_deleted_user_is_gone(links: Links) -> None:
    def change(*words: str) -> None:
        user = ("--entity-type", "users", "--entity-name", "carol")
        links.cluster.controller.run("kafka-configs.sh", *admin_of(links, links.first), "--alter", *words, *user)

    def let_in(password: str) -> list[bool]:
        return [is_logged_in(links, each, "carol", password) for each in links.brokers]

    change("--add-config", "SCRAM-SHA-512=[iterations=4096,password=first]")
    wait_until(lambda: let_in("first") == [True, True])
    change("--add-config", "SCRAM-SHA-512=[iterations=4096,password=second]")
    wait_until(lambda: let_in("second") == [True, True])
    assert let_in("first") == [False, False]
    change("--delete-config", "SCRAM-SHA-512")
    wait_until(lambda: let_in("second") == [False, False])


@pytest.mark.long
def test_an_authority_gives_way_to_another_while_clients_commit_and_links_stay_open(links: Links) -> None:
    replicas = [(1, 2), (2, 1)]
    topic = topics_of(links).create(*replicas)
    told = "new connections trust what was loaded again", "new connections get the certificate that was loaded again"
    assert not is_let_in(links.first, links.context(None))
    assert not is_let_in(links.first, links.context(links.new))
    counts = [sum(map(each.log.count, told)) for each in links.brokers]

    def is_loaded_again() -> bool:
        """By the listener and by the link to brokers; that to controllers has the key store in common with them."""
        return all(
            sum(map(broker.log.count, told)) >= count + 2 for broker, count in zip(links.brokers, counts, strict=True)
        )

    for node_id in (1, 2):
        links.trust(node_id, links.old, links.new)
    wait_until(is_loaded_again)
    both = links.cluster.folder / "both.pem"
    both.write_bytes(pem(links.old.certificate, links.new.certificate))
    links.cluster.ca = str(both)
    links.cluster.client_certificate = links.new.issue("client").write(links.cluster.folder / "next-client.pem")
    access = links.cluster.access(links.first, "admin", PASSWORDS["admin"])
    load = Committing(links.addresses, topic, partitions=2, security=access.librdkafka)
    try:
        goes_on(load)
        issued = [links.identify(node_id, links.new).certificate.serial_number for node_id in (1, 2)]
        context = links.context(links.new)
        wait_until(lambda: [serial_shown(each, context) for each in links.brokers] == issued, every_s=0.3)
        goes_on(load)
        for node_id in (1, 2):
            links.trust(node_id, links.new)
        old = links.context(links.old)
        wait_until(lambda: not any(is_let_in(each, old) for each in links.brokers), every_s=0.3)
        goes_on(load)
        assert not any(_CUT in each.log for each in links.brokers)
        # Links that are opened now show and trust the new ones alone, also those of the broker that goes on.
        links.second.stop()
        links.second.start()
        goes_on(load)
        wait_until(lambda: are_in_sync(links, topic, replicas), every_s=0.1)
    finally:
        load.stop()


def test_the_login_of_a_broker_is_changed_at_its_start_alone(links: Links) -> None:
    properties = links.cluster.folder / "login.properties"
    properties.write_text(f"{_OWN_LOGINS[0]}={login('SCRAM-SHA-512', 'broker', 'of-nobody')}\n")
    change = ("--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config-file", str(properties))
    code, said = links.cluster.controller.outcome("kafka-configs.sh", *admin_of(links, links.first), *change)
    assert code != 0
    assert f"{_OWN_LOGINS[0]} is read at start only: change it there and restart" in said
    assert "of-nobody" not in said + links.first.log
