"""Bytes worked out by hand from the specification, so that codec and interpreter cannot be wrong together."""

import pytest

from eosin.protocol.codegen.decode import generate_decoder
from eosin.protocol.codegen.encode import generate_encoder
from eosin.protocol.schemas import (
    add_partitions_to_txn,
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    end_txn,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest
from eosin.protocol.schemas.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.schemas.records import consumer_offsets, transaction_state
from eosin.protocol.schemas.records.consumer_offsets import OffsetCommitValue
from eosin.protocol.schemas.records.transaction_state import PartitionsSchema, TransactionLogValue
from eosin.protocol.types import Layout, Message
from eosin.protocol.wire import codec

TOPIC_ID = bytes(range(16))

EXAMPLES = [
    pytest.param(
        end_txn.SCHEMA.request_layout(1),
        EndTxnRequest(transactional_id="tx", producer_id=5, producer_epoch=2, committed=True),
        "0002 7478  0000000000000005 0002 01",
        id="EndTxn v1 request: legacy string, a boolean",
    ),
    pytest.param(
        end_txn.SCHEMA.request_layout(3),
        EndTxnRequest(transactional_id="tx", producer_id=5, producer_epoch=2, committed=False),
        "03 7478  0000000000000005 0002 00  00",
        id="EndTxn v3 request: compact string, an empty tag section",
    ),
    pytest.param(
        end_txn.SCHEMA.response_layout(5),
        EndTxnResponse(throttle_time_ms=0, error_code=90, producer_id=-1, producer_epoch=-1),
        "00000000 005a ffffffffffffffff ffff 00",
        id="EndTxn v5 response: negative numbers",
    ),
    pytest.param(api_versions.SCHEMA.request_layout(0), ApiVersionsRequest(), "", id="ApiVersions v0 request: nothing"),
    pytest.param(
        api_versions.SCHEMA.request_layout(3),
        ApiVersionsRequest(client_software_name="eosin", client_software_version="1"),
        "06 656f73696e  02 31  00",
        id="ApiVersions v3 request",
    ),
    pytest.param(
        api_versions.SCHEMA.response_layout(3),
        ApiVersionsResponse(
            api_keys=(ApiVersion(0, 3, 9), ApiVersion(18, 0, 4)),
            finalized_features_epoch=7,
            finalized_features=(FinalizedFeatureKey("transaction.version", 2, 2),),
        ),
        "0000  03  0000 0003 0009 00  0012 0000 0004 00  00000000"
        "02  01 08 0000000000000007"
        "    02 1a 02 14 7472616e73616374696f6e2e76657273696f6e 0002 0002 00",
        id="ApiVersions v3 response: two of four tagged fields, a tagged array",
    ),
    pytest.param(
        metadata.SCHEMA.request_layout(1),
        MetadataRequest(topics=None),
        "ffffffff",
        id="Metadata v1 request: a null array is -1",
    ),
    pytest.param(
        metadata.SCHEMA.request_layout(12),
        MetadataRequest(
            topics=(MetadataRequestTopic(TOPIC_ID, None),),
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=True,
        ),
        "02  000102030405060708090a0b0c0d0e0f 00 00  01 01 00",
        id="Metadata v12 request: a topic id and a null name",
    ),
    pytest.param(
        produce.SCHEMA.request_layout(3),
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=30000,
            topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(1, b"batch"),)),),
        ),
        "ffff ffff 00007530  00000001 0001 74  00000001 00000001  00000005 6261746368",
        id="Produce v3 request: nested legacy arrays, a null string, records",
    ),
    pytest.param(
        produce.SCHEMA.request_layout(9),
        ProduceRequest(
            transactional_id="x",
            acks=-1,
            timeout_ms=30000,
            topic_data=(
                TopicProduceData(
                    name="t", partition_data=(PartitionProduceData(0, None), PartitionProduceData(1, b"batch"))
                ),
            ),
        ),
        "02 78 ffff 00007530  02 02 74  03  00000000 00 00  00000001 06 6261746368 00  00  00",
        id="Produce v9 request: nested compact arrays, null records",
    ),
    pytest.param(
        fetch.SCHEMA.response_layout(12),
        FetchResponse(
            throttle_time_ms=1,
            session_id=2,
            responses=(
                FetchableTopicResponse(
                    topic="t",
                    partitions=(
                        PartitionData(
                            partition_index=3,
                            error_code=74,
                            high_watermark=9,
                            last_stable_offset=8,
                            log_start_offset=0,
                            current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
                            aborted_transactions=(AbortedTransaction(producer_id=6, first_offset=7),),
                            records=b"",
                        ),
                    ),
                ),
            ),
        ),
        "00000001 0000 00000002  02  02 74  02"
        "00000003 004a 0000000000000009 0000000000000008 0000000000000000"
        "02 0000000000000006 0000000000000007 00"
        "ffffffff  01"
        "01 01 09 00000001 00000005 00"
        "00 00",
        id="Fetch v12 response: a tagged struct, aborted transactions, empty records",
    ),
    pytest.param(
        fetch.SCHEMA.response_layout(16),
        FetchResponse(node_endpoints=(NodeEndpoint(1, "h", 9092),)),
        "00000000 0000 00000000 01  01 00 0d 02 00000001 02 68 00002384 00 00",
        id="Fetch v16 response: a tagged array of structs",
    ),
    pytest.param(
        describe_topic_partitions.SCHEMA.request_layout(0),
        DescribeTopicPartitionsRequest(topics=(TopicRequest("a"),), response_partition_limit=10, cursor=None),
        "02 02 61 00 0000000a ff 00",
        id="DescribeTopicPartitions request: a null struct is -1",
    ),
    pytest.param(
        describe_topic_partitions.SCHEMA.request_layout(0),
        DescribeTopicPartitionsRequest(topics=(), response_partition_limit=10, cursor=Cursor("b", 4)),
        "01 0000000a 01 02 62 00000004 00 00",
        id="DescribeTopicPartitions request: a struct that is there",
    ),
    pytest.param(
        add_partitions_to_txn.SCHEMA.request_layout(3),
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=(AddPartitionsToTxnTopic("t", (0, 258)),),
        ),
        "03 7478 0000000000000001 0000  02 02 74 03 00000000 00000102 00  00",
        id="AddPartitionsToTxn v3 request: an array of numbers",
    ),
    pytest.param(
        init_producer_id.SCHEMA.request_layout(2),
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000),
        "00 0000ea60 00",
        id="InitProducerId v2 request: a compact null",
    ),
    pytest.param(
        init_producer_id.SCHEMA.request_layout(6),
        InitProducerIdRequest("tx", 2**31 - 1, -1, -1, enable_2pc=True, keep_prepared_txn=False),
        "03 7478 7fffffff ffffffffffffffff ffff 01 00 00",
        id="InitProducerId v6 request: the fields of two-phase commit, as kafka-clients 4.4.0 writes them",
    ),
    pytest.param(
        init_producer_id.SCHEMA.response_layout(6),
        InitProducerIdResponse(
            producer_id=5, producer_epoch=2, ongoing_txn_producer_id=5, ongoing_txn_producer_epoch=1
        ),
        "00000000 0000 0000000000000005 0002 0000000000000005 0001 00",
        id="InitProducerId v6 response: the pair to go on with, then that of the open transaction (likewise)",
    ),
    pytest.param(
        list_offsets.SCHEMA.response_layout(0),
        ListOffsetsResponse(
            topics=(ListOffsetsTopicResponse("t", (ListOffsetsPartitionResponse(0, 0, old_style_offsets=(5, 0)),)),)
        ),
        "00000001 0001 74 00000001 00000000 0000 00000002 0000000000000005 0000000000000000",
        id="ListOffsets v0 response: an array of int64",
    ),
    pytest.param(
        describe_cluster.SCHEMA.request_layout(0),
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        "01 00",
        id="DescribeCluster v0 request: flexible from the start",
    ),
    pytest.param(
        transaction_state.VALUE.layout(1),
        TransactionLogValue(
            producer_id=1,
            previous_producer_id=2,
            producer_epoch=3,
            transaction_timeout_ms=4,
            transaction_status=1,
            transaction_partitions=(PartitionsSchema("t", (0,)),),
            transaction_last_update_timestamp_ms=5,
            transaction_start_timestamp_ms=6,
            client_transaction_version=2,
            timed_out_producer_id=7,
        ),
        "0000000000000001 0003 00000004 01  02 02 74 02 00000000 00  0000000000000005 0000000000000006"
        "03  00 08 0000000000000002  02 02 0002  924e 08 0000000000000007",
        id="TransactionLogValue v1: a private tag takes two bytes",
    ),
    pytest.param(
        transaction_state.VALUE.layout(0),
        TransactionLogValue(transaction_status=0, transaction_partitions=None),
        "0000000000000000 0000 00000000 00 ffffffff 0000000000000000 0000000000000000",
        id="TransactionLogValue v0: no partitions in state Empty",
    ),
    pytest.param(
        consumer_offsets.KINDS[0].value.layout(4),
        OffsetCommitValue(offset=1, leader_epoch=2, metadata="m", commit_timestamp=3, topic_id=TOPIC_ID),
        "0000000000000001 00000002 02 6d 0000000000000003  01 00 10 000102030405060708090a0b0c0d0e0f",
        id="OffsetCommitValue v4: a tagged uuid",
    ),
]


@pytest.mark.parametrize(("layout", "message", "spelled"), EXAMPLES)
def test_the_bytes_are_those_of_the_specification(layout: Layout, message: Message, spelled: str) -> None:
    data = bytes.fromhex(spelled)
    assert b"".join(generate_encoder(layout, "encoder")(message, bytearray())) == data
    assert generate_decoder(layout, "decoder")(data, 0) == message
    assert codec.build(layout, message) == data
    assert codec.interpret(layout, data) == message
