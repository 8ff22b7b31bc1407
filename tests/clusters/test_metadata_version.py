"""metadata.version is raised while brokers and clients work; levels that cannot be (cluster.md 1.6, 1.7)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_topics import ClusterTopics
from committing import Committing, read_all
from joined_broker import JoinedBroker, replicated
from kraft_node import QuorumController
from toolchains import skipped_without
from waiting import wait_until

from eosin.client.client import Client
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse

_OLDEST, _NEWEST = 25, 33


@pytest.fixture
def oldest(tmp_path: Path) -> Iterator[QuorumController]:
    """A cluster at the lowest level that an Eosin broker joins."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller", features={"metadata.version": _OLDEST, "share.version": 0})
    with made:
        yield made


def features(address: str) -> dict[str, int]:
    """The finalized levels, as the broker at that address tells them."""

    async def ask() -> dict[str, int]:
        async with Client(address) as client:
            answer: ApiVersionsResponse = await client.request(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1"))
            return {each.name: each.max_version_level for each in answer.finalized_features}

    return asyncio.run(ask())


@pytest.mark.full
def test_metadata_version_is_raised_under_a_client_that_commits(oldest: QuorumController, tmp_path: Path) -> None:
    first, second, third = (
        JoinedBroker(tmp_path / f"broker-{node_id}", oldest, node_id=node_id, settings=replicated(2))
        for node_id in (1, 2, 3)
    )
    with first, second:
        addresses = f"{first.address},{second.address}"
        at = ("--bootstrap-server", addresses)
        topic = ClusterTopics(addresses).create((1, 2))
        assert features(addresses)["metadata.version"] == _OLDEST
        committing = Committing(addresses, topic)
        committing.progress()
        oldest.run("kafka-features.sh", *at, "upgrade", "--release-version", "4.4")
        for broker in (first, second):
            wait_until(lambda asked=broker.address: _has_seen_all(asked), every_s=0.1)
        with third:  # its registration is a record of the new version
            newer = ClusterTopics(f"{addresses},{third.address}").create((3, 2, 1))
            later = Committing(third.address, newer)
            later.progress()
            sent_later = later.stop()
            assert read_all(third.address, newer, len(sent_later)) == sent_later
        for unsafe in ((), ("--unsafe",)):
            code, said = oldest.outcome(
                "kafka-features.sh", *at, "downgrade", *unsafe, "--feature", f"metadata.version={_OLDEST}"
            )
            assert code == 1
            assert f"Unsupported metadata.version downgrade from {_NEWEST} to {_OLDEST}" in said
        committing.progress()
        sent = committing.stop()
        assert len(sent) > 20
        assert read_all(addresses, topic, len(sent)) == sent


def _has_seen_all(address: str) -> bool:
    levels = features(address)
    return (levels["metadata.version"], levels.get("eligible.leader.replicas.version")) == (_NEWEST, 1)
