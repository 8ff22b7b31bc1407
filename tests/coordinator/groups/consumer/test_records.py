"""Records of consumer groups are those of Apache Kafka, byte for byte, and are read back as the same."""

import pytest

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.log.records import encoded, read_key, read_value
from eosin.coordinator.groups.consumer.rules.group import (
    ClassicMember,
    ConsumerMember,
    ConsumerMemberState,
    ResolvedRegex,
)
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind, TargetEpoch, Value

TOPIC = b"a" * 16
PLACES = [TopicIdPartition(TOPIC, index) for index in range(3)]
DYNAMIC = ConsumerMember("m", None, "r", "c", "/h", ("a", "b"), "", 9)
CLASSIC = ConsumerMember("m", "i", None, "c", "/h", (), "x.*", 9, "range", ClassicMember(3, (("p", b"\x01\x02"),)))
REVOKING = ConsumerMember(
    "m",
    epoch=4,
    previous_epoch=3,
    state=ConsumerMemberState.UNREVOKED_PARTITIONS,
    assigned={PLACES[0]: 3, PLACES[1]: 4},
    pending={PLACES[2]: 2},
)
ID = TOPIC.hex()

# Written by the generated classes of Apache Kafka 4.3.1 from the same values.
KEYS = {
    Kind.GROUP: "0003000167",
    Kind.MEMBER: "000500016700016d",
    Kind.CURRENT: "000800016700016d",
    Kind.REGEX: "00100001670003782e2a",
}
VALUES: list[tuple[Kind, Value, str]] = [
    (Kind.GROUP, GroupEpoch(7, -5), "000000000007010008fffffffffffffffb"),
    (Kind.GROUP, GroupEpoch(7, 0), "00000000000700"),
    (Kind.MEMBER, DYNAMIC, "00000002720263032f68030261026201000000090001000100"),
    (
        Kind.MEMBER,
        CLASSIC,
        "00000269000263032f680104782e2a000000090672616e676501000d01000000030202700301020000",
    ),
    (Kind.TARGET_EPOCH, TargetEpoch(4, 1000), "00000000000401000800000000000003e8"),
    (Kind.TARGET, frozenset(PLACES[:2]), f"000002{ID}0300000000000000010000"),
    (
        Kind.CURRENT,
        REVOKING,
        f"000000000004000000030102{ID}03000000000000000101000903000000030000000402{ID}0200000002010005020000000200",
    ),
    (
        Kind.REGEX,
        ResolvedRegex(frozenset({"a", "b"}), 5, 1000),
        "00000302610262000000000000000500000000000003e800",
    ),
]


def name_of(kind: Kind) -> str:
    return "x.*" if kind is Kind.REGEX else "m"


@pytest.mark.parametrize(("kind", "expected"), KEYS.items())
def test_keys_are_those_of_apache_kafka(kind: Kind, expected: str) -> None:
    (record,) = encoded("g", [GroupRecord(kind, name_of(kind))])
    assert record.key is not None
    assert (record.key.hex(), record.value) == (expected, None)
    read = read_key(record.key)
    assert (read.kind, read.group_id) == (kind, "g")
    assert read.name == ("" if kind is Kind.GROUP else name_of(kind))


@pytest.mark.parametrize(("kind", "value", "expected"), VALUES)
def test_values_are_those_of_apache_kafka_and_are_read_back(kind: Kind, value: Value, expected: str) -> None:
    (record,) = encoded("g", [GroupRecord(kind, name_of(kind), value)])
    assert record.value is not None
    assert record.value.hex() == expected
    assert read_value(kind, name_of(kind), record.value) == value


def test_partitions_without_epochs_of_their_own_have_that_of_the_member() -> None:
    # Apache Kafka before 4.3 wrote none; a static member that is away has epoch -2, and its partitions 0.
    for epoch, expected in ((4, 4), (-2, 0)):
        number = (epoch & 0xFFFFFFFF).to_bytes(4, "big").hex()
        value = bytes.fromhex(f"0000{number}000000030002{ID}0200000001000100")
        read = read_value(Kind.CURRENT, "m", value)
        assert isinstance(read, ConsumerMember)
        assert read.assigned == {PLACES[1]: expected}


def test_a_state_of_a_newer_version_is_unknown() -> None:
    value = bytes.fromhex("0000000000040000000309010100")
    read = read_value(Kind.CURRENT, "m", value)
    assert isinstance(read, ConsumerMember)
    assert read.state is ConsumerMemberState.UNKNOWN
