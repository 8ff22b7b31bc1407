"""Keys and values of internal logs."""

from typing import Annotated

import pytest

from eosin.protocol.codegen.declaration import layout_of
from eosin.protocol.codegen.decode import generate_decoder
from eosin.protocol.records import internal
from eosin.protocol.schemas.records import cluster_metadata, consumer_offsets, transaction_state
from eosin.protocol.schemas.records.cluster_metadata import StartKey, StartRecord, TopicConfig, TopicKey, TopicRecord
from eosin.protocol.schemas.records.consumer_offsets import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions
from eosin.protocol.schemas.records.transaction_state import TransactionLogKey, TransactionLogValue
from eosin.protocol.types import DecodeError, EncodeError, Int8, Int16, Int32, Int64, Message, Tag


def test_keys_and_values_start_with_their_version() -> None:
    assert internal.encode_key(TransactionLogKey("tx")) == bytes.fromhex("0000 0002 7478")
    assert internal.encode_key(OffsetCommitKey("g", "t", 3)) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert internal.encode_key(GroupMetadataKey("g")) == bytes.fromhex("0002 0001 67")
    assert internal.encode_key(StartKey()) == bytes.fromhex("0002")
    assert internal.encode_value(StartRecord(3), 0) == bytes.fromhex("0000 00000003 00")


def test_the_version_of_a_key_shows_its_kind() -> None:
    kinds = consumer_offsets.KINDS
    for key in (OffsetCommitKey("g", "t", 3), GroupMetadataKey("g")):
        assert internal.decode_key(kinds, internal.encode_key(key)) == key
    assert internal.decode_key(kinds, bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetCommitKey("g", "t", 3)
    for metadata_key in (TopicKey("t"), StartKey()):
        encoded = internal.encode_key(metadata_key)
        assert internal.decode_key(cluster_metadata.KINDS, encoded) == metadata_key


def test_a_key_of_an_unknown_kind_is_passed_over() -> None:
    assert internal.decode_key(consumer_offsets.KINDS, bytes.fromhex("0005 ffff")) is None
    assert internal.decode_key(transaction_state.KINDS, bytes.fromhex("0001 ffff")) is None


@pytest.mark.parametrize("data", [b"", b"\0", bytes.fromhex("0001 0001"), bytes.fromhex("0002 0001 67 00")])
def test_a_malformed_key_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        internal.decode_key(consumer_offsets.KINDS, data)


def test_a_value_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(DecodeError, match="version 5"):
        internal.decode_value(OffsetCommitValue, bytes.fromhex("0005 00"))
    with pytest.raises(EncodeError, match="version 5"):
        internal.encode_value(OffsetCommitValue(), 5)


def test_values_keep_the_fields_of_their_version() -> None:
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9, expire_timestamp=8)
    assert internal.decode_value(OffsetCommitValue, internal.encode_value(value, 3)) == OffsetCommitValue(
        offset=7, leader_epoch=2, metadata="m", commit_timestamp=9
    )
    topic = TopicRecord(topic_id=bytes(range(16)), partitions=4, configs=(TopicConfig("retention.ms", "1"),))
    assert internal.decode_value(TopicRecord, internal.encode_value(topic, 0)) == topic


class TheirTransactionLogValue(Message):
    """The value without Eosin's own tags."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: tuple[transaction_state.PartitionsSchema, ...] | None = None
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    previous_producer_id: Annotated[Int64, Tag(0)] = -1
    next_producer_id: Annotated[Int64, Tag(1)] = -1
    client_transaction_version: Annotated[Int16, Tag(2)] = 0


def test_a_reader_that_does_not_know_our_tags_passes_over_them() -> None:
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=2,
        transaction_status=4,
        next_producer_id=6,
        last_producer_epoch=1,
        timed_out_producer_id=9,
        timed_out_producer_epoch=3,
    )
    theirs = layout_of(TheirTransactionLogValue, 1, flexible=True)
    read = generate_decoder(theirs, "decoder")(internal.encode_value(value, 1), 2)
    assert read == TheirTransactionLogValue(producer_id=5, producer_epoch=2, transaction_status=4, next_producer_id=6)


def test_a_subscription_of_a_newer_client_is_read_as_far_as_it_is_known() -> None:
    subscription = ConsumerProtocolSubscription(
        topics=("a", "b"), owned_partitions=(TopicPartitions("a", (0, 1)),), generation_id=4, rack_id="r"
    )
    known = internal.encode_value(subscription, 3)
    newer = bytes.fromhex("0009") + known[2:] + b"what comes later"
    assert internal.decode_value(ConsumerProtocolSubscription, newer) == subscription
    with pytest.raises(DecodeError):
        internal.decode_value(ConsumerProtocolSubscription, b"\xff\xff" + known[2:])
    with pytest.raises(DecodeError):
        internal.decode_value(ConsumerProtocolSubscription, known[:-1])
