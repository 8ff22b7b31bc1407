"""What happens to consumer groups of KIP-848, who is waited for, and what `eosin explain` says of it."""

from collections.abc import Mapping
from typing import Any

import pytest
from manual_clock import ManualClock
from migrating_group import metadata
from observed_broker import observed_broker

from eosin.coordinator.groups.consumer.rules.decide import decide
from eosin.coordinator.groups.consumer.rules.events import (
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimer,
    ConsumerTimerKind,
    MembersLeft,
    MemberTimerFired,
    RegexesResolved,
    Upgrade,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ResolvedRegex
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.coordinator.groups.rules.events import BecameClassic, Join, LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.model.cluster import Topic
from eosin.model.features import GROUP_VERSION
from eosin.observe.explain.event_words import in_words
from eosin.observe.explain.facts import AwaitedPartition, GroupFacts
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.recorder.events import ClientIdentity, HistoryEvent
from eosin.observe.recorder.group_events import GroupHistory
from eosin.observe.recorder.group_recorder import GroupRecorder
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

NOW_MS = 1_700_000_000_000
CONFIG = ConsumerGroupConfig(assignment_interval_ms=0)
ORDERS = Topic("orders", bytes(15) + b"\x01", 2)


class Recorded:
    """A group that decides as the coordinator does, and what is recorded of it."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("g")
        self.recorder = GroupRecorder(ManualClock())
        self.topics: Mapping[str, SubscribedTopic] = {"orders": ORDERS}
        self.now_ms = NOW_MS

    def happen(self, event: ConsumerEvent, *, topics_changed: bool = False) -> None:
        before = self.group
        decided = decide(
            before, event, now_ms=self.now_ms, config=CONFIG, topics=self.topics, topics_changed=topics_changed
        )
        self.group = decided.group
        if decided.records:
            self.recorder.consumer_decided(before, self.group, event, self.now_ms)

    def join(self, member_id: str, **fields: Any) -> None:
        joins = {
            "rebalance_timeout_ms": 60_000,
            "topics": ("orders",),
            "owned": frozenset(),
            "client_host": "/10.0.0.7",
        }
        self.happen(ConsumerHeartbeat(member_id, 0, **{"client_id": member_id, **joins, **fields}))

    def beat(self, member_id: str, epoch: int | None = None, *, topics_changed: bool = False, **fields: Any) -> None:
        member = self.group.members[member_id]
        known = {"client_id": member.client_id, "client_host": member.client_host}
        at = member.epoch if epoch is None else epoch
        self.happen(ConsumerHeartbeat(member_id, at, **{**known, **fields}), topics_changed=topics_changed)

    @property
    def history(self) -> GroupHistory:
        found = self.recorder.history("g")
        assert found is not None
        return found

    def kinds(self, since: int = 0) -> list[str]:
        return [each.kind for each in self.history.events[since:]]

    def last_reason(self) -> str:
        return [each.what for each in self.history.events if each.kind == "rebalance"][-1]


def test_a_partition_changes_hands_from_the_join_that_wants_it_to_the_last_member_that_has_come_to_rest() -> None:
    group = Recorded()
    group.join("a")
    assert group.kinds() == ["joined", "rebalance", "target", "reconciled"]
    group.join("b")
    assert group.kinds(4) == ["joined", "rebalance", "target"]
    assert group.last_reason() == "b at 10.0.0.7 joined"
    group.beat("a")
    assert group.kinds(7) == ["revoking"]
    group.beat("a", owned=frozenset(group.group.members["a"].assigned))
    assert group.kinds(8) == []
    group.beat("b")
    assert group.kinds(8) == ["reconciled"]
    assert [each.words for each in in_words(group.history.events)][-4:] == [
        "a rebalance begins because b at 10.0.0.7 joined",
        "the partitions of 2 members at epoch 3 are decided",
        "a member is to give up 1 partition, within 60 s",
        "every member has its partitions of epoch 3",
    ]
    found = explain_group(GroupFacts("g", NOW_MS, "Stable", history=group.history, epoch=3, assignment_epoch=3))
    assert "it rebalanced last at 22:13:20.000 (epoch 3) because b at 10.0.0.7 joined." in found.sentence


def test_a_classic_group_that_becomes_a_consumer_group_says_so_before_its_rebalance() -> None:
    group = Recorded()
    member = Member("c", None, "c", "/10.0.0.7", 10_000, 60_000, (("range", metadata("orders")),))
    classic = Group(
        "g",
        state=GroupState.STABLE,
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="c",
        members={"c": member},
    )
    joining = ConsumerHeartbeat("a", 0, rebalance_timeout_ms=60_000, topics=("orders",), owned=frozenset())
    group.happen(Upgrade(classic, joining))
    assert group.kinds()[:3] == ["upgraded", "joined", "rebalance"]
    assert in_words(group.history.events)[0].words == "it becomes a consumer group, with 1 member at epoch 7"


def test_a_consumer_group_that_becomes_a_classic_group_says_so() -> None:
    recorder = GroupRecorder(ManualClock())
    classic = Group("g", state=GroupState.STABLE, generation_id=9, members={})
    recorder.decided(classic, classic, BecameClassic(rebalances=False), NOW_MS)
    history = recorder.history("g")
    assert history is not None
    assert [each.words for each in in_words(history.events)] == [
        "it becomes a classic group, with 0 members at generation 9"
    ]


def rebalance(member_id: str) -> MemberTimerFired:
    return MemberTimerFired(ConsumerTimer(ConsumerTimerKind.REBALANCE, member_id), 2)


@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        (ConsumerHeartbeat("b", -1), "left", "b at 10.0.0.7 left: closed, or unsubscribed"),
        (MembersLeft((LeavingMember("b", None),)), "left", "b at 10.0.0.7 left: an administrator has removed it"),
        (MembersLeft((LeavingMember("b", None, "too old"),)), "left", "b at 10.0.0.7 left: too old"),
        (
            MemberTimerFired(ConsumerTimer(ConsumerTimerKind.SESSION, "b"), 3),
            "expelled",
            "b at 10.0.0.7 was expelled: no heartbeat in its session (consumer.session.timeout.ms)",
        ),
        (
            rebalance("a"),
            "expelled",
            "a at 10.0.0.7 was expelled: it did not give up 1 partition within 60 s (max.poll.interval.ms)",
        ),
    ],
)
def test_each_departure_has_its_words(event: ConsumerEvent, kind: str, reason: str) -> None:
    group = Recorded()
    group.join("a")
    group.join("b")
    group.beat("a")
    count = len(group.history.events)
    group.happen(event)
    assert group.kinds(count) == [kind, "rebalance"]
    assert group.last_reason() == reason


def test_a_classic_member_joins_as_others_do_and_one_that_does_not_come_back_is_expelled_for_that() -> None:
    group = Recorded()
    group.join("a")
    protocols = (("range", metadata("orders")),)
    group.happen(Join(0, "b", None, "consumer", protocols, 45_000, 60_000, "b", "/10.0.0.7", fresh_member_id="b"))
    assert group.last_reason() == "b at 10.0.0.7 joined"
    group.happen(MemberTimerFired(ConsumerTimer(ConsumerTimerKind.SYNC, "b"), group.group.members["b"].epoch))
    assert group.last_reason() == (
        "b at 10.0.0.7 was expelled: it did not join again, or fetch its partitions, within 60 s (max.poll.interval.ms)"
    )


def test_a_static_member_that_is_away_and_back_begins_no_rebalance() -> None:
    group = Recorded()
    group.join("a", instance_id="i")
    count = len(group.history.events)
    group.happen(ConsumerHeartbeat("a", -2, instance_id="i"))
    group.join("b", instance_id="i")
    assert group.kinds(count) == ["left", "replaced", "reconciled"]
    assert group.history.events[count].what == "a: it is away, and keeps its place until its session ends"


def test_other_subscriptions_and_other_topics_have_their_words() -> None:
    group = Recorded()
    group.join("a")
    group.beat("a", topics=("orders", "bills"))
    assert group.last_reason() == "a at 10.0.0.7 is subscribed to something else now"
    group.topics = {"orders": Topic("orders", ORDERS.topic_id, 3)}
    group.beat("a", topics_changed=True)
    assert group.last_reason() == "a topic that its members read has come, gone or grown"
    group.beat("a", regex="b.*")
    group.happen(RegexesResolved({"b.*": ResolvedRegex(frozenset({"bills"}), 1, NOW_MS)}))
    assert group.last_reason() == "other topics match a regular expression of its members"


def test_a_group_that_is_read_from_its_log_says_so() -> None:
    group = Recorded()
    group.join("a")
    group.recorder.consumer_decided(group.group, group.group, None, NOW_MS)
    assert in_words(group.history.events)[-1].words == "this broker reads the group from its log: 1 member"


A, B = (ClientIdentity(client_id=name, peer="10.0.0.7") for name in "ab")


def test_a_sentence_says_who_waits_for_which_partition_of_whom_since_when_and_until_when() -> None:
    target = HistoryEvent(NOW_MS - 5000, "target", -1, -1, "3", 2)
    revoking = HistoryEvent(NOW_MS - 4000, "revoking", -1, -1, "m-a: 1 partition", 60_000)
    awaited = (AwaitedPartition("orders-1", B, A, "m-a"), AwaitedPartition("orders-2", B))
    facts = GroupFacts(
        "g",
        NOW_MS,
        "Reconciling",
        (A, B),
        history=GroupHistory(0, (target, revoking)),
        epoch=3,
        assignment_epoch=3,
        awaited=awaited,
    )
    found = explain_group(facts)
    assert found.sentence.endswith(
        "; b at 10.0.0.7 waits for orders-1, which a at 10.0.0.7 has not revoked yet"
        " (target of epoch 3, since 22:13:15.000)."
    )
    assert found.cause == "unrevoked_partitions"
    assert found.evidence[0] == (
        "b at 10.0.0.7 gets orders-2 at its next heartbeat (target of epoch 3, since 22:13:15.000)"
    )
    assert found.next is not None
    assert found.next.what == "a at 10.0.0.7 is expelled if it has not revoked by 22:14:16.000."
    assert found.next.at_ms == NOW_MS + 56_000


def test_a_group_whose_target_is_behind_says_what_it_waits_for() -> None:
    found = explain_group(GroupFacts("g", NOW_MS, "Assigning", (A,), epoch=4, assignment_epoch=3))
    assert found.sentence.endswith(
        "; its partitions at epoch 4 are decided at a member's next heartbeat, until then those of epoch 3 stay."
    )


@pytest.mark.process
async def test_a_member_that_does_not_revoke_is_named_by_explain_and_by_the_console() -> None:
    async with observed_broker(group_consumer_assignment_interval_ms=0, eosin_console_enable=True) as broker:
        await broker.server.cluster.finalize_levels({GROUP_VERSION: 1})

        async def beat(member_id: str, epoch: int = 0, **fields: Any) -> None:
            joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
            wire = await broker.wire(client_id=member_id)
            request = {"group_id": "g", "member_id": f"id-{member_id}", "member_epoch": epoch, **fields}
            answer = await wire.ask(ConsumerGroupHeartbeatRequest(**(request if epoch else {**joins, **request})), 1)
            assert answer.error_code == 0

        await beat("a")
        await beat("b")
        await beat("a", 2)
        for over_http in (True, False):
            found = await broker.explain("g", "group", over_http=over_http)
            assert "b at 127.0.0.1 waits for orders-" in found.sentence
            assert "which a at 127.0.0.1 has not revoked yet (target of epoch 3" in found.sentence
            assert (", since " in found.sentence) == over_http
            assert found.next is not None
            assert "a at 127.0.0.1 is expelled if it" in found.next.what
        page = await broker.facts("explain/groups/g")
        assert "b at 127.0.0.1 waits for orders-" in page["text"]
        first, second = page["facts"]["seen_members"]
        assert (page["facts"]["epoch"], page["facts"]["protocol"]) == (3, "uniform")
        assert (first["epoch"], first["subscription"], len(first["assigned"])) == (2, ["orders"], 2)
        assert (second["epoch"], second["assigned"]) == (3, [])
        assert first["moves"][0][1:] == second["moves"][0][1:] == page["facts"]["awaited"][0]["partition"]
        scraped = (await broker.get("metrics")).body.decode()
        prefix = "kafka_server_group_coordinator_metrics"
        for line in (
            f'{prefix}_group_count{{protocol="consumer"}} 1',
            f'{prefix}_group_count{{protocol="classic"}} 0',
            f'{prefix}_consumer_group_count{{state="Reconciling"}} 1',
            f'{prefix}_consumer_group_count{{state="Stable"}} 0',
            f"{prefix}_consumer_group_rebalance_count 2",
            'kafka_consumergroup_members{consumergroup="g"} 2',
            'eosin_consumergroup_uncommitted_partitions{consumergroup="g",topic="orders"} 2',
            'eosin_consumergroup_unrevoked_partitions{consumergroup="g"} 1',
        ):
            assert line in scraped.splitlines(), line
