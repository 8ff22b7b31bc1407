"""Groups of many members: nothing that happens to one looks at all, and what must look at all takes turns."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest
from consumer_group import topic
from group_fakes import Broker, turns
from loop_steps import LoopSteps
from manual_clock import ManualClock, PausingClock
from waiting import until

from eosin.coordinator.groups.consumer.assignors.assignment import Steps
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.regex_search import ASKED_AT_ONCE
from eosin.coordinator.groups.consumer.rules import targets
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE
from eosin.coordinator.groups.consumer.target_computation import RETRY_MS
from eosin.coordinator.groups.departures import MOST_REMOVED
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.header import read_header
from eosin.runtime.clock import SystemClock

NONE: Final = ErrorCode.NONE
TOPICS: Final = 8_000
MOST_S: Final = 0.025
"""Of processor time, in one step of the event loop."""
MANY: Final = MOST_AT_ONCE + 10
"""Members whose target is computed beside the decisions."""


class Topics(NoTopics):
    """A cluster with one topic (`ClusterTopics`)."""

    metadata_version = 1

    def __init__(self, partitions: int) -> None:
        self.topics = {"orders": topic("orders", partitions)}


class Crowd:
    """A coordinator, and the members of its group `g`."""

    def __init__(self, members: int, partitions: int = 8, clock: ManualClock | None = None) -> None:
        config = GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
        self.broker = Broker(config, topics=Topics(partitions), clock=clock)
        self.epochs = dict.fromkeys((f"m{number:05}" for number in range(members)), 0)

    async def joined(self) -> "Crowd":
        await self.broker.started()
        for name in self.epochs:
            await self.heartbeat(name)
        return self

    async def heartbeat(self, name: str, **fields: Any) -> HeartbeatResult:
        epoch = self.epochs.get(name, 0)
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 300_000, "topics": ("orders",), "owned": frozenset(), **fields}
        answer = await self.broker.groups.consumer_heartbeat("g", ConsumerHeartbeat(name, epoch, **fields))
        if answer.error is NONE:
            self.epochs[name] = answer.epoch
        return answer

    @property
    def group(self) -> ConsumerGroup:
        group = self.broker.groups.describe_consumer("g")
        assert isinstance(group, ConsumerGroup), group
        return group

    async def target_counts(self) -> None:
        """Somebody sends heartbeats until the target of the present group epoch counts."""
        while self.group.epoch != self.group.assignment_epoch:
            await self.heartbeat("m00000")
            epoch = self.group.assignment_epoch
            await until(lambda: self.group.assignment_epoch > epoch, every_s=0)  # noqa: B023


@contextmanager
def calls() -> Iterator[list[int]]:
    """Within it, functions that are called are counted."""
    count = [0]

    def note(frame: FrameType, event: str, _: Any) -> None:
        count[0] += event == "call"

    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(None)


async def test_a_heartbeat_without_news_costs_the_same_in_a_group_of_a_thousand_members() -> None:
    counted = []
    for members in (10, 1000):
        crowd = await Crowd(members).joined()
        await crowd.heartbeat("m00003")
        await crowd.target_counts()
        for name in crowd.epochs:
            await crowd.heartbeat(name, owned=frozenset())
        await crowd.target_counts()
        for name in crowd.epochs:
            await crowd.heartbeat(name, owned=frozenset())
        with calls() as count:
            await crowd.heartbeat("m00003")
        counted += count
    assert counted[0] == counted[1]


async def test_a_join_costs_the_same_in_a_group_of_a_thousand_members() -> None:
    """But for what a chunk of a map costs that is cut in two."""
    counted = []
    for members in (MANY, 4 * MANY):
        crowd = await Crowd(members).joined()
        await turns()
        with calls() as count:
            await crowd.heartbeat("new")
        counted += count
    assert abs(counted[0] - counted[1]) < 200


async def test_joins_of_many_members_share_few_targets_and_all_partitions_find_an_owner() -> None:
    crowd = await Crowd(MANY).joined()
    await crowd.target_counts()
    assert crowd.group.assignment_epoch <= crowd.group.epoch
    while crowd.group.state is not ConsumerGroupState.STABLE:
        for name in crowd.epochs:
            await crowd.heartbeat(name, owned=frozenset())
        await crowd.target_counts()
    assert len(crowd.group.owners) == 8
    largest = max(map(len, crowd.broker.log.written))
    assert largest < 64 * 1024, "a batch that grows with the group will be too large for a log"


async def test_a_regular_expression_that_very_many_topics_match_is_resolved_in_turns() -> None:
    clock: Any = SystemClock()  # by which turns end
    crowd = Crowd(1, clock=clock)
    known = crowd.broker.topics.topics
    assert isinstance(known, dict)
    known |= {f"topic-{number * 7919 % 100_003:06}": topic(f"topic-{number}", 1) for number in range(TOPICS)}
    await crowd.joined()
    asked: list[int] = []

    def may_describe(names: Sequence[str]) -> list[bool]:
        asked.append(len(names))
        return [not name.endswith("7") for name in names]

    async def subscribe(regex: str) -> None:
        request = ConsumerHeartbeat("r", 0, rebalance_timeout_ms=300_000, regex=regex, owned=frozenset())
        await crowd.broker.groups.consumer_heartbeat("g", request, may_describe=may_describe)
        await until(lambda: regex in crowd.group.regexes, every_s=0)

    await subscribe("orders")  # the first one of a process has the encoder of its record made
    with LoopSteps() as steps:
        await subscribe("topic-.*")
    assert crowd.group.regexes["topic-.*"].topics == {
        name for name in known if name.startswith("topic-") and not name.endswith("7")
    }
    assert max(asked) <= ASKED_AT_ONCE
    assert steps.longest_s < MOST_S, (steps.longest, steps.longest_s)


async def test_a_target_that_the_log_refuses_is_computed_again_when_a_second_has_passed() -> None:
    crowd = await Crowd(MANY).joined()
    await crowd.target_counts()
    await crowd.heartbeat("new")
    crowd.broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    timers = crowd.broker.clock.pending
    await until(lambda: crowd.broker.clock.pending > timers, every_s=0)
    crowd.broker.log.refuse = None
    before = crowd.group
    await crowd.heartbeat("m00001")
    await turns()
    assert crowd.group.assignment_epoch == before.assignment_epoch < before.epoch
    crowd.broker.clock.advance(RETRY_MS)
    await turns()
    await crowd.target_counts()


async def test_a_target_that_cannot_be_computed_is_told_once_a_second_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = await Crowd(MANY).joined()
    await crowd.target_counts()
    with monkeypatch.context() as broken:
        broken.setitem(targets.ASSIGNORS, "uniform", _breaks)
        for name in ("new", "m00000", "m00001"):
            assert (await crowd.heartbeat(name)).error is NONE
            await turns()
    assert len(caplog.records) == 1
    crowd.broker.clock.advance(RETRY_MS)
    await turns()
    await crowd.target_counts()


def _breaks(*_: object) -> Steps:
    yield
    raise ZeroDivisionError("a mistake in an assignor")


async def test_nothing_more_is_kept_of_a_target_whose_first_parts_the_log_has_lost() -> None:
    crowd = await Crowd(MANY).joined()
    await crowd.target_counts()
    crowd.broker.log.held = True
    joining = asyncio.ensure_future(crowd.heartbeat("new"))
    written = len(crowd.broker.log.written)
    await until(lambda: len(crowd.broker.log.written) > written + 1, every_s=0)
    await crowd.broker.log.fail()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    crowd.broker.log.failed = crowd.broker.log.held = False
    written = len(crowd.broker.log.written)
    await turns()
    assert len(crowd.broker.log.written) == written


async def test_a_group_that_ends_takes_the_computation_of_its_target_along() -> None:
    crowd = await Crowd(MANY).joined()
    written = len(crowd.broker.log.written)
    await crowd.broker.groups.remove_members("g", [LeavingMember(name, None) for name in crowd.epochs])
    (error,) = await crowd.broker.groups.delete_groups(["g"])
    assert error is NONE
    ended = len(crowd.broker.log.written)
    await turns()
    assert written < ended == len(crowd.broker.log.written)


async def test_many_members_that_an_administrator_removes_go_in_parts() -> None:
    crowd = await Crowd(2 * MOST_REMOVED + 1).joined()
    epoch = crowd.group.epoch
    leaving = [LeavingMember(name, None) for name in [*crowd.epochs, "unknown"]]
    result = await crowd.broker.groups.remove_members("g", leaving)
    assert result.members == (NONE,) * (2 * MOST_REMOVED + 1) + (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert (len(crowd.group.members), crowd.group.epoch) == (0, epoch + 3)


async def test_a_group_of_many_members_is_there_after_a_restart_and_its_sessions_run() -> None:
    crowd = await Crowd(MANY).joined()
    await crowd.target_counts()
    before = crowd.group
    await crowd.broker.crash()
    assert crowd.group.members == before.members
    assert crowd.group.targets == before.targets
    await turns()
    crowd.broker.clock.advance(44_000)
    await crowd.heartbeat("m00000")
    crowd.broker.clock.advance(1_000)
    await until(lambda: len(crowd.group.members) == 1, every_s=0)


async def test_a_heartbeat_right_after_a_restart_begins_the_session() -> None:
    crowd = await Crowd(2).joined()
    await crowd.broker.crash()
    crowd.broker.clock.advance(30_000)
    for name in crowd.epochs:
        await crowd.heartbeat(name)
    crowd.broker.clock.advance(30_000)
    assert len(crowd.group.members) == 2


async def test_nobody_who_was_in_time_is_expelled_when_all_sessions_end_at_once() -> None:
    clock = PausingClock()
    crowd = await Crowd(MANY, clock=clock).joined()
    await crowd.target_counts()
    await clock.run(40_000)
    clock.pause(600_000)  # and their heartbeats are in the sockets
    clock.advance(0)
    for number in range(100):
        await crowd.heartbeat(f"m{number:05}")
    await clock.run(10_000)
    await until(lambda: len(crowd.group.members) == 100, every_s=0)


@pytest.mark.parametrize("comes_late", [False, True])
async def test_a_record_that_comes_while_a_load_takes_its_turns_counts(comes_late: bool) -> None:
    crowd = await Crowd(3).joined()
    late = crowd.broker.log.written[-1]
    crowd.broker.log.high_watermark = read_header(late).base_offset
    if comes_late:
        crowd.broker.clock = _Appending(crowd.broker, late)
    await crowd.broker.crash()
    assert ("m00002" in crowd.group.members) == comes_late


class _Appending(ManualClock):
    """A clock that is looked at while consumer groups are put together, and appends a batch then."""

    def __init__(self, broker: Broker, batch: bytes) -> None:
        super().__init__()
        self._broker = broker
        self._batch: bytes | None = batch

    def elapsed_ms(self) -> int:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._broker.log._append(bytearray(batch))
        return super().elapsed_ms()
