"""Which partition of `__share_group_state` keeps a state: brokers of Apache Kafka must agree (KIP-932)."""

from share_state_fakes import PARTITION

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_state.partitions import coordinator_key, state_partition


def test_the_key_is_that_by_which_kafka_finds_the_coordinator() -> None:
    assert coordinator_key(PARTITION) == "group:AAECAwQFBgcICQoLDA0ODw:0"


def test_a_share_partition_belongs_to_one_partition() -> None:
    assert state_partition(PARTITION, 50) == 761821279 % 50  # Java's hashCode of that key


def test_a_group_with_a_long_name_belongs_to_one_as_well() -> None:
    long = PARTITION._replace(group_id="g" * 10_000)
    assert state_partition(long, 50) == partition_for(coordinator_key(long), 50)
