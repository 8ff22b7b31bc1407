"""A group that changes between classic and consumer group, moved by its rules alone, with one log for both kinds."""

from collections.abc import Mapping
from typing import Any, Final

from consumer_group import AT_ONCE, NamedTopic, topic
from kafka_replay import KafkaReplay

from eosin.coordinator.groups.consumer.log.records import KIND_KEYS, encoded
from eosin.coordinator.groups.consumer.log.replay import replayed
from eosin.coordinator.groups.consumer.rules import commits
from eosin.coordinator.groups.consumer.rules.decide import Answer, decide
from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ClassicHeartbeat,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimer,
    HeartbeatResult,
    MembersLeft,
    MemberTimerFired,
    StartMemberTimer,
    Upgrade,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.records import end_records
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.records import GroupWritten, read
from eosin.coordinator.groups.rules import checks
from eosin.coordinator.groups.rules import decide as classic_rules
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.coordinator.groups.rules.effects import (
    CancelTimer,
    Effect,
    GroupReply,
    JoinResult,
    LeaveResult,
    PersistGroup,
    StartTimer,
    SyncResult,
)
from eosin.coordinator.groups.rules.events import (
    BecameClassic,
    Converted,
    Event,
    GroupAppended,
    Join,
    Leave,
    LeavingMember,
    Sync,
    TimerFired,
    TimerName,
)
from eosin.coordinator.groups.rules.group import Group, GroupState, Protocols
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, TopicPartition
from eosin.protocol.records.internal import encode_value
from eosin.protocol.records.scan import KeyValue
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions

CLASSIC: Final = GroupConfig()


def metadata(*topics: str, owned: Mapping[str, tuple[int, ...]] | None = None, version: int = 1) -> bytes:
    """What a classic member says when it joins."""
    kept = tuple(TopicPartitions(name, numbers) for name, numbers in (owned or {}).items())
    return encode_value(ConsumerProtocolSubscription(topics, owned_partitions=kept), version)


class MigratingGroup:
    """The group `g` of whichever kind, its log, its timers, and the answers to requests that waited."""

    def __init__(self, config: ConsumerGroupConfig = AT_ONCE, **topics: int) -> None:
        self.config = config
        self.topics: dict[str, NamedTopic] = {name: topic(name, count) for name, count in topics.items()}
        self.consumer: ConsumerGroup | None = None
        self.classic: Group | None = None
        self.now_ms = 1000
        self.log: dict[bytes, KeyValue] = {}
        """The last record of each key."""
        self.kafka = KafkaReplay()
        self.kinds: list[str] = []
        """The kinds of records of the last decision of a consumer group; tombstones with a dagger."""
        self.timers: dict[ConsumerTimer, StartMemberTimer] = {}
        self.classic_timers: dict[TimerName, int] = {}
        self.answers: dict[int, JoinResult | SyncResult | LeaveResult] = {}
        self.topics_changed = False
        self.may_convert = True
        self._offset = 0
        self._requests = 0

    # Requests

    def join(
        self,
        member_id: str,
        *topics: str,
        instance_id: str | None = None,
        protocols: Protocols | None = None,
        owned: Mapping[str, tuple[int, ...]] | None = None,
        **fields: Any,
    ) -> int:
        """JoinGroup; the number of the request, whose answer comes now or later."""
        self._requests += 1
        request: dict[str, Any] = {
            "request_id": self._requests,
            "member_id": member_id,
            "instance_id": instance_id,
            "protocol_type": "consumer",
            "protocols": protocols or (("range", metadata(*(topics or tuple(self.topics)), owned=owned)),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "client_id": "c",
            "client_host": "/h",
            "fresh_member_id": "" if member_id else f"fresh-{self._requests}",
        }
        event = Join(**{**request, **fields})
        if self.consumer is not None and self.consumer.members:
            answer = self._consumer_happens(event)
            assert isinstance(answer, JoinResult)
            if answer.error is not ErrorCode.NONE or self.classic is None or self.is_stable():
                self.answers[self._requests] = answer
                return self._requests
            event = Join(**{**request, **fields, "member_id": answer.member_id})
        elif self.classic is None:
            self._end_of_an_empty_consumer_group()
            self.classic = Group("g")
        self._classic_happens(event)
        return self._requests

    def _end_of_an_empty_consumer_group(self) -> None:
        if self.consumer is not None:
            for record in encoded("g", end_records(self.consumer)):
                self._write(record.key, record.value)
            self.consumer = None

    def sync(
        self, member_id: str, generation_id: int, assignments: Mapping[str, bytes] | None = None, **fields: Any
    ) -> int:
        """SyncGroup; the number of the request."""
        self._requests += 1
        request = {"instance_id": None, "protocol_type": None, "protocol_name": None, **fields}
        event = Sync(
            self._requests,
            member_id,
            generation_id=generation_id,
            assignments=tuple((assignments or {}).items()),
            **request,
        )
        if self.consumer is not None:
            answer = self._consumer_happens(event)
            assert isinstance(answer, SyncResult)
            self.answers[self._requests] = answer
        elif self.classic is not None:
            self._classic_happens(event)
        else:
            self.answers[self._requests] = SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._requests

    def classic_heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        """Heartbeat."""
        if self.consumer is not None:
            answer = self._consumer_happens(ClassicHeartbeat(member_id, generation_id, instance_id))
            assert isinstance(answer, HeartbeatResult)
            return answer.error
        if self.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return checks.heartbeat(self.classic, member_id=member_id, instance_id=instance_id, generation_id=generation_id)

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        """ConsumerGroupHeartbeat."""
        request = ConsumerHeartbeat(member_id, epoch, **fields)
        classic = self.classic
        if classic is None and (self.consumer is not None or epoch == 0):
            answer = self._consumer_happens(request)
        elif classic is None or epoch != 0:
            return HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            event = Upgrade(classic, request) if classic.members else request
            answer = self._consumer_happens(event, replaced=classic)
        assert isinstance(answer, HeartbeatResult)
        return answer

    def joins(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        """Join by the consumer protocol, by default with a subscription to all topics."""
        request = {"rebalance_timeout_ms": 60_000, "topics": topics or tuple(self.topics), "owned": frozenset()}
        return self.heartbeat(member_id, 0, **{**request, **fields})

    def leave(self, member_id: str) -> ErrorCode:
        """LeaveGroup."""
        leaving = (LeavingMember(member_id, None),)
        if self.consumer is not None:
            answer = self._consumer_happens(MembersLeft(leaving))
            assert isinstance(answer, LeaveResult)
            return answer.members[0]
        if self.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._requests += 1
        self._classic_happens(Leave(self._requests, leaving))
        left = self.answers[self._requests]
        assert isinstance(left, LeaveResult)
        return left.members[0]

    def may_commit(self, member_id: str, generation_id: int, partition: TopicIdPartition) -> bool:
        """True if a commit of this member counts now."""
        names = [name for name, known in self.topics.items() if known.topic_id == partition.topic_id]
        if not names:
            return False
        place = TopicPartition(names[0], partition.partition)
        if self.consumer is not None:
            found = commits.commit(
                self.consumer,
                member_id=member_id,
                instance_id=None,
                member_epoch=generation_id,
                partitions=[place],
                topics=self.topics,
                api_version=9,
            )
            return found is ErrorCode.NONE
        if self.classic is None:
            return False
        error = checks.offset_commit(self.classic, member_id=member_id, instance_id=None, generation_id=generation_id)
        return error is ErrorCode.NONE

    def fire(self, timer: ConsumerTimer | TimerName) -> None:
        """A timer that runs runs out."""
        if isinstance(timer, ConsumerTimer):
            self._consumer_happens(MemberTimerFired(timer, self.timers.pop(timer).epoch))
        else:
            self._classic_happens(TimerFired(timer, self.classic_timers.pop(timer)))

    # What follows

    def _consumer_happens(self, event: ConsumerEvent, *, replaced: Group | None = None) -> Answer | None:
        before = self.consumer or ConsumerGroup("g")
        decided = decide(
            before,
            event,
            now_ms=self.now_ms,
            config=self.config,
            topics=self.topics,
            topics_changed=self.topics_changed,
            may_convert=self.may_convert,
        )
        if decided.is_refused:
            assert not decided.records
            return decided.answer
        records = encoded("g", decided.records)
        self.kinds = [f"{each.kind.value}{'' if each.value is not None else '+'}" for each in decided.records]
        if replaced is not None and not replaced.is_simple:
            records.insert(0, group_records.group_tombstone("g"))
            self.kinds.insert(0, "2+")
        for record in records:
            self._write(record.key, record.value)
        if decided.classic is not None:
            self.consumer, self.timers = None, {}
            self.classic = decided.classic
            self._classic_happens(BecameClassic(decided.classic_rebalances))
            return decided.answer
        if replaced is not None:
            self._classic_happens(Converted())
            assert not self.classic_timers
            self.classic = None
        self.consumer = decided.group
        for effect in decided.timers:
            match effect:
                case StartMemberTimer():
                    if not (effect.unless_runs and effect.timer in self.timers):
                        self.timers[effect.timer] = effect
                case CancelMemberTimer():
                    self.timers.pop(effect.timer, None)
        return decided.answer

    def _classic_happens(self, event: Event) -> None:
        assert self.classic is not None
        self.classic, effects = classic_rules.decide(self.classic, event, now_ms=self.now_ms, config=CLASSIC)
        generation_id = self.classic.generation_id
        for effect in effects:
            self._carry_out(effect, generation_id)

    def _carry_out(self, effect: Effect, generation_id: int) -> None:
        match effect:
            case GroupReply():
                assert effect.request_id not in self.answers
                self.answers[effect.request_id] = effect.answer
            case PersistGroup():
                record = group_records.group_record(effect.group)
                self._write(record.key, record.value)
                self._classic_happens(GroupAppended(effect.then))
            case StartTimer():
                self.classic_timers[effect.timer] = generation_id
            case CancelTimer():
                self.classic_timers.pop(effect.timer, None)

    def _write(self, key: bytes | None, value: bytes | None) -> None:
        assert key is not None
        self.log[key] = KeyValue(self._offset, key, value)
        self.kafka.apply(key, value)
        self._offset += 1

    # The log

    def stored_consumer(self) -> ConsumerGroup | None:
        """The consumer group that the log tells of, which Apache Kafka can read in this order, too."""
        KafkaReplay(sorted(self.log.values()))
        found = replayed(each for key, each in self.log.items() if key[:2] in KIND_KEYS)
        assert not found.left_over
        return found.groups.get("g")

    def stored_classic(self) -> Group | None:
        """The classic group that the log tells of."""
        for each in self.log.values():
            if each.key is not None and each.key[:2] not in KIND_KEYS and each.value is not None:
                written = read(each)
                assert isinstance(written, GroupWritten)
                return written.group
        return None

    def member(self, member_id: str) -> ConsumerMember:
        """A member of the consumer group."""
        assert self.consumer is not None
        return self.consumer.members[member_id]

    def is_stable(self) -> bool:
        """True if every member has what it is to have."""
        if self.consumer is not None:
            return self.consumer.state.value == "Stable"
        return self.classic is not None and self.classic.state is GroupState.STABLE
