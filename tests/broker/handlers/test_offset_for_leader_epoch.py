"""OffsetForLeaderEpoch over real logs."""

from typing import Any

import pytest
from data_broker import DataBroker, batch

from eosin.broker.handlers import offset_for_leader_epoch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

API = offset_for_leader_epoch.API


async def broker_with_epochs() -> DataBroker:
    """Epoch 2 from offset 0 on, 5 from offset 2 on; 5 is the current one."""
    broker = await DataBroker.started()
    await broker.create_topic()
    for epoch in (2, 5):
        broker.log().leader_epoch = epoch
        await broker.produce(batch("a", "b"))
    return broker


async def ask(broker: DataBroker, epoch: int, *, current: int = -1, partition: int = 0, version: int = 4) -> list[int]:
    wanted = OffsetForLeaderPartition(partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic("orders", (wanted,)),))
    answer = (await broker.call(API, request, version)).topics[0].partitions[0]
    assert answer.partition == partition
    return [answer.error_code, answer.leader_epoch, answer.end_offset]


@pytest.mark.parametrize("version", API.versions)
async def test_the_end_of_the_largest_epoch_not_above_the_one_asked_for_is_told(version: int) -> None:
    broker = await broker_with_epochs()
    assert await ask(broker, 2, version=version) == [0, 2, 2]
    assert await ask(broker, 4, version=version) == [0, 2, 2]
    assert await ask(broker, 5, version=version) == [0, 5, 4]


async def test_nothing_is_known_of_an_epoch_that_has_not_been() -> None:
    broker = await broker_with_epochs()
    assert await ask(broker, 6) == [0, -1, -1]
    assert await ask(broker, -1) == [0, -1, -1]


async def test_a_caller_with_another_current_epoch_is_refused() -> None:
    broker = await broker_with_epochs()
    assert await ask(broker, 2, current=4) == [ErrorCode.FENCED_LEADER_EPOCH, -1, -1]
    assert await ask(broker, 2, current=6) == [ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1]
    assert await ask(broker, 2, current=5) == [0, 2, 2]


async def test_an_unknown_partition_is_refused() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await ask(await broker_with_epochs(), 2, partition=3) == [unknown, -1, -1]


def test_a_refusal_reaches_every_partition() -> None:
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic("orders", (OffsetForLeaderPartition(3),)),))
    context: Any = None
    response = API.refuse(request, context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [(each.partition, each.error_code) for each in response.topics[0].partitions] == [(3, -1)]
