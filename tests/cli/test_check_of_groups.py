"""`eosin check` of the records of consumer, share and streams groups, and of share partitions' states: what a broker
writes is sound, after any compaction, and each kind of damage is told of with its place."""

import random
from collections.abc import Callable, Sequence

import pytest
from consumer_group import RuledGroup
from inspected import Stopped
from share_group import RuledShareGroup

from eosin.cli.directory_check import DirectoryCheck
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.log.check import GroupCheck
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_state.log.check import StateCheck
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.consumer_groups import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from eosin.protocol.schemas.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from eosin.protocol.schemas.records.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from eosin.protocol.schemas.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from eosin.protocol.schemas.records.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from eosin.protocol.types import Message
from eosin.storage.inspection.internal_records import decode
from eosin.storage.inspection.values import FileProblem

Entry = tuple[Message, Message | None]
TOPIC = b"x" * 16
STATE = "the state of 'g:eHh4eHh4eHh4eHh4eHh4eA:0'"


def encoded(entries: Sequence[Entry]) -> list[NewRecord]:
    return [NewRecord(encode_key(key), None if value is None else encode_value(value, 0)) for key, value in entries]


def of_groups(records: Sequence[NewRecord]) -> list[str]:
    """The findings about a partition of `__consumer_offsets`, each with its severity."""
    check, found = GroupCheck(), []
    for offset, each in enumerate(records):
        found += check.show(decode(CONSUMER_OFFSETS_TOPIC, each.key, each.value), offset)
    return [f"{each.severity} {each.offset} {each.reason}" for each in (*found, *check.finish())]


def of_states(*entries: Entry) -> list[str]:
    """The same of `__share_group_state`."""
    check, found = StateCheck(), []
    for offset, each in enumerate(encoded(entries)):
        found += check.show(decode(SHARE_GROUP_STATE_TOPIC, each.key, each.value), offset)
    return [f"{each.severity} {each.offset} {each.reason}" for each in (*found, *check.finish())]


# What a broker writes


def compacted(records: list[NewRecord], upto: int) -> list[NewRecord]:
    """What the cleaner leaves when it has read the first `upto` records."""
    last = {each.key: offset for offset, each in enumerate(records[:upto])}
    kept = [each for offset, each in enumerate(records[:upto]) if last[each.key] == offset]
    return [*kept, *records[upto:]]


def expire(group: RuledGroup | RuledShareGroup, member: str) -> None:
    """A member is heard of no more."""
    if isinstance(group, RuledShareGroup):
        group.expire(member)
    else:
        group.fire(ConsumerTimerKind.SESSION, member)


def lived(group: RuledGroup | RuledShareGroup, chance: random.Random) -> list[NewRecord]:
    """The whole log of a group whose members come, go, heartbeat and are lost."""
    records: list[NewRecord] = []
    epochs: dict[str, int] = {}
    for _ in range(60):
        seen = dict(group.log)
        member = f"m{chance.randrange(4)}"
        match chance.randrange(5):
            case 0 if member in epochs:
                group.heartbeat(member, -1)
                epochs.pop(member)
            case 1 if member in epochs:
                expire(group, member)
                epochs.pop(member)
            case _ if member in epochs:
                epochs[member] = group.heartbeat(member, epochs[member]).epoch
            case _:
                epochs[member] = group.join(member).epoch
        written = [each for key, each in group.log.items() if seen.get(key) is not each]
        records += [NewRecord(each.key, each.value) for each in sorted(written, key=lambda each: each.offset)]
    return records


@pytest.mark.parametrize("made", [RuledGroup, RuledShareGroup])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_broker_writes_is_sound_and_so_is_what_compaction_leaves(
    made: Callable[..., RuledGroup | RuledShareGroup], seed: int
) -> None:
    chance = random.Random(seed)
    records = lived(made(orders=4), chance)
    assert len(records) > 20
    assert of_groups(records) == []
    for upto in range(0, len(records), 7):
        assert of_groups(compacted(records, upto)) == []


def test_a_state_is_sound_through_its_updates_a_new_start_and_its_end() -> None:
    key, update = ShareSnapshotKey("g", TOPIC, 0), ShareUpdateKey("g", TOPIC, 0)
    entries: list[Entry] = [
        (key, ShareSnapshotValue(0, 3, 0, 10)),
        (update, ShareUpdateValue(0, 0, -1, state_batches=(StoredStateBatch(4, 12, 2, 1),))),  # late: cut when read
        (update, ShareUpdateValue(0, 0, 15)),
        (key, ShareSnapshotValue(1, 3, 0, 2)),  # an administrator moved it
        (key, None),
        (key, ShareSnapshotValue(0, 1, 0, 0)),
    ]
    assert of_states(*entries) == []
    assert of_states(*entries[3:]) == [], "and after pruning"


# Damage


def share(epoch: int, *members: str, current: int = -1) -> list[Entry]:
    entries: list[Entry] = [(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(epoch))]
    for each in members:
        entries.append((ShareGroupMemberMetadataKey("g", each), ShareGroupMemberMetadataValue()))
        if current >= 0:
            key = ShareGroupCurrentMemberAssignmentKey("g", each)
            entries.append((key, ShareGroupCurrentMemberAssignmentValue(current)))
    return entries


@pytest.mark.parametrize(
    ("entries", "sentences"),
    [
        (
            [*share(5), *share(4)],
            ["error 1 share group 'g': its epoch goes back from 5 to 4"],
        ),
        (
            share(5, "m")[1:],
            ["error 0 share group 'g': it has members and no record of its own: 'm'"],
        ),
        (
            [*share(5), (ShareGroupTargetAssignmentMetadataKey("g"), ShareGroupTargetAssignmentMetadataValue(6))],
            ["error 1 share group 'g': the epoch of its assignment is 6, and that of the group 5"],
        ),
        (
            share(5, "m", current=7),
            ["error 2 share group 'g': the epoch of member 'm' is 7, and that of the group 5"],
        ),
        (
            [*share(5, "m", current=5), share(5, "m", current=3)[2]],
            ["error 3 share group 'g': the epoch of member 'm' goes back from 5 to 3"],
        ),
        (
            [*share(5, "m", current=5), (ShareGroupMemberMetadataKey("g", "m"), None)],
            [
                "warning 3 share group 'g': member 'm' is deleted before its assignment: Apache Kafka does not read"
                " that",
                "warning 2 share group 'g': an assignment of 'm', who is no member: the next start deletes it",
            ],
        ),
        (
            [*share(5, "m"), (ShareGroupMetadataKey("g"), None), (ShareGroupMemberMetadataKey("g", "m"), None)],
            ["warning 2 share group 'g': it is deleted before its members: Apache Kafka does not read that"],
        ),
        (
            [(GroupMetadataKey("g"), GroupMetadataValue()), *share(5)],
            ["warning 1 group 'g' is a classic group and a share group: the next start leaves the share group"],
        ),
        (
            [
                (StreamsGroupMetadataKey("g"), StreamsGroupMetadataValue(2)),
                (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(1)),
            ],
            ["warning 1 group 'g' is a consumer group and a streams group: the next start leaves the consumer group"],
        ),
        (
            [(StreamsGroupMemberMetadataKey("s", "m"), StreamsGroupMemberMetadataValue())],
            ["error 0 streams group 's': it has members and no record of its own: 'm'"],
        ),
        (
            [
                (StreamsGroupMetadataKey("s"), StreamsGroupMetadataValue(2)),
                (
                    StreamsGroupTargetAssignmentMemberKey("s", "gone"),
                    StreamsGroupTargetAssignmentMemberValue(),
                ),
                (StreamsGroupMetadataKey("s"), StreamsGroupMetadataValue(1)),
            ],
            [
                "error 2 streams group 's': its epoch goes back from 2 to 1",
                "warning 1 streams group 's': an assignment of 'gone', who is no member: the next start deletes it",
            ],
        ),
    ],
)
def test_damage_of_a_group_is_told_with_its_place(entries: list[Entry], sentences: list[str]) -> None:
    assert of_groups(encoded(entries)) == sentences


def test_a_kind_of_a_later_version_is_counted_and_no_damage() -> None:
    records = [NewRecord(b"\x00\x63g", b"\0\0")] * 3
    assert of_groups(records) == [
        "warning 0 3 records of a kind that this version does not know (key version 99)",
    ]


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (
            [(ShareSnapshotKey("g", TOPIC, 0), ShareSnapshotValue(0, epoch, 0, 0)) for epoch in (4, 3)],
            f"error 1 {STATE} goes back from epoch 4 to 3",
        ),
        (
            [
                (
                    ShareSnapshotKey("g", TOPIC, 0),
                    ShareSnapshotValue(0, 1, 0, 10, state_batches=(StoredStateBatch(8, 9, 2, 1),)),
                )
            ],
            f"error 0 {STATE} has deliveries from 8 on, and begins at 10",
        ),
        (
            [
                (ShareSnapshotKey("g", TOPIC, 0), ShareSnapshotValue(0, 1, 0, 10)),
                (ShareUpdateKey("g", TOPIC, 0), ShareUpdateValue(0, 0, 9)),
            ],
            f"error 1 {STATE} goes back from offset 10 to 9",
        ),
        (
            [(ShareUpdateKey("g", TOPIC, 0), ShareUpdateValue(0, 0, 9))],
            f"error 0 {STATE} has updates and no snapshot: its beginning is lost",
        ),
    ],
)
def test_damage_of_a_state_is_told_with_its_place(entries: list[Entry], sentence: str) -> None:
    assert of_states(*entries) == [sentence]


# In a directory


def problems(disk: LyingDisk) -> list[str]:
    found = [each for each in DirectoryCheck(disk, "/data").run() if isinstance(each, FileProblem)]
    return [f"{each.file}: {each.reason}" for each in found]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ((StreamsGroupMetadataKey("g"), StreamsGroupMetadataValue(1)), "its epoch goes back from 3 to 1"),
        (
            (
                StreamsGroupCurrentMemberAssignmentKey("g", "m"),
                StreamsGroupCurrentMemberAssignmentValue(2),
            ),
            "an assignment of 'm', who is no member: the next start deletes it",
        ),
    ],
)
async def test_a_damaged_copy_of_a_log_is_found_out(damage: Entry, reason: str) -> None:
    made = await Stopped().begin()
    home = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for("g", 5))
    made.record(home, StreamsGroupMetadataKey("g"), StreamsGroupMetadataValue(3))
    made.record(home, *damage)
    assert problems(await made.stop()) == [f"{home}: streams group 'g': {reason}"]


async def test_a_group_of_a_new_protocol_in_the_wrong_partition_is_an_error() -> None:
    made = await Stopped().begin()
    home = partition_for("g", 5)
    wrong = TopicPartition(CONSUMER_OFFSETS_TOPIC, (home + 1) % 5)
    made.record(wrong, ShareGroupMetadataKey("g"), ShareGroupMetadataValue(3))
    assert problems(await made.stop()) == [f"{wrong}: group 'g' belongs to partition {home}"]
