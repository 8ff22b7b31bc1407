"""Members of both protocols in one group that changes its kind: no two may commit one partition at once, and the log
tells one group, the one that there is (consumer-groups.md 15 to 17)."""

import random
from typing import Any

from consumer_group import NamedTopic
from hypothesis import given, settings
from hypothesis import strategies as st
from migrating_group import MigratingGroup, metadata
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.group import ConsumerMemberState
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, MigrationPolicy
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.group import GroupState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.records.internal import decode_value, encode_value
from eosin.protocol.schemas.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)

NOTHING: frozenset[TopicIdPartition] = frozenset()
POLICIES = (*[MigrationPolicy.BIDIRECTIONAL] * 3, *MigrationPolicy)
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)


class Client:
    """A member's own view: its epoch or generation, and what it has. Each action is one request and, if it is heard,
    its answer."""

    def __init__(self, group: MigratingGroup, name: str) -> None:
        self.group = group
        self.name = name
        self.member_id = ""
        self.epoch = 0
        self.owned = NOTHING

    @property
    def may_commit(self) -> frozenset[TopicIdPartition]:
        """What it would commit with success."""
        return frozenset(each for each in self.owned if self.group.may_commit(self.member_id, self.epoch, each))

    def go_on(self, *, is_heard: bool) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def lose(self) -> None:
        self.epoch, self.owned = 0, NOTHING


class NewClient(Client):
    """One of the consumer protocol."""

    def __init__(self, group: MigratingGroup, name: str) -> None:
        super().__init__(group, name)
        self.member_id = name
        self.told = NOTHING
        self.has_heard = True

    def go_on(self, *, is_heard: bool) -> None:
        self.owned &= self.told
        if self.epoch == 0:
            answer = self.group.joins(self.member_id)
        else:
            full: dict[str, Any] = {} if self.has_heard else {"rebalance_timeout_ms": 60_000, "topics": ("t", "u")}
            answer = self.group.heartbeat(self.member_id, self.epoch, owned=self.owned, **full)
        self.has_heard = is_heard
        if not is_heard:
            return
        if answer.error in LOST:
            self.lose()
        elif answer.error is ErrorCode.NONE:
            self.epoch = answer.epoch
            self.told = self.told if answer.assignment is None else answer.assignment
            self.owned = self.told
        else:
            assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND, answer
            self.lose()

    def lose(self) -> None:
        super().lose()
        self.told = NOTHING

    def leave(self) -> None:
        if self.epoch:
            self.group.heartbeat(self.member_id, -1)
        self.lose()


class ClassicClient(Client):
    """One of the classic protocol: eager, it gives up everything before it joins; else it keeps what it has."""

    def __init__(self, group: MigratingGroup, name: str, *, is_eager: bool) -> None:
        super().__init__(group, name)
        self.is_eager = is_eager
        self.is_joined = False
        self.joining: int | None = None
        self.syncing: int | None = None
        self.leads: JoinResult | None = None
        self.shared_out: dict[str, NamedTopic] = {}
        """The topics as it has assigned them, if it leads."""

    def go_on(self, *, is_heard: bool) -> None:
        if self.joining is not None:
            self._hear_join(is_heard)
        elif self.syncing is not None:
            self._hear_sync(is_heard)
        elif not self.is_joined:
            self._join(is_heard)
        elif self.leads is not None:
            self._sync(is_heard)
        else:
            error = self.group.classic_heartbeat(self.member_id, self.epoch)
            if is_heard and error in LOST:
                self.lose()
            elif is_heard and (error is ErrorCode.REBALANCE_IN_PROGRESS or self._leads_other_topics()):
                self.is_joined = False

    def _leads_other_topics(self) -> bool:
        """True if the topics are others than those that it has shared out: whoever leads watches them."""
        return bool(self.shared_out) and self.shared_out != self.group.topics

    def _join(self, is_heard: bool) -> None:
        if self.is_eager:
            self.owned = NOTHING
        protocols = (("range", metadata("t", "u", owned=self._by_name(self.owned))),)
        self.joining = self.group.join(self.member_id, protocols=protocols)
        self._hear_join(is_heard)

    def _hear_join(self, is_heard: bool) -> None:
        assert self.joining is not None
        answer = self.group.answers.get(self.joining)
        if answer is None:
            return
        self.joining = None
        if not is_heard:
            return
        assert isinstance(answer, JoinResult)
        match answer.error:
            case ErrorCode.NONE:
                self.member_id, self.epoch = answer.member_id, answer.generation_id
                self.is_joined, self.leads = True, answer
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                self.lose()
            case _:
                raise AssertionError(answer)

    def _sync(self, is_heard: bool) -> None:
        assert self.leads is not None
        leads = self.leads.leader_id == self.member_id
        given = self._assign(self.leads) if leads else {}
        self.shared_out = dict(self.group.topics) if leads else {}
        self.syncing, self.leads = self.group.sync(self.member_id, self.epoch, given), None
        self._hear_sync(is_heard)

    def _hear_sync(self, is_heard: bool) -> None:
        assert self.syncing is not None
        answer = self.group.answers.get(self.syncing)
        if answer is None:
            return
        self.syncing = None
        assert isinstance(answer, SyncResult)
        if answer.error is ErrorCode.NONE and is_heard:
            assignment = decode_value(ConsumerProtocolAssignment, answer.assignment) if answer.assignment else None
            before, self.owned = self.owned, self._with_ids(assignment.assigned_partitions if assignment else ())
            if not self.is_eager and before - self.owned:
                self.is_joined = False  # it has revoked something, and says so
        elif answer.error in LOST and is_heard:
            self.lose()
        else:
            self.is_joined = False

    def _assign(self, joined: JoinResult) -> dict[str, bytes]:
        """What each of the members keeps, and of the rest a share."""
        given: dict[str, list[TopicIdPartition]] = {each.member_id: [] for each in joined.members}
        kept: set[TopicIdPartition] = set()
        for each in joined.members:
            said = decode_value(ConsumerProtocolSubscription, each.metadata)
            claimed = self._with_ids(said.owned_partitions)
            given[each.member_id] += claimed - kept
            kept |= claimed
        for topic in self.group.topics.values():
            for number in range(topic.partitions):
                place = TopicIdPartition(topic.topic_id, number)
                if place not in kept:
                    min(given.values(), key=len).append(place)
        return {name: self._encoded(frozenset(places)) for name, places in given.items()}

    def _encoded(self, places: frozenset[TopicIdPartition]) -> bytes:
        topics = tuple(TopicPartitions(name, numbers) for name, numbers in self._by_name(places).items())
        return encode_value(ConsumerProtocolAssignment(topics), 1)

    def _by_name(self, places: frozenset[TopicIdPartition]) -> dict[str, tuple[int, ...]]:
        return {
            name: tuple(sorted(each.partition for each in places if each.topic_id == known.topic_id))
            for name, known in self.group.topics.items()
        }

    def _with_ids(self, topics: tuple[TopicPartitions, ...]) -> frozenset[TopicIdPartition]:
        known = self.group.topics
        return frozenset(
            TopicIdPartition(known[each.topic].topic_id, number) for each in topics for number in each.partitions
        )

    def lose(self) -> None:
        super().lose()
        self.member_id, self.is_joined, self.joining, self.syncing, self.leads = "", False, None, None, None
        self.shared_out = {}

    def leave(self) -> None:
        if self.member_id:
            self.group.leave(self.member_id)
        self.lose()


ACTIONS = st.one_of(
    st.tuples(st.just("turns"), st.integers(0, 10_000)),
    st.tuples(st.sampled_from(["roll", "roll", "leave", "restart"]), st.integers(0, 3)),
    st.tuples(st.just("timer"), st.integers(0, 9)),
    st.tuples(st.just("grow"), st.sampled_from(["t", "u"])),
    st.tuples(st.just("delay"), st.booleans()),
)
TURNS = 16


class World:
    """A group and four clients, each of which may be rolled to the other protocol. Always true: what `check` says."""

    def __init__(self, kinds: tuple[bool, ...], policy: MigrationPolicy) -> None:
        self.group = MigratingGroup(ConsumerGroupConfig(assignment_interval_ms=0, migration_policy=policy), t=3, u=2)
        self.lives = 0
        self.clients = [self.client(place, is_new) for place, is_new in enumerate(kinds)]

    def client(self, place: int, is_new: bool) -> Client:
        self.lives += 1
        if is_new:
            return NewClient(self.group, f"new-{place}-{self.lives}")
        return ClassicClient(self.group, f"old-{place}", is_eager=place % 2 == 0)

    def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("turns", seed):
                chance = random.Random(seed)
                for _ in range(TURNS):
                    chance.choice(self.clients).go_on(is_heard=chance.random() < 0.95)
                    self.check()
            case ("leave", place):
                self.clients[place].leave()
            case ("restart", place):  # and its session runs on
                self.clients[place] = self.client(place, isinstance(self.clients[place], NewClient))
            case ("roll", place):
                self.clients[place].leave()
                self.clients[place] = self.client(place, not isinstance(self.clients[place], NewClient))
            case ("timer", which):
                self.fire(which)
            case ("grow", name):
                self.group.topics[name] = self.group.topics[name]._replace(
                    partitions=self.group.topics[name].partitions + 1
                )
                self.group.topics_changed = True
            case ("delay", may_convert):
                self.group.may_convert = may_convert
        self.check()

    def fire(self, which: int) -> None:
        running = [*self.group.timers, *self.group.classic_timers]
        if running:
            self.group.fire(running[which % len(running)])

    def check(self) -> None:
        committers: dict[TopicIdPartition, str] = {}
        for client in self.clients:
            for place in client.may_commit:
                assert place not in committers, f"{client.name} and {committers[place]} may commit {place}"
                committers[place] = client.name
        group, stored = self.group.consumer, self.group.stored_consumer()
        if group is None:
            assert stored is None
            return
        assert self.group.stored_classic() is None
        assert not self.group.classic_timers
        owners: dict[TopicIdPartition, str] = {}
        for name, member in group.members.items():
            assert member.epoch <= group.assignment_epoch <= group.epoch
            assert bool(member.pending) == (member.state is ConsumerMemberState.UNREVOKED_PARTITIONS)
            for place, epoch in {**member.assigned, **member.pending}.items():
                assert place not in owners, f"{place} has two owners"
                assert epoch <= member.epoch
                owners[place] = name
        assert owners == dict(group.owners)
        assert stored is not None
        assert replace(stored, state_timestamp_ms=0) == replace(group, state_timestamp_ms=0)

    def settle(self) -> None:
        """Who is there goes on as a good client, and who is not there any more falls silent."""
        self.group.may_convert = True
        for _ in range(12):
            for client in self.clients:
                client.go_on(is_heard=True)
                self.check()
            alive = {client.member_id for client in self.clients}
            for timer in [*self.group.timers, *self.group.classic_timers]:
                known = self.group.timers.keys() | self.group.classic_timers.keys()
                if timer in known and timer.member_id and timer.member_id not in alive:
                    self.group.fire(timer)
                    self.check()


@settings(max_examples=200, deadline=None)
@given(
    kinds=st.tuples(*[st.booleans()] * 4),
    policy=st.sampled_from(POLICIES),
    actions=st.lists(ACTIONS, max_size=30),
)
def test_no_two_members_may_commit_a_partition_and_the_log_tells_the_group_that_there_is(
    kinds: tuple[bool, ...], policy: MigrationPolicy, actions: list[tuple[Any, ...]]
) -> None:
    world = World(kinds, policy)
    for action in actions:
        world.act(action)
    world.settle()
    group = world.group
    if policy is not MigrationPolicy.BIDIRECTIONAL:
        return
    assert group.is_stable() or (group.classic is not None and group.classic.state is GroupState.EMPTY)
    new = [client for client in world.clients if isinstance(client, NewClient)]
    if new or ("delay", False) not in actions:  # what was put off is done with the next epoch
        assert (group.consumer is not None) == bool(new)
    everything = {
        TopicIdPartition(known.topic_id, number)
        for known in group.topics.values()
        for number in range(known.partitions)
    }
    held = [place for client in world.clients for place in client.may_commit]
    assert sorted(held) == sorted(everything)
