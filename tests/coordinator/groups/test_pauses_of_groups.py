"""A broker that paused for a minute, or whose wall clock was set: members of consumer, share and streams groups have
the rest of their sessions (guarantees.md, After a pause)."""

from typing import Any, Final

import pytest
from fake_share_states import FakeShareStates
from group_fakes import Broker
from manual_clock import PausingClock
from waiting import settled

from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.runtime.running_time import LONGEST_STEP_MS

pytestmark = pytest.mark.virtual

SESSION_MS: Final = 45_000
PAUSE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class Groups:
    """Groups of one kind with a member each."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.clock = PausingClock()
        self.broker = Broker(clock=self.clock, share=ShareSurroundings(FakeShareStates()))
        self._epochs: dict[str, int] = {}

    async def beat(self, name: str) -> None:
        """The next heartbeat of a group's member."""
        epoch = self._epochs.get(name, 0)
        told = await getattr(self, f"_{self.kind}")(name, epoch, {} if epoch else {"rebalance_timeout_ms": PAUSE_MS})
        assert told.error is ErrorCode.NONE
        self._epochs[name] = told.epoch
        await settled()

    def _consumer(self, name: str, epoch: int, joining: dict[str, Any]) -> Any:
        if joining:
            joining |= {"topics": ("t",), "owned": frozenset()}
        return self.broker.groups.consumer_heartbeat(name, ConsumerHeartbeat("m", epoch, client_id="c", **joining))

    def _share(self, name: str, epoch: int, joining: dict[str, Any]) -> Any:
        topics = ("t",) if joining else None
        return self.broker.groups.share.heartbeat(name, ShareHeartbeat("m", epoch, topics=topics, client_id="c"))

    def _streams(self, name: str, epoch: int, joining: dict[str, Any]) -> Any:
        if joining:
            topology = Topology(0, (Subtopology("0", ("t",), (), (), (), (), ()),))
            joining |= {"topology": topology, "owned": OwnedTasks(), "process_id": "p"}
        return self.broker.groups.streams.heartbeat(name, StreamsHeartbeat("m", epoch, client_id="c", **joining))

    def has_member(self, name: str) -> bool:
        groups = self.broker.groups
        describe = {"consumer": groups.describe_consumer, "share": groups.share.describe}
        group = describe.get(self.kind, groups.streams.describe)(name)
        assert not isinstance(group, ErrorCode)
        return bool(group.members)


@pytest.fixture(params=["consumer", "share", "streams"])
async def groups(request: pytest.FixtureRequest) -> Groups:
    made = Groups(request.param)
    await made.broker.started()
    return made


async def test_after_a_pause_of_a_minute_members_have_the_rest_of_their_sessions(groups: Groups) -> None:
    clock = groups.clock
    names = [f"g-{number}" for number in range(20)]
    for name in (*names, "gone"):
        await groups.beat(name)
    clock.advance(SESSION_MS - 5000)
    clock.pause(PAUSE_MS)
    clock.advance(0)  # all timers, before the first request
    await settled()
    clock.advance(4000)
    for name in names:
        await groups.beat(name)
    assert groups.has_member("gone")
    clock.advance(1000 + LONGEST_STEP_MS)
    await settled()
    assert not groups.has_member("gone")
    assert all(map(groups.has_member, names))


@pytest.mark.parametrize("hours", [24, -24])
async def test_a_wall_clock_that_is_set_ends_no_session_and_keeps_none(groups: Groups, hours: int) -> None:
    clock = groups.clock
    await groups.beat("g")
    clock.ahead_ms += hours * HOUR_MS
    clock.advance(SESSION_MS - 1000)
    await settled()
    assert groups.has_member("g")
    await groups.beat("g")
    clock.ahead_ms -= 2 * hours * HOUR_MS
    clock.advance(SESSION_MS - 1000)
    assert groups.has_member("g")
    clock.advance(1100)
    await settled()
    assert not groups.has_member("g")
