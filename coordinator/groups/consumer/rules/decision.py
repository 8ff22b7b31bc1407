"""`ConsumerDecision`: one decision in the making. Each of its steps changes the group and asks for the record that says
so, in one: so memory is what a replay of the log gives."""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimer,
    ConsumerTimerKind,
    StartMemberTimer,
    TimerEffect,
)
from eosin.coordinator.groups.consumer.rules.group import (
    ConsumerGroup,
    ConsumerMember,
    ResolvedRegex,
    with_member,
    without_member,
)
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind, TargetEpoch
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics, metadata_hash
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.coordinator.groups.rules.group import Group

MAX_GROUP_EPOCH = 2_147_483_647


class ConsumerDecision:
    """The group as it becomes, the records and the timers so far."""

    __slots__ = (
        "before",
        "classic",
        "classic_rebalances",
        "config",
        "group",
        "hash_of",
        "is_computing",
        "may_convert",
        "most_at_once",
        "now_ms",
        "records",
        "timers",
        "topics",
        "wants_target",
    )

    def __init__(
        self,
        group: ConsumerGroup,
        *,
        now_ms: int,
        config: ConsumerGroupConfig,
        topics: Topics,
        most_at_once: int,
        hash_of: HashOf | None = None,
        is_computing: bool = False,
        may_convert: bool = True,
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
        self.records: list[GroupRecord] = []
        self.timers: list[TimerEffect] = []
        self.classic: Group | None = None
        """The classic group that takes the place of this one."""
        self.classic_rebalances = False
        """True if the classic group begins with a rebalance."""
        self.may_convert = may_convert
        """False while another change of the group's kind is not durable."""

    # The group and its records

    def write(self, record: GroupRecord) -> None:
        """Ask for a record."""
        self.records.append(record)

    def put_member(self, member: ConsumerMember) -> None:
        """Add a member, or change what it has said of itself."""
        self.group = with_member(self.group, member)
        self.write(GroupRecord(Kind.MEMBER, member.member_id, member))

    def put_current(self, member: ConsumerMember) -> None:
        """Change what a member has, its epoch or its state."""
        self.group = with_member(self.group, member)
        self.write(GroupRecord(Kind.CURRENT, member.member_id, member))

    def put_targets(self, targets: Mapping[str, Partitions]) -> None:
        """Change the targets of some members."""
        self.group = replace(self.group, targets=self.group.targets.changed(targets))
        for member_id, target in targets.items():
            self.write(GroupRecord(Kind.TARGET, member_id, target))

    def remove_members(self, member_ids: list[str]) -> None:
        """Remove members, and the regular expressions that only they were subscribed to."""
        for member_id in member_ids:
            self.drop_member(member_id)
        self.drop_unused_regexes()

    def drop_member(self, member_id: str) -> None:
        """Remove a member with all that is known of it."""
        for kind in (Kind.CURRENT, Kind.TARGET, Kind.MEMBER):
            self.write(GroupRecord(kind, member_id))
        self.group = without_member(self.group, member_id)
        for timer in ConsumerTimerKind:
            self.cancel(timer, member_id)

    def drop_unused_regexes(self) -> None:
        """Forget the topics of regular expressions that no member is subscribed to."""
        if not self.group.regexes:
            return
        used = self.group.counts.regexes
        for regex in [each for each in self.group.regexes if each not in used]:
            self.group = replace(
                self.group, regexes={name: value for name, value in self.group.regexes.items() if name != regex}
            )
            self.write(GroupRecord(Kind.REGEX, regex))

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """Keep the topics that match a regular expression."""
        self.group = replace(self.group, regexes={**self.group.regexes, regex: resolved})
        self.write(GroupRecord(Kind.REGEX, regex, resolved))

    def bump(self) -> None:
        """Begin the next group epoch."""
        self.store_group(self.group.epoch + 1)

    def store_group(self, epoch: int) -> None:
        """Write the group's own record, with the topics as they are now."""
        found = self.hash_of(self.group.subscribed_names())
        if self.group.has_partition_metadata:
            self.write(GroupRecord(Kind.PARTITION_METADATA))
        self.group = replace(
            self.group,
            epoch=epoch,
            metadata_hash=found,
            has_partition_metadata=False,
            is_stored=True,
            state_timestamp_ms=self.now_ms,
        )
        self.write(GroupRecord(Kind.GROUP, value=GroupEpoch(epoch, found)))

    def store_target_epoch(self, timestamp_ms: int, *, epoch: int | None = None) -> None:
        """The target is that of a group epoch, by default the present one."""
        epoch = self.group.epoch if epoch is None else epoch
        self.group = replace(self.group, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms)
        self.write(GroupRecord(Kind.TARGET_EPOCH, value=TargetEpoch(epoch, timestamp_ms)))

    # Timers

    def start(
        self, kind: ConsumerTimerKind, member: ConsumerMember, delay_ms: int, *, unless_runs: bool = False
    ) -> None:
        """Start or restart a timer; with `unless_runs`, one that runs goes on."""
        timer = ConsumerTimer(kind, member.member_id)
        self.timers.append(StartMemberTimer(timer, delay_ms, member.epoch, unless_runs))

    def cancel(self, kind: ConsumerTimerKind, member_id: str) -> None:
        """Stop a timer."""
        self.timers.append(CancelMemberTimer(ConsumerTimer(kind, member_id)))
