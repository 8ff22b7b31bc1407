"""ShareFetch and ShareAcknowledge (KIP-932) on the wire: sessions, what refuses a request, and what becomes of records
(share-partitions.md 1 to 3)."""

import asyncio
from typing import Final

import pytest
from wire import Connect, Wire, unique
from wire_share_fetcher import ACCEPT, NONE, REJECT, RELEASE, RENEW, Fetcher
from wire_share_group import ShareMember, serve_share_groups

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

INVALID: Final = ErrorCode.INVALID_REQUEST
NOT_HIS: Final = ErrorCode.INVALID_RECORD_STATE


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker that serves share groups."""
    await serve_share_groups(consumer_groups)
    return consumer_groups


class Shared:
    """A topic of one partition that a group reads from its start."""

    def __init__(self, wire: Wire, connect: Connect, group: str, topic: str) -> None:
        self.wire = wire
        self.group = group
        self.topic = topic
        self._connect = connect

    async def write(self, count: int) -> None:
        await self.wire.append(TopicPartition(self.topic, 0), count)

    async def fetcher(self) -> Fetcher:
        return Fetcher(await self._connect(), self.group, self.wire.topic_id(self.topic))


@pytest.fixture
async def shared(wire: Wire, connect: Connect) -> Shared:
    group, topic = unique("share"), await wire.topic(1)
    assert await wire.configure_group(group, {"share.auto.offset.reset": "earliest"}) is NONE
    await ShareMember(wire, group).joined(topic)
    return Shared(wire, connect, group, topic)


async def test_a_record_is_given_to_one_member_and_accepted(shared: Shared) -> None:
    await shared.write(4)
    one, two = await shared.fetcher(), await shared.fetcher()
    assert await one.fetch() == [(0, 3, 1)]
    assert list((await two.data()).acquired_records) == []
    assert await two.acknowledge((0, 3, (ACCEPT,))) is NOT_HIS
    assert await one.acknowledge((0, 3, (ACCEPT, RELEASE, REJECT, ACCEPT))) is NONE
    assert await two.fetch() == [(1, 1, 2)]
    assert await one.acknowledge((1, 1, (ACCEPT,))) is NOT_HIS


async def test_a_session_has_epochs(shared: Shared) -> None:
    await shared.write(1)
    member = await shared.fetcher()
    assert await member.error(share_session_epoch=3) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await member.error(share_session_epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await member.acknowledge((0, 0, (ACCEPT,)), share_session_epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    await member.fetch()
    assert await member.error(share_session_epoch=77) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    wrong = member.epoch + 1
    assert await member.acknowledge((0, 0, (ACCEPT,)), share_session_epoch=wrong) is (
        ErrorCode.INVALID_SHARE_SESSION_EPOCH
    )
    assert await member.acknowledge((0, 0, (ACCEPT,)), share_session_epoch=-1) is NONE
    assert await member.error() is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_requests_that_make_no_sense_are_refused(shared: Shared) -> None:
    member = await shared.fetcher()
    for member_id in ("", "m" * 37):
        assert await member.error(member_id=member_id) is INVALID
    assert await member.error(acknowledge=[(0, 0, (ACCEPT,))]) is INVALID
    await member.data()
    assert await member.error(is_renew_ack=True) is INVALID


@pytest.mark.parametrize(
    "batches",
    [
        [(1, 0, (ACCEPT,))],
        [(2, 3, (ACCEPT,)), (0, 1, (ACCEPT,))],
        [(0, 3, ())],
        [(0, 3, (ACCEPT, ACCEPT))],
        [(0, 0, (RENEW,))],
        [(0, 0, (-1,))],
        [(0, 99, (ACCEPT,))],
    ],
    ids=["backwards", "out of order", "no type", "too few types", "a renewal", "an unknown type", "beyond"],
)
async def test_acknowledgements_that_make_no_sense_change_nothing(
    shared: Shared, batches: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    await shared.write(4)
    member = await shared.fetcher()
    await member.fetch()
    assert await member.acknowledge(*batches) is INVALID
    assert await member.acknowledge((0, 3, (ACCEPT,))) is NONE


async def test_one_wrong_offset_takes_back_all_of_a_partition(shared: Shared) -> None:
    await shared.write(4)
    member = await shared.fetcher()
    await member.fetch()
    assert await member.acknowledge((1, 1, (ACCEPT,))) is NONE
    assert await member.acknowledge((2, 3, (ACCEPT,)), (0, 0, (ACCEPT,))) is INVALID
    assert await member.acknowledge((0, 3, (ACCEPT,))) is NOT_HIS
    assert await member.acknowledge((0, 0, (ACCEPT,)), (2, 3, (ACCEPT,))) is NONE


async def test_a_fetch_acknowledges_and_a_lock_is_renewed(shared: Shared) -> None:
    await shared.write(2)
    member = await shared.fetcher()
    await member.fetch()
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    data = await member.data(is_renew_ack=True, acknowledge=[(0, 1, (RENEW,))], **nothing)
    assert (data.acknowledge_error_code, list(data.acquired_records)) == (NONE, [])
    data = await member.data(acknowledge=[(0, 1, (ACCEPT,))])
    assert (data.acknowledge_error_code, list(data.acquired_records)) == (NONE, [])
    data = await member.data(acknowledge=[(0, 1, (ACCEPT,))])
    assert data.acknowledge_error_code == NONE, "it is before the start"


async def test_a_fetch_of_no_bytes_is_given_nothing(shared: Shared) -> None:
    await shared.write(2)
    member = await shared.fetcher()
    for _ in range(3):
        data = await member.data(max_bytes=0, max_wait_ms=50)
        assert (data.error_code, list(data.acquired_records)) == (NONE, [])
    assert await member.fetch() == [(0, 1, 1)]


async def test_a_fetch_of_no_bytes_that_waits_keeps_no_record_from_another(shared: Shared) -> None:
    idle, busy = await shared.fetcher(), await shared.fetcher()
    await busy.fetch_nothing()
    waits = asyncio.create_task(idle.data(max_bytes=0, max_wait_ms=60_000))
    takes = asyncio.create_task(busy.data(max_wait_ms=60_000))
    await shared.write(1)
    assert [each.first_offset for each in (await takes).acquired_records] == [0]
    waits.cancel()


async def test_an_unknown_topic_is_told_by_itself(shared: Shared) -> None:
    member = await shared.fetcher()
    answer = await member.response(topic_id=b"0123456789abcdef")
    assert answer.error_code == NONE
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_connection_that_ends_gives_back_what_its_member_has(shared: Shared) -> None:
    await shared.write(3)
    gone, other = await shared.fetcher(), await shared.fetcher()
    assert await gone.fetch() == [(0, 2, 1)]
    await gone.wire.close()
    assert await other.fetch() == [(0, 2, 2)]


async def test_whole_batches_come_past_the_limit_of_records_and_none_past_an_exact_one(shared: Shared) -> None:
    for _ in range(3):
        await shared.write(4)
    one, two = await shared.fetcher(), await shared.fetcher()
    assert await one.fetch(max_records=5) == [(0, 7, 1)]
    assert await two.fetch(max_records=3, share_acquire_mode=1) == [(8, 10, 1)]
