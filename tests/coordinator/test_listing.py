"""Which transactional id has a producer id: "none" is only said when it is certain."""

from coordinator_fakes import FakeBroker, Producer

from eosin.coordinator.transactions.rules.listing import TransactionDescription
from eosin.protocol.errors import ErrorCode

ABSENT = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_a_producer_id_is_found_while_it_is_somebodys() -> None:
    broker = FakeBroker(partition_count=2)
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    found = broker.transactions.find_producer(producer.producer_id)
    assert isinstance(found, TransactionDescription)
    assert found.transactional_id == "tx"
    assert broker.transactions.find_producer(producer.producer_id + 1) is ABSENT


async def test_nothing_is_certain_while_a_partition_is_not_ours() -> None:
    broker = FakeBroker(partition_count=2)
    assert broker.transactions.find_producer(5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.start()
    broker.transactions.resign(1)
    assert broker.transactions.find_producer(5) is ErrorCode.NOT_COORDINATOR
