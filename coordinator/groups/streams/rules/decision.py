"""`StreamsDecision`: one decision in the making. Each of its steps changes the group and asks for the record that says
so, in one: so memory is what a replay of the log gives."""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimer,
    ConsumerTimerKind,
    StartMemberTimer,
    TimerEffect,
)
from eosin.coordinator.groups.consumer.rules.records import TargetEpoch
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics, metadata_hash
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks
from eosin.coordinator.groups.streams.rules.events import RefusedStreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import (
    MAX_GROUP_EPOCH,
    NO_DESCRIPTION,
    NOT_VALIDATED,
    StreamsGroup,
    StreamsMember,
    with_member,
    without_member,
)
from eosin.coordinator.groups.streams.rules.records import StreamsGroupEpoch, StreamsKind, StreamsRecord
from eosin.coordinator.groups.streams.topology.topology import Topology
from eosin.protocol.errors import ErrorCode

NUM_STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"


class StreamsDecision:
    """The group as it becomes, the records and the timers so far."""

    __slots__ = (
        "before",
        "config",
        "group",
        "hash_of",
        "is_computing",
        "most_at_once",
        "now_ms",
        "records",
        "timers",
        "topics",
        "wants_target",
    )

    def __init__(
        self,
        group: StreamsGroup,
        *,
        now_ms: int,
        config: StreamsGroupConfig,
        topics: Topics,
        most_at_once: int,
        hash_of: HashOf | None = None,
        is_computing: bool = False,
    ) -> None:
        """The parameters are those of `decide`."""
        self.before = group
        self.group = group
        self.now_ms = now_ms
        self.config = config
        self.topics = topics
        self.hash_of: HashOf = hash_of or partial(metadata_hash, topics=topics)
        self.most_at_once = most_at_once
        self.is_computing = is_computing
        self.wants_target = False
        """True if a target is due that takes longer to compute than a decision may."""
        self.records: list[StreamsRecord] = []
        self.timers: list[TimerEffect] = []

    # The group and its records

    def put_member(self, member: StreamsMember) -> None:
        """Add a member, or change what it has said of itself."""
        self.group = with_member(self.group, member)
        self.records.append(StreamsRecord(StreamsKind.MEMBER, member.member_id, member))

    def put_current(self, member: StreamsMember) -> None:
        """Change what a member has, or its epoch."""
        self.group = with_member(self.group, member)
        self.records.append(StreamsRecord(StreamsKind.CURRENT, member.member_id, member))

    def put_topology(self, topology: Topology) -> None:
        """The application runs this topology from now on."""
        self.group = replace(self.group, topology=topology, configured=None, description=NO_DESCRIPTION)
        self.records.append(StreamsRecord(StreamsKind.TOPOLOGY, value=topology))

    def put_targets(self, targets: Mapping[str, MemberTasks]) -> None:
        """Change the targets of some members."""
        self.group = replace(self.group, targets=self.group.targets.changed(targets))
        self.records += [StreamsRecord(StreamsKind.TARGET, member_id, target) for member_id, target in targets.items()]

    def drop_member(self, member_id: str) -> None:
        """Remove a member with all that is known of it."""
        self.records += [
            StreamsRecord(kind, member_id) for kind in (StreamsKind.CURRENT, StreamsKind.TARGET, StreamsKind.MEMBER)
        ]
        self.group = without_member(self.group, member_id)
        for kind in (ConsumerTimerKind.SESSION, ConsumerTimerKind.REBALANCE):
            self.cancel(kind, member_id)

    def bump(self) -> None:
        """Begin the next group epoch. Raises RefusedStreamsHeartbeat when there is none."""
        if self.group.epoch >= MAX_GROUP_EPOCH:
            raise RefusedStreamsHeartbeat(
                ErrorCode.UNKNOWN_SERVER_ERROR, "The group has used up its epochs: delete it."
            )
        self.store_group(self.group.epoch + 1)

    def store_group(self, epoch: int) -> None:
        """Write the group's own record, with the topics and the settings as they are now."""
        group = self.group
        found = self.topics_hash()
        is_ready = group.configured is not None and group.configured.is_ready and group.topology is not None
        validated = group.topology.epoch if is_ready and group.topology is not None else NOT_VALIDATED
        configs = self.assignment_configs()
        self.group = replace(
            group,
            epoch=epoch,
            metadata_hash=found,
            validated_topology_epoch=validated,
            assignment_configs=configs,
            is_stored=True,
            state_timestamp_ms=self.now_ms,
        )
        value = StreamsGroupEpoch(epoch, found, validated, configs, group.plugin_epochs)
        self.records.append(StreamsRecord(StreamsKind.GROUP, value=value))

    def topics_hash(self) -> int:
        """Of the topics of the topology as they are now."""
        return self.hash_of(frozenset() if self.group.topology is None else self.group.topology.topics)

    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """The settings that a target depends on."""
        standby = (NUM_STANDBY_REPLICAS, str(self.config.num_standby_replicas))
        tags = self.config.rack_aware_assignment_tags
        return (standby, (RACK_AWARE_TAGS, ",".join(tags))) if tags else (standby,)

    def store_target_epoch(self, timestamp_ms: int, *, epoch: int | None = None) -> None:
        """The target is that of a group epoch, by default the present one."""
        epoch = self.group.epoch if epoch is None else epoch
        self.group = replace(self.group, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms)
        self.records.append(StreamsRecord(StreamsKind.TARGET_EPOCH, value=TargetEpoch(epoch, timestamp_ms)))

    # Timers

    def start(self, kind: ConsumerTimerKind, member: StreamsMember, delay_ms: int) -> None:
        """Begin a timer of a member anew."""
        self.timers.append(StartMemberTimer(ConsumerTimer(kind, member.member_id), delay_ms, member.epoch))

    def cancel(self, kind: ConsumerTimerKind, member_id: str) -> None:
        """Stop a timer of a member."""
        self.timers.append(CancelMemberTimer(ConsumerTimer(kind, member_id)))
