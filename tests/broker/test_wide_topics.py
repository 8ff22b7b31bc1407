"""Requests for everything, and of everything, at a broker of very many partitions: no step of the event loop is long
(security.md 6.2), though the requests are small. Here are 20,000 partitions; each case took a step of 35 to 150 ms."""

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from loop_steps import LoopSteps
from waiting import until

from eosin.broker.handlers.registry import BY_KEY
from eosin.cluster.metadata.topics import MAX_PARTITIONS_PER_CHANGE as WIDE
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_log_dirs import DescribeLogDirsRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eosin.protocol.types import Message

MOST_S = 0.025
TOPICS = ("wide-a", "wide-b")


async def kept_by(broker: GuardedBroker, key: ApiKey, request: Message, version: int | None) -> LoopSteps:
    """The longest step of a broker that answers this request, and lets go of what it made for it."""
    peer = broker.peer(ADMIN)
    sent = peer.transport.sent
    frame = peer.frame(key, BY_KEY[key].versions[-1] if version is None else version, request)
    with LoopSteps() as steps:
        steps.begin(peer.transport.feed, frame, piece=len(frame))
        await until(lambda: len(sent) >= 4 and len(sent) >= 4 + int.from_bytes(sent[:4], "big"), every_s=0.001)
    assert len(peer.answers()) == 1
    return steps


def commit_of(topic: str) -> OffsetCommitRequest:
    partitions = tuple(OffsetCommitRequestPartition(index, 1) for index in range(WIDE))
    return OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),))


ASKED: dict[str, tuple[ApiKey, int | None, Message]] = {
    "metadata of all topics": (ApiKey.METADATA, None, MetadataRequest(topics=None)),
    "metadata of one topic": (ApiKey.METADATA, None, MetadataRequest(topics=(MetadataRequestTopic(name="wide-a"),))),
    "log directories": (ApiKey.DESCRIBE_LOG_DIRS, None, DescribeLogDirsRequest(topics=None)),
    "a commit of all partitions": (ApiKey.OFFSET_COMMIT, 9, commit_of("wide-a")),
    "another one": (ApiKey.OFFSET_COMMIT, 9, commit_of("wide-b")),
    "all that a group has committed": (
        ApiKey.OFFSET_FETCH,
        9,
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),)),
    ),
}


@pytest.mark.slow
async def test_requests_about_all_partitions_keep_the_event_loop_for_milliseconds() -> None:
    async with guarded_broker() as broker:
        for topic in TOPICS:
            created = await broker.server.services.cluster.create_topic(topic, partitions=WIDE)
            assert created.error is ErrorCode.NONE
        took = {name: await kept_by(broker, key, request, version) for name, (key, version, request) in ASKED.items()}
        limits = broker.server.services.new_producers
        assert limits is not None
        with LoopSteps() as steps:
            await limits.recount(list(broker.server.logs.logs.values()))
        took["the count of producers"] = steps
    assert {name: steps.longest for name, steps in took.items() if steps.longest_s > MOST_S} == {}
