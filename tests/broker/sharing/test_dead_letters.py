"""Dead letters (KIP-1191; share-partitions.md 7): a record is archived when its letter is durable; and what keeps
letters from being written: a full disk, a topic that is gone, one that forbids it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from data_broker import batch, settle
from manual_clock import ManualClock
from share_fakes import ACCEPT, REJECT, RELEASE, FakeShareStateStore, StoredState, Worker, Workers, acquired, values

from eosin.broker.sharing.dead_letters import DURABLE_MS, LONGEST_RETRY_MS, RETRY_MS, LetterQueue, LetterSource
from eosin.broker.sharing.led_share_partition import START_WRITE_MS
from eosin.broker.sharing.rules.window import DeadRecords
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.model.cluster import ConfigChange
from eosin.model.features import DEAD_LETTERS_LEVEL, SHARE_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import Record, batches, iter_records
from eosin.protocol.records.compression import Compression
from eosin.storage.results.log_results import ReadResult

NONE = ErrorCode.NONE
TO = "dlq.orders"
ARCHIVING, ARCHIVED = DeliveryState.ARCHIVING, DeliveryState.ARCHIVED
CONFIG = ShareGroupConfig(
    auto_offset_reset="earliest", deadletterqueue_topic_name=TO, deadletterqueue_copy_record_enable=True
)


async def started(*records: str, config: ShareGroupConfig = CONFIG, to: str | None = TO, **how: Any) -> Workers:
    """A group with dead letters, whose topic has these records, each in a batch of its own."""
    workers = await Workers.started(config=config, **how)
    await workers.broker.cluster.finalize_levels({SHARE_VERSION: DEAD_LETTERS_LEVEL})
    if to is not None:
        await workers.broker.create_topic(to, errors_deadletterqueue_group_enable="true")
    for each in records:
        await workers.broker.produce(batch(each))
    return workers


async def letters(workers: Workers, topic: str = TO) -> list[Record]:
    """What is readable of the dead letters."""
    await settle()
    log = workers.broker.log(topic)
    result = log.read(0, max_bytes=1 << 20, isolation=IsolationLevel.READ_UNCOMMITTED, min_one_batch=True)
    assert isinstance(result, ReadResult)
    data = bytes(result.records)  # type: ignore[arg-type]
    return [each for at, header in batches(data) for each in iter_records(data[at : at + header.size])]


def texts(found: list[Record]) -> list[str]:
    return [(each.value or b"").decode() for each in found]


async def reject_all(workers: Workers) -> Worker:
    member = workers.member()
    for first, last, _ in acquired(await member.fetch()):
        assert await member.acknowledge((first, last, (REJECT,))) is NONE
    return member


def stored(workers: Workers) -> dict[int, tuple[int, DeliveryState]]:
    return workers.store.states[workers.key()].records


async def test_a_record_is_archiving_until_its_letter_is_durable_and_then_archived() -> None:
    workers = await started("a", "b", "c")
    workers.broker.flusher.held = True
    member = await reject_all(workers)
    await settle()
    assert stored(workers) == dict.fromkeys(range(3), (1, ARCHIVING))
    assert (workers.sharing.partitions.known("workers", workers.topic_id, 0)).window.start == 0  # type: ignore[union-attr]
    assert acquired(await member.fetch()) == []
    workers.broker.flusher.release()
    assert texts(await letters(workers)) == ["a", "b", "c"]
    assert workers.store.writes[-1] == ((StateBatch(0, 2, ARCHIVED, 1),), 3, 0)


async def test_letters_that_were_not_archived_are_written_once_more_by_the_next_leader() -> None:
    store = FakeShareStateStore()
    workers = await started("a", "b", "c", store=store)
    store.states[workers.key()] = StoredState(0, 0, records={0: (1, ARCHIVING), 1: (5, ARCHIVING)})
    member = workers.member()
    assert values(await member.fetch()) == ["c"]
    found = await letters(workers)
    assert texts(found) == ["a", "b"]
    told = [dict(each.headers)["__dlq.errors.message"] for each in found]
    assert told == [b"Offset rejected by client.", b"Offset delivery count exceeded the threshold."]
    assert store.states[workers.key()].start_offset == 2


async def test_a_member_that_goes_leaves_letters_of_what_nobody_may_have_any_more() -> None:
    workers = await started("a", config=CONFIG_OF_TWO)
    for count in (1, 2):
        member = workers.member(f"m{count}")
        assert acquired(await member.fetch()) == [(0, 0, count)]
        member.connection.close()
        await settle()
    assert texts(await letters(workers)) == ["a"]


async def test_a_lock_that_runs_out_for_the_last_time_leaves_a_letter() -> None:
    workers = await started("a", config=CONFIG_OF_TWO)
    member = workers.member()
    for count in (1, 2):
        assert acquired(await member.fetch()) == [(0, 0, count)]
        workers.broker.clock.advance(workers.config.record_lock_duration_ms + 10)
        await settle()
    (letter,) = await letters(workers)
    assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"2"


async def test_a_letter_waits_until_it_is_written_that_its_record_is_archiving() -> None:
    workers = await started("a", config=CONFIG_OF_ONE)
    member = workers.member()
    assert acquired(await member.fetch()) == [(0, 0, 1)]
    workers.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    workers.broker.clock.advance(workers.config.record_lock_duration_ms + 10)
    await settle()
    assert (await letters(workers), stored(workers)) == ([], {})
    workers.broker.clock.advance(START_WRITE_MS)
    assert (await letters(workers), stored(workers)) == ([], {})
    workers.store.error = NONE
    workers.broker.clock.advance(START_WRITE_MS)
    assert texts(await letters(workers)) == ["a"]
    assert workers.store.writes[-2][0] == (StateBatch(0, 0, ARCHIVING, 1),)
    assert workers.store.states[workers.key()].start_offset == 1


async def test_a_lock_that_runs_out_during_a_write_leaves_a_letter_after_the_next_one() -> None:
    workers = await started("a", "b", config=CONFIG_OF_ONE)
    member = workers.member()
    assert acquired(await member.fetch()) == [(0, 1, 1)]
    workers.store.hold()
    begun = member.begin_acknowledge((1, 1, (ACCEPT,)))
    await settle()
    workers.broker.clock.advance(workers.config.record_lock_duration_ms + 10)
    workers.store.release()
    workers.store.hold()
    await settle()
    assert begun.done()
    assert await letters(workers) == []
    workers.store.release()
    assert texts(await letters(workers)) == ["a"]


async def test_a_limit_that_was_lowered_leaves_letters_too() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch()
    assert await member.acknowledge((0, 1, (RELEASE,))) is NONE
    workers.config = CONFIG_OF_ONE
    assert acquired(await member.fetch()) == []
    assert texts(await letters(workers)) == ["a", "b"]
    assert workers.store.states[workers.key()].start_offset == 2


async def test_on_a_full_disk_letters_wait_and_none_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    workers = await started("a", "b")
    workers.broker.logs.space.refuses_records = True
    await reject_all(workers)
    for _ in range(4):
        workers.broker.clock.advance(LONGEST_RETRY_MS)
        await settle()
    assert await letters(workers) == []
    assert stored(workers) == dict.fromkeys(range(2), (1, ARCHIVING))
    workers.broker.logs.space.refuses_records = False
    workers.broker.clock.advance(LONGEST_RETRY_MS)
    assert texts(await letters(workers)) == ["a", "b"]
    assert workers.store.states[workers.key()].start_offset == 2
    assert caplog.text.count("dead letters cannot be written") == 1


async def test_letters_that_wait_are_left_to_the_next_session_when_the_last_one_goes() -> None:
    workers = await started("a", "b")
    workers.broker.logs.space.refuses_records = True
    member = await reject_all(workers)
    member.connection.close()
    await settle()
    assert len(workers.sharing.partitions) == 0
    workers.broker.logs.space.refuses_records = False
    await workers.broker.produce(batch("c"))
    assert values(await workers.member("m2").fetch(max_wait_ms=1000)) == ["c"]
    assert texts(await letters(workers)) == ["a", "b"]


async def test_letters_that_a_last_write_leaves_to_write_hold_up_no_next_session() -> None:
    workers = await started("a", "b")
    workers.has_enough_in_sync = False
    member = workers.member()
    await member.fetch()
    workers.store.hold()
    begun = member.begin_acknowledge((0, 0, (REJECT,)))
    await settle()
    member.connection.close()
    await settle()
    workers.store.release()
    assert (await begun).responses[0].partitions[0].error_code == NONE
    other = workers.member("m2")
    waiting = other.begin(max_wait_ms=60_000)
    await settle()
    assert waiting.done()
    assert acquired((await other.finish(waiting)).responses[0].partitions[0]) == [(1, 1, 2)]
    assert await letters(workers) == []
    workers.has_enough_in_sync = True
    workers.broker.clock.advance(LONGEST_RETRY_MS)
    assert texts(await letters(workers)) == ["a"]


async def test_a_broker_that_stops_during_a_rejection_does_not_wait_for_a_letter_that_cannot_be_written() -> None:
    workers = await started("a")
    workers.has_enough_in_sync = False
    member = workers.member()
    await member.fetch()
    workers.store.hold()
    begun = member.begin_acknowledge((0, 0, (REJECT,)))
    await settle()
    stopping = asyncio.ensure_future(workers.sharing.stop())
    await settle()
    workers.store.release()
    await settle()
    assert stopping.done()
    assert (await member.acknowledged(begun)).responses[0].partitions[0].error_code == NONE
    assert stored(workers) == {0: (1, ARCHIVING)}


async def test_a_broker_that_stops_does_not_wait_for_letters_that_cannot_be_written() -> None:
    workers = await started("a")
    workers.broker.logs.space.refuses_records = True
    await reject_all(workers)
    await settle()
    await workers.sharing.stop()
    assert stored(workers) == {0: (1, ARCHIVING)}


async def test_letters_are_written_when_as_many_replicas_are_in_sync_as_their_topic_asks_for() -> None:
    workers = await started("a")
    workers.has_enough_in_sync = False
    await reject_all(workers)
    for _ in range(4):
        workers.broker.clock.advance(LONGEST_RETRY_MS)
        assert await letters(workers) == []
    assert stored(workers) == {0: (1, ARCHIVING)}
    workers.has_enough_in_sync = True
    workers.broker.clock.advance(LONGEST_RETRY_MS)
    assert texts(await letters(workers)) == ["a"]


async def test_a_broker_that_stops_gives_up_letters_that_do_not_become_durable() -> None:
    workers = await started("a")
    workers.broker.flusher.held = True
    await reject_all(workers)
    await settle()
    stopping = asyncio.ensure_future(workers.sharing.stop())
    await settle()
    assert not stopping.done(), "they may become durable yet"
    workers.broker.clock.advance(DURABLE_MS)
    await settle()
    assert stopping.done()
    assert stored(workers) == {0: (1, ARCHIVING)}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("other.orders", "must begin with 'dlq.'"),
        ("dlq.closed", "errors.deadletterqueue.group.enable"),
        ("dlq.missing", "errors.deadletterqueue.auto.create.topics.enable"),
        ("dlq.compacted", "INVALID_RECORD"),
    ],
)
async def test_where_there_can_be_no_letters_records_are_given_up_and_the_log_says_why(
    name: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    workers = await started("a", "b", config=with_topic(name), to=None)
    if name == "dlq.closed":
        await workers.broker.create_topic(name)
    elif name == "dlq.compacted":
        how = {"errors_deadletterqueue_group_enable": "true", "cleanup_policy": "compact"}
        await workers.broker.create_topic(name, **how)
    elif name == "other.orders":
        await workers.broker.create_topic(name, errors_deadletterqueue_group_enable="true")
    await reject_all(workers)
    await settle()
    assert told in caplog.text
    assert workers.store.states[workers.key()].start_offset == 2
    counts = workers.sharing.partitions.counts.letters["workers"]
    assert (counts.failed, counts.records) == (1, 0)


async def test_a_record_whose_letter_is_refused_takes_no_other_letter_along(caplog: pytest.LogCaptureFixture) -> None:
    workers = await started(to=None)
    how = {"errors_deadletterqueue_group_enable": "true", "cleanup_policy": "compact"}
    await workers.broker.create_topic(TO, **how)
    values = [f"v{number}" for number in range(20)]
    keys = [None if number in (3, 19) else b"k" for number in range(20)]
    await workers.broker.produce(batch(*values, keys=keys))
    await reject_all(workers)
    assert texts(await letters(workers)) == [each for each in values if each not in ("v3", "v19")]
    assert workers.store.states[workers.key()].start_offset == 20
    counts = workers.sharing.partitions.counts.letters["workers"]
    assert (counts.failed, counts.records) == (1, 18)
    assert caplog.text.count("INVALID_RECORD") == 1


async def test_letters_that_are_durable_are_not_written_again_because_others_must_wait() -> None:
    workers = await started("a" * 600, "b" * 600, "c" * 600, to=None)
    await workers.broker.create_topic(TO, errors_deadletterqueue_group_enable="true", max_message_bytes="1000")
    enough = iter([True, True, False, False])
    dead_letters: Any = workers.sharing.partitions._letters
    dead_letters._has_enough_in_sync = lambda log: next(enough, True)
    await reject_all(workers)
    assert len(await letters(workers)) == 2
    workers.broker.clock.advance(RETRY_MS)
    assert [each[:1] for each in texts(await letters(workers))] == ["a", "b", "c"]
    assert workers.store.states[workers.key()].start_offset == 3


async def test_letters_fit_into_the_segments_of_their_topic() -> None:
    workers = await started("a" * 600, "b" * 600, to=None)
    await workers.broker.create_topic(TO, errors_deadletterqueue_group_enable="true", internal_segment_bytes="1000")
    await reject_all(workers)
    assert [each[:1] for each in texts(await letters(workers))] == ["a"]
    assert workers.sharing.partitions.counts.letters["workers"].records == 2


async def test_a_topic_is_not_a_dead_letter_topic_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    workers = await started("a", config=with_topic("orders"), to=None, errors_deadletterqueue_topic_name_prefix="")
    await reject_all(workers)
    await settle()
    assert "for itself" in caplog.text
    assert workers.broker.log().log_end_offset == 1


async def test_a_missing_topic_is_created_where_that_is_allowed() -> None:
    workers = await started("a", to=None, errors_deadletterqueue_auto_create_topics_enable=True)
    await reject_all(workers)
    assert texts(await letters(workers)) == ["a"]
    configs = workers.broker.cluster.topics[TO].configs
    assert configs == {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize("of_all", [True, False], ids=["of all brokers", "of this one"])
async def test_what_the_broker_says_of_dead_letters_changes_while_it_runs(of_all: bool) -> None:
    config = replace(CONFIG, deadletterqueue_topic_name="dead-orders")
    workers = await started("a", config=config, to=None)
    member = await reject_all(workers)
    cluster = workers.broker.cluster
    outcome = await cluster.alter_broker_configs(
        None if of_all else cluster.node_id,
        [
            ConfigChange("errors.deadletterqueue.topic.name.prefix", "dead-"),
            ConfigChange("errors.deadletterqueue.auto.create.topics.enable", "true"),
        ],
    )
    assert outcome.error is NONE
    await workers.broker.produce(batch("b"))
    assert values(await member.fetch()) == ["b"]
    assert await member.acknowledge((1, 1, (REJECT,))) is NONE
    assert texts(await letters(workers, "dead-orders")) == ["b"], "of the first one there could be none"


async def test_a_topic_that_is_deleted_and_made_again_gets_the_next_letters() -> None:
    workers = await started("a")
    member = await reject_all(workers)
    assert texts(await letters(workers)) == ["a"]
    await workers.broker.cluster.delete_topic(TO)
    await workers.broker.create_topic(TO, errors_deadletterqueue_group_enable="true")
    await workers.broker.produce(batch("b"))
    assert values(await member.fetch()) == ["b"]
    assert await member.acknowledge((1, 1, (REJECT,))) is NONE
    assert texts(await letters(workers)) == ["b"]


async def test_below_level_2_there_are_no_letters_and_those_that_were_promised_are_written() -> None:
    workers = await started("a", "b")
    workers.broker.logs.space.refuses_records = True
    member = workers.member()
    await member.fetch()
    assert await member.acknowledge((0, 0, (REJECT,))) is NONE
    await workers.broker.cluster.finalize_levels({SHARE_VERSION: 1})
    assert await member.acknowledge((1, 1, (REJECT,))) is NONE
    workers.broker.logs.space.refuses_records = False
    workers.broker.clock.advance(LONGEST_RETRY_MS)
    assert texts(await letters(workers)) == ["a"]
    assert workers.store.states[workers.key()].start_offset == 2


async def test_records_that_retention_took_first_are_told_of() -> None:
    workers = await started("a", "b")
    workers.broker.logs.space.refuses_records = True
    await reject_all(workers)
    await settle()
    workers.broker.log().move_log_start(1)
    workers.broker.logs.space.refuses_records = False
    workers.broker.clock.advance(LONGEST_RETRY_MS)
    found = await letters(workers)
    assert [(dict(each.headers)["__dlq.errors.offset"], each.value) for each in found] == [(b"0", None), (b"1", b"b")]


async def test_letters_are_stored_as_their_topic_wants_them() -> None:
    workers = await started("a" * 100, to=None)
    await workers.broker.create_topic(TO, errors_deadletterqueue_group_enable="true", compression_type="zstd")
    await reject_all(workers)
    assert texts(await letters(workers)) == ["a" * 100]
    result: Any = workers.broker.log(TO).read(0, max_bytes=1 << 20, isolation=None, min_one_batch=True)
    (header,) = [header for _, header in batches(bytes(result.records))]
    assert header.compression is Compression.ZSTD


async def test_a_record_whose_stored_bytes_are_damaged_is_told_of_and_not_copied() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch()
    files: Any = workers.broker.disk
    (path,) = [each for each in files._files if "/orders-0/" in each and each.endswith(".log")]
    files._files[path][68] ^= 0xFF
    assert await member.acknowledge((0, 1, (REJECT,))) is NONE
    assert [each.value for each in await letters(workers)] == [None, b"b"]


async def test_a_thousand_letters_are_written_in_a_few_batches() -> None:
    workers = await started(to=TO)
    for _ in range(10):
        await workers.broker.produce(batch(*(["v"] * 100)))
    member = workers.member()
    data = await member.fetch(max_records=1000)
    for first, last, _ in acquired(data):
        assert (
            await member.acknowledge(
                *((each, each, (REJECT if each % 2 else ACCEPT,)) for each in range(first, last + 1))
            )
            is NONE
        )
    found = await letters(workers)
    assert [int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in found] == list(range(1, 1000, 2))
    assert workers.sharing.partitions.counts.letters["workers"].requests <= 3


def with_topic(name: str) -> ShareGroupConfig:
    return ShareGroupConfig(auto_offset_reset="earliest", deadletterqueue_topic_name=name)


CONFIG_OF_TWO = ShareGroupConfig(
    auto_offset_reset="earliest",
    deadletterqueue_topic_name=TO,
    deadletterqueue_copy_record_enable=True,
    delivery_count_limit=2,
)
CONFIG_OF_ONE = ShareGroupConfig(
    auto_offset_reset="earliest",
    deadletterqueue_topic_name=TO,
    deadletterqueue_copy_record_enable=True,
    delivery_count_limit=1,
)


async def test_the_letters_of_share_partitions_whose_records_die_together_are_written_in_turns() -> None:
    written: list[str] = []

    class Letters:
        clock = ManualClock()

        async def write(self, source: LetterSource, dead: Sequence[DeadRecords]) -> Sequence[DeadRecords]:
            written.append(source.group_id)
            return dead[:1]

    done: list[DeadRecords] = []
    letters: Any = Letters()
    nothing: Any = None
    for number in range(20):
        source = LetterSource(f"g-{number}", TopicPartition("orders", 0), nothing, nothing)
        LetterQueue(source, letters, done.extend).add([DeadRecords(first, first + 1, 1, True) for first in (0, 5)])
    counts = [0]
    while len(done) < 40:
        await asyncio.sleep(0)
        counts.append(len(written))
    assert max(later - earlier for earlier, later in pairwise(counts)) == 1
    assert sorted(written) == sorted(f"g-{number}" for number in (*range(20), *range(20)))


async def test_letters_that_have_not_had_their_turn_are_left_to_the_next_leader() -> None:
    nobody: Any = None
    queue = LetterQueue(LetterSource("g", TopicPartition("orders", 0), nobody, nobody), nobody, lambda dead: None)
    queue.add([DeadRecords(0, 1, 1, True)])
    queue.end()
    assert queue.sending is not None
    await queue.sending
