"""The judge of `__share_group_state`: what its committed records say, one after the other (share-state.md 2 and 3).

Within one state epoch a start never goes back, no leader epoch does, what is done stays done, and no count of
deliveries shrinks, whichever leaders have written, and however late their requests came.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from eosin.coordinator.share_state.log.records import read_change, read_key
from eosin.coordinator.share_state.rules.records import Change, StateSnapshot
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC
from eosin.protocol.records.batch import iter_records
from eosin.protocol.records.header import batches
from simulation.cluster.replicas import Replicas

_DONE = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVING, DeliveryState.ARCHIVED})


@dataclass(slots=True)
class _Known:
    state_epoch: int
    leader_epoch: int
    start: int
    records: dict[int, tuple[int, DeliveryState]] = field(default_factory=dict)
    """Count and state, by offset."""


def states_judged(replicas: Replicas) -> Iterator[str]:
    """Violations in all that was ever committed of the topic."""
    for logged in replicas.committed(SHARE_GROUP_STATE_TOPIC):
        yield from judged(logged)


def judged(logged: Iterable[tuple[int, bytes]]) -> Iterator[str]:
    """Violations in the batches of one partition, with their base offsets in order. Behind a gap nothing is known."""
    known: dict[SharePartition, _Known] = {}
    reached = -1
    for base_offset, data in logged:
        if base_offset != reached:
            known.clear()
        for record in iter_records(data):
            found = read_key(record)
            if found is not None:
                where = f"{base_offset} of the states of {found.partition.group_id}-{found.partition.partition}"
                yield from _follow(known, found.partition, read_change(found, record), where)
        (_, header), *_ = batches(data)
        reached = header.next_offset


def _follow(
    known: dict[SharePartition, _Known], partition: SharePartition, change: Change, where: str
) -> Iterator[str]:
    before = known.get(partition)
    if change is None:
        known.pop(partition, None)
        return
    if isinstance(change, StateSnapshot):
        after = _Known(change.state_epoch, change.leader_epoch, change.start_offset, _by_offset(change.batches))
        if before is not None and after.state_epoch < before.state_epoch:
            yield f"the state epoch went from {before.state_epoch} to {after.state_epoch} at {where}"
    elif before is None:
        return
    else:
        start = before.start if change.start_offset < 0 else change.start_offset
        records = dict(before.records)
        for offset, now in _by_offset(change.batches).items():
            records[offset] = max(now, records.get(offset, now))
        after = _Known(before.state_epoch, change.leader_epoch, start, records)
    known[partition] = after
    if before is not None and after.state_epoch == before.state_epoch:
        yield from _compare(before, after, where)


def _compare(before: _Known, after: _Known, where: str) -> Iterator[str]:
    if after.start < before.start:
        yield f"the start went from {before.start} to {after.start} at {where}"
    if after.leader_epoch < before.leader_epoch:
        yield f"the leader epoch went from {before.leader_epoch} to {after.leader_epoch} at {where}"
    for offset, (count, state) in before.records.items():
        if offset < after.start:
            continue
        count_now, state_now = after.records.get(offset, (0, DeliveryState.AVAILABLE))
        if state in _DONE and state_now not in _DONE:
            yield f"the record {offset} was {state.name}, and is {state_now.name} at {where}"
        elif count_now < count:
            yield f"the count of {offset} went from {count} to {count_now} at {where}"


def _by_offset(stored: Iterable[StateBatch]) -> dict[int, tuple[int, DeliveryState]]:
    return {
        offset: (batch.delivery_count, batch.state) for batch in stored for offset in range(batch.first, batch.last + 1)
    }
