"""`ShareDecision`: one decision in the making. Each of its steps changes the group and asks for the record that says
so, in one: so memory is what a replay of the log gives."""

from collections.abc import Collection, Mapping
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
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, TargetEpoch
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics, metadata_hash
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember, with_member, without_member
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord
from eosin.coordinator.groups.share.rules.states import StateTopics
from eosin.protocol.names import Uuid


class ShareDecision:
    """The group as it becomes, the records and the timers so far."""

    __slots__ = (
        "before",
        "busy",
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
        group: ShareGroup,
        *,
        now_ms: int,
        config: ShareGroupConfig,
        topics: Topics,
        most_at_once: int,
        busy: Collection[Uuid],
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
        self.busy = busy
        self.is_computing = is_computing
        self.wants_target = False
        """True if a target is due that takes longer to compute than a decision may."""
        self.records: list[ShareRecord] = []
        self.timers: list[TimerEffect] = []

    # The group and its records

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or change what it has said of itself."""
        self.group = with_member(self.group, member)
        self.records.append(ShareRecord(ShareKind.MEMBER, member.member_id, member))

    def put_current(self, member: ShareMember) -> None:
        """Change what a member has, or its epoch."""
        self.group = with_member(self.group, member)
        self.records.append(ShareRecord(ShareKind.CURRENT, member.member_id, member))

    def put_targets(self, targets: Mapping[str, Partitions]) -> None:
        """Change the targets of some members."""
        self.group = replace(self.group, targets=self.group.targets.changed(targets))
        self.records += [ShareRecord(ShareKind.TARGET, member_id, target) for member_id, target in targets.items()]

    def drop_member(self, member_id: str) -> None:
        """Remove a member with all that is known of it."""
        self.records += [
            ShareRecord(kind, member_id) for kind in (ShareKind.CURRENT, ShareKind.TARGET, ShareKind.MEMBER)
        ]
        self.group = without_member(self.group, member_id)
        self.timers.append(CancelMemberTimer(ConsumerTimer(ConsumerTimerKind.SESSION, member_id)))

    def put_states(self, states: StateTopics) -> None:
        """Change the lists of states."""
        self.group = replace(self.group, states=states, has_states=True)
        self.records.append(ShareRecord(ShareKind.STATES, value=states))

    def bump(self) -> None:
        """Begin the next group epoch."""
        self.store_group(self.group.epoch + 1)

    def store_group(self, epoch: int) -> None:
        """Write the group's own record, with the topics as they are now."""
        found = self.hash_of(self.group.subscribed_names())
        self.group = replace(self.group, epoch=epoch, metadata_hash=found, is_stored=True)
        self.records.append(ShareRecord(ShareKind.GROUP, value=GroupEpoch(epoch, found)))

    def store_target_epoch(self, timestamp_ms: int, *, epoch: int | None = None) -> None:
        """The target is that of a group epoch, by default the present one."""
        epoch = self.group.epoch if epoch is None else epoch
        self.group = replace(self.group, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms)
        self.records.append(ShareRecord(ShareKind.TARGET_EPOCH, value=TargetEpoch(epoch, timestamp_ms)))

    # Timers

    def start_session(self, member: ShareMember) -> None:
        """Begin the member's session anew."""
        timer = ConsumerTimer(ConsumerTimerKind.SESSION, member.member_id)
        self.timers.append(StartMemberTimer(timer, self.config.session_timeout_ms, member.epoch))
