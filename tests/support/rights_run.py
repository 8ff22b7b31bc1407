"""Asks a broker every case of `rights_cases.py` and `rights_of_members.py`, and makes of its responses what two brokers
may be compared by.

Apache Kafka's answers are kept in tests/broker/security/kafka_rights.json. To write that file anew, with Apache Kafka
from its jars: `PYTHONPATH=tests/support .venv/bin/python tests/support/rights_run.py`.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from apache_kafka import ApacheKafka
from rights_cases import CASES as OLDER_CASES
from rights_cases import TIMEOUT_MS, Ask, Case, Needed, World
from rights_of_members import CASES as CASES_OF_MEMBERS
from waiting import until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import ConnectionFailed
from eosin.model.acls import Acl
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import uuid_text
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.types import Message

ADMIN: Final = "User:admin"
RECORDED: Final = Path(__file__).parents[1] / "broker" / "security" / "kafka_rights.json"
_PASSWORD: Final = "secret"
_TOPICS_AT_ONCE: Final = 50
_TRIES: Final = 300
_ALL_ENTRIES: Final = DescribeAclsRequest(1, None, 1, None, None, 1, 1)

CASES: Final = (*OLDER_CASES, *CASES_OF_MEMBERS)
Answers = Mapping[str, Mapping[str, Sequence[str]]]
"""The answers of each case, by case and variant."""


async def run(ask: Ask) -> Answers:
    """Ask everything."""
    asked = [(case, variant, needed) for case in CASES for variant, needed in case.variants()]
    worlds = [World(f"c{number}") for number in range(len(asked))]
    await _make_topics(ask, worlds)
    for world in worlds:
        await _make_group_and_producer(ask, world)
    await _make_entries(ask, asked, worlds)
    answers: dict[str, dict[str, Sequence[str]]] = {}
    for world, (case, variant, _) in zip(worlds, asked, strict=True):
        principal = ADMIN if case.by_admin else _principal(world)
        if case.prepare is not None:
            await case.prepare(ask, world, principal)
        if case.by_admin and case.key == ApiKey.DESCRIBE_ACLS:
            # Cases before have created and deleted entries that this one may find.
            await _until_they_count(ask, [Needed(Operation.READ, ResourceType.TOPIC, "other").acl(world, principal)])
        try:
            response = await ask(principal, case.key, case.version, case.request(world))
            said = outline(response, world, messages=case.by_admin)
        except ConnectionFailed:
            said = ["the connection is closed"]
        answers.setdefault(case.name, {})[variant] = said
    return answers


def _principal(world: World) -> str:
    return f"User:{world.prefix}"


async def _make_topics(ask: Ask, worlds: Sequence[World]) -> None:
    names = [name for world in worlds for name in (world.topic, world.other)]
    ids: dict[str, bytes] = {}
    for first in range(0, len(names), _TOPICS_AT_ONCE):
        some = names[first : first + _TOPICS_AT_ONCE]
        request = CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in some), TIMEOUT_MS)
        response = await ask(ADMIN, ApiKey.CREATE_TOPICS, 7, request)
        assert not [each for each in response.topics if each.error_code], response
        ids |= {each.name: each.topic_id for each in response.topics}
    for world in worlds:
        world.topic_id, world.other_id = ids[world.topic], ids[world.other]
    wanted = MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in names), False)

    async def led() -> bool:
        response = await ask(ADMIN, ApiKey.METADATA, 12, wanted)
        return all(topic.partitions and topic.partitions[0].leader_id >= 0 for topic in response.topics)

    await until(led)


async def _make_group_and_producer(ask: Ask, world: World) -> None:
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=(OffsetCommitRequestPartition(0, 1, committed_metadata=""),))
        for name in (world.topic, world.other)
    )
    commit = OffsetCommitRequest(group_id=world.group, topics=topics)

    async def is_committed() -> bool:
        await ask(ADMIN, ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=world.group, key_type=0))
        response = await ask(ADMIN, ApiKey.OFFSET_COMMIT, 8, commit)
        return all(part.error_code == 0 for topic in response.topics for part in topic.partitions)

    async def has_producer() -> bool:
        response = await ask(ADMIN, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(world.txn, 60_000))
        world.producer_id, world.producer_epoch = response.producer_id, response.producer_epoch
        return bool(response.error_code == ErrorCode.NONE)

    await until(is_committed)
    await until(has_producer)


async def _make_entries(
    ask: Ask, asked: Sequence[tuple[Case, str, tuple[Needed, ...]]], worlds: Sequence[World]
) -> None:
    acls = [
        each.acl(world, _principal(world))
        for world, (_, _, needed) in zip(worlds, asked, strict=True)
        for each in needed
    ]
    await _until_they_count(ask, acls)


async def _until_they_count(ask: Ask, acls: Sequence[Acl]) -> None:
    """Create entries, and wait until the broker tells them: it judges by those that it tells.

    Apache Kafka's broker follows its controller, the later the more work the machine has, and has then applied all that
    is older: topics, and entries that were created or deleted before.
    """
    response = await ask(ADMIN, ApiKey.CREATE_ACLS, 2, CreateAclsRequest(tuple(AclCreation(*acl) for acl in acls)))
    assert not [each for each in response.results if each.error_code], response

    async def count() -> bool:
        response = await ask(ADMIN, ApiKey.DESCRIBE_ACLS, 2, _ALL_ENTRIES)
        return {
            (each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.operation)
            for each in response.resources
            for acl in each.acls
        } >= {(acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.operation) for acl in acls}

    await until(count)


# What is compared ----------------------------------------------------------------------------------------------------

_NAMES: Final = (
    *("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_type", "resource_name"),
    *("partition_index", "index", "partition", "principal", "host", "operation", "permission_type"),
)
"""Fields that tell one item of a response from the others."""
_SAID: Final = ("error_code", "topic_config_error_code", "status_code", "authorized_operations")
"""Ends of the names of fields that are compared."""


def outline(response: Any, world: World, *, messages: bool = False) -> list[str]:
    """The outline of a response: a line for each error, and each set of operations, in order."""
    return sorted(_lines(response, "", world, messages=messages))


def _lines(part: Any, path: str, world: World, *, messages: bool) -> Iterator[str]:
    fields = part.__struct_fields__
    own = [getattr(part, name) for name in _NAMES if name in fields and not (name == "host" and "port" in fields)]
    named = "/".join(_shown(each, world) for each in own)
    path = f"{path}[{named}]" if own else path
    yield path or "response"
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name.endswith(_SAID):
            yield f"{path} {name}={value:d}"
        elif messages and name == "error_message" and value is not None:
            yield f"{path} {name}={value}"
        elif isinstance(value, tuple) and name not in ("brokers", "node_endpoints", "nodes", "configs", "members"):
            for each in value:
                if isinstance(each, Message):
                    yield from _lines(each, f"{path} {name}", world, messages=messages)


def _shown(value: Any, world: World) -> str:
    return str(value).replace(f"{world.prefix}-", "").replace(uuid_text(world.topic_id), "ID")


# Apache Kafka --------------------------------------------------------------------------------------------------------


_SASL: Final = "SASL_PLAINTEXT"


def _kafka(folder: Path) -> ApacheKafka:
    """A node with a listener on which people log in by PLAIN."""
    people = [f"c{number}" for number in range(sum(len(list(case.variants())) for case in CASES))]
    users = " ".join(f'user_{name}="{_PASSWORD}"' for name in ("admin", *people))
    return ApacheKafka(
        folder,
        listeners=(_SASL,),
        settings={
            f"listener.name.{_SASL.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{_SASL.lower()}.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            # A machine with much to do shall not fence the node, whose partitions have no leader then.
            "broker.session.timeout.ms": str(TIMEOUT_MS),
        },
    )


class _People:
    """Connections to Apache Kafka, each logged in as somebody."""

    def __init__(self, address: str) -> None:
        self._address = Address.parse(address)
        self._admin: Connection | None = None
        self._somebody: tuple[str, Connection] | None = None
        """Whoever was heard last: a share session lives as long as the connection."""

    async def ask(self, principal: str, key: ApiKey, version: int, request: Message) -> Any:
        """The response to somebody's request."""
        if principal == ADMIN:
            if self._admin is None or not self._admin.is_open:
                self._admin = await self._logged_in("admin")
            return await self._admin.request(key, request, version=version)
        if self._somebody is None or self._somebody[0] != principal or not self._somebody[1].is_open:
            await self._leave()
            self._somebody = principal, await self._logged_in(principal.removeprefix("User:"))
        return await self._somebody[1].request(key, request, version=version)

    async def close(self) -> None:
        """Close what is open."""
        await self._leave()
        if self._admin is not None:
            await self._admin.close()

    async def _leave(self) -> None:
        if self._somebody is not None:
            _, connection = self._somebody
            self._somebody = None
            await connection.close()

    async def _logged_in(self, name: str) -> Connection:
        try:
            return await self._log_in(name)
        except ConnectionFailed as error:
            # That the broker closes a connection is an answer, but not to a login.
            raise AssertionError(f"{name} could not log in") from error

    async def _log_in(self, name: str) -> Connection:
        connection = await Connection.open(self._address, connect_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS)
        chosen = await connection.request(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"), version=1)
        assert chosen.error_code == ErrorCode.NONE, chosen
        token = SaslAuthenticateRequest(f"\0{name}\0{_PASSWORD}".encode())
        let_in = await connection.request(ApiKey.SASL_AUTHENTICATE, token, version=1)
        assert let_in.error_code == ErrorCode.NONE, let_in
        return connection


async def _record(address: str) -> Answers:
    people = _People(address)
    try:
        return await run(people.ask)
    finally:
        await people.close()


def of_apache_kafka() -> Answers:
    """The present answers of Apache Kafka from its jars. Raises `maven.NotHere`."""
    with tempfile.TemporaryDirectory() as folder, _kafka(Path(folder) / "kafka") as kafka:
        return asyncio.run(_record(kafka.address_of(_SASL)))


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(of_apache_kafka(), indent=1) + "\n")
    sys.stdout.write(f"wrote {RECORDED}\n")
