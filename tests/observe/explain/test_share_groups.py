"""What is told of share groups: their events as they happen, and a sentence about where they are (console.md 2.1)."""

from manual_clock import ManualClock
from share_group import RuledShareGroup

from eosin.coordinator.groups.share.rules.events import (
    SessionEnded,
    ShareEvent,
    ShareHeartbeat,
    StatesInitialized,
    StatesWanted,
)
from eosin.observe.explain.facts import GroupFacts, SharedPartition
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.recorder.group_recorder import GroupRecorder


class Recorded:
    """A share group whose decisions a recorder hears of."""

    def __init__(self) -> None:
        self.group = RuledShareGroup(orders=2)
        self.recorder = GroupRecorder(ManualClock())

    def happen(self, event: ShareEvent) -> None:
        before = self.group.group
        self.group.happen(event)
        self.recorder.share_decided(before, self.group.group, event, self.group.now_ms)

    def beat(self, member: str, epoch: int = 0, **fields: tuple[str, ...]) -> None:
        self.happen(ShareHeartbeat(member, epoch, client_id="app", client_host="/10.0.0.1", **fields))

    def told(self) -> list[tuple[str, str]]:
        history = self.recorder.history("g")
        return [] if history is None else [(each.kind, each.what) for each in history.events]


def test_the_events_of_a_share_group_have_their_reasons() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    assert recorded.told() == [("joined", "m"), ("rebalance", "app at 10.0.0.1 joined"), ("target", "2")]
    recorded.happen(StatesInitialized(recorded.group.places(recorded.group.group.states.initializing)))
    recorded.beat("m", 2)
    assert recorded.told()[3:] == [
        ("rebalance", "more of its partitions can be read: their states are initialized"),
        ("target", "3"),
    ]
    recorded.beat("m", 3, topics=("orders", "later"))
    assert recorded.told()[5][1] == "app at 10.0.0.1 is subscribed to something else now"
    recorded.beat("m", -1)
    assert recorded.told()[7:] == [
        ("left", "m: closed, or unsubscribed"),
        ("rebalance", "app at 10.0.0.1 left: closed, or unsubscribed"),
    ]
    recorded.happen(StatesWanted({}, frozenset()))
    assert recorded.told()[9:] == [("rebalance", "an administrator has moved its offsets")]


def test_a_member_that_is_silent_was_expelled() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    recorded.happen(SessionEnded("m"))
    assert recorded.told()[3] == ("expelled", "m: no heartbeat in its session (share.session.timeout.ms)")


def test_a_loaded_group_is_told_once() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    recorder = GroupRecorder(ManualClock())
    recorder.share_decided(recorded.group.group, recorded.group.group, None, 0)
    history = recorder.history("g")
    assert history is not None
    assert [each.kind for each in history.events] == ["loaded"]


def test_a_share_group_is_explained_by_what_it_is_not_done_with() -> None:
    shared = (SharedPartition("orders-0", 5, 3, 2), SharedPartition("orders-1", -1, -1))
    facts = GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="app"),), epoch=3, assignment_epoch=3, shared=shared)
    told = explain_group(facts)
    assert told.sentence == (
        "share group g: Stable, 1 member, 3 records not done with in 2 partitions,"
        " of which nobody has read 1 partition yet."
    )
    assert told.evidence == ("orders-0: 3 records from offset 5, read by 2 members",)
    assert told.next is not None
    assert "share.record.lock.duration.ms" in told.next.what
    empty = explain_group(GroupFacts("g", 0, "Empty", shared=()))
    assert empty.next is not None
    assert "stays until it is deleted" in empty.next.what
    assert explain_group(GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="a"),), shared=())).next is None
    behind = GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="a"),), epoch=4, assignment_epoch=3, shared=())
    assert "its partitions at epoch 4 are decided at a member's next heartbeat" in explain_group(behind).sentence
