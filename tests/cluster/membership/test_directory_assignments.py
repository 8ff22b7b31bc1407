"""Where replicas are, on its way to the controller: at most 2250 in one request, repeated until it is taken."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from stub_broker import StubBroker
from waiting import HANG_S, until

from eosin.cluster.membership import directory_assignments
from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.directory_assignments import LOST_DIRECTORY, DirectoryAssignments
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.process

KEY = ApiKey.ASSIGN_REPLICAS_TO_DIRS
TOPIC, DISK = bytes(15) + b"\x01", bytes(15) + b"\xaa"
Answer = Callable[[TopicIdPartition], int]


def response(request: AssignReplicasToDirsRequest, error_of: Answer) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=tuple(
            ResponseDirectoryData(
                directory.id,
                tuple(
                    ResponseTopicData(
                        topic.topic_id,
                        tuple(
                            ResponsePartitionData(
                                each.partition_index, error_of(TopicIdPartition(topic.topic_id, each.partition_index))
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        )
    )


@asynccontextmanager
async def assignments(
    controller: StubBroker, *, is_wanted: bool = True, epoch: Callable[[], int] = lambda: 40
) -> AsyncIterator[DirectoryAssignments]:
    class Leader:
        node_id, epoch = 1000, 1
        host, port = controller.address

    made = DirectoryAssignments(
        ControllerChannel(Leader, clock=SystemClock(), client_id="broker-3"),
        node_id=3,
        broker_epoch=epoch,
        is_wanted=lambda *_: is_wanted,
        clock=SystemClock(),
        chance=SeededChance(1),
    )
    yield made
    await made.close()


def told(controller: StubBroker) -> list[list[tuple[bytes, int]]]:
    """Directories and partitions of each request."""
    return [
        [
            (directory.id, each.partition_index)
            for directory in request.directories
            for topic in directory.topics
            for each in topic.partitions
        ]
        for request in controller.requests(KEY)
    ]


async def test_replicas_are_told_with_their_directory_and_the_broker_epoch() -> None:
    async with StubBroker() as controller, assignments(controller) as each:
        controller.answers[KEY] = lambda request, _: response(request, lambda _: 0)
        await asyncio.gather(each.assign(TOPIC, 0, LOST_DIRECTORY), each.assign(TOPIC, 1, DISK))
        assert told(controller) == [[(LOST_DIRECTORY, 0), (DISK, 1)]]
        (request,) = controller.requests(KEY)
        assert (request.broker_id, request.broker_epoch) == (3, 40)


async def test_many_replicas_take_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "MAX_PARTITIONS", 2)
    async with StubBroker() as controller, assignments(controller) as each:
        controller.answers[KEY] = lambda request, _: response(request, lambda _: 0)
        await asyncio.gather(*(each.assign(TOPIC, partition, DISK) for partition in range(5)))
        assert [len(request) for request in told(controller)] == [2, 2, 1]


def test_the_limit_of_a_request_is_kafkas() -> None:
    assert directory_assignments.MAX_PARTITIONS == 2250


async def test_a_stale_epoch_is_tried_again_with_the_one_of_now() -> None:
    epochs = iter((40, 47))
    async with StubBroker() as controller, assignments(controller, epoch=lambda: next(epochs)) as each:
        controller.answers[KEY] = lambda request, _: (
            response(request, lambda _: 0)
            if request.broker_epoch == 47
            else AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        )
        async with asyncio.timeout(HANG_S):
            await each.assign(TOPIC, 0, DISK)


@pytest.mark.parametrize("error", [100, 3, 6])
async def test_a_replica_that_is_gone_from_the_image_too_is_told_no_more(error: int) -> None:
    async with StubBroker() as controller, assignments(controller, is_wanted=False) as each:
        controller.answers[KEY] = lambda request, _: response(request, lambda _: error)
        async with asyncio.timeout(HANG_S):
            await each.assign(TOPIC, 0, DISK)
        assert len(told(controller)) == 1


@pytest.mark.parametrize("error", [100, 3, 6, -1])
async def test_a_replica_that_the_image_still_has_is_told_again(error: int) -> None:
    async with StubBroker() as controller, assignments(controller) as each:
        failures = iter((error, error))
        controller.answers[KEY] = lambda request, _: response(request, lambda _: next(failures, 0))
        async with asyncio.timeout(HANG_S):
            await each.assign(TOPIC, 0, DISK)
        assert len(told(controller)) == 3


async def test_the_last_word_about_a_replica_counts() -> None:
    async with StubBroker() as controller, assignments(controller) as each:
        controller.answers[KEY] = lambda request, _: response(request, lambda _: 0)
        first = each.assign(TOPIC, 0, LOST_DIRECTORY)
        assert each.assign(TOPIC, 0, LOST_DIRECTORY) is first
        async with asyncio.timeout(HANG_S):
            await each.assign(TOPIC, 0, DISK)
            await first
        assert told(controller) == [[(DISK, 0)]]


async def test_nobody_waits_for_a_sender_that_is_closed() -> None:
    async with StubBroker() as controller, assignments(controller) as each:
        controller.answers[KEY] = lambda *_: None
        known = each.assign(TOPIC, 0, DISK)
        await until(lambda: controller.requests(KEY))
        await each.close()
        assert known.cancelled()


async def test_an_assignment_in_the_step_of_an_answer_is_sent_too() -> None:
    async with StubBroker() as controller, assignments(controller) as each:
        controller.answers[KEY] = lambda request, _: response(request, lambda _: 0)
        async with asyncio.timeout(HANG_S):
            for directory_id in (LOST_DIRECTORY, DISK, LOST_DIRECTORY):
                await each.assign(TOPIC, 0, directory_id)
        assert told(controller) == [[(LOST_DIRECTORY, 0)], [(DISK, 0)], [(LOST_DIRECTORY, 0)]]
