"""The errors of a broker before KIP-588."""

from eosin.lab.earlier_errors import said_before
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from eosin.protocol.schemas.end_txn import EndTxnResponse


def added(code: ErrorCode) -> AddPartitionsToTxnResponse:
    """A response with this code for one partition, and none for another."""
    results = (AddPartitionsToTxnPartitionResult(0, code), AddPartitionsToTxnPartitionResult(1, ErrorCode.NONE))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(AddPartitionsToTxnTopicResult("orders", results),))


def test_a_fence_is_an_invalid_epoch_wherever_a_response_says_so() -> None:
    assert said_before(EndTxnResponse(0, ErrorCode.PRODUCER_FENCED)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert said_before(added(ErrorCode.PRODUCER_FENCED)) == added(ErrorCode.INVALID_PRODUCER_EPOCH)


def test_any_other_response_stays_the_object_that_it_is() -> None:
    for response in (EndTxnResponse(0, ErrorCode.CONCURRENT_TRANSACTIONS), added(ErrorCode.INVALID_TXN_STATE), None):
        assert said_before(response) is response
