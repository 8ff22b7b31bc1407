"""Whatever is asked in whatever order, memory is what the log says, pruned or not (share-state.md 5)."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from share_state_fakes import ACKNOWLEDGED, ARCHIVED, AVAILABLE, TOPIC_ID, PrunedLog

from eosin.coordinator.share_state.log.loader import StateLoader
from eosin.coordinator.share_state.log.records import encoded
from eosin.coordinator.share_state.rules import decide
from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.rules.decide import Decision
from eosin.coordinator.share_state.rules.pruning import pruning_of
from eosin.coordinator.share_state.rules.records import Change, StoredState, applied
from eosin.coordinator.share_states import SharePartition, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import build_batch

CONFIG = ShareStateConfig(snapshot_update_records_per_snapshot=3)
NOW_MS = 1_700_000_000_000
PARTITIONS = [SharePartition("g", TOPIC_ID, index) for index in range(3)]

Ask = Callable[[StoredState | None], Decision]

epochs = st.integers(-1, 4)
batches = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 6),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(1, 3),
    ),
    max_size=3,
)


def initialization(state_epoch: int, start_offset: int) -> Ask:
    return lambda state: decide.initialize(state, state_epoch=state_epoch, start_offset=start_offset, now_ms=NOW_MS)


def reading(leader_epoch: int) -> Ask:
    return lambda state: decide.read(state, leader_epoch=leader_epoch)


def writing(found: list[StateBatch], state_epoch: int, leader_epoch: int, start_offset: int) -> Ask:
    return lambda state: decide.write(
        state,
        found,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=-1,
        now_ms=NOW_MS,
        config=CONFIG,
    )


starts = st.integers(-1, 35)
asks: Any = st.one_of(
    st.builds(initialization, epochs, starts),
    st.builds(reading, epochs),
    st.builds(writing, batches, epochs, epochs, starts),
    st.builds(writing, batches, epochs, epochs, starts),
    st.just(lambda state: decide.delete(state)),
)
histories = st.lists(st.tuples(st.sampled_from(PARTITIONS), asks), max_size=30)


def carried_out(history: list[tuple[SharePartition, Ask]]) -> tuple[dict[SharePartition, StoredState], list[Any]]:
    """The states afterwards, and the records in order."""
    states: dict[SharePartition, StoredState] = {}
    records: list[tuple[SharePartition, Change]] = []
    for partition, ask in history:
        decision = ask(states.get(partition))
        assert decision.error is ErrorCode.NONE or not decision.records
        for change in decision.records:
            after = applied(states.get(partition), change, offset=len(records))
            records.append((partition, change))
            if after is None:
                states.pop(partition, None)
            else:
                states[partition] = after
    return states, records


def load(records: list[tuple[SharePartition, Change]], begin: int = 0) -> dict[SharePartition, StoredState]:
    log = PrunedLog()
    for each in records:
        log.append(bytes(build_batch([encoded(*each)], timestamp=0)), now_ms=0)
    log.prune(begin)
    loader = StateLoader()
    asyncio.run(loader.load(log, name="a log"))
    assert not loader.broken
    return loader.states


@given(histories)
@settings(max_examples=200)
def test_memory_is_what_the_log_says_wherever_pruning_lets_it_begin(history: list[tuple[SharePartition, Ask]]) -> None:
    states, records = carried_out(history)
    assert load(records) == states
    needed = pruning_of(states, {}, log_end=len(records), now_ms=NOW_MS, cold_after_ms=1).first_needed
    assert load(records, needed) == states
