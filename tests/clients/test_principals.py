"""Unmodified clients of a broker that decides by access control entries about who logged in, and about who showed a
certificate: one's own transactional id commits, another's is refused in each client's own words (security.md 9.1)."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka.errors
import confluent_kafka
import kafka
import pytest
from broker_process import BrokerProcess
from certificates import Authority
from real_clients.harness import HarnessRefused
from secured_clients import CLIENTS, Access, SecuredClient, Trust, certified, name_of, sasl, with_kafkajs

from eosin.cli import acls, users
from eosin.settings.broker import STANDARD_AUTHORIZER

PASSWORD = "secret"
REFUSED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
SEEN, UNSEEN = "of-somebody-else", "hidden"
"""Ids that both may not use; they may ask for the coordinator of the first, so that it refuses, of the second not."""

WORDS: dict[str, tuple[type[BaseException], Callable[[Any], str]]] = {
    "confluent": (confluent_kafka.KafkaException, lambda error: str(error.args[0].name())),
    "kafka_python": (kafka.errors.TransactionalIdAuthorizationFailedError, lambda error: str(error.message)),
    "aiokafka": (aiokafka.errors.TransactionalIdAuthorizationFailed, lambda error: str(error.message)),
    "java": (HarnessRefused, lambda refused: str(refused.error.name)),
    "franz_go": (HarnessRefused, lambda refused: str(refused.error.name)),
    "kafkajs": (HarnessRefused, lambda refused: str(refused.error.name)),
}
"""What each raises, and where its name of the error stands."""


class Guarded:
    """A broker with a listener for passwords and one for certificates, both with TLS. `alice` has a password, and
    `CN=robot` a certificate; each may use transactional ids that begin with its name, and all topics and groups."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.root()
        robot = authority.issue("robot")
        data_dir, password = folder / "data", folder / "password"
        password.write_text(PASSWORD)
        for name in ("admin", "alice"):
            words = ["add", name, "--data-dir", str(data_dir), "--password-file", str(password), "--iterations", "4096"]
            assert users.main(words) == 0
        self.process = BrokerProcess(
            data_dir,
            settings={
                "listener.security.protocol.map": "LOGIN:SASL_SSL,SHOWN:SSL,PLAINTEXT:SASL_PLAINTEXT",
                "listener.name.shown.ssl.client.auth": "required",
                "ssl.keystore.location": authority.issue("broker").write(folder / "broker.pem"),
                "ssl.truststore.location": authority.write(folder / "authority.pem"),
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:admin",
                "transaction.state.log.num.partitions": "2",
                "offsets.topic.num.partitions": "2",
            },
        )
        self.process.options = ("--listen", "LOGIN=127.0.0.1:0", "--listen", "SHOWN=127.0.0.1:0")
        self.process.start()
        _, login, shown = re.findall(r"127\.0\.0\.1:(\d+)", self.process.ready_line)
        trust = Trust.made(folder / "clients", authority, robot)
        self.access: dict[str, Access] = {
            "alice": sasl(f"localhost:{login}", "SCRAM-SHA-512", "alice", PASSWORD, trust=trust.alone()),
            "CN=robot": certified(f"localhost:{shown}", trust),
        }
        self.command_config = folder / "admin.properties"
        self.command_config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f"eosin.sasl.username=admin\neosin.sasl.password.file={password}\n"
        )
        for name in self.access:
            self.allow(name, "READ,WRITE,CREATE", "--topic", "*")
            self.allow(name, "READ", "--group", "*")
            self.allow(name, "WRITE", "--transactional-id", name, "--prefixed")
            self.allow(name, "DESCRIBE", "--transactional-id", SEEN)

    def allow(self, name: str, operations: str, *resource: str) -> None:
        where = ["--bootstrap-server", self.process.address, "--command-config", str(self.command_config)]
        assert acls.main(["add", "--principal", f"User:{name}", "--allow", operations, *resource, *where]) == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("principals"))
    yield made
    assert made.process.stop() == 0
    assert "Traceback" not in made.process.log


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
@pytest.mark.parametrize("principal", ["alice", "CN=robot"])
def test_ones_own_transactional_id_commits_and_anothers_is_refused(
    guarded: Guarded, client: SecuredClient, principal: str
) -> None:
    topic = f"{name_of(client)}-of-{principal.removeprefix('CN=')}"
    assert client(guarded.access[principal], topic, f"{principal}-1") == [b"kept"]
    kind, name = WORDS[name_of(client)]
    for foreign in (SEEN, UNSEEN):
        with pytest.raises(kind) as refused:
            client(guarded.access[principal], f"{topic}-not-{foreign}", foreign)
        # kafkajs tells no code of a coordinator that it may not ask for.
        hides = client is with_kafkajs and foreign == UNSEEN
        assert name(refused.value) == ("KafkaJSGroupCoordinatorNotFound" if hides else REFUSED)
