"""Members that come, stay silent, miss answers and die in any order: no two own a partition, and the log tells the same
group (consumer-groups.md 7.5)."""

from typing import Any

from consumer_group import RuledGroup, topic
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE
from eosin.protocol.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
SUBSCRIPTIONS = (("t",), ("u",), ("t", "u"))


class Client:
    """A member's own view: what it has heard, and what it has."""

    def __init__(self) -> None:
        self.epoch = 0
        self.told: frozenset[TopicIdPartition] = frozenset()
        self.owned: frozenset[TopicIdPartition] = frozenset()

    def heard(self, epoch: int, assignment: frozenset[TopicIdPartition] | None) -> None:
        self.epoch = epoch
        if assignment is not None:
            self.told = assignment

    def lost(self) -> None:
        self.epoch, self.told, self.owned = 0, frozenset(), frozenset()


ACTIONS = st.one_of(
    st.tuples(
        st.just("heartbeat"),
        st.sampled_from(NAMES),
        st.sampled_from(("partial", "owned", "full")),
        st.sampled_from(SUBSCRIPTIONS),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(("take up", "leave", "restart", "session", "rebalance")), st.sampled_from(NAMES)),
    st.tuples(st.just("topic"), st.sampled_from(("t", "u")), st.integers(0, 4)),
    st.tuples(st.just("reload")),
    st.tuples(st.just("part")),
)


class World:
    """A group and its clients. Always true: what `check` says."""

    def __init__(self, *, most_at_once: int) -> None:
        self.group = RuledGroup(most_at_once=most_at_once, t=3, u=2)
        self.clients = {name: Client() for name in NAMES}
        self.lives = 0

    def act(self, action: tuple[Any, ...]) -> None:
        kind, *rest = action
        match kind:
            case "heartbeat":
                self.heartbeat(*rest)
            case "topic":
                self.change_topic(*rest)
            case "reload":
                self.reload()
            case "part":
                if self.group.parts:
                    self.group.keep_part()
            case "session" | "rebalance":
                self.fire(ConsumerTimerKind(kind), *rest)
            case "take up":
                client = self.clients[rest[0]]
                client.owned = client.told
            case "restart":
                self.clients[rest[0]].lost()
            case "leave":
                client = self.clients[rest[0]]
                if client.epoch:
                    self.group.heartbeat(rest[0], -1)
                    client.lost()
        self.check()

    def heartbeat(self, name: str, form: str, topics: tuple[str, ...], is_answered: bool) -> None:
        client = self.clients[name]
        fields: dict[str, Any] = {}
        if client.epoch == 0 or form == "full":
            fields.update(rebalance_timeout_ms=100, topics=topics)
        if client.epoch == 0 or form != "partial":
            client.owned &= client.told  # it revokes what it has heard of, before it says what it has
            fields["owned"] = client.owned
        answer = self.group.heartbeat(name, client.epoch, **fields)
        if not is_answered:
            return
        if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.lost()
        else:
            assert answer.error is ErrorCode.NONE, answer
            client.heard(answer.epoch, answer.assignment)

    def change_topic(self, name: str, partitions: int) -> None:
        before = self.group.topics.pop(name, None)
        if partitions and before is not None and partitions >= before.partitions:
            self.group.topics[name] = before._replace(partitions=partitions)
        elif partitions:
            self.lives += 1
            self.group.topics[name] = topic(name, partitions, life=self.lives)
        self.group.topics_changed = True

    def fire(self, kind: ConsumerTimerKind, name: str) -> None:
        if self.group.runs(kind, name):
            self.group.fire(kind, name)

    def reload(self) -> None:
        self.group.group = self.group.replayed() or ConsumerGroup("g")
        self.group.topics_changed = True
        self.group.parts.clear()
        self.group.timers = {
            ConsumerTimer(ConsumerTimerKind.SESSION, name): member.epoch
            for name, member in self.group.group.members.items()
        }

    def check(self) -> None:
        group = self.group.group
        owners: dict[TopicIdPartition, str] = {}
        for name, member in group.members.items():
            assert member.epoch <= group.assignment_epoch <= group.epoch
            assert bool(member.pending) == (member.state is ConsumerMemberState.UNREVOKED_PARTITIONS)
            assert not member.assigned.keys() & member.pending.keys()
            for place, epoch in {**member.assigned, **member.pending}.items():
                assert place not in owners, f"{place} has two owners"
                assert epoch <= member.epoch
                owners[place] = name
        assert owners == dict(group.owners)
        assert group.subscribed_names() == {name for member in group.members.values() for name in member.topics}
        assert group.state is state_of(group)
        stored = self.group.replayed()
        if group.is_stored:
            assert stored is not None
            assert replace(stored, state_timestamp_ms=0) == replace(group, state_timestamp_ms=0)
        else:
            assert stored is None

    def settle(self) -> None:
        """Everybody who is a member goes on as a good client, and nothing else happens."""
        for name in [each for each in self.group.group.members if self.clients[each].epoch == 0]:
            self.group.heartbeat(name, -1)
        alive = [each for each in NAMES if self.clients[each].epoch > 0]
        for _ in range(8):
            for name in alive:  # one that is fenced joins again
                self.heartbeat(name, "owned", ("t",), True)
                self.clients[name].owned = self.clients[name].told
                self.check()
            self.group.keep_target()


def state_of(group: ConsumerGroup) -> ConsumerGroupState:
    """The state of a group, by a look at all members."""
    if not group.members:
        return ConsumerGroupState.EMPTY
    if group.epoch > group.assignment_epoch:
        return ConsumerGroupState.ASSIGNING
    are_there = [each.is_reconciled(group.assignment_epoch) for each in group.members.values()]
    return ConsumerGroupState.STABLE if all(are_there) else ConsumerGroupState.RECONCILING


@settings(max_examples=200, deadline=None)
@given(st.lists(ACTIONS, max_size=30), st.sampled_from((0, MOST_AT_ONCE)))
def test_no_two_members_own_a_partition_and_the_log_tells_the_same_group(
    actions: list[tuple[Any, ...]], most_at_once: int
) -> None:
    world = World(most_at_once=most_at_once)
    for action in actions:
        world.act(action)
    world.settle()
    group = world.group.group
    assert group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)
    subscribed = {name for member in group.members.values() for name in member.topics}
    expected = {
        TopicIdPartition(known.topic_id, index)
        for name, known in world.group.topics.items()
        if name in subscribed
        for index in range(known.partitions)
    }
    assert set(group.owners) == expected
