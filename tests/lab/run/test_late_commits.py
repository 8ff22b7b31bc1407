"""Late commits: how a history tells them, and which copies of records they account for."""

from collections.abc import Sequence
from typing import Any

import pytest

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.values import PartitionName, ReadRecord, StoredBatch
from eosin.lab.history.occurrences import Occurrence
from eosin.lab.run.judge import Judge
from eosin.lab.run.late_commits import LateCommit, late_commits, without_copies
from eosin.lab.verdict.exactly_once import id_of_record
from eosin.lab.verdict.facts import ExactlyOnceFacts, LoggedPartition
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

OUT = PartitionName("output", 0)
OFFSETS = PartitionName("__consumer_offsets", 1)
PRODUCER = 7


def history(*steps: str) -> list[Occurrence]:
    """The events about one transactional id: EndTxn `asked`, `executed`, `answered` or `lost`, the decisions `commit`
    and `abort`, and `marker`."""
    events: list[Occurrence] = []
    asked = 0
    for number, step in enumerate(steps, 1):
        about: dict[str, Any] = {"transactional_id": "copier-1"}
        if step == "asked":
            asked = number
            about.update(api="EndTxn", request=number)
        elif step in ("executed", "answered", "lost"):
            about = {"api": "EndTxn", "request": asked}
        else:
            about.update(partitions=(OUT, OFFSETS), detail=f"{step} epoch 0")
        what = "prepared" if step in ("commit", "abort") else step
        events.append(Occurrence(number, 0, 0, what, **about))
    return events


def found(*steps: str) -> list[LateCommit]:
    return [each for each in late_commits(history(*steps), {"copier-1": PRODUCER}.__getitem__) if each.partition == OUT]


ENDED = ("asked", "commit", "answered", "marker")
AGAIN = ("asked", "executed", "lost")
"""Asked again, since the answer was lost."""


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (*ENDED, *ENDED),
        (*ENDED, *AGAIN, *ENDED),
        ("asked", "lost", *ENDED, *ENDED),
        (*ENDED, "abort", "marker", *ENDED),  # a timeout asks nobody
        (*ENDED, "asked", "lost", "commit", "marker"),  # its client has given up, before it was executed
        ("commit", "marker", "commit", "marker"),  # by the lab itself
    ],
)
def test_a_transaction_whose_end_somebody_has_asked_for_is_not_ended_late(steps: Sequence[str]) -> None:
    assert found(*steps) == []


@pytest.mark.parametrize("repeated", [(), AGAIN, (*AGAIN, *AGAIN)])
def test_a_commit_that_nobody_has_asked_for_since_the_last_decision_is_late(repeated: tuple[str, ...]) -> None:
    late = found("asked", "lost", *ENDED, *repeated, "commit", "marker", *ENDED)
    assert late == [LateCommit(OUT, PRODUCER, 2)]


def test_the_marker_of_a_late_commit_is_counted_behind_those_of_aborts_too() -> None:
    assert found(*ENDED, "abort", "marker", *ENDED, "commit", "marker") == [LateCommit(OUT, PRODUCER, 4)]


def log(*transactions: str) -> ExactlyOnceFacts:
    """An output of committed transactions of one producer: the keys of the records of each."""
    records: list[ReadRecord] = []
    batches: list[StoredBatch] = []
    offset = 0
    for keys in transactions:
        batches.append(StoredBatch(0, offset, offset + len(keys) - 1, len(keys), PRODUCER, 0, 0, True, None))
        for key in keys:
            records.append(ReadRecord("output", 0, offset, 0, key.encode(), b"v"))
            offset += 1
        batches.append(StoredBatch(0, offset, offset, 1, PRODUCER, 0, -1, True, "commit"))
        offset += 1
    visible = tuple(each.offset for each in records)
    return ExactlyOnceFacts(
        (), (LoggedPartition("output", 0, tuple(records), visible, tuple(batches), offset, offset),)
    )


class Finished(BrokerApi):
    """A broker after a run."""

    def __init__(self, facts: ExactlyOnceFacts) -> None:
        self._facts = facts

    def call(self, *_: object, **_named: object) -> ExactlyOnceFacts:  # type: ignore[override]
        return self._facts


def judged(*transactions: str, late: int) -> tuple[list[str], list[str]]:
    """The kinds of findings about an application that should have written a to f, and those that are forgiven."""
    reference = [(key.encode(), b"v") for key in "abcdef"]
    commits = [LateCommit(OUT, PRODUCER, late)]
    broker = Finished(log(*transactions))
    verdict = Judge("multiset", id_of_record).judge(broker, "input", ["output"], None, reference, (), commits)
    return [each.kind for each in verdict.findings], [each.kind for each in verdict.forgiven]


def test_records_of_a_late_commit_that_were_done_again_are_forgiven() -> None:
    assert judged("ab", "cd", "cdef", late=2) == ([], ["doubled"])


def test_records_of_a_late_commit_that_nobody_did_again_are_the_only_ones() -> None:
    assert judged("ab", "cd", "ef", late=2) == ([], [])


def test_copies_that_no_late_commit_accounts_for_are_doubled_as_ever() -> None:
    assert judged("ab", "cd", "abcdef", late=2) == (["doubled"], ["doubled"])
    assert judged("ab", "cd", "cdcdef", late=2) == (["doubled"], ["doubled"])


def test_what_is_left_out_of_a_log_is_neither_shown_nor_hidden() -> None:
    facts, forgiven = without_copies(log("ab", "b"), [LateCommit(OUT, PRODUCER, 2)], [(b"a", b"v"), (b"b", b"v")])
    (partition,) = facts.output
    assert ([each.offset for each in partition.records], partition.visible) == ([0, 1], (0, 1))
    assert forgiven[0].evidence == ('output-0:3 key "b" "v"',)


@pytest.mark.process
async def test_a_broker_tells_of_a_commit_that_the_network_has_kept() -> None:
    place = TopicPartition("output", 0)
    async with AsyncBroker(topics=["output"], settings={"eosin.transaction.version": 1}) as broker:
        await broker.faults.on("EndTxn").detour(behind="Produce")
        async with Client(broker.bootstrap) as client:
            producer = Producer(client, "copier-1")
            producer_id = (await producer.init()).producer_id
            producer.begin()
            await producer.send(place, [NewRecord(b"a", b"v")])
            await producer.commit()
            assert late_commits(await broker.history.events(), {"copier-1": producer_id}.__getitem__) == []
            producer.begin()
            await producer.send(place, [NewRecord(b"b", b"v")])
        await broker.settle()  # the marker comes behind the decision
        events = await broker.history.events()
    assert late_commits(events, {"copier-1": producer_id}.__getitem__) == [LateCommit(OUT, producer_id, 2)]
