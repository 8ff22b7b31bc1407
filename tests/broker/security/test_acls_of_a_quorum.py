"""Access control entries that a quorum of controllers keeps, on a broker of several machines (cluster.md 7)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from manual_clock import ManualClock
from scripted_controller import HERE, ScriptedCluster, broker, partition, topic
from waiting import HANG_S

from eosin.broker.handlers.registry import BY_KEY
from eosin.broker.joined.forwarding import Forwarding, decode
from eosin.cluster.membership.envelopes import principal_data
from eosin.model.acls import Acl, AclFilter
from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from eosin.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from eosin.protocol.schemas.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_request_header, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.security.authorizer import StandardAuthorizer
from eosin.security.session import Session

pytestmark = pytest.mark.virtual

ALICE = Principal("User", "alice")
READ = Acl(2, "orders", 3, "User:alice", "*", 3, 3)


def record(acl_id: bytes, acl: Acl = READ) -> records.AccessControlEntryRecord:
    return records.AccessControlEntryRecord(acl_id, *acl)


class World(ScriptedCluster):
    """A broker with an authorizer, whose handlers pass requests on to a script."""

    def __init__(self) -> None:
        super().__init__()
        channel: Any = self.controller
        self.apis = Forwarding(self.cluster, channel, controller=channel).apis(BY_KEY)
        self.publish(broker(HERE), *topic("orders", partition("orders")))
        self.acls = self.cluster.acl_entries(ManualClock())
        self.authorizer = StandardAuthorizer()
        self.acls.follow(lambda added, removed: self.authorizer.change(added=added, removed=removed))
        self.alice = Session(principal=ALICE, authorizer=self.authorizer)

    def may_read(self) -> bool:
        return self.alice.may(Operation.READ, ResourceType.TOPIC, "orders")

    def ask(self, key: ApiKey, version: int, message: Message) -> "asyncio.Future[Any]":
        frame = memoryview(b"".join(encode_request(key, version, 5, "client", message))[SIZE_BYTES:])
        request = decode(key, version, frame, decode_request_header(frame).body_offset)
        services: Any = SimpleNamespace(config=self.config, cluster=self.cluster, acls=self.acls)
        context = RequestContext(version, "client", "/192.0.2.7", "PLAINTEXT", session=self.alice)
        return asyncio.ensure_future(self.apis[key].response(request, context, services))


async def turns() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


async def test_the_authorizer_follows_the_image() -> None:
    world = World()
    assert not world.may_read()
    world.publish(record(b"1" * 16))
    assert world.may_read()
    assert await world.acls.found(AclFilter()) == [READ]
    world.publish(records.RemoveAccessControlEntryRecord(b"1" * 16))
    assert not world.may_read()
    assert await world.acls.found(AclFilter()) == []


async def test_an_entry_that_the_image_has_twice_is_there_until_both_are_gone() -> None:
    world = World()
    world.publish(record(b"1" * 16), record(b"2" * 16))
    world.publish(records.RemoveAccessControlEntryRecord(b"1" * 16))
    assert world.may_read()
    world.publish(records.RemoveAccessControlEntryRecord(b"2" * 16))
    assert not world.may_read()


async def test_a_request_is_passed_on_in_its_clients_name_and_answered_when_this_broker_decides_by_it() -> None:
    world = World()
    world.controller.responses.append(CreateAclsResponse(results=(AclCreationResult(ErrorCode.NONE, ""),)))
    asking = world.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest((AclCreation(*READ),)))
    await turns()
    assert not asking.done()
    world.publish(record(b"1" * 16))
    assert world.may_read()
    await asyncio.wait_for(asking, 0.4)
    gone = DeleteAclsFilterResult(matching_acls=(DeleteAclsMatchingAcl(ErrorCode.NONE, None, *READ),))
    world.controller.responses.append(DeleteAclsResponse(filter_results=(gone,)))
    asking = world.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest((DeleteAclsFilter(1, None, 1, None, None, 1, 1),)))
    await turns()
    assert not asking.done()
    world.publish(records.RemoveAccessControlEntryRecord(b"1" * 16))
    await asyncio.wait_for(asking, 0.4)
    assert world.controller.principals == [principal_data("alice")] * 2


async def test_a_topic_is_created_in_the_name_of_the_client_that_asked_about_it() -> None:
    world = World()
    everything = Acl(2, "*", 3, "User:alice", "*", Operation.ALL, 3)
    world.publish(record(b"1" * 16, everything))

    def answered(_: Message) -> CreateTopicsResponse:
        world.publish(*topic("new", partition("new")))
        return CreateTopicsResponse(topics=(CreatableTopicResult("new"),))

    world.controller.responses.append(answered)
    asking = world.ask(ApiKey.METADATA, 12, MetadataRequest((MetadataRequestTopic(name="new"),), True))
    response = await asyncio.wait_for(asking, HANG_S)
    assert [(each.name, each.error_code) for each in response.topics] == [("new", ErrorCode.NONE)]
    assert world.controller.principals == [principal_data("alice")]
