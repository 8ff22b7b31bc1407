"""Reading `__transaction_state` in one pass over bytes: what is believed and what is not is as record by record."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.log.loader import StateReplay
from eosin.coordinator.transactions.log.records import CorruptTransactionLog, replay
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_control_batch, retain_records
from eosin.protocol.records.scan import sound_batches

PARTITIONS = frozenset({TopicPartition("orders", 3)})
PREPARED = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

txns = st.builds(
    lambda name, producer_id, epoch, state: Txn(
        name,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1000,
        state=state,
        partitions=PARTITIONS if state in PREPARED else frozenset(),
        updated_ms=5,
    ),
    st.sampled_from(("a", "b")),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from(list(TransactionState)),
)
pieces = st.lists(
    st.one_of(
        st.tuples(st.just("records"), st.lists(txns, min_size=1, max_size=3)),
        st.tuples(st.just("emptied"), txns),
        st.tuples(st.just("marker"), st.booleans()),
    ),
    max_size=12,
)


def batch_of(piece: tuple[str, object]) -> bytes:
    match piece:
        case ("records", list(found)):
            return encode_batch(found, now_ms=9, transaction_version=2)
        case ("emptied", found):
            batch = encode_batch([found], now_ms=9, transaction_version=2)  # type: ignore[list-item]
            return bytes(retain_records(batch, lambda _: False))
        case (_, commit):
            return bytes(
                build_control_batch(
                    producer_id=1, producer_epoch=0, commit=bool(commit), coordinator_epoch=1, timestamp=9
                )
            )


@given(pieces, st.integers(1, 12))
def test_in_runs_of_any_length_the_result_is_that_of_record_by_record(
    script: list[tuple[str, object]], per_run: int
) -> None:
    batches = [batch_of(piece) for piece in script]
    expected: dict[str, Txn] | None = {}
    try:
        for batch in batches:
            replay(batch, expected)  # type: ignore[arg-type]
    except CorruptTransactionLog:
        expected = None
    found: dict[str, Txn] | None
    try:
        state = StateReplay()
        for at in range(0, len(batches), per_run):
            run = memoryview(b"".join(batches[at : at + per_run]))
            for head in sound_batches(run):
                state.apply(run, head)
        found = state.txns()
    except CorruptTransactionLog:
        found = None
    assert found == expected


@given(st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_of_one_producer_never_goes_back(first: int, second: int) -> None:
    txn = Txn("a", producer_id=1, producer_epoch=first, timeout_ms=1, updated_ms=1)
    later = msgspec.structs.replace(txn, producer_epoch=second)
    run = memoryview(encode_batch([txn, later], now_ms=1, transaction_version=2))
    state = StateReplay()
    (head,) = sound_batches(run)
    try:
        state.apply(run, head)
        assert second >= first
    except CorruptTransactionLog:
        assert second < first
