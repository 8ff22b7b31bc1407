"""A cluster in which nothing is plain: one controller of Apache Kafka and Eosin brokers, their certificates and users.

    with SecuredCluster(tmp_path) as cluster, cluster.broker(1) as broker:
        ...  # clients reach broker.address by SASL_SSL; cluster.admin() is the file for Kafka's tools

The controller listens three times, so that one process shows the three ways to reach it: SASL_SSL with SCRAM, SSL with
certificates of both sides, and SASL_PLAINTEXT with PLAIN.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from certificates import Authority
from free_ports import free_port
from joined_broker import JoinedBroker, replicated
from kraft_node import KafkaBroker, QuorumController
from secured_clients import Access, Trust, sasl

from eosin.settings.broker import STANDARD_AUTHORIZER

_MODULES: Final = "org.apache.kafka.common.security"
PASSWORDS: Final = {"broker": "of-the-brokers", "admin": "of-the-admin"}
SUPER_USERS: Final = "User:broker;User:admin;User:CN=broker"


def login(mechanism: str, user: str, password: str, more: str = "") -> str:
    """An entry of `sasl.jaas.config`."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{_MODULES}.{module} required username="{user}" password="{password}"{more};'


class SecuredController(QuorumController):
    """With the first users in its metadata, as `kafka-storage format --add-scram` puts them there."""

    def _with_features(self, command: list[str]) -> list[str]:
        users = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in PASSWORDS.items()]
        return [*super()._with_features(command), *(word for user in users for word in ("--add-scram", user))]


class SecuredCluster:
    """The controller and what its brokers need."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` go over those of the controller. Raises NotHere without Java."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority.root()
        self.ca = self.authority.write(folder / "ca.pem")
        self.key_store = self.authority.issue("broker").write(folder / "broker.pem")
        self.client_certificate: str | None = None
        """With what clients and tools identify themselves, where brokers ask for it."""
        self.mutual_port, self.plain_port = free_port(), free_port()
        made = self.controller = SecuredController(folder / "controller")
        listeners = ",".join(
            (
                f"CONTROLLER://{made.address}",
                f"MUTUAL://127.0.0.1:{self.mutual_port}",
                f"PASSWORDS://127.0.0.1:{self.plain_port}",
            )
        )
        users = f' user_broker="{PASSWORDS["broker"]}"'
        made._settings.update(
            {
                "listeners": listeners,
                "advertised.listeners": listeners,
                "controller.listener.names": "CONTROLLER,MUTUAL,PASSWORDS",
                "listener.security.protocol.map": "CONTROLLER:SASL_SSL,MUTUAL:SSL,PASSWORDS:SASL_PLAINTEXT",
                "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.controller.scram-sha-512.sasl.jaas.config": login(
                    "SCRAM-SHA-512", "broker", PASSWORDS["broker"]
                ),
                "listener.name.passwords.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.passwords.plain.sasl.jaas.config": login("PLAIN", "c", "unused", users),
                "listener.name.mutual.ssl.client.auth": "required",
                **self.stores(self.key_store),
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": SUPER_USERS,
                **(settings or {}),
            }
        )

    def stores(self, key_store: str) -> dict[str, str]:
        """Settings of TLS, for nodes of both kinds."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": key_store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
        }

    def broker(self, node_id: int, settings: Mapping[str, str] | None = None) -> JoinedBroker:
        """A broker with one listener, SASL_SSL, that reaches the others and the controller by SASL_SSL with SCRAM."""
        scram = login("SCRAM-SHA-512", "broker", PASSWORDS["broker"])
        made = JoinedBroker(
            self.folder / f"broker-{node_id}",
            self.controller,
            node_id=node_id,
            settings={
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
                "security.inter.broker.protocol": "SASL_SSL",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
                "listener.name.controller.scram-sha-512.sasl.jaas.config": scram,
                **self.stores(self.key_store),
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": SUPER_USERS,
                **replicated(2, min_isr=2),
                **(settings or {}),
            },
        )
        made.listener_name = "SASL_SSL"
        return made

    def by_certificate(self) -> dict[str, str]:
        """The settings that a broker needs in addition to reach the controller by SSL alone, with a certificate of its
        own."""
        return {
            "controller.listener.names": "MUTUAL",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.mutual_port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL",
        }

    def by_password(self) -> dict[str, str]:
        """The same for SASL_PLAINTEXT with PLAIN."""
        return {
            "controller.listener.names": "PASSWORDS",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.plain_port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PASSWORDS:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.passwords.plain.sasl.jaas.config": login("PLAIN", "broker", PASSWORDS["broker"]),
        }

    def kafka_broker(self, node_id: int, settings: Mapping[str, str] | None = None) -> KafkaBroker:
        """A broker of Apache Kafka that is secured likewise."""
        made = KafkaBroker(self.folder / f"kafka-{node_id}", self.controller, node_id=node_id)
        given = self.broker(node_id, settings).settings
        settings = {key: value for key, value in given.items() if not key.startswith("eosin.")}
        listener = f"SASL_SSL://{made.address}"
        made._settings.update({**settings, "listeners": listener, "advertised.listeners": listener})
        made._settings["sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        return made

    def command_config(self, user: str, password: str) -> str:
        """The path of a file for Kafka's tools and for those of Eosin."""
        path = self.folder / f"{user}.properties"
        own = ""
        if self.client_certificate is not None:
            own = f"ssl.keystore.type=PEM\nssl.keystore.location={self.client_certificate}\n"
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"sasl.jaas.config={login('SCRAM-SHA-512', user, password)}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n{own}"
        )
        return str(path)

    def admin(self) -> str:
        """The settings file of the administrator."""
        return self.command_config("admin", PASSWORDS["admin"])

    def access(self, broker: JoinedBroker, user: str, password: str) -> Access:
        """The settings with which clients reach a broker as a user."""
        return sasl(broker.address, "SCRAM-SHA-512", user, password, trust=Trust(self.ca, self.client_certificate))

    def __enter__(self) -> Self:
        self.controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.stop()
