"""What clients conclude from the APIs that are announced: which release they talk to, and what to ask first."""

import confluent_kafka as ck
import kafka
import pytest
from confluent_kafka import admin as ck_admin
from real_clients import confluent
from scenario import Scenario
from waiting import HANG_S, wait_until


def test_librdkafka_describes_a_classic_group(bootstrap: str) -> None:
    # It asks ConsumerGroupDescribe first, and ends the process when an entry of the answer is not the one it asked for.
    scenario = Scenario(confluent.CLIENT, bootstrap)
    topic, group = scenario.topic(), scenario.name("group")
    consumer = scenario.consumer(group=group)
    consumer.subscribe([topic])
    wait_until(lambda: consumer.read(1, timeout_s=0.3) or consumer.assignment())
    admin = ck_admin.AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([group], request_timeout=HANG_S)[group].result()
    assert (described.group_id, described.state) == (group, ck.ConsumerGroupState.STABLE)
    assert [each.topic for member in described.members for each in member.assignment.topic_partitions] == [topic]
    listed = admin.list_consumer_groups(request_timeout=HANG_S).result()
    assert group in {each.group_id for each in listed.valid}
    scenario.close()


@pytest.mark.skipif(kafka.__version__ < "3", reason="this kafka-python does not know Apache Kafka 4.3")
def test_kafka_python_infers_the_release_from_the_served_apis(bootstrap: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    assert consumer.config["api_version"] >= (4, 3)
    consumer.close()
