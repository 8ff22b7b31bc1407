"""Internal topics of streams groups are created once, whoever asks, and a failure is told and not repeated at once
(streams-groups.md 3)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from manual_clock import ManualClock
from waiting import settled

from eosin.broker.streams_topics import StreamsTopics
from eosin.coordinator.groups.streams.topology.topology import InternalTopic
from eosin.model.cluster import Cluster, Outcome
from eosin.protocol.errors import ErrorCode

INTERVAL_MS = 5000
CONTEXT: Any = SimpleNamespace(client_host="/127.0.0.1", session=SimpleNamespace(principal="User:app"))


class Controller:
    """A cluster that creates topics when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.outcome = Outcome(ErrorCode.NONE)
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def create_for_client(self, name: str, **how: Any) -> Outcome:
        self.asked.append(name)
        assert (how["client_host"], how["principal"]) == (CONTEXT.client_host, CONTEXT.session.principal)
        await self.is_free.wait()
        return self.outcome


def topics(*names: str) -> list[InternalTopic]:
    return [InternalTopic(name, 2, -1, (("cleanup.policy", "compact"),)) for name in names]


def made(controller: Controller, clock: ManualClock) -> StreamsTopics:
    return StreamsTopics(cast(Cluster, controller), clock)


async def test_two_members_that_ask_at_once_create_a_topic_once() -> None:
    controller = Controller()
    creates = made(controller, ManualClock())
    controller.is_free.clear()
    asking = [
        asyncio.ensure_future(creates.create(topics("a"), CONTEXT, heartbeat_interval_ms=INTERVAL_MS)),
        asyncio.ensure_future(creates.create(topics("a", "b"), CONTEXT, heartbeat_interval_ms=INTERVAL_MS)),
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    controller.is_free.set()
    assert await asyncio.gather(*asking) == ["", ""]
    assert sorted(controller.asked) == ["a", "b"]


async def test_a_topic_that_is_there_meanwhile_is_no_failure() -> None:
    controller = Controller()
    controller.outcome = Outcome(ErrorCode.TOPIC_ALREADY_EXISTS)
    assert await made(controller, ManualClock()).create(topics("a"), CONTEXT, heartbeat_interval_ms=INTERVAL_MS) == ""


async def test_a_failure_is_told_and_tried_again_after_two_intervals() -> None:
    controller, clock = Controller(), ManualClock()
    creates = made(controller, clock)
    controller.outcome = Outcome(ErrorCode.POLICY_VIOLATION, "the disk is full")
    names = ("a", "b", "c", "d")
    told = await creates.create(topics(*names), CONTEXT, heartbeat_interval_ms=INTERVAL_MS)
    assert told.startswith("a could not be created: the disk is full.")
    assert told.endswith("1 more have failed.")
    controller.outcome = Outcome(ErrorCode.NONE)
    assert await creates.create(topics(*names), CONTEXT, heartbeat_interval_ms=INTERVAL_MS) == told
    assert len(controller.asked) == len(names)
    clock.advance(2 * INTERVAL_MS)
    assert await creates.create(topics(*names), CONTEXT, heartbeat_interval_ms=INTERVAL_MS) == ""
    assert len(controller.asked) == 2 * len(names)


async def test_a_creation_that_takes_long_is_told_after_an_interval_and_goes_on() -> None:
    controller, clock = Controller(), ManualClock()
    creates = made(controller, clock)
    controller.is_free.clear()
    for _ in range(2):
        asking = asyncio.ensure_future(creates.create(topics("a", "b"), CONTEXT, heartbeat_interval_ms=INTERVAL_MS))
        await settled()
        clock.advance(INTERVAL_MS)
        assert await asking == "2 are still being created."
    controller.is_free.set()
    assert await creates.create(topics("a", "b"), CONTEXT, heartbeat_interval_ms=INTERVAL_MS) == ""
    assert controller.asked == ["a", "b"]
    await settled()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
