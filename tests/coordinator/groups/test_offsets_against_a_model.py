"""Random histories of commits, transactions, deletes, crashes and compactions against a model that fits on a page.

The model is the history itself, replayed from the start each time: what is visible is what its durable part says.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, NamedTuple

from group_fakes import Broker, FakeOffsetsLog, turns
from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import Record, iter_records, read_control_record, read_header, retain_records
from eosin.storage.results.log_results import Marker

GROUPS = ("g", "h")
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0))
PRODUCERS = (1, 2)
KEYS = [(group_id, partition) for group_id in GROUPS for partition in PARTITIONS]

group_ids = st.sampled_from(("g", "g", "h"))
partitions = st.sampled_from(PARTITIONS)
producer_ids = st.sampled_from(PRODUCERS)
values = st.lists(st.tuples(partitions, st.integers(0, 99)), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), group_ids, values),
        st.tuples(st.just("add"), producer_ids, group_ids, values),
        st.tuples(st.just("add"), producer_ids, group_ids, values),
        st.tuples(st.just("end"), producer_ids, st.booleans()),
        st.tuples(st.just("delete"), group_ids, partitions),
        st.tuples(st.just("delete group"), group_ids),
        st.tuples(st.just("delete topic"), st.sampled_from(["orders", "audit"])),
        st.tuples(st.sampled_from(["hold", "release", "crash", "compact"])),
    ),
    min_size=15,
    max_size=40,
)


class Fact(NamedTuple):
    """One thing that is in the log, up to `end_offset`."""

    end_offset: int
    what: tuple[Any, ...]


class Model:
    """The history, and what it means."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def replay(self, high_watermark: int) -> tuple[dict[Any, int], set[Any]]:
        """Visible values, and keys with a pending one."""
        visible: dict[Any, tuple[int, int]] = {}
        pending: dict[int, dict[Any, tuple[int, int]]] = {}
        for position, fact in enumerate(fact for fact in self.facts if fact.end_offset <= high_watermark):
            match fact.what:
                case ("commit", group_id, offsets):
                    visible.update({(group_id, partition): (position, value) for partition, value in offsets})
                case ("add", producer_id, group_id, offsets):
                    held = pending.setdefault(producer_id, {})
                    held.update({(group_id, partition): (position, value) for partition, value in offsets})
                case ("end", producer_id, commit):
                    for key, (written, value) in pending.pop(producer_id, {}).items():
                        if commit and written > visible.get(key, (-1, 0))[0]:
                            visible[key] = (written, value)
                case ("gone", keys):
                    for key in keys:
                        visible.pop(key, None)
                        for held in pending.values():
                            held.pop(key, None)
        return {key: value for key, (_, value) in visible.items()}, {key for held in pending.values() for key in held}


class Run:
    """One history, carried out and written down."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.model = Model()
        self.running: list[asyncio.Future[Any]] = []

    async def step(self, step: tuple[Any, ...]) -> None:
        offsets = self.broker.groups.offsets
        match step:
            case ("commit", group_id, values):
                request = offsets.commit(group_id, _offsets(values), committer=Committer(), api_version=9)
                await self.write(request, step)
            case ("add", producer_id, group_id, values):
                producer = ProducerIdAndEpoch(producer_id, 0)
                await self.write(
                    offsets.commit_in_transaction(
                        group_id,
                        _offsets(values),
                        transactional_id="tx",
                        producer=producer,
                        committer=Committer(),
                        api_version=4,
                    ),
                    step,
                )
            case ("end", producer_id, commit):
                marker = Marker(producer_id, 0, commit, coordinator_epoch=0)
                await self.write(self.broker.groups.write_markers(0, marker), step)
            case ("delete", group_id, partition):
                await self.write(offsets.delete(group_id, [partition]), ("gone", [(group_id, partition)]))
            case ("delete group", group_id):
                keys = [(group_id, partition) for partition in PARTITIONS]
                await self.write(self.broker.groups.delete_groups([group_id]), ("gone", keys))
            case ("delete topic", topic):
                self.broker.groups.topic_deleted(topic)
                self.note(("gone", [key for key in KEYS if key[1].topic == topic]))
            case ("hold",):
                self.broker.log.held = True
            case ("release",):
                self.broker.log.held = False
                await self.broker.log.release()
            case ("crash",):
                high_watermark = self.broker.log.high_watermark
                await self.broker.crash()
                self.model.facts = [fact for fact in self.model.facts if fact.end_offset <= high_watermark]
            case ("compact",):
                compact(self.broker.log)

    async def write(self, request: Awaitable[Any], fact: tuple[Any, ...]) -> None:
        """Start a request; what it says is a fact once it is in the log, durable or not."""
        task = asyncio.ensure_future(request)
        await turns()
        self.running.append(task)
        if not task.done() or not _failed(task.result()):
            self.note(fact)

    def note(self, fact: tuple[Any, ...]) -> None:
        self.model.facts.append(Fact(self.broker.log.log_end_offset, fact))

    async def check(self) -> None:
        log = self.broker.log
        visible, pending = self.model.replay(log.high_watermark)
        for group_id in GROUPS:
            _, fetched = await self.broker.groups.offsets.fetch(group_id, PARTITIONS, require_stable=False)
            assert {each.partition: each.offset for each in fetched} == {
                partition: visible.get((group_id, partition), -1) for partition in PARTITIONS
            }
            if log.high_watermark == log.log_end_offset:
                _, fetched = await self.broker.groups.offsets.fetch(group_id, PARTITIONS, require_stable=True)
                unstable = {each.partition for each in fetched if each.error is ErrorCode.UNSTABLE_OFFSET_COMMIT}
                assert unstable == {partition for partition in PARTITIONS if (group_id, partition) in pending}


def _offsets(values: list[tuple[TopicPartition, int]]) -> list[OffsetToCommit]:
    return [OffsetToCommit(partition, value) for partition, value in values]


def _failed(answer: Any) -> bool:
    codes = answer if isinstance(answer, list) else answer[:1] if isinstance(answer, tuple) else [answer]
    return any(codes)


def compact(log: FakeOffsetsLog) -> None:
    """What the cleaner does below the last stable offset: aborted records go, and all but the last of each key."""
    durable = [batch for batch in log.written if read_header(batch).next_offset <= log.high_watermark]
    headers = [read_header(batch) for batch in durable]
    first_open: dict[int, int] = {}
    aborted: set[int] = set()
    of_producer: dict[int, list[int]] = {}
    for header, batch in zip(headers, durable, strict=True):
        if header.is_control:
            first_open.pop(header.producer_id, None)
            control = read_control_record(batch)
            positions = of_producer.pop(header.producer_id, [])
            if control is not None and not control.is_commit:
                aborted.update(positions)
        elif header.is_transactional:
            first_open.setdefault(header.producer_id, header.base_offset)
            of_producer.setdefault(header.producer_id, []).append(header.base_offset)
    stable = min([log.high_watermark, *first_open.values()])
    cleanable = [
        position for position, header in enumerate(headers) if header.next_offset <= stable and not header.is_control
    ]
    last: dict[bytes | None, int] = {}
    for position in cleanable:
        if headers[position].base_offset not in aborted:
            last.update({record.key: record.offset for record in iter_records(log.written[position])})
    for position in cleanable:
        gone = headers[position].base_offset in aborted

        def keep(record: Record, gone: bool = gone) -> bool:
            return not gone and last[record.key] == record.offset

        log.written[position] = bytes(retain_records(log.written[position], keep))


async def run(history: list[tuple[Any, ...]]) -> None:
    each = Run()
    await each.broker.started()
    for step in history:
        await each.step(step)
        await each.check()
    each.broker.log.held = False
    await each.broker.log.release()
    await each.check()
    await asyncio.gather(*each.running)
    await each.broker.crash()
    await each.check()
    compact(each.broker.log)
    await each.broker.crash()
    await each.check()


@settings(max_examples=150, deadline=None)
@given(history=steps)
def test_visible_offsets_are_those_of_the_durable_history(history: list[tuple[Any, ...]]) -> None:
    asyncio.run(run(history))
