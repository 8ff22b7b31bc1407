"""A check that fails for a reason of its own allows nothing (security.md 6.5.5)."""

import logging

import pytest
from batches import data
from guarded_broker import ADMIN, guarded_broker

from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.security.acl_index import AclIndex

ALICE, BOB = "User:alice", "User:bob"


def break_for(monkeypatch: pytest.MonkeyPatch, principal: str) -> None:
    """Have every look into the entries fail for somebody."""
    for method in ("permitted", "permits_any"):
        sound = getattr(AclIndex, method)

        def broken(self: AclIndex, *asked: object, sound: object = sound) -> object:
            if principal in asked:
                raise KeyError("a fault of ours")
            return sound(self, *asked)  # type: ignore[operator]

        monkeypatch.setattr(AclIndex, method, broken)


async def test_a_fault_in_a_check_closes_that_connection_and_carries_nothing_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = PartitionProduceData(0, data())
    requests = {
        ApiKey.METADATA: MetadataRequest(topics=None),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(None, 60_000),
        ApiKey.PRODUCE: ProduceRequest(None, -1, 5000, (TopicProduceData("orders", partition_data=(one,)),)),
    }
    async with guarded_broker() as broker:
        await broker.create_topics("orders")
        for principal in (ALICE, BOB):
            await broker.grant(principal, Operation.WRITE, "orders")
        break_for(monkeypatch, ALICE)
        for number, (key, request) in enumerate(requests.items()):
            peer = broker.peer(ALICE, host=f"127.0.1.{number}")
            caplog.clear()
            peer.send(key, 9 if key is ApiKey.PRODUCE else 4, request)
            assert peer.answers() == []
            assert peer.transport.is_closing(), key
            (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
            assert line.getMessage() == "a check of rights failed, and its connection is closed"
            assert line.exc_info is not None
        (log,) = [held for at, held in broker.server.services.partitions.hosted() if at.topic == "orders"]
        assert log.log_end_offset == 0
        response = await broker.ask(BOB, ApiKey.PRODUCE, requests[ApiKey.PRODUCE], version=9)
        assert response.responses[0].partition_responses[0].error_code == 0, "others are served"
        assert (await broker.ask(ADMIN, ApiKey.METADATA, requests[ApiKey.METADATA])).topics


async def test_a_session_of_a_broken_authorizer_may_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded_broker() as broker:
        break_for(monkeypatch, ALICE)
        session = broker.peer(ALICE).connection.session
        with pytest.raises(CloseConnection):
            session.may(Operation.READ, ResourceType.TOPIC, "orders")
        with pytest.raises(CloseConnection):
            session.may_any(Operation.WRITE, ResourceType.TOPIC)
        with pytest.raises(CloseConnection):
            session.filter(Operation.READ, ResourceType.TOPIC, ["orders"])
        with pytest.raises(CloseConnection):
            session.operations(ResourceType.TOPIC, "orders")
