"""DescribeCluster."""

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers.describe_cluster import API
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_tells_the_cluster_and_its_brokers(version: int) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, broker.cluster.cluster_id, 1)
    assert [(each.broker_id, each.host, each.port, each.is_fenced) for each in answer.brokers] == [
        (1, "localhost", 9092, False)
    ]
    assert answer.cluster_authorized_operations > 0


async def test_operations_are_told_only_when_asked_for() -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, DescribeClusterRequest())
    assert answer.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("kind", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_only_brokers_are_here(kind: int, error: ErrorCode) -> None:
    broker = await DataBroker.started()
    answer = await broker.call(API, DescribeClusterRequest(endpoint_type=kind))
    assert (answer.error_code, answer.endpoint_type, answer.brokers) == (error, kind, ())


def test_a_refusal_carries_its_error() -> None:
    assert refused(API, DescribeClusterRequest(), ErrorCode.UNKNOWN_SERVER_ERROR, 0).error_code == -1
