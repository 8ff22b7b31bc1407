"""What a kept transaction leaves in `__transaction_state`, read by Apache Kafka's tools, in its own fields."""

import json
from pathlib import Path

from broker_process import BrokerProcess
from kafka_tools import KafkaTools

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.two_phase import TwoPhaseProducer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

SETTINGS = {"transaction.two.phase.commit.enable": "true", "transaction.state.log.num.partitions": "1"}
ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4


async def test_the_pair_of_whoever_keeps_a_transaction_is_where_apache_kafka_looks_for_it(
    tmp_path: Path, kafka_tools: KafkaTools
) -> None:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        async with Client(broker.address) as client:
            await Admin(client).create_topic("orders", 1)
            first, second = TwoPhaseProducer(client, "shop"), TwoPhaseProducer(client, "shop")
            await first.init()
            first.begin()
            await first.send(TopicPartition("orders", 0), [NewRecord(None, b"one book")])
            state = await first.prepare()
            assert await second.recover() == state
            await second.complete(state)
    done = kafka_tools.dump((tmp_path / "data" / "__transaction_state-0").glob("*.log"), "--transaction-log-decoder")
    values = [json.loads(line.partition("payload: ")[2])["data"] for line in done.out.splitlines() if "payload" in line]
    told = [
        (
            each["transactionStatus"],
            each["producerEpoch"],
            each.get("nextProducerId", -1) == state.producer_id,
            each.get("nextProducerEpoch", -1),
        )
        for each in values[1:]
    ]
    assert told == [
        (ONGOING, 0, False, -1),
        (ONGOING, 0, True, 1),
        (PREPARE_COMMIT, 1, True, 2),
        (COMPLETE_COMMIT, 2, False, -1),
    ]
    assert {each["transactionTimeoutMs"] for each in values} == {2**31 - 1}
