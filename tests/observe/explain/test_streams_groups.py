"""What is told of streams groups: their events as they happen, and a sentence about why members have no tasks
(console.md 2.1 and 3)."""

from typing import Any

import pytest
from consumer_group import topic
from manual_clock import ManualClock
from observed_broker import observed_broker
from wire_streams_group import StreamsMember, counting

from eosin.client.streams_groups import TaskNames
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind, MemberTimerFired
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.rules.decide import decide
from eosin.coordinator.groups.streams.rules.events import StreamsEvent, StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.observe.explain.event_words import in_words
from eosin.observe.explain.facts import GroupFacts, StreamsFacts
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.explain.streams_group_facts import TaskHolder, awaited_tasks, idle_members
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.recorder.group_recorder import GroupRecorder

A, B, C = (ClientIdentity(client_id=name, peer="10.0.0.7") for name in "abc")
AT_ONCE = StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
TOPOLOGY = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))


class Recorded:
    """A streams group whose decisions a recorder hears of."""

    def __init__(self) -> None:
        self.group = StreamsGroup("g")
        self.topics: dict[str, Any] = {}
        self.looks = True
        self.recorder = GroupRecorder(ManualClock())

    def happen(self, event: StreamsEvent) -> None:
        before = self.group
        decided = decide(
            before,
            event,
            now_ms=1000,
            config=AT_ONCE,
            topics=self.topics,
            topics_changed=self.looks,
        )
        self.group = decided.group
        if decided.records:
            self.recorder.streams_decided(before, self.group, event, 1000)

    def beat(self, member: str, epoch: int = 0, **fields: Any) -> None:
        joining = {"topology": TOPOLOGY, "rebalance_timeout_ms": 60_000, "process_id": member, "owned": OwnedTasks()}
        about = {"client_id": member, "client_host": "/10.0.0.7"}
        self.happen(StreamsHeartbeat(member, epoch, **{**(joining if epoch == 0 else {}), **about, **fields}))

    def told(self) -> list[tuple[str, str]]:
        history = self.recorder.history("g")
        return [] if history is None else [(each.kind, each.what) for each in history.events]


def test_a_group_without_its_topics_is_told_so_and_again_when_they_are_there() -> None:
    recorded = Recorded()
    recorded.beat("a")
    assert recorded.told()[:2] == [("joined", "a"), ("not_ready", "Source topics orders are missing.")]
    recorded.topics = {"orders": topic("orders", 2)}
    recorded.beat("a", recorded.group.members["a"].epoch)
    kinds = [kind for kind, _ in recorded.told()]
    assert ("ready", "0") in recorded.told()
    assert recorded.told()[kinds.index("ready") + 1] == (
        "rebalance",
        "the topics of its topology are all there",
    )
    assert kinds[-2:] == ["target", "reconciled"]
    assert "no tasks are dealt out: Source topics orders are missing." in _words(recorded)
    assert "the topics of topology 0 are all there: tasks can be dealt out" in _words(recorded)


def _words(recorded: Recorded) -> list[str]:
    history = recorded.recorder.history("g")
    assert history is not None
    return [each.words for each in in_words(history.events)]


def test_members_that_come_give_up_tasks_leave_or_are_silent_are_told() -> None:
    recorded = Recorded()
    recorded.topics = {"orders": topic("orders", 2)}
    recorded.beat("a")
    recorded.beat("b")
    recorded.beat("a", recorded.group.members["a"].epoch)
    assert ("rebalance", "b at 10.0.0.7 joined") in recorded.told()
    assert recorded.told()[-1] == ("revoking", "a: 1 task")
    recorded.beat("b", -1)
    assert recorded.told()[-2:] == [("left", "b: closed"), ("rebalance", "b at 10.0.0.7 left: closed")]
    silent = ConsumerTimer(ConsumerTimerKind.SESSION, "a")
    recorded.happen(MemberTimerFired(silent, recorded.group.members["a"].epoch))
    assert ("expelled", "a: no heartbeat in its session (streams.session.timeout.ms)") in recorded.told()


def test_a_loaded_group_is_told_once() -> None:
    recorder = GroupRecorder(ManualClock())
    group = StreamsGroup("g")
    recorder.streams_decided(group, group, None, 0)
    history = recorder.history("g")
    assert history is not None
    assert [each.kind for each in history.events] == ["loaded"]


def holder(who: ClientIdentity, has: tuple[str, ...], target: tuple[str, ...], **more: tuple[str, ...]) -> TaskHolder:
    return TaskHolder(who.client_id or "", who, 0, TaskNames(has), TaskNames(target, **more))


def test_a_task_waits_for_the_member_that_has_it_and_a_member_too_many_has_none() -> None:
    members = [holder(A, ("0_0", "0_1"), ("0_0",)), holder(B, (), ("0_1", "0_2")), holder(C, (), ())]
    first, second = awaited_tasks(members)
    assert (first.partition, first.member, first.holder) == ("task 0_1", B, A)
    assert (second.partition, second.member, second.holder) == ("task 0_2", B, None)
    assert idle_members(members) == (C,)
    assert idle_members([holder(A, (), ())]) == (), "nothing is dealt out yet"
    assert idle_members([*members, holder(C, (), (), standby=("0_0",))]) == (C,)


@pytest.mark.parametrize(
    ("streams", "clause", "cause"),
    [
        (
            StreamsFacts(0, "Source topics orders are missing."),
            "no tasks are dealt out: Source topics orders are missing",
            "topology_not_ready",
        ),
        (StreamsFacts(0, shutdown_by="m"), "its member m has asked the whole application to stop", "shutdown"),
        (StreamsFacts(0, is_delayed=True), "its first members wait for others before tasks are dealt out", ""),
    ],
)
def test_a_group_says_why_it_has_no_tasks(streams: StreamsFacts, clause: str, cause: str) -> None:
    found = explain_group(GroupFacts("g", 0, "NotReady", (A,), epoch=1, assignment_epoch=1, streams=streams))
    assert found.sentence.endswith(f"; {clause}.")
    assert found.cause == cause
    assert (found.next is not None) == bool(cause)


def test_tasks_stale_members_and_members_without_a_task_are_evidence() -> None:
    streams = StreamsFacts(2, stale=(A, B), active=3, standby=1)
    found = explain_group(
        GroupFacts("g", 0, "Stable", (A, B, C), epoch=4, assignment_epoch=4, idle=(C,), streams=streams)
    )
    assert found.evidence == (
        "topology 2: 3 active tasks, 1 standby task",
        "a at 10.0.0.7 and 1 other have an older topology, and gets no tasks of the new one",
        "c at 10.0.0.7: no task, since there are fewer tasks than members",
    )
    assert found.cause == "stale_topology"


@pytest.mark.process
async def test_members_that_wait_are_named_by_explain_and_by_the_console() -> None:
    settings = {
        "group_streams_assignment_interval_ms": 0,
        "group_streams_initial_rebalance_delay_ms": 0,
        "eosin_console_enable": True,
    }
    async with observed_broker(**settings) as broker:
        first = StreamsMember(await broker.wire("app-1"), "counters", "a")
        await first.join(counting("lines", "counters"))
        for over_http in (True, False):
            found = await broker.explain("counters", "group", over_http=over_http)
            assert found.cause == "topology_not_ready"
            assert "no tasks are dealt out: " in found.sentence
            assert "ource topics lines are missing." in found.sentence
        await broker.server.cluster.create_topic("lines", partitions=2)
        await first.has(4)
        second = StreamsMember(await broker.wire("app-2"), "counters", "b")
        await second.join(counting("lines", "counters"), user_endpoint=None)
        for over_http in (True, False):
            found = await broker.explain("counters", "group", over_http=over_http)
            assert "app-2 at 127.0.0.1 waits for task " in found.sentence
            assert found.evidence[-1].startswith("topology 0: 4 active tasks")
        page = await broker.facts("explain/groups/counters")
        assert (page["facts"]["kind"], page["facts"]["protocol"]) == ("streams", "sticky")
        assert page["facts"]["streams"]["active"] == 4
        one, other = sorted(page["facts"]["seen_members"], key=lambda each: each["member_id"])
        assert (len(one["tasks"]), one["topology_epoch"], one["subscription"][-1]) == (4, 0, "lines")
        assert "counters-repartition-0" in one["assigned"]
        assert all(each.startswith("-") for each in one["moves"])
        assert other["moves"] == [each.replace("-", "+") for each in one["moves"]]
        assert one["heard_ms"] > 0
        assert "because app-2 at 127.0.0.1 joined" in str(page["explained"])
