"""A consumer group (KIP-848) that is moved by its rules alone: no log, no clock, and topics that a test changes."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from kafka_replay import KafkaReplay

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.consumer.log.replay import replayed
from eosin.coordinator.groups.consumer.rules.decide import Decided, decide
from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimer,
    ConsumerTimerKind,
    HeartbeatResult,
    MemberTimerFired,
    StartMemberTimer,
    TargetsComputed,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE, in_parts, target_in_steps
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.coordinator.steps import finished
from eosin.protocol.records.scan import KeyValue

AT_ONCE: Final = ConsumerGroupConfig(assignment_interval_ms=0)


class NamedTopic(NamedTuple):
    """A topic of a test's cluster."""

    topic_id: bytes
    partitions: int


def topic(name: str, partitions: int, *, life: int = 0) -> NamedTopic:
    """A topic; in another `life` it has another id."""
    return NamedTopic(f"{name}{life}".encode().ljust(16, b"_"), partitions)


class RuledGroup:
    """The group `g`, the log of its records, and the timers that run."""

    def __init__(
        self, config: ConsumerGroupConfig = AT_ONCE, *, most_at_once: int = MOST_AT_ONCE, **topics: int
    ) -> None:
        """A target of more than `most_at_once` members and partitions is computed beside the decisions: it is in
        `parts` then, of which a test keeps one after the other."""
        self.config = config
        self.topics = {name: topic(name, partitions) for name, partitions in topics.items()}
        self.group = ConsumerGroup("g")
        self.now_ms = 1000
        self.log: dict[bytes, KeyValue] = {}
        """The last record of each key."""
        self.kafka = KafkaReplay()
        self.kinds: list[str] = []
        """The kinds of records of the last decision; tombstones with a dagger."""
        self.timers: dict[ConsumerTimer, int] = {}
        """The epoch with which each was started."""
        self.topics_changed = False
        self.most_at_once = most_at_once
        self.parts: list[TargetsComputed] = []
        self._offset = 0

    def happen(self, event: ConsumerEvent) -> Decided:
        """Decide an event."""
        decided = decide(
            self.group,
            event,
            now_ms=self.now_ms,
            config=self.config,
            topics=self.topics,
            topics_changed=self.topics_changed,
            is_computing=bool(self.parts),
            most_at_once=self.most_at_once,
        )
        self.group = decided.group
        self.kinds = [f"{each.kind.value}{'' if each.value is not None else '+'}" for each in decided.records]
        for record in encoded("g", decided.records):
            assert record.key is not None
            assert record.key[:2] in KIND_KEYS
            self.log[record.key] = KeyValue(self._offset, record.key, record.value)
            self.kafka.apply(record.key, record.value)
            self._offset += 1
        for effect in decided.timers:
            match effect:
                case StartMemberTimer():
                    self.timers[effect.timer] = effect.epoch
                case CancelMemberTimer():
                    self.timers.pop(effect.timer, None)
        if decided.wants_target:
            target = finished(target_in_steps(self.group, self.topics, self.config.assignors))
            self.parts = list(in_parts(self.group, target, size=1))
        return decided

    def keep_part(self) -> None:
        """Keep the next part of the target that was computed beside the decisions."""
        self.happen(self.parts.pop(0))

    def keep_target(self) -> None:
        """Keep all of it."""
        while self.parts:
            self.keep_part()

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        """A heartbeat with these fields of the request; `owned` may be numbers of partitions of the first topic."""
        owned = fields.get("owned")
        if owned is not None:
            fields["owned"] = frozenset(self.place(each) if isinstance(each, int) else each for each in owned)
        answer = self.happen(ConsumerHeartbeat(member_id, epoch, **fields)).answer
        assert isinstance(answer, HeartbeatResult)
        return answer

    def join(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        """Join with a subscription to these topics, by default to all."""
        request = {"rebalance_timeout_ms": 60_000, "topics": topics or tuple(self.topics), "owned": (), **fields}
        return self.heartbeat(member_id, 0, **request)

    def fire(self, kind: ConsumerTimerKind, member_id: str) -> Decided:
        """A timer runs out."""
        timer = ConsumerTimer(kind, member_id)
        return self.happen(MemberTimerFired(timer, self.timers.pop(timer)))

    def runs(self, kind: ConsumerTimerKind, member_id: str) -> bool:
        """True if this timer runs."""
        return ConsumerTimer(kind, member_id) in self.timers

    def member(self, member_id: str) -> ConsumerMember:
        """A member as it is."""
        return self.group.members[member_id]

    def place(self, partition: int, name: str = "") -> TopicIdPartition:
        """A partition of a topic, by default of the first."""
        return TopicIdPartition(self.topics[name or next(iter(self.topics))].topic_id, partition)

    def replayed(self) -> ConsumerGroup | None:
        """The group as its log tells it, which Apache Kafka can read in this order, too."""
        KafkaReplay(sorted(self.log.values()))
        return replayed(self.log.values()).groups.get("g")


def numbers(partitions: "Partitions | Collection[TopicIdPartition] | None") -> list[int] | None:
    """The numbers of partitions, without their topics."""
    return None if partitions is None else sorted(each.partition for each in partitions)
