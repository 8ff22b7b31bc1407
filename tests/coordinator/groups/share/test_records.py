"""Records of share groups are those of Apache Kafka, byte for byte, and are read back as the same."""

import pytest

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, TargetEpoch
from eosin.coordinator.groups.share.log.records import encoded, read_key, read_value
from eosin.coordinator.groups.share.rules.group import ShareMember
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord, Value
from eosin.coordinator.groups.share.rules.states import StateTopic, StateTopics
from eosin.protocol.types import DecodeError

TOPIC, OTHER = b"a" * 16, b"b" * 16
ID, OTHER_ID = TOPIC.hex(), OTHER.hex()
PLACES = frozenset(TopicIdPartition(TOPIC, index) for index in range(2))
STATES = StateTopics(
    {TOPIC: StateTopic("a", frozenset({1, 2}))}, {TOPIC: StateTopic("a", frozenset({0}))}, {OTHER: "b"}
)

# Written by the generated classes of Apache Kafka 4.4.0 from the same values.
KEYS = {
    ShareKind.MEMBER: "000a00016700016d",
    ShareKind.GROUP: "000b000167",
    ShareKind.TARGET_EPOCH: "000c000167",
    ShareKind.TARGET: "000d00016700016d",
    ShareKind.CURRENT: "000e00016700016d",
    ShareKind.STATES: "000f000167",
}
VALUES: list[tuple[ShareKind, Value, str]] = [
    (ShareKind.MEMBER, ShareMember("m", "r", "c", "/h", ("a", "b")), "000002720263032f68030261026200"),
    (ShareKind.MEMBER, ShareMember("m", None, "c", "/h"), "0000000263032f680100"),
    (ShareKind.GROUP, GroupEpoch(7, -5), "000000000007fffffffffffffffb00"),
    (ShareKind.GROUP, GroupEpoch(7, 0), "000000000007000000000000000000"),
    (ShareKind.TARGET_EPOCH, TargetEpoch(4, 1000), "00000000000401000800000000000003e8"),
    (ShareKind.TARGET_EPOCH, TargetEpoch(4, 0), "00000000000400"),
    (ShareKind.TARGET, PLACES, f"000002{ID}0300000000000000010000"),
    (
        ShareKind.CURRENT,
        ShareMember("m", epoch=4, previous_epoch=3, assigned=PLACES),
        f"000000000004000000030002{ID}0300000000000000010000",
    ),
    (
        ShareKind.STATES,
        STATES,
        f"000002{ID}02610300000001000000020002{ID}026102000000000002{OTHER_ID}02620000",
    ),
    (ShareKind.STATES, StateTopics(), "000001010100"),
]


def name_of(kind: ShareKind) -> str:
    return "m" if kind in (ShareKind.MEMBER, ShareKind.TARGET, ShareKind.CURRENT) else ""


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_those_of_apache_kafka(kind: ShareKind) -> None:
    (tombstone,) = encoded("g", [ShareRecord(kind, name_of(kind))])
    assert tombstone.key is not None
    assert (tombstone.key.hex(), tombstone.value) == (KEYS[kind], None)
    found = read_key(tombstone.key)
    assert (found.kind, found.name, found.group_id) == (kind, name_of(kind), "g")


@pytest.mark.parametrize(("kind", "value", "expected"), VALUES)
def test_values_are_those_of_apache_kafka_and_are_read_back(kind: ShareKind, value: Value, expected: str) -> None:
    (record,) = encoded("g", [ShareRecord(kind, name_of(kind), value)])
    assert record.value is not None
    assert record.value.hex() == expected
    assert read_value(kind, name_of(kind), record.value) == value


@pytest.mark.parametrize("kind", ShareKind)
def test_a_version_that_is_not_known_is_not_read(kind: ShareKind) -> None:
    with pytest.raises(DecodeError):
        read_value(kind, name_of(kind), b"\0\1" + bytes(20))
