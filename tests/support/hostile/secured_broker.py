"""The broker that is attacked: a process as docs/security/tutorial.md sets it up, and users who may do little.

Beside the tutorial's mechanism it has PLAIN and OAUTHBEARER, and the console's listener: there are attacks on them.
"""

import asyncio
import contextlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bearer_tokens import AUDIENCE, ISSUER, Issuer
from broker_process import BrokerProcess

from eosin.cli import certs, users
from eosin.client.acls import AclAdmin
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.schemas.create_acls import AclCreation
from eosin.settings.broker import STANDARD_AUTHORIZER
from hostile.field import PASSWORD, Place, Who
from hostile.stepped_broker import steps_in

SMALL_BATCHES: Final = "written-by-writer"
RECOMPRESSED: Final = "compressed-again"
"""A topic whose batches the broker compresses, at the slowest level that there is."""
LARGE_BATCHES: Final = "of-large-batches"
"""A topic that takes batches of 128 MiB."""
OWNED: Final = "owner"
"""The beginning of names with which `owner` may do anything."""
TRANSACTIONS: Final = "transactions"
BULK: Final = "bulk"
"""Topics of honest clients."""
_TOPICS: Final = {
    SMALL_BATCHES: {},
    RECOMPRESSED: {"compression.type": "zstd", "compression.zstd.level": "22"},
    LARGE_BATCHES: {"max.message.bytes": str(128 << 20)},
    OWNED: {},
    TRANSACTIONS: {},
    BULK: {"retention.bytes": str(256 << 20), "segment.bytes": str(64 << 20)},
}
_ITERATIONS: Final = "4096"
"""Of passwords: the least, since it is the clients who pay."""
MIB: Final = 1 << 20


@dataclass
class SecuredBroker:
    """The broker, and what can be seen of it from outside."""

    process: BrokerProcess
    place: Place
    notes: Path
    """Of long steps of its event loop, if it notes them."""

    @property
    def resident_mib(self) -> float:
        """Its memory now."""
        return self.process.resident_bytes() / MIB

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def steps(self) -> list[tuple[float, str]]:
        """Long steps of its event loop so far, if it notes them."""
        return steps_in(self.notes)

    @property
    def log(self) -> str:
        """Its log so far."""
        return self.process.log


def security(place: Place, who: Who) -> ConnectionSecurity:
    """The security settings with which Eosin's own client connects as a user."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    made = ConnectionSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": place.ca,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="{who}" password="{PASSWORD}";',
        }
    )
    assert made is not None
    return made


@contextmanager
def secured_broker(folder: Path, *, notes_steps: bool = False) -> Iterator[SecuredBroker]:
    """Start one in a folder, with users, topics and rights, and stop it."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert certs.main(["dev", "--names", "localhost,127.0.0.1", str(folder / "certs")]) == 0
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        for who in Who:
            if who is not Who.NOBODY:
                words = ["add", who, "--data-dir", str(folder / "data"), "--password-file", str(password)]
                assert users.main([*words, "--iterations", _ITERATIONS]) == 0
    settings = {
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
        "ssl.keystore.location": str(folder / "certs" / "broker.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "sasl.oauthbearer.jwks.endpoint.url": Issuer().write(folder / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "eosin.http.listener": "127.0.0.1:0",
    }
    process = BrokerProcess(folder / "data", settings=settings)
    process.listener_name = "SASL_SSL"
    notes = folder / "steps"
    if notes_steps:
        process.program = ("-m", "hostile.stepped_broker", str(notes))
        process.settings["eosin.event.loop"] = "asyncio"
    with process:
        http_port = int(process.http_address.rpartition(":")[2])
        place = Place(process.port, http_port, str(folder / "certs" / "ca.pem"))
        asyncio.run(_furnish(place))
        yield SecuredBroker(process, place, notes)


async def _furnish(place: Place) -> None:
    """Topics, and who may do what."""
    async with Client(place.address, security=security(place, Who.ADMIN)) as client:
        for name, configs in _TOPICS.items():
            await Admin(client).create_topic(name, 1, configs=configs)
        await AclAdmin(client).create([AclCreation(*acl) for acl in _rights()])


def _rights() -> Iterator[Acl]:
    def allowed(
        who: Who, kind: ResourceType, name: str, *operations: Operation, prefixed: bool = False
    ) -> Iterator[Acl]:
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        for operation in operations:
            yield Acl(kind, name, pattern, f"User:{who}", "*", operation, Permission.ALLOW)

    for topic in (SMALL_BATCHES, RECOMPRESSED, LARGE_BATCHES):
        yield from allowed(Who.WRITER, ResourceType.TOPIC, topic, Operation.WRITE, Operation.DESCRIBE)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        yield from allowed(Who.OWNER, kind, OWNED, Operation.ALL, prefixed=True)
    producer = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
    yield from allowed(Who.HONEST, ResourceType.TOPIC, TRANSACTIONS, *producer, Operation.READ)
    yield from allowed(Who.HONEST, ResourceType.TOPIC, BULK, *producer)
    yield from allowed(Who.HONEST, ResourceType.TRANSACTIONAL_ID, TRANSACTIONS, Operation.WRITE, Operation.DESCRIBE)
