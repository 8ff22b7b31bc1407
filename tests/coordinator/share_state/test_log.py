"""Records of `__share_group_state` as Apache Kafka writes them, and what a log says (share-state.md 2)."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_state_fakes import ACKNOWLEDGED, ARCHIVED, AVAILABLE, PARTITION, TOPIC_ID, PrunedLog, batch

from eosin.coordinator.share_state.log.loader import StateLoader
from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_state.rules.records import Change, StateSnapshot, StateUpdate, StoredState, applied
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.records.batch import NewRecord, build_batch

OTHER = SharePartition("group", TOPIC_ID, 1)
SNAPSHOT = StateSnapshot(3, 2, 7, 100, 5, 1_000, 2_000, (batch(100, 109, ARCHIVED, 2),))
UPDATE = StateUpdate(3, 8, 102, -1, (batch(110, 119),))


async def load(*records: NewRecord | tuple[SharePartition, Change]) -> StateLoader:
    log = PrunedLog()
    for each in records:
        record = each if isinstance(each, NewRecord) else encoded(*each)
        log.append(bytes(build_batch([record], timestamp=0)), now_ms=0)
    loader = StateLoader()
    await loader.load(log, name="__share_group_state-0")
    return loader


def test_a_snapshot_has_the_bytes_that_kafka_gives_it() -> None:
    record = encoded(PARTITION, SNAPSHOT)
    assert record.key == b"\0\0" + b"\0\x05group" + TOPIC_ID + b"\0\0\0\0"
    assert record.value == bytes.fromhex(
        "0000"  # version
        "00000003 00000002 00000007"  # epochs: of the snapshot, of the state, of the leader
        "0000000000000064"  # start offset
        "00000000000003e8 00000000000007d0"  # created, written
        "02 0000000000000064 000000000000006d 04 0002 00"  # one batch
        "01 00 04 00000005"  # one tagged field: the count of complete deliveries
    )


def test_an_update_has_the_bytes_that_kafka_gives_it() -> None:
    record = encoded(PARTITION, UPDATE)
    assert record.key == b"\0\1" + b"\0\x05group" + TOPIC_ID + b"\0\0\0\0"
    assert record.value == bytes.fromhex(
        "0000 00000003 00000008 0000000000000066 02 000000000000006e 0000000000000077 02 0001 00 00"
    )


def test_the_end_of_a_state_is_the_tombstone_of_its_snapshot() -> None:
    assert encoded(PARTITION, None) == NewRecord(encoded(PARTITION, SNAPSHOT).key, None)


async def test_a_snapshot_replaces_and_an_update_is_merged() -> None:
    loader = await load((PARTITION, UPDATE), (PARTITION, SNAPSHOT), (PARTITION, UPDATE))
    state = loader.states[PARTITION]
    assert state == StoredState(3, 2, 8, 102, -1, 1_000, 2_000, 1, 1, (batch(102, 109, ARCHIVED, 2), batch(110, 119)))


async def test_an_update_that_finds_nothing_stands_for_itself() -> None:
    loader = await load((PARTITION, UPDATE))
    state = loader.states[PARTITION]
    assert (state.leader_epoch, state.start_offset, state.batches) == (8, 102, UPDATE.batches)
    assert state.snapshot_offset == 0


async def test_a_tombstone_ends_a_state_and_what_comes_later_begins_another() -> None:
    assert not (await load((PARTITION, SNAPSHOT), (PARTITION, UPDATE), (PARTITION, None))).states
    loader = await load((PARTITION, SNAPSHOT), (PARTITION, None), (PARTITION, SNAPSHOT._replace(batches=())))
    assert loader.states[PARTITION].batches == ()


_KEY = encoded(PARTITION, SNAPSHOT).key
_UPDATE_KEY = encoded(PARTITION, UPDATE).key
_VALUE = encoded(PARTITION, SNAPSHOT).value
assert _VALUE is not None

BROKEN = {
    "a version that comes later": NewRecord(_KEY, b"\0\1" + _VALUE[2:]),
    "a value that is cut off": NewRecord(_KEY, _VALUE[:-9]),
    "an empty value": NewRecord(_KEY, b""),
    "a state that there is not": NewRecord(
        _UPDATE_KEY,
        encoded(PARTITION, UPDATE._replace(batches=(StateBatch(1, 2, 9, 1),))).value,  # type: ignore[arg-type]
    ),
    "offsets that go back": NewRecord(_UPDATE_KEY, encoded(PARTITION, UPDATE._replace(batches=(batch(2, 1),))).value),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_record_that_cannot_be_read_takes_its_share_partition_aside_alone(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = await load((PARTITION, SNAPSHOT), (OTHER, SNAPSHOT), BROKEN[what], (PARTITION, UPDATE), (OTHER, UPDATE))
    assert list(loader.states) == [OTHER]
    assert list(loader.broken) == [PARTITION]
    assert "offset 2" in caplog.text
    assert all("group" in record.getMessage() for record in caplog.records)


async def test_what_cannot_be_read_is_kept_with_all_that_it_needs() -> None:
    loader = await load((OTHER, SNAPSHOT), (PARTITION, SNAPSHOT), BROKEN["offsets that go back"])
    assert loader.broken == {PARTITION: 1}, "the snapshot is needed with an update"
    loader = await load((OTHER, SNAPSHOT), (PARTITION, SNAPSHOT), BROKEN["an empty value"])
    assert loader.broken == {PARTITION: 2}, "nothing is needed before a snapshot"


@pytest.mark.parametrize("repaired", [SNAPSHOT, None])
async def test_a_later_snapshot_or_tombstone_repairs_a_share_partition(repaired: Change) -> None:
    loader = await load((PARTITION, SNAPSHOT), BROKEN["an empty value"], (PARTITION, UPDATE), (PARTITION, repaired))
    assert not loader.broken
    assert (PARTITION in loader.states) is (repaired is not None)


@pytest.mark.parametrize("key", [b"\0\7" + b"\0\1g" + TOPIC_ID + b"\0\0\0\0", b"\0\0\0\x09short", b"", b"\0"])
async def test_kinds_that_nobody_knows_are_passed_over(key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        loader = await load((PARTITION, SNAPSHOT), NewRecord(key, b"\0\0"), (PARTITION, UPDATE))
    assert loader.states[PARTITION].updates == 1
    assert "skipped 1 records" in caplog.text


async def test_what_was_acquired_is_available_to_whoever_takes_over() -> None:
    locked = (batch(1, 2, DeliveryState.ACQUIRED), batch(3, 4, DeliveryState.ARCHIVING))
    loader = await load((PARTITION, UPDATE._replace(start_offset=-1, batches=locked)))
    assert loader.states[PARTITION].batches == (batch(1, 2, AVAILABLE), batch(3, 4, DeliveryState.ARCHIVING))


some_change: Any = st.one_of(
    st.builds(
        lambda epoch, start, first, length, state: StateUpdate(
            0, epoch, start, -1, (StateBatch(first, first + length, state, 1),)
        ),
        st.integers(-1, 5),
        st.integers(-1, 20),
        st.integers(0, 20),
        st.integers(0, 5),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    ),
    st.builds(lambda start: SNAPSHOT._replace(start_offset=start), st.integers(-1, 120)),
    st.none(),
)


@given(st.lists(st.tuples(st.sampled_from([PARTITION, OTHER]), some_change), max_size=12))
async def test_what_is_read_is_what_was_written(changes: list[tuple[SharePartition, Change]]) -> None:
    states: dict[SharePartition, StoredState | None] = {}
    for offset, (partition, change) in enumerate(changes):
        states[partition] = applied(states.get(partition), change, offset=offset)
    loader = await load(*changes)
    assert loader.states == {partition: state for partition, state in states.items() if state is not None}
