"""What a request names again and again is described once: the response would be many times what the broker holds."""

from data_broker import DataBroker, batch

from eosin.broker.handlers import (
    add_partitions_to_txn,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    list_offsets,
    offset_commit,
    offset_fetch,
)
from eosin.network.many_items import ITEMS_PER_TURN
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

MANY = ITEMS_PER_TURN + 1


async def test_a_group_and_a_transactional_id_are_described_once() -> None:
    broker = await DataBroker.started()
    groups = await broker.call(describe_groups.API, DescribeGroupsRequest(groups=("g", "h", "g", "h", "g")))
    assert [each.group_id for each in groups.groups] == ["g", "h"]
    request = DescribeTransactionsRequest(transactional_ids=("t", "u", "t"))
    ids = await broker.call(describe_transactions.API, request)
    assert [each.transactional_id for each in ids.transaction_states] == ["t", "u"]
    await broker.stop()


async def test_the_producers_of_a_partition_are_told_once() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    await broker.produce(batch("v", producer_id=7, producer_epoch=0, base_sequence=0))
    request = DescribeProducersRequest((TopicRequest("orders", (0, 0)), TopicRequest("orders", (0, 1))))
    response = await broker.call(describe_producers.API, request)
    told = [(each.error_code, len(each.active_producers)) for topic in response.topics for each in topic.partitions]
    refused = (ErrorCode.INVALID_REQUEST, 0)
    assert told == [(0, 1), refused, refused, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    await broker.stop()


async def test_the_settings_of_a_topic_are_told_once() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    request = DescribeConfigsRequest((DescribeConfigsResource(2, "orders"),) * 3)
    first, *others = (await broker.call(describe_configs.API, request)).results
    assert (first.error_code, len(first.configs) > 10) == (0, True)
    assert [(each.error_code, each.configs) for each in others] == [(ErrorCode.INVALID_REQUEST, ())] * 2
    await broker.stop()


async def test_the_offsets_of_a_group_are_told_once_as_it_is_named_first() -> None:
    broker = await DataBroker.started()
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)),))
        for name in ("orders", "bills")
    ]
    response = await broker.call(offset_fetch.API, OffsetFetchRequest(groups=(*groups, *groups)), 9)
    assert [(each.group_id, [topic.name for topic in each.topics]) for each in response.groups] == [("g", ["orders"])]
    await broker.stop()


async def test_a_partition_among_very_many_is_committed_as_it_is_named_last() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2)
    partitions = tuple(OffsetCommitRequestPartition(index % 3, index) for index in range(MANY))
    topic = OffsetCommitRequestTopic(name="orders", partitions=partitions)
    response = await broker.call(offset_commit.API, OffsetCommitRequest(group_id="g", topics=(topic,)), 9)
    (answered,) = response.topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answered.partitions] == [
        unknown if index % 3 == 2 else 0 for index in range(MANY)
    ]
    wanted = OffsetFetchRequestTopics(name="orders", partition_indexes=(0, 1))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=(wanted,)),))
    (group,) = (await broker.call(offset_fetch.API, request, 9)).groups
    last = [max(index for index in range(MANY) if index % 3 == partition) for partition in (0, 1)]
    assert [each.committed_offset for each in group.topics[0].partitions] == last
    await broker.stop()


async def test_very_many_partitions_are_answered_in_their_places() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=MANY)
    wanted = tuple(ListOffsetsPartition(index, timestamp=-1) for index in range(MANY))
    doubled = ListOffsetsTopic("bills", (ListOffsetsPartition(0, timestamp=-1),) * 2)
    request = ListOffsetsRequest(
        -1, 0, (ListOffsetsTopic("gone", wanted[:2]), ListOffsetsTopic("orders", wanted), doubled)
    )
    gone, orders, bills = (await broker.call(list_offsets.API, request)).topics
    assert [each.error_code for each in gone.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert [(each.partition_index, each.error_code, each.offset) for each in orders.partitions] == [
        (index, 0, 0) for index in range(MANY)
    ]
    assert [each.error_code for each in bills.partitions] == [ErrorCode.INVALID_REQUEST] * 2
    await broker.stop()


async def test_one_partition_at_fault_among_very_many_refuses_all() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=MANY)
    topics = (AddPartitionsToTxnTopic("orders", tuple(range(MANY))), AddPartitionsToTxnTopic("gone", (0,)))
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics)
    orders, gone = (await broker.call(add_partitions_to_txn.API, request, 3)).results_by_topic_v3_and_below
    errors = {each.partition_error_code for each in orders.results_by_partition}
    assert (errors, len(orders.results_by_partition)) == ({ErrorCode.OPERATION_NOT_ATTEMPTED}, MANY)
    assert [each.partition_error_code for each in gone.results_by_partition] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    await broker.stop()
