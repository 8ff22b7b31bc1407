"""What is told of share groups: their events as they happen, and a sentence about where they are (console.md 2.1)."""

import pytest
from manual_clock import ManualClock
from observed_broker import observed_broker
from share_group import RuledShareGroup
from wire_share_group import ShareMember

from eosin.coordinator.groups.share.rules.events import (
    SessionEnded,
    ShareEvent,
    ShareHeartbeat,
    StatesInitialized,
    StatesWanted,
)
from eosin.observe.explain.explained import Explained
from eosin.observe.explain.facts import GroupFacts, SharedPartition
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.recorder.group_recorder import GroupRecorder
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

APP = ClientIdentity(client_id="app", peer="10.0.0.1")
NOW_MS = 1_700_000_000_000
GROUP_RESOURCE = 32
LIMIT = 100


class Recorded:
    """A share group whose decisions a recorder hears of."""

    def __init__(self) -> None:
        self.group = RuledShareGroup(orders=2)
        self.recorder = GroupRecorder(ManualClock())

    def happen(self, event: ShareEvent) -> None:
        before = self.group.group
        self.group.happen(event)
        self.recorder.share_decided(before, self.group.group, event, self.group.now_ms)

    def beat(self, member: str, epoch: int = 0, **fields: tuple[str, ...]) -> None:
        self.happen(ShareHeartbeat(member, epoch, client_id="app", client_host="/10.0.0.1", **fields))

    def told(self) -> list[tuple[str, str]]:
        history = self.recorder.history("g")
        return [] if history is None else [(each.kind, each.what) for each in history.events]


@pytest.mark.process
async def test_a_group_that_nobody_serves_names_what_raises_the_feature() -> None:
    async with observed_broker() as broker:
        assert broker.server.services.cluster.features.level("share.version") > 0
        assert "features" not in (await broker.explain("nobody", "group")).text
        wire = await broker.wire()
        lowered = (FeatureUpdateKey("share.version", 0, upgrade_type=2),)
        assert (await wire.ask(UpdateFeaturesRequest(feature_updates=lowered), 1)).error_code == 0
        found = await broker.explain("nobody", "group")
        assert (found.is_known, found.cause) == (False, "feature_level")
        assert found.sentence.startswith("there is no group nobody that is served: share.version is 0 here, so that ")
        assert found.next is not None
        assert found.next.what.startswith("`eosin features upgrade share.version` lets it be served;")
        found = await broker.explain("nobody")
        assert found.sentence.startswith("no coordinator knows nobody")
        assert found.next is not None
        assert "`eosin features upgrade share.version`" in found.next.what


def test_the_events_of_a_share_group_have_their_reasons() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    assert recorded.told() == [("joined", "m"), ("rebalance", "app at 10.0.0.1 joined"), ("target", "2")]
    recorded.happen(StatesInitialized(recorded.group.places(recorded.group.group.states.initializing)))
    recorded.beat("m", 2)
    assert recorded.told()[3:] == [
        ("rebalance", "more of its partitions can be read: their states are initialized"),
        ("target", "3"),
    ]
    recorded.beat("m", 3, topics=("orders", "later"))
    assert recorded.told()[5][1] == "app at 10.0.0.1 is subscribed to something else now"
    recorded.beat("m", -1)
    assert recorded.told()[7:] == [
        ("left", "m: closed, or unsubscribed"),
        ("rebalance", "app at 10.0.0.1 left: closed, or unsubscribed"),
    ]
    recorded.happen(StatesWanted({}, frozenset()))
    assert recorded.told()[9:] == [("rebalance", "an administrator has moved its offsets")]


def test_a_member_that_is_silent_was_expelled() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    recorded.happen(SessionEnded("m"))
    assert recorded.told()[3] == ("expelled", "m: no heartbeat in its session (share.session.timeout.ms)")


def test_a_loaded_group_is_told_once() -> None:
    recorded = Recorded()
    recorded.beat("m", topics=("orders",))
    recorder = GroupRecorder(ManualClock())
    recorder.share_decided(recorded.group.group, recorded.group.group, None, 0)
    history = recorder.history("g")
    assert history is not None
    assert [each.kind for each in history.events] == ["loaded"]


def test_a_share_group_is_explained_by_what_it_is_not_done_with() -> None:
    shared = (SharedPartition("orders-0", 5, 3, 2), SharedPartition("orders-1", -1, -1))
    facts = GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="app"),), epoch=3, assignment_epoch=3, shared=shared)
    told = explain_group(facts)
    assert told.sentence == (
        "share group g: Stable, 1 member, 3 records not done with in 2 partitions, 1 of which nobody has read yet."
    )
    nobody = explain_group(GroupFacts("g", 0, "Stable", shared=shared[1:]))
    assert "not done with in 1 partition, which nobody has read yet" in nobody.sentence
    assert told.evidence == ("orders-0: 3 records from offset 5, read by 2 members",)
    assert told.next is not None
    assert "share.record.lock.duration.ms" in told.next.what
    empty = explain_group(GroupFacts("g", 0, "Empty", shared=()))
    assert empty.next is not None
    assert "stays until it is deleted" in empty.next.what
    assert explain_group(GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="a"),), shared=())).next is None
    behind = GroupFacts("g", 0, "Stable", (ClientIdentity(client_id="a"),), epoch=4, assignment_epoch=3, shared=())
    assert "its partitions at epoch 4 are decided at a member's next heartbeat" in explain_group(behind).sentence


def explained(*shared: SharedPartition, idle: tuple[ClientIdentity, ...] = ()) -> Explained:
    return explain_group(
        GroupFacts("g", NOW_MS, "Stable", (APP,), epoch=3, assignment_epoch=3, shared=shared, idle=idle)
    )


def test_a_partition_at_its_limit_names_the_record_behind_which_it_waits_and_who_has_it() -> None:
    held = {"limit": 100, "deliveries": 2, "delivery_limit": 5, "since_ms": NOW_MS - 5000}
    told = explained(
        SharedPartition("orders-1", 0, 3, 1, end_offset=3, in_flight=3),
        SharedPartition(
            "orders-0", 7, 140, 1, end_offset=107, in_flight=99, given_up=1, holder=APP, until_ms=NOW_MS + 1000, **held
        ),
    )
    assert told.sentence.endswith(
        "; orders-0 is at its limit of 100 records under way, behind offset 7, which app at 10.0.0.1 has until"
        " 22:13:21.000, for the 2nd time of 5."
    )
    assert told.cause == "records_in_flight"
    assert told.evidence[1] == (
        "orders-0: 140 records from offset 7, read by 1 member; 99 in flight, 0 to be delivered again, 1 given up after"
        " 5 deliveries; offset 7 is the oldest, which app at 10.0.0.1 has until 22:13:21.000, for the 2nd time of 5"
    )
    assert told.next is not None
    assert (told.next.at_ms, "accept, release or reject it" in told.next.what) == (NOW_MS + 1000, True)


def test_a_record_that_nobody_finishes_for_long_is_told_and_a_fresh_one_is_not() -> None:
    returned = {"end_offset": 9, "returned": 2, "limit": 100, "deliveries": 3, "delivery_limit": 5}
    told = explained(SharedPartition("orders-0", 7, 2, 1, since_ms=NOW_MS - 120_000, **returned))
    assert told.sentence.endswith(
        "; offset 7 of orders-0 is not done for 120 s, which nobody has; it was delivered 3 times."
    )
    assert told.cause == "unfinished_record"
    fresh = explained(SharedPartition("orders-0", 7, 2, 1, since_ms=NOW_MS - 1000, **returned))
    assert fresh.cause == ""


def test_a_member_without_a_partition_is_evidence() -> None:
    assert explained(idle=(APP,)).evidence == (
        "app at 10.0.0.1: no partition, since the topics that it is subscribed to have no partition that can be read"
        " yet",
    )


@pytest.mark.process
async def test_a_consumer_that_never_acknowledges_is_named_by_explain_and_by_the_console() -> None:
    async with observed_broker(group_share_assignment_interval_ms=0, eosin_console_enable=True) as broker:
        wire = await broker.wire("hoarder")
        changes = (
            AlterableConfig("share.auto.offset.reset", 0, "earliest"),
            AlterableConfig("share.partition.max.record.locks", 0, str(LIMIT)),
        )
        resource = AlterConfigsResource(GROUP_RESOURCE, "workers", changes)
        answer = await wire.ask(IncrementalAlterConfigsRequest((resource,)), 1)
        assert answer.responses[0].error_code == 0
        await wire.append(TopicPartition("orders", 0), 2 * LIMIT)
        member = await ShareMember(wire, "workers", "a").joined("orders", partitions=2)
        ((topic_id, _), _) = sorted(member.assigned)
        fetch = ShareFetchRequest(
            "workers",
            "a",
            0,
            max_wait_ms=5000,
            min_bytes=1,
            max_records=LIMIT,
            batch_size=LIMIT,
            share_acquire_mode=1,
            topics=(FetchTopic(topic_id, (FetchPartition(0),)),),
        )
        acquired = (await wire.ask(fetch, 2)).responses[0].partitions[0].acquired_records
        assert sum(each.last_offset - each.first_offset + 1 for each in acquired) == LIMIT
        found = await broker.explain("workers", "group")
        held = "orders-0 is at its limit of 100 records under way, behind offset 0, which hoarder at 127.0.0.1 has"
        assert held in found.sentence
        assert found.sentence.endswith("for the 1st time of 5.")
        page = await broker.facts("explain/groups/workers")
        assert held in page["text"]
        first = page["facts"]["shared"][0]
        assert (first["in_flight"], first["lag"], first["readers"], first["deliveries"]) == (LIMIT, 2 * LIMIT, 1, 1)
        assert (page["facts"]["kind"], page["facts"]["seen_members"][0]["assigned"]) == (
            "share",
            ["orders-0", "orders-1"],
        )
        assert page["facts"]["seen_members"][0]["heard_ms"] > 0
        other = await broker.explain("workers", "group", over_http=False)
        assert "200 records not done with in 2 partitions" in other.sentence
