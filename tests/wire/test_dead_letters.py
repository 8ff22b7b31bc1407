"""Dead letters of share groups (KIP-1191) on the wire: what is written of a record that is given up, and where
(share-partitions.md 7)."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from waiting import until
from wire import OTHER_BROKER, Connect, Wire, better_than_kafka, unique
from wire_producer import transactional
from wire_share_fetcher import ACCEPT, NONE, REJECT, RELEASE, Fetcher
from wire_share_group import ShareMember, serve_share_groups

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, Record, batches, build_batch, iter_records
from eosin.protocol.records.compression import Compression
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.virtual

ENABLED: Final = {"errors_deadletterqueue_group_enable": "true"}
COPY: Final = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker whose share groups have dead letters."""
    await serve_share_groups(consumer_groups, level=2)
    return consumer_groups


class Grave:
    """A topic that a group reads, and the topic of its dead letters."""

    def __init__(self, wire: Wire, connect: Connect, group: str, topic: str, to: str) -> None:
        self.wire = wire
        self.group = group
        self.topic = topic
        self.to = to
        self._connect = connect

    async def configure(self, settings: Mapping[str, str]) -> ErrorCode:
        return await self.wire.configure_group(self.group, settings)

    async def write(self, *records: NewRecord, partition: int = 0, **how: Any) -> None:
        data = build_batch(records, timestamp=1_700_000_000_000, **how)
        answer = await self.wire.produce(TopicPartition(self.topic, partition), data)
        assert answer.error_code == NONE, ErrorCode(answer.error_code)

    async def fetcher(self, partition: int = 0) -> Fetcher:
        return Fetcher(await self._connect(), self.group, self.wire.topic_id(self.topic), partition)

    async def letters(self, count: int, partition: int = 0) -> list[Record]:
        """The dead letters, once there are so many."""
        found: list[Record] = []

        async def are_there() -> bool:
            fetched = await self.wire.fetch(TopicPartition(self.to, partition))
            data = bytes(fetched.records or b"")
            found[:] = [
                each
                for position, header in batches(data)
                for each in iter_records(data[position : position + header.size])
            ]
            return len(found) >= count

        await until(are_there, lambda: f"{len(found)} letters")
        return found


@pytest.fixture
async def grave(wire: Wire, connect: Connect) -> Grave:
    group, topic = unique("share"), await wire.topic(2)
    to = await wire.create_topic("dlq." + unique("letters"), **ENABLED)
    made = Grave(wire, connect, group, topic, to)
    settings = {"share.auto.offset.reset": "earliest", DEAD_LETTER_TOPIC: to, COPY: "true"}
    assert await made.configure(settings) is NONE
    await ShareMember(wire, group).joined(topic, partitions=2)
    return made


def context(
    grave: Grave, offset: int, *, partition: int = 0, count: int = 1, why: str = "Offset rejected by client."
) -> Any:
    return (
        ("__dlq.errors.topic", grave.topic.encode()),
        ("__dlq.errors.partition", b"%d" % partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", grave.group.encode()),
        ("__dlq.errors.delivery.count", b"%d" % count),
        ("__dlq.errors.message", why.encode()),
    )


async def test_a_rejected_record_is_copied_and_says_where_it_comes_from(grave: Grave) -> None:
    began_ms = SystemClock().now_ms() if OTHER_BROKER else 0
    await grave.write(NewRecord(b"k", b"v"), NewRecord(None, None), NewRecord(b"", b""))
    member = await grave.fetcher()
    assert await member.fetch() == [(0, 2, 1)]
    assert await member.acknowledge((0, 2, (REJECT,))) is NONE
    found = await grave.letters(3)
    assert [(each.key, each.value) for each in found] == [(b"k", b"v"), (None, None), (b"", b"")]
    assert [each.headers for each in found] == [context(grave, offset) for offset in range(3)]
    assert all(each.timestamp >= began_ms and each.timestamp != 1_700_000_000_000 for each in found)
    assert await member.fetch_nothing()


async def test_without_copies_a_letter_only_tells_which_record_it_was(grave: Grave) -> None:
    assert await grave.configure({COPY: "false"}) is NONE
    await grave.write(NewRecord(b"k", b"v", headers=(("own", b"1"),)))
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((0, 0, (REJECT,))) is NONE
    (letter,) = await grave.letters(1)
    assert (letter.key, letter.value, letter.headers) == (None, None, context(grave, 0))


async def test_a_record_whose_deliveries_are_used_up_has_a_letter(grave: Grave) -> None:
    assert await grave.configure({"share.delivery.count.limit": "2"}) is NONE
    await grave.write(NewRecord(b"k", b"v"))
    member = await grave.fetcher()
    for count in (1, 2):
        assert await member.fetch() == [(0, 0, count)]
        assert await member.acknowledge((0, 0, (RELEASE,))) is NONE
    (letter,) = await grave.letters(1)
    why = "Offset delivery count exceeded the threshold."
    assert (letter.key, letter.value, letter.headers) == (b"k", b"v", context(grave, 0, count=2, why=why))
    assert await member.fetch_nothing()


async def test_accepted_records_and_gaps_have_no_letters(grave: Grave) -> None:
    await grave.write(*(NewRecord(None, b"%d" % each) for each in range(4)))
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((0, 3, (ACCEPT, 0, REJECT, ACCEPT))) is NONE
    assert [each.value for each in await grave.letters(1)] == [b"2"]


async def test_letters_go_to_the_partition_of_their_records_number(grave: Grave) -> None:
    await grave.write(NewRecord(None, b"v"), partition=1)
    member = await grave.fetcher(partition=1)
    await member.fetch()
    assert await member.acknowledge((0, 0, (REJECT,))) is NONE
    (letter,) = await grave.letters(1)  # of one partition, 1 is 0
    assert letter.headers == context(grave, 0, partition=1)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
async def test_compressed_records_are_copied(grave: Grave, codec: Compression) -> None:
    await grave.write(*(NewRecord(None, b"%d" % each) for each in range(4)), compression=codec)
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((1, 2, (REJECT,))) is NONE
    assert [each.value for each in await grave.letters(2)] == [b"1", b"2"]


async def test_records_of_aborted_transactions_are_no_dead_letters(grave: Grave) -> None:
    assert await grave.configure({"share.isolation.level": "read_committed"}) is NONE
    partition = TopicPartition(grave.topic, 0)
    aborted, committed = await transactional(grave.wire), await transactional(grave.wire)
    await aborted.append(partition)
    await aborted.abort()
    await committed.append(partition)
    await committed.commit()
    await grave.wire.until_stable(partition, 4)
    member = await grave.fetcher()
    ranges = await member.fetch()
    taken = [each for first, last, _ in ranges for each in range(first, last + 1)]
    # Apache Kafka hands out the markers too: its consumers acknowledge them as gaps.
    kinds = [REJECT if each == 2 else 0 for each in taken]
    assert await member.acknowledge(*((each, each, (kind,)) for each, kind in zip(taken, kinds, strict=True))) is NONE
    (letter,) = await grave.letters(1)
    assert letter.headers == context(grave, 2)


async def test_a_topic_that_does_not_allow_it_gets_no_letters_and_its_records_are_given_up(grave: Grave) -> None:
    closed = await grave.wire.create_topic("dlq." + unique("closed"))
    assert await grave.configure({DEAD_LETTER_TOPIC: closed}) is NONE
    await grave.write(NewRecord(None, b"v"), NewRecord(None, b"w"))
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((0, 0, (REJECT,))) is NONE
    assert await grave.configure({DEAD_LETTER_TOPIC: grave.to}) is NONE
    assert await member.acknowledge((1, 1, (REJECT,))) is NONE
    assert [each.value for each in await grave.letters(1)] == [b"w"]
    assert await grave.wire.end_offset(TopicPartition(closed, 0)) == 0


async def test_internal_topics_cannot_be_named(grave: Grave) -> None:
    assert await grave.configure({DEAD_LETTER_TOPIC: "__consumer_offsets"}) is ErrorCode.INVALID_CONFIG


@better_than_kafka("Apache Kafka copies key and value alone")
async def test_the_headers_of_a_record_are_copied_before_those_of_its_letter(grave: Grave) -> None:
    own = (("id", b"7"), ("trace", None))
    await grave.write(NewRecord(b"k", b"v", headers=own))
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((0, 0, (REJECT,))) is NONE
    (letter,) = await grave.letters(1)
    assert letter.headers == (*own, *context(grave, 0))


async def test_a_record_that_is_too_large_for_the_topic_is_told_of_without_a_copy(grave: Grave) -> None:
    small = await grave.wire.create_topic("dlq." + unique("small"), max_message_bytes="1000", **ENABLED)
    assert await grave.configure({DEAD_LETTER_TOPIC: small}) is NONE
    grave.to = small
    await grave.write(NewRecord(None, b"v" * 2000), NewRecord(None, b"w"))
    member = await grave.fetcher()
    await member.fetch()
    assert await member.acknowledge((0, 1, (REJECT,))) is NONE
    found = await grave.letters(2)
    assert [(each.value, each.headers) for each in found] == [(None, context(grave, 0)), (b"w", context(grave, 1))]
