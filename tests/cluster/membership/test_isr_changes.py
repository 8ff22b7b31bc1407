"""Changes of ISRs on their way to the controller: batches, one at a time, and repeated until they are answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from stub_broker import StubBroker
from waiting import HANG_S, until

from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.isr_changes import IsrChangeQueue, IsrChanges, RequestedChange
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.led_partition import IsrChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    ResponsePartitionData,
    ResponseTopicData,
)
from eosin.runtime.clock import SystemClock

KEY = ApiKey.ALTER_PARTITION
TOPIC, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"


def change(partition_epoch: int = 5) -> IsrChange:
    return IsrChange(leader_epoch=2, partition_epoch=partition_epoch, isr=((3, 40), (4, -1)))


def part(partition: int, topic_id: bytes = TOPIC) -> TopicIdPartition:
    return TopicIdPartition(topic_id, partition)


def answers(*given: tuple[TopicIdPartition, int]) -> AlterPartitionResponse:
    """One partition epoch up for each that is NONE."""
    topics = tuple(
        ResponseTopicData(
            topic_id=each.topic_id,
            partitions=(ResponsePartitionData(each.partition, error, 3, 2, (3, 4), 0, 6),),
        )
        for each, error in given
    )
    return AlterPartitionResponse(topics=topics)


def all_done(request: AlterPartitionRequest, _: int) -> AlterPartitionResponse:
    partitions = [part(each.partition_index, topic.topic_id) for topic in request.topics for each in topic.partitions]
    return answers(*((each, ErrorCode.NONE) for each in partitions))


class Sender(NamedTuple):
    changes: IsrChanges
    controller: StubBroker
    answered: list[tuple[int, IsrChangeResult]]

    def ask(self, partition: int, asked: IsrChange | None = None) -> None:
        self.changes.request(
            TOPIC, partition, asked or change(), lambda answer: self.answered.append((partition, answer))
        )

    async def until(self, count: int) -> None:
        await until(lambda: len(self.answered) >= count, lambda: self.answered)


@asynccontextmanager
async def sender(
    answer: Callable[[AlterPartitionRequest, int], object], epoch: Callable[[], int] = lambda: 40
) -> AsyncIterator[Sender]:
    class Leader:
        node_id, epoch, host, port = 1000, 1, "", 0

    async with StubBroker() as controller:
        Leader.host, Leader.port = controller.address
        controller.answers[KEY] = answer  # type: ignore[assignment]
        channel = ControllerChannel(Leader, clock=SystemClock(), client_id="broker-3")
        made = IsrChanges(channel, node_id=3, broker_epoch=epoch, clock=SystemClock())
        yield Sender(made, controller, [])
        await made.close()


def test_a_request_names_members_with_their_epochs() -> None:
    queue = IsrChangeQueue()
    for partition in (part(0), part(7), part(0, OTHER)):
        queue.add(partition, RequestedChange(change(), lambda _: None))
    request = queue.request(node_id=3, broker_epoch=40)
    assert (request.broker_id, request.broker_epoch) == (3, 40)
    assert [topic.topic_id for topic in request.topics] == [TOPIC, OTHER]
    first, second = request.topics[0].partitions
    assert (first.partition_index, second.partition_index) == (0, 7)
    assert (first.leader_epoch, first.partition_epoch, first.leader_recovery_state) == (2, 5, 0)
    assert first.new_isr_with_epochs == (BrokerState(3, 40), BrokerState(4, -1))


def test_a_later_change_replaces_one_that_has_not_left() -> None:
    queue = IsrChangeQueue()
    queue.add(part(0), RequestedChange(change(5), lambda _: None))
    queue.add(part(0), RequestedChange(change(6), lambda _: None))
    (topic,) = queue.request(node_id=3, broker_epoch=40).topics
    assert [each.partition_epoch for each in topic.partitions] == [6]


def test_a_failed_request_is_sent_again_without_replaced_changes() -> None:
    queue = IsrChangeQueue()
    queue.add(part(0), RequestedChange(change(5), lambda _: None))
    queue.add(part(1), RequestedChange(change(5), lambda _: None))
    queue.request(node_id=3, broker_epoch=40)
    queue.add(part(0), RequestedChange(change(6), lambda _: None))
    (again,) = queue.request(node_id=3, broker_epoch=41).topics
    assert [(each.partition_index, each.partition_epoch) for each in again.partitions] == [(1, 5)]
    queue.handle_response(answers((part(1), ErrorCode.NONE)))
    (later,) = queue.request(node_id=3, broker_epoch=41).topics
    assert [(each.partition_index, each.partition_epoch) for each in later.partitions] == [(0, 6)]


def test_a_change_that_the_controller_left_out_may_be_tried_again() -> None:
    queue = IsrChangeQueue()
    queue.add(part(0), RequestedChange(change(), lambda _: None))
    queue.request(node_id=3, broker_epoch=40)
    ((_, answer),) = queue.handle_response(AlterPartitionResponse())
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert queue.is_empty


def test_a_partition_that_is_not_led_any_more_asks_for_nothing() -> None:
    queue = IsrChangeQueue()
    queue.add(part(0), RequestedChange(change(), lambda _: None))
    queue.withdraw(part(0))
    queue.withdraw(part(1))
    assert queue.is_empty


@pytest.mark.process
async def test_changes_that_come_meanwhile_leave_together() -> None:
    released = asyncio.Event()

    async def slow(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        await released.wait()
        return all_done(request, version)

    async with sender(slow) as each:
        each.ask(0)
        await until(lambda: each.controller.requests(KEY))
        each.ask(1)
        each.ask(2)
        released.set()
        await each.until(3)
        sizes = [len(request.topics[0].partitions) for request in each.controller.requests(KEY)]
        assert sizes == [1, 2]
        assert each.answered[0] == (0, IsrChangeResult(ErrorCode.NONE, 2, 6, (3, 4)))


@pytest.mark.process
async def test_a_stale_epoch_is_tried_again_with_the_one_of_now() -> None:
    epochs = iter((40, 47))

    def answer(request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        if request.broker_epoch == 40:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return all_done(request, version)

    async with sender(answer, lambda: next(epochs)) as each:
        each.ask(0)
        await each.until(1)
        assert [request.broker_epoch for request in each.controller.requests(KEY)] == [40, 47]


@pytest.mark.process
async def test_each_partition_hears_its_own_error_and_may_ask_again() -> None:
    def answer(request: AlterPartitionRequest, _: int) -> AlterPartitionResponse:
        epochs = [each.partition_epoch for each in request.topics[0].partitions]
        if epochs == [9]:
            return answers((part(1), ErrorCode.NONE))
        return answers((part(0), ErrorCode.INVALID_UPDATE_VERSION), (part(1), ErrorCode.UNKNOWN_SERVER_ERROR))

    async with sender(answer) as each:

        def again(first: IsrChangeResult) -> None:
            each.answered.append((1, first))
            each.ask(1, change(9))

        each.ask(0)
        each.changes.request(TOPIC, 1, change(), again)
        await each.until(3)
        told = [(partition, answer.error) for partition, answer in each.answered]
        assert told == [
            (0, ErrorCode.INVALID_UPDATE_VERSION),
            (1, ErrorCode.UNKNOWN_SERVER_ERROR),
            (1, ErrorCode.NONE),
        ]


@pytest.mark.process
async def test_an_error_code_of_a_later_release_may_be_tried_again() -> None:
    async with sender(lambda *_: answers((part(0), 999))) as each:
        each.ask(0)
        await each.until(1)
        assert each.answered[0][1].error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.process
async def test_a_change_asked_for_in_the_step_of_an_answer_is_answered_too() -> None:
    async with sender(all_done) as each:
        for _ in range(3):
            answered: asyncio.Future[IsrChangeResult] = asyncio.get_running_loop().create_future()
            each.changes.request(TOPIC, 0, change(), answered.set_result)
            async with asyncio.timeout(HANG_S):
                await answered
