"""An address that makes connections too fast: it is held, then hung up on (security.md 5)."""

import asyncio

import pytest
from local_broker import local_broker
from manual_clock import ManualClock
from waiting import HANG_S, until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from eosin.protocol.schemas.metadata import MetadataRequest

pytestmark = pytest.mark.process

QUESTION = MetadataRequest(topics=())


async def limit_address(connection: Connection, address: str, value: float) -> None:
    entry = RequestEntryData((EntityData("ip", address),), (OpData("connection_creation_rate", value, remove=False),))
    request = AlterClientQuotasRequest((entry,))
    answer = await connection.request(ApiKey.ALTER_CLIENT_QUOTAS, request, version=1)
    assert answer.entries[0].error_code == ErrorCode.NONE


async def test_an_address_that_connects_too_fast_is_held_and_hung_up_on() -> None:
    async with local_broker(listeners=("PLAINTEXT://127.0.0.1:0",), clock=ManualClock()) as server:
        host, address = server.host, Address.parse(server.addresses[0].rpartition("/")[2])
        assert host.connection_delay_ms is None
        async with await Connection.open(address) as open_before:
            await limit_address(open_before, "127.0.0.1", 1)
            for _ in range(10):  # ten seconds' worth may come at once
                async with await Connection.open(address) as connection:
                    await connection.request(ApiKey.METADATA, QUESTION, version=9)
            assert host.refused == 0
            async with await Connection.open(address) as held:
                await until(lambda: host.refused == 1)
                await asyncio.wait_for(held.wait_closed(), HANG_S)
            await open_before.request(ApiKey.METADATA, QUESTION, version=9)
        assert host.refused == 0
