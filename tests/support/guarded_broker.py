"""A broker in the test's own process that decides by access control entries, and clients of it who are whoever the test
says: no listener, no password.

    async with guarded_broker() as broker:
        await broker.grant("User:alice", Operation.READ, "orders")
        response = await broker.ask("User:alice", ApiKey.METADATA, MetadataRequest(...))
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fake_peer import FakePeer
from local_broker import LISTENER, local_broker
from waiting import settled, until

from eosin.broker.handlers.registry import BY_KEY
from eosin.model.acls import Acl, AclFilter, PatternType, Permission
from eosin.model.principals import Principal
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.node.running import RunningNode
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.types import Message
from eosin.security.session import Session
from eosin.settings.broker import STANDARD_AUTHORIZER

ADMIN: Final = "User:admin"


class GuardedBroker:
    """A running broker."""

    def __init__(self, server: RunningNode) -> None:
        self.server = server
        self._peers: dict[tuple[str, str], FakePeer] = {}

    def peer(self, principal: str, host: str = "127.0.0.1") -> FakePeer:
        """The connection of somebody, always the same while it is open."""
        found = self._peers.get((principal, host))
        if found is None or found.transport.is_closing():
            found = self._peers[principal, host] = FakePeer(self.server.host)
            kind, _, name = principal.partition(":")
            found.connection.adopt(
                Session(
                    principal=Principal(kind, name),
                    listener=LISTENER,
                    host=host,
                    authorizer=self.server.services.authorizer,
                )
            )
        return found

    async def ask(
        self, principal: str, key: ApiKey, request: Message, *, version: int | None = None, host: str = "127.0.0.1"
    ) -> Any:
        """The response to somebody's request, by default in the newest version."""
        peer = self.peer(principal, host)
        peer.send(key, BY_KEY[key].versions[-1] if version is None else version, request)
        return await self.answer(peer)

    async def answer(self, peer: FakePeer) -> Any:
        """The response that a connection waits for."""
        await settled()
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.extend(peer.answers())
            return bool(answers)

        await until(is_answered, every_s=0.001)
        (answer,) = answers
        return answer

    async def grant(
        self,
        principal: str,
        operation: Operation,
        name: str = CLUSTER_NAME,
        *,
        kind: ResourceType = ResourceType.TOPIC,
        pattern: PatternType = PatternType.LITERAL,
        permission: Permission = Permission.ALLOW,
        host: str = "*",
    ) -> Acl:
        """Add an entry; about a topic, unless `kind` says otherwise, or the name is the cluster's."""
        kind = ResourceType.CLUSTER if name == CLUSTER_NAME else kind
        acl = Acl(kind, name, pattern, principal, host, operation, permission)
        assert self.server.services.acls is not None
        (outcome,) = await self.server.services.acls.create([acl])
        assert outcome.error is ErrorCode.NONE
        return acl

    async def revoke(self, principal: str) -> None:
        """Remove all entries of somebody."""
        assert self.server.services.acls is not None
        await self.server.services.acls.delete([AclFilter(principal=principal)])

    async def create_topics(self, *names: str) -> None:
        """Create topics of one partition."""
        request = CreateTopicsRequest(topics=tuple(CreatableTopic(name, 1, 1) for name in names), timeout_ms=5000)
        response = await self.ask(ADMIN, ApiKey.CREATE_TOPICS, request)
        assert [each.error_code for each in response.topics] == [ErrorCode.NONE] * len(names)


@asynccontextmanager
async def guarded_broker(**settings: Any) -> AsyncIterator[GuardedBroker]:
    """A started broker whose only super user is `ADMIN`."""
    rights = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ADMIN}
    async with local_broker(**{**rights, **settings}) as server:
        yield GuardedBroker(server)
