"""What happens to consumer groups of unmodified clients, and what `eosin explain` says of it (console.md 2.1 and 3)."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer, Producer, TopicPartition
from manual_clock import ManualClock
from observed_broker import ORDERS_0, observed_broker
from waiting import HANG_S, wait_until
from wire import unique

from eosin.coordinator.groups.rules.events import Event, Join, Leave, LeavingMember, TimerFired, TimerKind, TimerName
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.observe.explain.facts import GroupFacts, GroupPartition
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.recorder.events import HistoryEvent
from eosin.observe.recorder.group_events import GroupHistory
from eosin.observe.recorder.group_recorder import PRODUCERS, REPEATING, RING, GroupRecorder
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from eosin.storage.results.log_results import Marker

NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    process = BrokerProcess(tmp_path_factory.mktemp("groups") / "data", settings=settings)
    process.options = ("--http", "0")
    with process:
        yield process


def settings_of(broker: BrokerProcess, group: str, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "client.id": client_id,
        "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 300,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }


def explained(broker: BrokerProcess, group: str) -> dict[str, Any]:
    http = broker.http_address
    command = [sys.executable, "-m", "eosin.cli", "explain", group, "--as", "group", "--json"]
    command += ["--bootstrap-server", broker.address, "--http", http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def topic_with_records(broker: BrokerProcess) -> str:
    topic = unique("orders")
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for _ in range(10):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(HANG_S) == 0
    return topic


@pytest.mark.process
@pytest.mark.slow
def test_a_group_tells_who_joined_who_left_and_which_offsets_a_transaction_committed(broker: BrokerProcess) -> None:
    group, topic = unique("readers"), topic_with_records(broker)
    consumer = Consumer(settings_of(broker, group, "reader-1"))
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.5))
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": unique("copier"), "log_level": 0})
    producer.init_transactions(HANG_S)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        positions = [TopicPartition(topic, 0, 5)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), HANG_S)
        ends(30)
        kinds = [event["kind"] for event in explained(broker, group)["timeline"]]
        assert kinds[-1] == ("offsets_committed" if ends == producer.commit_transaction else "offsets_dropped"), kinds
    consumer.close()
    found = explained(broker, group)
    events = {event["kind"]: event for event in found["timeline"]}
    assert events["joined"]["who"]["client_id"] == "reader-1"
    assert events["left"]["what"].startswith("reader-1-")
    assert [event["what"] for event in found["timeline"] if event["kind"] == "generation"] == ["1", "2"]
    assert "it rebalanced last at" in found["sentence"]
    assert "(generation 2) because reader-1 at 127.0.0.1 left" in found["sentence"]


@pytest.mark.process
@pytest.mark.slow
def test_a_member_that_fell_silent_is_named_with_its_last_sign_of_life(broker: BrokerProcess) -> None:
    group, topic = unique("readers"), topic_with_records(broker)
    program = (
        "import json, sys; from confluent_kafka import Consumer\n"
        "consumer = Consumer(json.loads(sys.argv[1])); consumer.subscribe([sys.argv[2]])\n"
        "while True:\n"
        "    consumer.poll(0.2)\n"
        "    if consumer.assignment(): print('assigned', flush=True)\n"
    )
    command = [sys.executable, "-c", program, json.dumps(settings_of(broker, group, "lost-1")), topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lost:
        assert lost.stdout is not None
        assert lost.stdout.readline() == "assigned\n"
        lost.kill()
    expelled = wait_until(lambda: [each for each in explained(broker, group)["timeline"] if each["kind"] == "expelled"])
    assert "no heartbeat for 3 s (session.timeout.ms)" in expelled[0]["what"]
    assert expelled[0]["who"]["client_id"] == "lost-1"
    assert "because lost-1 at 127.0.0.1 was expelled: no heartbeat for 3 s" in explained(broker, group)["sentence"]


@pytest.mark.process
@pytest.mark.slow
def test_a_member_that_gets_nothing_names_the_transaction_that_holds_it_back(broker: BrokerProcess) -> None:
    group, topic, holder = unique("readers"), unique("held"), unique("holder")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": holder, "log_level": 0})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(HANG_S) == 0
    consumer = Consumer(settings_of(broker, group, "reader-1"))
    consumer.subscribe([topic])

    def is_assigned() -> bool:
        assert consumer.poll(0.2) is None, "a record of an open transaction"
        return bool(consumer.assignment())

    wait_until(is_assigned)
    found = explained(broker, group)
    assert f"and nothing committed, and 1 undecided behind the open transaction of {holder}" in found["sentence"]
    assert found["cause"] == "open_transaction"
    producer.commit_transaction(HANG_S)
    assert wait_until(lambda: consumer.poll(0.5)).value() == b"x"
    consumer.commit(asynchronous=False)
    assert explained(broker, group)["cause"] == "control_records"
    consumer.close()


def looping(*reasons: str, apart_ms: int = 20_000) -> GroupHistory:
    """A group whose last rebalance has just begun."""
    first_ms = NOW_MS - apart_ms * (len(reasons) - 1)
    events = [
        HistoryEvent(first_ms + apart_ms * turn, "rebalance", -1, -1, reason) for turn, reason in enumerate(reasons)
    ]
    return GroupHistory(NOW_MS - 900_000, tuple(events))


def test_a_group_that_does_not_come_to_rest_says_how_often_and_what_helps() -> None:
    lazy = "reader-1 at 10.0.0.7 left: closed, or too long without a poll (max.poll.interval.ms)"
    found = explain_group(GroupFacts("g", NOW_MS, "Stable", history=looping(*[lazy] * 6)))
    assert found.cause == "rebalances"
    assert found.sentence == (
        "group g: Stable, 0 members, and nothing committed; it has rebalanced 6 times since 22:11:40.000, last at"
        f" 22:13:20.000 because {lazy}."
    )
    assert "fewer records at a time (max.poll.records)" in found.text
    silent = "reader-1 at 10.0.0.7 was expelled: no heartbeat for 45 s (session.timeout.ms)"
    assert (
        "look for processes that die"
        in explain_group(GroupFacts("g", NOW_MS, "Stable", history=looping(*[silent] * 6))).text
    )
    joined = "reader-1 at 10.0.0.7 joined"
    assert "when members stay" in explain_group(GroupFacts("g", NOW_MS, "Stable", history=looping(*[joined] * 6))).text
    # A deployment of four members, or rebalances that lie hours apart, are no loop.
    for calm in (looping(*[joined] * 4), looping(*[joined] * 30, apart_ms=3_600_000)):
        found = explain_group(GroupFacts("g", NOW_MS, "Stable", history=calm))
        assert (found.cause, "it has been rebalancing since" in found.sentence) == ("", True)


def member(name: str, *, instance_id: str | None = None, is_new: bool = False) -> Member:
    return Member(name, instance_id, "app", "/10.0.0.7", 45_000, 300_000, (("range", b""),), is_new=is_new)


def group_of(*members: Member, state: GroupState = GroupState.STABLE, generation_id: int = 4) -> Group:
    return Group("g", state, generation_id=generation_id, members={each.member_id: each for each in members})


def join(member_id: str, *, instance_id: str | None = None, protocols: Any = (("range", b""),)) -> Join:
    return Join(1, member_id, instance_id, "consumer", protocols, 45_000, 300_000, "app", "/10.0.0.7", "fresh")


PREPARING = GroupState.PREPARING_REBALANCE
A, B = member("a"), member("b")


@pytest.mark.parametrize(
    ("before", "after", "event", "kinds", "reason"),
    [
        (group_of(A), group_of(A, B, state=PREPARING), join("b"), ["joined", "rebalance"], "app at 10.0.0.7 joined"),
        (
            group_of(A, B),
            group_of(A, state=PREPARING),
            Leave(1, (LeavingMember("b", None, "the consumer is being closed"),)),
            ["left", "rebalance"],
            "app at 10.0.0.7 left: the consumer is being closed",
        ),
        (
            group_of(A, member("b", instance_id="i")),
            group_of(A, state=PREPARING),
            Leave(1, (LeavingMember("", "i"),)),
            ["left", "rebalance"],
            "app/i at 10.0.0.7 left: an administrator has removed it",
        ),
        (
            group_of(A, B),
            group_of(A, state=PREPARING),
            TimerFired(TimerName(TimerKind.SESSION, "b"), 4),
            ["expelled", "rebalance"],
            "app at 10.0.0.7 was expelled: no heartbeat for 45 s (session.timeout.ms)",
        ),
        (
            group_of(A, B),
            group_of(A, state=PREPARING),
            TimerFired(TimerName(TimerKind.SYNC), 4),
            ["expelled", "rebalance"],
            "app at 10.0.0.7 was expelled: it never fetched its assignment",
        ),
        (
            group_of(A, B),
            group_of(A, B, state=PREPARING),
            join("b", protocols=(("range", b"other"),)),
            ["rebalance"],
            "app at 10.0.0.7 joined again with another subscription",
        ),
        (
            group_of(A, B),
            group_of(A, B, state=PREPARING),
            join("a"),
            ["rebalance"],
            "app at 10.0.0.7, its leader, joined again: something that it watches has changed",
        ),
        (
            group_of(member("old", instance_id="i")),
            group_of(member("fresh", instance_id="i"), state=PREPARING),
            join("", instance_id="i"),
            ["replaced", "rebalance"],
            "app/i at 10.0.0.7 came back under a new id",
        ),
    ],
)
def test_each_reason_of_a_rebalance_has_its_words(
    before: Group, after: Group, event: Event, kinds: list[str], reason: str
) -> None:
    recorder = GroupRecorder(ManualClock())
    recorder.decided(before, after, event, NOW_MS)
    history = recorder.history("g")
    assert history is not None
    assert [each.kind for each in history.events] == kinds
    assert history.events[-1].what == reason
    found = explain_group(GroupFacts("g", NOW_MS, "PreparingRebalance", history=history))
    assert found.sentence.endswith(f"; it has been rebalancing since 22:13:20.000 because {reason}.")


def test_members_that_a_join_phase_waited_for_in_vain_are_expelled() -> None:
    recorder = GroupRecorder(ManualClock())
    after = group_of(A, state=GroupState.COMPLETING_REBALANCE, generation_id=5)
    recorder.decided(group_of(A, B, state=PREPARING), after, TimerFired(TimerName(TimerKind.JOIN), 4), NOW_MS)
    history = recorder.history("g")
    assert history is not None
    expelled, generation = history.events
    assert expelled.what == "b: it did not join again within 300 s (max.poll.interval.ms)"
    assert (generation.kind, generation.what, generation.count) == ("generation", "5", 1)


def test_a_sentence_without_room_leaves_the_reason_to_the_evidence() -> None:
    recorder = GroupRecorder(ManualClock())
    recorder.decided(group_of(A), group_of(A, B, state=PREPARING), join("b"), NOW_MS)
    busy = GroupPartition("orders-0", 1, 5, 9, pending=True, records=3, control_records=1)
    name, held = "g" * 48, ("t" * 48, "u")
    facts = GroupFacts(name, NOW_MS, "Stable", (), (busy,), held, recorder.history("g"))
    found = explain_group(facts)
    assert len(found.sentence) <= 240
    assert "rebalancing" not in found.sentence
    assert "because app at 10.0.0.7 joined" in found.evidence[0]


def test_a_busy_group_keeps_its_last_events_and_many_groups_keep_to_the_limit() -> None:
    recorder = GroupRecorder(ManualClock(), max_bytes=1)
    for turn in range(300):
        recorder.decided(group_of(A), group_of(A, B, state=PREPARING), join("b"), NOW_MS + turn)
        marker = Marker(turn, 0, commit=True, coordinator_epoch=0, transaction_version=2)
        recorder.offsets_completed({"g": 1}, marker, NOW_MS + turn)
    history = recorder.history("g")
    assert history is not None
    assert len(history.events) == RING + PRODUCERS
    assert history.left_out == 2 * 300 - RING
    for number in range(300):
        after = numbered(number, A, B)
        recorder.decided(numbered(number, A), after, join("b"), NOW_MS)
    assert recorder.events <= 256
    last = recorder.history("g-299")
    assert last is not None
    assert last.dropped_groups > 100
    assert recorder.history("g") is None


def numbered(number: int, *members: Member) -> Group:
    state = PREPARING if len(members) > 1 else GroupState.STABLE
    return Group(f"g-{number}", state, members={each.member_id: each for each in members})


def test_a_group_that_nobody_has_recorded_is_told_without_a_reason() -> None:
    assert "rebalanc" not in explain_group(GroupFacts("g", NOW_MS, "Stable")).sentence
    assert "rebalanc" not in explain_group(GroupFacts("g", NOW_MS, "Stable", history=GroupHistory(NOW_MS))).sentence


@pytest.mark.process
async def test_a_reader_that_waits_for_stable_offsets_is_one_event_that_counts() -> None:
    async with observed_broker() as broker:
        producer = await broker.producer("copier")
        await producer.commit_offsets("readers", ORDERS_0, 2)
        for client_id in ("reader-1", "reader-1", "eosin-cli"):
            wire = await broker.wire(client_id)
            topic = OffsetFetchRequestTopics("orders", partition_indexes=(0,))
            asked = OffsetFetchRequest(
                groups=(OffsetFetchRequestGroup("readers", topics=(topic,)),), require_stable=True
            )
            (answer,) = (await wire.ask(asked, 8)).groups
            assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        found = await broker.explain("readers")
        assert found.cause == "pending_offsets"
        told = next(each for each in found.evidence if "UNSTABLE" in each)
        assert re.sub(r"\d\d:\d\d:\d\d\.\d{3}|127\.0\.0\.1:\d+|[0-9.]+ m?s$", "T", told) == (
            "at T reader-1 at T: a reader is told UNSTABLE_OFFSET_COMMIT for orders-0: offsets of an open transaction,"
            " 2 times within T"
        )


@pytest.mark.process
async def test_commits_that_are_refused_say_of_whom_and_why() -> None:
    async with observed_broker() as broker:
        producer = await broker.producer("copier")
        await producer.commit_offsets("readers", ORDERS_0, 2)
        await producer.commit()
        await producer.completed()
        partition = OffsetCommitRequestPartition(0, 3)
        request = OffsetCommitRequest(
            "readers", 7, "gone-1", topics=(OffsetCommitRequestTopic("orders", partitions=(partition,)),)
        )
        wire = await broker.wire("reader-1")
        for _ in range(3):
            (topic,) = (await wire.ask(request, 8)).topics
            assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await broker.producer("copier", client_id="successor")
        assert await producer.commit_offsets("readers", ORDERS_0, 4) == ErrorCode.INVALID_PRODUCER_EPOCH
        found = await broker.explain("readers")
        told = [re.sub(r"\d\d:\d\d:\d\d\.\d{3}|127\.0\.0\.1:\d+|[0-9.]+ m?s$", "T", each) for each in found.evidence]
        assert told[-2:] == [
            "at T orders-1 at T: a commit of offsets is refused with PRODUCER_FENCED: no member",
            "at T reader-1 at T: a commit of offsets is refused with UNKNOWN_MEMBER_ID: member gone-1, generation 7,"
            " 3 times within T",
        ]
        assert [each.kind for each in found.timeline if each.kind == "commit_refused"] == ["commit_refused"] * 2


def test_a_group_keeps_a_few_kinds_of_refusals_and_counts_their_memory() -> None:
    recorder = GroupRecorder(ManualClock(NOW_MS))
    for number in range(REPEATING + 5):
        recorder.commit_refused(
            "readers",
            ErrorCode.ILLEGAL_GENERATION,
            member_id=f"m{number}",
            generation_id=1,
            pair=None,
            who=None,
            now_ms=NOW_MS + number,
        )
    history = recorder.history("readers")
    assert history is not None
    assert [each.what.split(",")[0] for each in history.events] == [f"member m{5 + n}" for n in range(REPEATING)]
    assert recorder.events == REPEATING
