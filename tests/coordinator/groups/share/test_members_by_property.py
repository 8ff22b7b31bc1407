"""Members, topics, states and crashes of a share group in any order: every step keeps the epochs in order, nobody is
given a partition without a state, and the log tells the same group (share-groups.md 3 to 6, 9)."""

from typing import Any

from consumer_group import topic
from hypothesis import given, settings
from hypothesis import strategies as st
from share_group import RuledShareGroup

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.share.rules.events import (
    StatesDeleted,
    StatesDoomed,
    StatesInitialized,
    StatesWanted,
    TopicsGone,
)
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.share.rules.targets import MOST_AT_ONCE
from eosin.protocol.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
SUBSCRIPTIONS = (("t",), ("u",), ("t", "u"))
TOPICS = ("t", "u")
ACTIONS = st.one_of(
    st.tuples(
        st.just("heartbeat"),
        st.sampled_from(NAMES),
        st.sampled_from((None, *SUBSCRIPTIONS)),
        st.booleans(),  # the answer arrives
    ),
    st.tuples(st.sampled_from(("leave", "restart", "session")), st.sampled_from(NAMES)),
    st.tuples(st.just("topic"), st.sampled_from(TOPICS), st.integers(0, 4)),
    st.tuples(st.sampled_from(("reload", "part", "all states", "one state", "move", "doom", "delete"))),
)


class World:
    """A group, what its members have heard, and the states in the store. Always true: what `check` says."""

    def __init__(self, *, most_at_once: int) -> None:
        self.group = RuledShareGroup(most_at_once=most_at_once, t=3, u=2)
        self.epochs = dict.fromkeys(NAMES, 0)
        self.store: set[TopicIdPartition] = set()
        self.lives = 0

    def act(self, action: tuple[Any, ...]) -> None:
        kind, *rest = action
        match kind:
            case "heartbeat":
                self.heartbeat(*rest)
            case "leave" if self.epochs[rest[0]]:
                self.group.heartbeat(rest[0], -1)
                self.epochs[rest[0]] = 0
            case "restart":
                self.epochs[rest[0]] = 0
            case "session" if rest[0] in self.group.sessions:
                self.group.expire(rest[0])
            case "topic":
                self.change_topic(*rest)
            case "reload":
                self.reload()
            case "part" if self.group.parts:
                self.group.happen(self.group.parts.pop(0))
            case "all states" | "one state":
                self.initialize(most=1 if kind == "one state" else 100)
            case "move" | "doom" | "delete" if not self.group.group.members:
                self.administer(kind)
        self.check()

    def heartbeat(self, name: str, topics: tuple[str, ...] | None, is_answered: bool) -> None:
        epoch = self.epochs[name]
        answer = self.group.heartbeat(name, epoch, topics=topics or (None if epoch else ("t",)))
        if not is_answered:
            return
        if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epochs[name] = 0
        else:
            assert answer.error is ErrorCode.NONE, answer
            if epoch != answer.epoch:
                assert answer.assignment == self.group.member(name).assigned
            self.epochs[name] = answer.epoch

    def change_topic(self, name: str, partitions: int) -> None:
        before = self.group.topics.pop(name, None)
        if partitions and before is not None and partitions >= before.partitions:
            self.group.topics[name] = before._replace(partitions=partitions)
        else:
            if partitions:
                self.lives += 1
                self.group.topics[name] = topic(name, partitions, life=self.lives)
            if before is not None:
                self.group.happen(TopicsGone(frozenset({before.topic_id})))
        self.group.looks = True

    def initialize(self, *, most: int) -> None:
        some = frozenset(sorted(self.group.places(self.group.group.states.initializing))[:most])
        self.store |= some
        self.group.happen(StatesInitialized(some))

    def administer(self, kind: str) -> None:
        states = self.group.group.states
        known = frozenset({each.topic_id for each in self.group.topics.values()})
        match kind:
            case "move":
                places = frozenset(TopicIdPartition(each, 0) for each in known)
                names = {each.topic_id: name for name, each in self.group.topics.items()}
                before = self.group.group
                self.group.happen(StatesWanted(names, places))
                assert self.group.group.epoch > before.epoch or not before.is_stored
            case "doom":
                self.group.happen(StatesDoomed(known & states.ids()))
            case _:
                gone = frozenset(states.deleting)
                self.store = {each for each in self.store if each.topic_id not in gone}
                self.group.happen(StatesDeleted(gone))

    def reload(self) -> None:
        self.group.group = self.group.replayed() or ShareGroup("g")
        self.group.looks = True
        self.group.parts.clear()
        self.group.sessions = set(self.group.group.members)

    def check(self) -> None:
        group = self.group.group
        with_state = self.group.places(group.states.initialized)
        assert with_state <= self.store  # nobody reads what the store does not have
        assert not with_state & self.group.places(group.states.initializing)
        assert not group.states.deleting.keys() & (group.states.initializing.keys() | group.states.initialized.keys())
        assert all(
            each.partitions for each in (*group.states.initializing.values(), *group.states.initialized.values())
        )
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch <= group.epoch
        assert group.subscribed_names() == {name for member in group.members.values() for name in member.topics}
        assert set(group.members) == self.group.sessions
        stored = self.group.replayed()
        assert (stored or ShareGroup("g")) == group or not group.is_stored

    def settle(self) -> None:
        """Everybody who is a member goes on as a good client, and nothing else happens."""
        for _ in range(4):
            self.initialize(most=100)
            for name in list(self.group.group.members):
                self.epochs[name] = self.group.member(name).epoch
                self.heartbeat(name, None, True)
                self.group.keep_target()
                self.check()


@settings(max_examples=200, deadline=None)
@given(st.lists(ACTIONS, max_size=30), st.sampled_from((0, MOST_AT_ONCE)))
def test_members_come_to_partitions_with_states_and_the_log_tells_the_same_group(
    actions: list[tuple[Any, ...]], most_at_once: int
) -> None:
    world = World(most_at_once=most_at_once)
    for action in actions:
        world.act(action)
    world.settle()
    group = world.group.group
    expected = {
        TopicIdPartition(known.topic_id, index)
        for name, known in world.group.topics.items()
        if name in group.subscribed_names()
        for index in range(known.partitions)
    }
    assert {place for member in group.members.values() for place in member.assigned} == expected
    for member in group.members.values():
        subscribed = {world.group.topics[name].topic_id for name in member.topics if name in world.group.topics}
        assert {place.topic_id for place in member.assigned} <= subscribed


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTIONS, max_size=20), st.data())
def test_a_log_of_which_any_part_is_gone_is_read_all_the_same(actions: list[tuple[Any, ...]], data: Any) -> None:
    world = World(most_at_once=MOST_AT_ONCE)
    for action in actions:
        world.act(action)
    kept = {key for key in sorted(world.group.log) if data.draw(st.booleans())}
    world.group.log = {key: record for key, record in world.group.log.items() if key in kept}
    world.group.group = world.group.replayed() or ShareGroup("g")
    world.store |= world.group.places(world.group.group.states.initialized)
    group = world.group.group
    assert group.assignment_epoch <= group.epoch
    assert set(group.targets) <= set(group.members)
    world.group.looks = True
    world.group.sessions = set(group.members)
    answer = world.group.join("z", "t")
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, world.group.group.assignment_epoch)
