"""A share group (KIP-932) that is moved by its rules alone: no log, no clock, and topics that a test changes."""

from collections.abc import Collection
from typing import Any, Final

from consumer_group import NamedTopic, topic

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimerKind,
    HeartbeatResult,
    StartMemberTimer,
)
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.groups.share.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.share.log.replay import replayed
from eosin.coordinator.groups.share.rules.decide import ShareOutcome, decide
from eosin.coordinator.groups.share.rules.events import (
    SessionEnded,
    ShareEvent,
    ShareHeartbeat,
    ShareTargetsComputed,
    StatesInitialized,
)
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.rules.states import StateLists
from eosin.coordinator.groups.share.rules.targets import MOST_AT_ONCE, target_in_steps
from eosin.coordinator.steps import finished
from eosin.protocol.names import Uuid
from eosin.protocol.records.scan import KeyValue

AT_ONCE: Final = ShareGroupConfig(assignment_interval_ms=0)


class RuledShareGroup:
    """The group `g`, the log of its records, and the sessions that run."""

    def __init__(self, config: ShareGroupConfig = AT_ONCE, *, most_at_once: int = MOST_AT_ONCE, **topics: int) -> None:
        """A target of more than `most_at_once` members and partitions is computed beside the decisions: it is in
        `parts` then, of which a test keeps one after the other."""
        self.config = config
        self.topics: dict[str, NamedTopic] = {name: topic(name, count) for name, count in topics.items()}
        self.group = ShareGroup("g")
        self.now_ms = 1000
        self.log: dict[bytes, KeyValue] = {}
        """The last record of each key."""
        self.kinds: list[str] = []
        """The kinds of records of the last decision; tombstones with a cross."""
        self.sessions: set[str] = set()
        """The members whose sessions run."""
        self.looks = False
        """True if topics may have changed."""
        self.busy: frozenset[Uuid] = frozenset()
        self.most_at_once = most_at_once
        self.parts: list[ShareTargetsComputed] = []
        self._seen_states: object = None
        self._offset = 0

    def happen(self, event: ShareEvent) -> ShareOutcome:
        """Decide an event."""
        decided = decide(
            self.group,
            event,
            now_ms=self.now_ms,
            config=self.config,
            topics=self.topics,
            looks=self.looks or self._seen_states is not self.group.states,
            busy=self.busy,
            is_computing=bool(self.parts),
            most_at_once=self.most_at_once,
        )
        self.group = decided.group
        if isinstance(event, ShareHeartbeat) and not decided.is_refused:
            self._seen_states = self.group.states
        self.kinds = [f"{each.kind.value}{'' if each.value is not None else '+'}" for each in decided.records]
        for record in encoded("g", decided.records):
            assert record.key is not None
            assert record.key[:2] in KIND_KEYS
            self.log[record.key] = KeyValue(self._offset, record.key, record.value)
            self._offset += 1
        for effect in decided.timers:
            assert effect.timer.kind is ConsumerTimerKind.SESSION
            match effect:
                case StartMemberTimer():
                    self.sessions.add(effect.timer.member_id)
                case CancelMemberTimer():
                    self.sessions.discard(effect.timer.member_id)
        if decided.wants_target:
            self.parts = list(finished(target_in_steps(self.group, self.topics, size=1)))
        return decided

    def keep_target(self) -> None:
        """Keep the target that was computed beside the decisions."""
        while self.parts:
            self.happen(self.parts.pop(0))

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        """A heartbeat with these fields of the request."""
        answer = self.happen(ShareHeartbeat(member_id, epoch, **fields)).answer
        assert isinstance(answer, HeartbeatResult)
        return answer

    def join(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        """Join with a subscription to these topics, by default to all."""
        return self.heartbeat(member_id, 0, topics=topics or tuple(self.topics), **fields)

    def expire(self, member_id: str) -> None:
        """The member's session ends."""
        self.sessions.discard(member_id)
        self.happen(SessionEnded(member_id))

    def initialize(self) -> None:
        """Every state that is to be is there."""
        self.happen(StatesInitialized(self.places(self.group.states.initializing)))

    def places(self, lists: StateLists) -> frozenset[TopicIdPartition]:
        """The partitions in one of the lists of states."""
        return frozenset(TopicIdPartition(each, number) for each, some in lists.items() for number in some.partitions)

    def member(self, member_id: str) -> ShareMember:
        """A member as it is."""
        return self.group.members[member_id]

    def place(self, partition: int, name: str = "") -> TopicIdPartition:
        """A partition of a topic, by default of the first."""
        return TopicIdPartition(self.topics[name or next(iter(self.topics))].topic_id, partition)

    def replayed(self) -> ShareGroup | None:
        """The group as its log tells it."""
        return replayed(self.log.values()).groups.get("g")


def numbers(partitions: "Collection[TopicIdPartition] | None") -> list[int] | None:
    """The numbers of partitions, without their topics."""
    return None if partitions is None else sorted(each.partition for each in partitions)
