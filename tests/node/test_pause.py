"""A broker that is stopped for longer than any session, and than a client may take for a request that it has begun, and
goes on: on both loops, what came in time counts."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from wire import Wire, unique
from wire_group import RawMember
from wire_producer import RawProducer, transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.wire.codec import decode_response, encode_request

pytestmark = [pytest.mark.process, pytest.mark.slow]

TIMEOUT_MS = 2000
"""Of sessions and of transactions."""
PAUSE_S = 3.0
SETTINGS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "eosin.frame.timeout.ms": str(TIMEOUT_MS),
}
CLIENTS = 15
"""Of each kind, each on a connection of its own."""


async def member(broker: BrokerProcess) -> RawMember:
    """The only member of a group of its own, with a heartbeat just made."""
    made = RawMember(await Wire.open(broker.address), unique("group"))
    await made.joined(session_timeout_ms=TIMEOUT_MS)
    await made.sync({made.member_id: b"everything"})
    return made


async def producer(broker: BrokerProcess, partition: TopicPartition) -> RawProducer:
    """A producer with a transaction that has just begun."""
    made = await transactional(await Wire.open(broker.address), timeout_ms=TIMEOUT_MS)
    await made.append(partition)
    return made


class Sender:
    """A client that is in the middle of a request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = DescribeGroupsRequest(groups=tuple(f"{number}".ljust(30_000, "x") for number in range(10)))
        frame = b"".join(encode_request(ApiKey.DESCRIBE_GROUPS, 5, 1, "sender", request))
        self._reader, self._writer = reader, writer
        self._rest = frame[len(frame) // 2 :]
        writer.write(frame[: -len(self._rest)])

    async def answered(self) -> int:
        """Send the rest; how many groups the response describes."""
        self._writer.write(self._rest)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        _, response = decode_response(ApiKey.DESCRIBE_GROUPS, 5, await self._reader.readexactly(size))
        self._writer.close()
        return len(response.groups)


async def sender(broker: BrokerProcess) -> Sender:
    host, _, port = broker.address.rpartition(":")
    return Sender(*await asyncio.open_connection(host, int(port)))


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_after_a_pause_no_member_or_producer_that_was_in_time_is_expelled_or_aborted(
    loop: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "data", settings={**SETTINGS, "eosin.event.loop": loop}) as broker:
        wire = await Wire.open(broker.address)
        partition = await wire.partition()
        members = await asyncio.gather(*(member(broker) for _ in range(CLIENTS + 1)))
        producers = await asyncio.gather(*(producer(broker, partition) for _ in range(CLIENTS + 1)))
        senders = await asyncio.gather(*(sender(broker) for _ in range(CLIENTS)))
        *members, silent_member = members
        *producers, silent_producer = producers
        assert [await each.heartbeat() for each in (*members, silent_member)] == [ErrorCode.NONE] * (CLIENTS + 1)

        os.kill(broker.pid, signal.SIGSTOP)
        try:
            beating = [asyncio.ensure_future(each.heartbeat()) for each in members]
            committing = [asyncio.ensure_future(each.end(commit=True)) for each in producers]
            await asyncio.sleep(PAUSE_S)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert await asyncio.gather(*(each.answered() for each in senders)) == [10] * CLIENTS
        assert await asyncio.gather(*beating) == [ErrorCode.NONE] * CLIENTS
        assert [answer.error_code for answer in await asyncio.gather(*committing)] == [ErrorCode.NONE] * CLIENTS

        # Who is silent is found out, not later than a pause after its time.
        await wire.until_stable(partition, 2 * CLIENTS + 2)  # a record and a marker for each
        assert (await silent_producer.end(commit=True)).error_code != ErrorCode.NONE
        await asyncio.sleep(TIMEOUT_MS / 1000)
        assert await silent_member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        for each in (wire, *(one.wire for one in (*members, silent_member, *producers, silent_producer))):
            await each.close()
