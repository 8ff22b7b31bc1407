"""States of share partitions in a whole broker: their topic, and every end that a broker can come to."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from asked_broker import KILLED, STOPPED
from virtual_broker import POWER_LOST, VirtualBroker
from waiting import until
from wire import Wire, records
from wire_share_states import PASSING, SharePartitionOnWire

from eosin.coordinator.share_states import DeliveryState, SharePartition, ShareState, ShareStateSummary, StateBatch
from eosin.observe.metrics.share_state_metrics import ShareStateMetrics
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, ZERO_UUID, TopicPartition
from eosin.protocol.records.batch import build_batch
from eosin.protocol.schemas.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
)

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
ACKNOWLEDGED = DeliveryState.ACKNOWLEDGED
SETTINGS = {"share.coordinator.state.topic.num.partitions": "2"}


def batch(first: int, last: int, state: DeliveryState = ACKNOWLEDGED, count: int = 1) -> StateBatch:
    return StateBatch(first, last, state, count)


async def passed(ask: Callable[[], Awaitable[object]]) -> object:
    """The answer to a request that is asked again for as long as the coordinator is not ready."""
    answers: list[object] = []

    async def has_passed() -> bool:
        answers.append(await ask())
        return answers[-1] not in PASSING

    await until(has_passed)
    return answers[-1]


class ShareBroker:
    """A broker that serves share groups, with a topic that one of them reads."""

    def __init__(self, broker: VirtualBroker) -> None:
        self.broker = broker
        self.topic = "orders"
        self.wire: Wire
        self.states: list[SharePartitionOnWire] = []

    async def begin(self, partitions: int = 4) -> None:
        self.wire = await Wire.open(self.broker.address)
        await self.wire.create_topic(self.topic, partitions=partitions)
        await self.open(partitions)

    async def open(self, partitions: int = 4) -> None:
        topics = self.broker.server.services.cluster.topics
        topic_id = topics[self.topic].topic_id
        self.states = [SharePartitionOnWire(self.wire, topic_id, "group", index) for index in range(partitions)]

    async def restart(self, how: str) -> None:
        await self.wire.close()
        await self.broker.restart(how)
        self.wire = await Wire.open(self.broker.address)
        await self.open(len(self.states))

    @property
    def has_topic(self) -> bool:
        return SHARE_GROUP_STATE_TOPIC in self.broker.server.services.cluster.topics


@pytest.fixture
async def served() -> AsyncIterator[ShareBroker]:
    broker = VirtualBroker(SETTINGS, durability="fsync")
    await broker.start()
    made = ShareBroker(broker)
    await made.begin()
    yield made
    await made.wire.close()


async def test_the_topic_of_the_states_comes_with_the_first_of_them(served: ShareBroker) -> None:
    assert not served.has_topic
    assert served.broker.server.services.share_states.running is None
    assert await passed(served.states[0].initialize) is NONE
    topic = served.broker.server.services.cluster.topics[SHARE_GROUP_STATE_TOPIC]
    assert (topic.partitions, topic.internal) == (2, True)
    config = served.broker.server.services.cluster.log_config(topic.name)
    assert (config.cleanup_policy, config.retention_ms) == (frozenset({"delete"}), -1)


async def test_a_broker_that_stops_begins_nothing(served: ShareBroker) -> None:
    states = served.broker.server.services.share_states
    await states.stop()
    assert await states.coordinator.delete(SharePartition("group", b"x" * 16, 0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not served.has_topic


async def test_a_broker_that_does_not_serve_share_groups_refuses_each_share_partition(served: ShareBroker) -> None:
    served.broker.server.services.cluster._image.levels.clear()  # type: ignore[attr-defined]
    state = served.states[0]
    for ask in (state.initialize, state.read, state.write, state.delete, state.summary):
        assert await ask() is ErrorCode.UNSUPPORTED_VERSION
    assert not served.has_topic


async def test_each_request_about_a_state_is_answered(served: ShareBroker) -> None:
    state = served.states[1]
    assert await passed(state.read) is ErrorCode.INVALID_REQUEST
    assert await state.initialize(state_epoch=3) is NONE
    assert await state.read(leader_epoch=4) == ShareState(3, -1, ())
    assert await state.write(batch(0, 9), state_epoch=3, leader_epoch=4, start_offset=2, count=8) is NONE
    assert await state.read(leader_epoch=4) == ShareState(3, 2, (batch(2, 9),))
    assert await state.summary() == ShareStateSummary(3, 4, 2, 8)
    assert await state.write(batch(0, 9), state_epoch=3, leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
    assert await state.write(batch(0, 9), state_epoch=2, leader_epoch=4) is ErrorCode.FENCED_STATE_EPOCH
    assert await state.write(batch(9, 0), state_epoch=3, leader_epoch=4) is ErrorCode.INVALID_REQUEST
    assert await state.write(batch(0, 9)._replace(state=9), state_epoch=3) is ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]
    assert await state.write(batch(10, 11), state_epoch=3, leader_epoch=4, version=0) is NONE
    assert await state.summary() == ShareStateSummary(3, 4, 2, 8)
    assert await state.summary(version=0) == ShareStateSummary(3, 4, 2, -1)
    assert await state.initialize(state_epoch=2) is ErrorCode.FENCED_STATE_EPOCH
    assert await state.delete() is NONE
    assert await state.summary() == ShareStateSummary(0, 0, -1, -1)


async def test_a_request_has_a_result_for_each_of_its_share_partitions(served: ShareBroker) -> None:
    state = served.states[0]
    await passed(state.initialize)
    topics = (
        ReadStateData(state.topic_id, (ReadStatePartition(0), ReadStatePartition(3), ReadStatePartition(-1))),
        ReadStateData(ZERO_UUID, (ReadStatePartition(0),)),
        ReadStateData(b"x" * 16, ()),
    )
    answer = await served.wire.ask(ReadShareGroupStateRequest("group", topics), 0)
    found = [(each.topic_id, [part.error_code for part in each.partitions]) for each in answer.results]
    assert found == [(state.topic_id, [0, 42, 42]), (ZERO_UUID, [42]), (b"x" * 16, [])]
    assert all(part.error_message for each in answer.results for part in each.partitions if part.error_code)


@pytest.mark.parametrize("how", [STOPPED, KILLED, POWER_LOST])
async def test_states_outlive_the_broker(served: ShareBroker, how: str) -> None:
    for state in served.states:
        assert await passed(state.initialize) is NONE
        assert await state.write(batch(0, state.partition), leader_epoch=1) is NONE
    await served.restart(how)
    for state in served.states:
        assert await passed(lambda state=state: state.read(leader_epoch=1)) == ShareState(  # type: ignore[misc]
            1, -1, (batch(0, state.partition),)
        )
        assert await state.write(batch(0, 0), leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("seed", range(6))
async def test_what_was_acknowledged_survives_an_end_at_any_moment(served: ShareBroker, seed: int) -> None:
    chance = random.Random(seed)
    acknowledged: dict[int, set[int]] = {state.partition: set() for state in served.states}
    asked: dict[int, set[int]] = {state.partition: set() for state in served.states}

    async def acknowledge(state: SharePartitionOnWire, offsets: range) -> None:
        for offset in offsets:
            asked[state.partition].add(offset)
            if await state.write(batch(offset, offset)) is NONE:
                acknowledged[state.partition].add(offset)

    for state in served.states:
        await passed(state.initialize)
    for round_ in range(4):
        offsets = range(round_ * 50, round_ * 50 + 50)
        writing = [asyncio.ensure_future(acknowledge(state, offsets)) for state in served.states]
        await asyncio.sleep(chance.random() * 0.3)
        for each in writing:
            each.cancel()
        await served.restart(chance.choice([KILLED, POWER_LOST, POWER_LOST]))
        for state in served.states:
            found = await passed(state.read)
            assert isinstance(found, ShareState)
            there = {offset for each in found.batches for offset in range(each.first, each.last + 1)}
            assert acknowledged[state.partition] <= there <= asked[state.partition]
            acknowledged[state.partition] |= there
    assert any(acknowledged.values())


async def test_on_a_full_disk_nothing_is_acknowledged_that_is_not_there_and_afterwards_it_goes_on(
    served: ShareBroker,
) -> None:
    state = served.states[0]
    await passed(state.initialize)
    assert await state.write(batch(0, 9)) is NONE
    disk = served.broker._machine.disk
    disk.space = 0
    refused = await state.write(batch(10, 19))
    assert refused in PASSING
    disk.space = None
    await served.restart(KILLED)
    found = await passed(served.states[0].read)
    assert isinstance(found, ShareState)
    assert found.batches[0].last in (9, 19)
    assert await passed(lambda: served.states[0].write(batch(20, 29))) is NONE


@pytest.mark.parametrize("part", ["__", ""])
async def test_after_a_failed_sync_nothing_is_acknowledged_that_is_not_there(served: ShareBroker, part: str) -> None:
    state = served.states[0]
    await passed(state.initialize)
    assert await state.write(batch(0, 9)) is NONE
    served.broker._machine.disk.break_calls("sync", part)
    answers = await asyncio.gather(*(state.write(batch(offset, offset)) for offset in range(10, 20)))
    await served.restart(POWER_LOST)
    served.broker._machine.disk.faults.clear()
    found = await passed(served.states[0].read)
    assert isinstance(found, ShareState)
    there = {offset for each in found.batches for offset in range(each.first, each.last + 1)}
    assert {*range(10), *(offset for offset, answer in enumerate(answers, 10) if answer is NONE)} <= there
    assert all(answer in (NONE, *PASSING) for answer in answers)


async def test_the_states_of_a_topic_go_with_it(served: ShareBroker) -> None:
    state = served.states[0]
    await passed(state.initialize)
    await served.wire.delete_topic(served.topic)
    assert await state.initialize() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    coordinator = served.broker.server.services.share_states.coordinator
    await until(lambda: coordinator.states == 0)
    await served.wire.create_topic(served.topic, partitions=4)
    await served.open()
    assert served.states[0].topic_id != state.topic_id
    assert await served.states[0].read() is ErrorCode.INVALID_REQUEST


async def test_the_states_and_their_records_are_counted(served: ShareBroker) -> None:
    metrics = ShareStateMetrics(served.broker.server.services)
    assert [each async for each in metrics.families()] == []
    await passed(served.states[0].initialize)
    await served.states[0].write(batch(0, 9))
    found = {each.name: list(each.numbers) async for each in metrics.families()}
    assert found == {
        "eosin_share_states": [1],
        "eosin_share_states_unreadable": [0],
        "eosin_share_state_records_total": [2],
    }


async def test_nobody_else_changes_the_topic_of_the_states(served: ShareBroker) -> None:
    cluster = served.broker.server.services.cluster
    outcome = await cluster.create_topic(SHARE_GROUP_STATE_TOPIC, partitions=1)
    assert outcome.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    await passed(served.states[0].initialize)
    assert (await cluster.delete_topic(SHARE_GROUP_STATE_TOPIC)).error is ErrorCode.INVALID_TOPIC_EXCEPTION
    grown = await cluster.create_partitions(SHARE_GROUP_STATE_TOPIC, count=9)
    assert grown.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    answer = await served.wire.produce(TopicPartition(SHARE_GROUP_STATE_TOPIC, 0), build_batch(records(1), timestamp=0))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_records_that_nobody_needs_leave_the_log_of_the_states() -> None:
    settings = {
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.prune.interval.ms": "1000",
        "share.coordinator.snapshot.update.records.per.snapshot": "5",
    }
    broker = VirtualBroker(settings, durability="fsync")
    await broker.start()
    served = ShareBroker(broker)
    await served.begin()
    await passed(served.states[0].initialize)
    for offset in range(20):
        assert await served.states[0].write(batch(offset, offset)) is NONE
    await asyncio.sleep(3)
    log = broker.server.services.partitions.get(TopicPartition(SHARE_GROUP_STATE_TOPIC, 0))
    assert not isinstance(log, ErrorCode)
    assert log.log_start_offset >= 15
    await served.restart(KILLED)
    assert await passed(served.states[0].read) == ShareState(1, -1, (batch(0, 19),))
