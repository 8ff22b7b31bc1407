"""Which partition of `__share_group_state` keeps a state: brokers of Apache Kafka must agree (KIP-932)."""

import pytest
from share_state_fakes import PARTITION

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_state.coordinator_keys import share_partition_of
from eosin.coordinator.share_state.partitions import coordinator_key, state_partition


def test_the_key_is_that_by_which_kafka_finds_the_coordinator() -> None:
    assert coordinator_key(PARTITION) == "group:AAECAwQFBgcICQoLDA0ODw:0"


def test_a_share_partition_belongs_to_one_partition() -> None:
    assert state_partition(PARTITION, 50) == 761821279 % 50  # Java's hashCode of that key


def test_a_group_with_a_long_name_belongs_to_one_as_well() -> None:
    long = PARTITION._replace(group_id="g" * 10_000)
    assert state_partition(long, 50) == partition_for(coordinator_key(long), 50)


@pytest.mark.parametrize("group_id", ["group", "a:b:0", " g"])
def test_a_key_tells_its_share_partition(group_id: str) -> None:
    partition = PARTITION._replace(group_id=group_id, partition=2**31 - 1)
    assert share_partition_of(coordinator_key(partition)) == partition


@pytest.mark.parametrize(
    "key",
    [
        "",
        "group",
        ":AAECAwQFBgcICQoLDA0ODw:0",
        "group:AAECAwQFBgcICQoLDA0ODw:-1",
        "group:AAECAwQFBgcICQoLDA0ODw:",
        "group:AAECAwQFBgcICQoLDA0ODw:2147483648",
        "group:AAECAwQFBgcICQoLDA0ODw:" + "9" * 5000,
        "group:AAECAwQFBgcICQoLDA0ODw:\u0660",
        "group:AAECAwQFBgcICQoLDA0OD:0",
        "group:AAECAwQFBgcICQoLDA0OD!:0",
    ],
)
def test_any_other_text_is_the_key_of_nothing(key: str) -> None:
    assert share_partition_of(key) is None
