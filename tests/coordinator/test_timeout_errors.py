"""The tables of what is told to a producer that timed out, against those of transactions.md 12.3."""

from pathlib import Path

import msgspec
import pytest

from eosin.coordinator.transactions.rules.decide import decide, verify
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    DeadlinePassed,
    EndTxn,
    InitProducerId,
    TransactionAppended,
)
from eosin.coordinator.transactions.rules.state import TransactionState, Txn, refusal
from eosin.coordinator.transactions.rules.timeout_errors import (
    TIMEOUT_ERRORS,
    Profile,
    RequestKind,
    error_for,
    profile_of,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
OPEN = Txn(
    "tx",
    producer_id=7,
    producer_epoch=5,
    timeout_ms=100,
    state=TransactionState.ONGOING,
    partitions=frozenset({ORDERS_0}),
    start_ms=0,
)
ABORTED = Txn(
    "tx",
    producer_id=7,
    producer_epoch=6,
    last_epoch=5,
    timeout_ms=100,
    state=TransactionState.COMPLETE_ABORT,
    start_ms=0,
    timed_out=ProducerIdAndEpoch(7, 5),
)
LATE = (7, 5)
OUT_OF_TIME = TransactionReply(ErrorCode.PRODUCER_FENCED, timed_out=True)

# profile: Produce 10, 11 and 12, AddPartitions 3, AddOffsets 3, TxnOffsetCommit 2, 3 and 5, commit 3, 4 and 5.
# As transactions.md 12.3 writes it (docs/adr/0017 has the reasons).
EXPECTED = {
    Profile.DEFAULT: (47, 120, 120, 59, 59, 47, 22, 120, 49, 120, 120),
    Profile.JAVA_2: (48, 120, 120, 49, 49, 47, 22, 120, 49, 49, 120),
    Profile.JAVA_3: (47, 120, 120, 49, 49, 47, 22, 120, 49, 49, 120),
    Profile.JAVA_4: (47, 120, 120, 59, 59, 47, 22, 120, 49, 120, 120),
    Profile.LIBRDKAFKA: (59, 59, 59, 59, 59, 47, 22, 120, 49, 120, 120),
    Profile.KGO: (47, 47, 120, 59, 59, 47, 22, 120, 59, 59, 120),
    Profile.REBUILT: (47, 47, 47, 90, 90, 47, 22, 120, 90, 90, 90),
    Profile.STREAMS: (47, 47, 47, 90, 90, 47, 47, 47, 90, 90, 90),
}
COLUMNS = (
    (RequestKind.PRODUCE, 10),
    (RequestKind.PRODUCE, 11),
    (RequestKind.PRODUCE, 12),
    (RequestKind.ADD_PARTITIONS, 3),
    (RequestKind.ADD_OFFSETS, 3),
    (RequestKind.COMMIT_OFFSETS, 2),
    (RequestKind.COMMIT_OFFSETS, 3),
    (RequestKind.COMMIT_OFFSETS, 5),
    (RequestKind.COMMIT, 3),
    (RequestKind.COMMIT, 4),
    (RequestKind.COMMIT, 5),
)


@pytest.mark.parametrize("profile", Profile, ids=lambda profile: profile.value)
def test_each_profile_is_told_what_the_specification_says(profile: Profile) -> None:
    assert tuple(error_for(asked, version, profile) for asked, version in COLUMNS) == EXPECTED[profile]


@pytest.mark.parametrize("name", ["semantics.md", "spec/transactions.md"])
def test_the_pages_show_this_table(name: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / name).read_text()
    for row in TIMEOUT_ERRORS:
        codes = " | ".join(str(code.value) for code in row[2:])
        first, last = row.versions.start, row.versions.stop - 1
        versions = "" if last > 20 and not first else f" v{first}+" if last > 20 else f" v{first}-{last}"
        versions = f" v{first}" if first == last else versions
        assert f"\n| {row.asked.value}{versions} | {codes} |\n" in page


def test_every_version_has_exactly_one_row() -> None:
    for asked in RequestKind:
        for version in range(15):
            assert len([row for row in TIMEOUT_ERRORS if row.asked is asked and version in row.versions]) == 1


def test_a_code_is_only_used_where_it_may_be() -> None:
    for row in TIMEOUT_ERRORS:
        codes = set(row[2:])
        if row.asked in (RequestKind.PRODUCE, RequestKind.COMMIT_OFFSETS):
            assert ErrorCode.PRODUCER_FENCED not in codes, "clients of these know only INVALID_PRODUCER_EPOCH"
        knows_abortable = {RequestKind.PRODUCE: 11, RequestKind.COMMIT_OFFSETS: 4, RequestKind.COMMIT: 4}.get(
            row.asked, 100
        )
        if row.versions.start < knows_abortable:
            assert ErrorCode.TRANSACTION_ABORTABLE not in codes


@pytest.mark.parametrize(
    ("software", "version", "profile"),
    [
        ("apache-kafka-java", "2.5.1", Profile.JAVA_2),
        ("apache-kafka-java", "2.6.3", Profile.JAVA_2),
        ("apache-kafka-java", "2.7.0", Profile.JAVA_3),
        ("apache-kafka-java", "3.9.1", Profile.JAVA_3),
        ("apache-kafka-java", "4.0.0", Profile.JAVA_4),
        ("apache-kafka-java", "4.3.0-SNAPSHOT", Profile.JAVA_4),
        ("apache-kafka-java", "10.0.0", Profile.JAVA_4),
        ("apache-kafka-java", "6.0.1-ccs", Profile.JAVA_2),
        ("apache-kafka-java", "7.5.0-ccs", Profile.JAVA_3),
        ("apache-kafka-java", "8.0.0-ce", Profile.JAVA_4),
        ("apache-kafka-java", "unknown", Profile.DEFAULT),
        ("librdkafka", "2.6.0", Profile.LIBRDKAFKA),
        ("confluent-kafka-python", "2.6.0-librdkafka-2.6.0", Profile.LIBRDKAFKA),
        ("confluent-kafka-go", "2.0.2", Profile.LIBRDKAFKA),
        ("node-rdkafka", "3.0.0", Profile.LIBRDKAFKA),
        ("kgo", "v1.18.0", Profile.KGO),
        ("kafka-python", "2.2.0", Profile.REBUILT),
        ("sarama", "1.43.0", Profile.DEFAULT),
    ],
)
def test_a_client_is_known_by_the_name_and_version_it_gives(software: str, version: str, profile: Profile) -> None:
    assert profile_of(software, version, client_id=None, can_return=True) is profile


STREAMS_THREAD = "orders-9f2c-StreamThread-1"


@pytest.mark.parametrize(
    ("software", "client_id", "profile"),
    [
        ("apache-kafka-java", f"{STREAMS_THREAD}-producer", Profile.STREAMS),
        ("apache-kafka-java", f"{STREAMS_THREAD}-0_12-producer", Profile.STREAMS),
        ("apache-kafka-java", "orders-producer", Profile.JAVA_4),
        ("apache-kafka-java", f"{STREAMS_THREAD}-producer-of-mine", Profile.JAVA_4),
        ("apache-kafka-java", None, Profile.JAVA_4),
        ("librdkafka", f"{STREAMS_THREAD}-producer", Profile.LIBRDKAFKA),
    ],
)
def test_the_producers_of_kafka_streams_are_known_by_their_client_ids(
    software: str, client_id: str | None, profile: Profile
) -> None:
    assert profile_of(software, "4.3.1", client_id=client_id, can_return=True) is profile


def test_a_client_without_a_name_that_can_show_its_pair_is_told_to_go_on() -> None:
    assert profile_of("", "", client_id=None, can_return=True) is Profile.DEFAULT


@pytest.mark.parametrize(
    ("software", "version"), [("", ""), ("apache-kafka-java", "2.4.1"), ("librdkafka", "1.6.2"), ("sarama", "1.43.0")]
)
def test_a_client_that_cannot_show_its_pair_is_told_to_be_rebuilt_whatever_its_name(
    software: str, version: str
) -> None:
    assert profile_of(software, version, client_id=None, can_return=False) is Profile.REBUILT


@pytest.mark.parametrize("can_return", [True, False])
def test_a_refusal_says_whether_the_pair_has_only_timed_out(can_return: bool) -> None:
    error = ErrorCode.INVALID_PRODUCER_EPOCH
    aborted = msgspec.structs.replace(ABORTED, can_return=can_return)
    assert refusal(aborted, error, LATE) == TransactionReply(error, timed_out=True, can_return=can_return)
    for pair in ((7, 6), (7, 4), (8, 5)):
        assert refusal(aborted, error, pair) == TransactionReply(error)
    assert refusal(msgspec.structs.replace(aborted, timed_out=None), error, LATE) == TransactionReply(error)


# What the machine itself decides about a request that is stale by timeout -------------------------------------------


def timed_out(*, recovering: bool = True) -> Txn:
    """While the markers are under way."""
    pending, _ = decide(OPEN, DeadlinePassed(0, 101, recovering), 101)
    return decide(pending, TransactionAppended(), 101)[0]


def test_a_timeout_remembers_whom_it_hit_unless_it_is_told_to_fence() -> None:
    assert timed_out().timed_out == LATE
    fenced = timed_out(recovering=False)
    assert (fenced.state, fenced.producer_epoch) == (TransactionState.PREPARE_ABORT, 6)
    assert (fenced.timed_out, fenced.last_epoch) == (None, -1)


@pytest.mark.parametrize("txn", [timed_out(), ABORTED], ids=["markers under way", "aborted"])
def test_a_late_request_begins_nothing_and_need_not_wait_to_hear_it(txn: Txn) -> None:
    assert decide(txn, AddPartitions(*LATE, frozenset({ORDERS_0})), 200) == (txn, (OUT_OF_TIME,))
    assert verify(txn, ORDERS_0, producer_id=7, producer_epoch=5) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("txn", [timed_out(), ABORTED], ids=["markers under way", "aborted"])
def test_a_late_abort_succeeds_as_soon_as_the_abort_is_durable(txn: Txn) -> None:
    assert decide(txn, EndTxn(*LATE, commit=False, client_transaction_version=0), 200) == (
        txn,
        (TransactionReply(ErrorCode.NONE),),
    )
    assert decide(txn, EndTxn(*LATE, commit=True, client_transaction_version=0), 200) == (
        txn,
        (OUT_OF_TIME,),
    )


def test_a_late_abort_waits_while_the_abort_is_not_durable() -> None:
    pending, _ = decide(OPEN, DeadlinePassed(0, 101), 101)
    for version in (0, 2):
        request = EndTxn(*LATE, commit=False, client_transaction_version=version)
        assert decide(pending, request, 200)[1] == (TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS),)


def test_a_late_abort_of_version_2_is_told_the_pair_to_go_on_with() -> None:
    request = EndTxn(*LATE, commit=False, client_transaction_version=2)
    assert decide(ABORTED, request, 200) == (ABORTED, (TransactionReply(ErrorCode.NONE, 7, 6),))
    claimed = msgspec.structs.replace(ABORTED, state=TransactionState.EMPTY, producer_epoch=7)
    assert decide(claimed, request, 200) == (claimed, (TransactionReply(ErrorCode.NONE, 7, 7),))


def test_a_late_abort_after_the_producer_id_was_exhausted_succeeds_too() -> None:
    rotated = msgspec.structs.replace(
        ABORTED,
        producer_id=8,
        previous_producer_id=7,
        producer_epoch=0,
        last_epoch=32766,
        timed_out=ProducerIdAndEpoch(7, 32766),
    )
    for version, pair in ((0, ()), (2, (8, 0))):
        request = EndTxn(7, 32766, commit=False, client_transaction_version=version)
        assert decide(rotated, request, 200) == (rotated, (TransactionReply(ErrorCode.NONE, *pair),))


def test_a_replaced_producer_can_not_even_abort() -> None:
    replaced, _ = decide(ABORTED, InitProducerId(100, 2), 200)
    replaced, _ = decide(replaced, TransactionAppended(), 200)
    for version in (0, 2):
        request = EndTxn(*LATE, commit=False, client_transaction_version=version)
        assert decide(replaced, request, 200)[1] == (TransactionReply(ErrorCode.PRODUCER_FENCED),)


@pytest.mark.parametrize("can_return", [True, False])
def test_an_id_remembers_whether_its_producer_can_show_its_pair(can_return: bool) -> None:
    pending, _ = decide(ABORTED, InitProducerId(100, 2, can_return=can_return), 200)
    after, _ = decide(pending, TransactionAppended(), 200)
    assert after.can_return is can_return
