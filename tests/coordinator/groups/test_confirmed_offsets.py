"""Stable offsets that a coordinator of a cluster tells wait for its log (cluster.md 6.10)."""

import asyncio

import pytest
from group_fakes import Broker, listed_groups, turns

from eosin.coordinator.groups.offset_requests import Committer, FetchedOffset
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

P0 = TopicPartition("orders", 0)
OK = ErrorCode.NONE


async def one_of_several() -> Broker:
    """A coordinator of a cluster, at which a group has committed 42."""
    broker = await Broker(confirms_responses=True).started()
    answers = await broker.groups.offsets.commit("g", [OffsetToCommit(P0, 42)], committer=Committer(), api_version=9)
    assert list(answers) == [OK]
    return broker


async def asked(broker: Broker, *, stable: bool = True) -> "asyncio.Task[tuple[ErrorCode, list[FetchedOffset]]]":
    """The question for the group's offset, as far as it comes."""
    question = asyncio.create_task(broker.groups.offsets.fetch("g", [P0], require_stable=stable))
    await turns()
    broker.clock.advance(0)
    await turns()
    return question


async def test_a_stable_offset_is_told_only_by_who_coordinates_still() -> None:
    """Else a deposed coordinator would have a copier begin before what its successor has committed."""
    broker = await one_of_several()
    broker.log.held = True  # its replicas follow its successor
    question = await asked(broker)
    assert not question.done()

    broker.groups.resign(0)  # the controllers are heard again

    assert await question == (ErrorCode.NOT_COORDINATOR, [])


async def test_a_stable_offset_is_told_when_a_record_behind_the_question_is_committed() -> None:
    broker = await one_of_several()
    broker.log.held = True
    question = await asked(broker)
    assert not question.done()

    await broker.log.release()

    assert await question == (OK, [FetchedOffset(P0, 42)])


async def test_questions_of_one_moment_share_a_record_that_changes_nothing() -> None:
    broker = await one_of_several()
    broker.log.held = True
    questions = [asyncio.create_task(broker.groups.offsets.fetch("g", [P0], require_stable=True)) for _ in range(5)]
    last = await asked(broker)
    await broker.log.release()
    assert [await each for each in (*questions, last)] == [(OK, [FetchedOffset(P0, 42)])] * 6
    assert len(broker.log.written) == 2

    await broker.crash()

    _, groups = listed_groups(broker)
    assert [each.group_id for each in groups] == ["g"]
    assert await (await asked(broker)) == (OK, [FetchedOffset(P0, 42)])


@pytest.mark.parametrize("refusal", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
async def test_a_coordinator_that_cannot_write_sends_clients_to_look_for_the_coordinator(refusal: ErrorCode) -> None:
    """Consumers of Java before 3.9 give up on COORDINATOR_NOT_AVAILABLE here."""
    broker = await one_of_several()
    broker.log.refuse = refusal

    assert await (await asked(broker)) == (ErrorCode.NOT_COORDINATOR, [])


async def test_a_question_that_is_asked_as_the_coordinator_goes_is_answered() -> None:
    broker = await one_of_several()
    question = asyncio.create_task(broker.groups.offsets.fetch("g", [P0], require_stable=True))
    await asyncio.sleep(0)

    broker.groups.resign(0)

    assert await question == (ErrorCode.NOT_COORDINATOR, [])
    assert len(broker.log.written) == 1


async def test_offsets_that_need_not_be_stable_and_a_broker_that_runs_alone_write_nothing() -> None:
    broker = await one_of_several()
    assert await (await asked(broker, stable=False)) == (OK, [FetchedOffset(P0, 42)])
    alone = await Broker(log=broker.log).started()
    assert await (await asked(alone)) == (OK, [FetchedOffset(P0, 42)])
    assert len(broker.log.written) == 1
