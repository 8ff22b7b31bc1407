"""`eosin explain` without a name: what is wrong now, worst first (console.md 3)."""

from collections.abc import AsyncIterator

import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import until
from wire_group import RawMember

from eosin.cli import explain
from eosin.client.client import Client
from eosin.observe.explain import troubles as rules
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.cluster_troubles import TroubleSearch
from eosin.observe.explain.facts import OpenProducer, PartitionFacts, TransactionFacts
from eosin.observe.explain.sentences import RECENT_MS, noteworthy
from eosin.observe.explain.troubles import (
    BrokerTroubles,
    ClusterTroubles,
    GoneClient,
    NotedId,
    OfflineLog,
    StuckGroup,
    Troubles,
    troubles_of,
)
from eosin.observe.recorder.events import Cause, EventKind, Notable, TransactionSummary
from eosin.protocol.names import TopicPartition
from eosin.storage.log.partition_log import PartitionLog

ORDERS_1 = TopicPartition("orders", 1)
NOW_MS = 1_700_000_000_000


def held(partition: str, transactional_id: str, *, open_ms: int, timeout_ms: int = 60_000) -> PartitionFacts:
    """A partition whose readers wait for a transaction."""
    transaction = TransactionFacts(
        transactional_id, NOW_MS, "Ongoing", timeout_ms=timeout_ms, start_ms=NOW_MS - open_ms, partitions=(partition,)
    )
    behind = (OpenProducer(7, 0, 4, transaction=transaction),)
    return PartitionFacts(partition, NOW_MS, leader=1, last_stable=4, high_watermark=9, open=behind)


def fence(at_ms: int = NOW_MS - 60_000, cause: Cause = Cause.SUCCESSOR) -> Notable:
    return Notable(at_ms, EventKind.FENCED, 7, 1, "PRODUCER_FENCED", cause.value)


def lines(found: Troubles) -> list[str]:
    return [each.line for each in found.troubles]


def test_what_stops_all_comes_before_what_stops_readers_and_that_before_what_is_late() -> None:
    broker = BrokerTroubles(
        1,
        NOW_MS,
        is_disk_full=True,
        offline=(OfflineLog("sales-0", "[Errno 5] Input/output error"),),
        gone=(GoneClient("dead", NOW_MS - 5_000, NOW_MS - 9_000, 2), GoneClient("idle", NOW_MS - 4_000, NOW_MS, 1)),
        noted=(NotedId("invoicing", fence()),),
    )
    hanging = OpenProducer(99, 3, 4, NOW_MS - 900_000)
    facts = ClusterTroubles(
        NOW_MS,
        leaderless=("sales-0", "sales-1"),
        held=(
            held("orders-0", "slow", open_ms=40_000),
            held("orders-1", "dead", open_ms=9_000),
            held("orders-2", "dead", open_ms=9_000),
            PartitionFacts("orders-3", NOW_MS, leader=1, last_stable=4, high_watermark=9, open=(hanging,)),
        ),
        groups=(StuckGroup("readers", 2, 2_501),),
        brokers=(broker,),
    )
    assert lines(troubles_of(facts)) == [
        "the disk of broker 1 is full, records are refused and readers go on: eosin explain broker",
        "the log of sales-0 is offline ([Errno 5] Input/output error): eosin explain sales-0 --as partition",
        "sales-1 has no leader: eosin explain sales-1 --as partition",
        "readers of orders-3 wait, 5 records behind: a transaction of producer 99/3 hangs:"
        " eosin explain orders-3 --as partition",
        "readers of orders-1 and 1 more wait since 22:13:11.000 (9 s) for the transaction of dead, whose client is gone"
        " since 22:13:15.000: eosin explain dead",
        "readers of orders-0 wait since 22:12:40.000 (40 s) for the transaction of slow: eosin explain slow",
        "the client of idle is gone since 22:13:16.000 with a transaction open in 1 partition: eosin explain idle",
        "invoicing was fenced at 22:12:20.000 because a new instance took over from epoch 1: eosin explain invoicing",
        "group readers has committed nothing for 2 partitions of its members, with up to 2,501 offsets to read:"
        " eosin explain readers --as group",
    ]


@pytest.mark.parametrize(
    ("open_ms", "timeout_ms", "is_told"),
    [(4_000, 60_000, False), (10_000, 60_000, True), (4_000, 6_000, True), (2_000, 6_000, False)],
)
def test_readers_that_wait_for_a_moment_are_as_they_should_be(open_ms: int, timeout_ms: int, is_told: bool) -> None:
    facts = ClusterTroubles(NOW_MS, held=(held("orders-0", "slow", open_ms=open_ms, timeout_ms=timeout_ms),))
    assert bool(troubles_of(facts).troubles) == is_told


def test_a_name_with_a_blank_is_quoted_in_the_command() -> None:
    facts = ClusterTroubles(NOW_MS, groups=(StuckGroup("my readers", 1, 5),))
    assert lines(troubles_of(facts))[0].endswith(": eosin explain 'my readers' --as group")


def test_fences_and_timeouts_are_noteworthy_for_an_hour_unless_the_producer_went_on_by_itself() -> None:
    timeout = Notable(NOW_MS - 60_000, EventKind.TIMEOUT, 7, 0, cause=Cause.TIMEOUT.value)
    commit = TransactionSummary(NOW_MS - 9_000, NOW_MS - 8_000, "commit", 1, 7, 3)
    assert noteworthy([fence()], [commit], NOW_MS) == fence(), "a fence is one, whatever came after it"
    assert noteworthy([timeout], [], NOW_MS) == timeout
    assert noteworthy([timeout], [commit], NOW_MS) is None
    assert noteworthy([fence(cause=Cause.OWN_END)], [], NOW_MS) is None
    assert noteworthy([fence(NOW_MS - RECENT_MS - 1)], [], NOW_MS) is None


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


async def troubles(broker: ObservedBroker) -> Troubles:
    async with Client(broker.address) as client:
        cluster = ClusterFacts(client, http=broker.http, token=None, timeout_ms=5000)
        found = troubles_of(await TroubleSearch(client, cluster).run())
    assert not cluster.complaints
    return found


@pytest.mark.process
async def test_a_broker_at_which_nothing_is_wrong_says_so(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0)
    found = await troubles(broker)
    assert (found.troubles, found.untold) == ((), ())


@pytest.mark.process
async def test_a_cluster_tells_its_dead_clients_fences_full_disk_and_stuck_groups(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await broker.producer("dead", client_id="orders-9")
    await dead.append(ORDERS_0, 3)
    old = await broker.producer("invoicing")
    await broker.producer("invoicing", client_id="orders-2")
    await old.add(ORDERS_0)
    await RawMember(await broker.wire(), "readers").assigned(ORDERS_0, ORDERS_1)
    await dead.wire.close()

    async def is_gone() -> bool:
        return "client_gone" in [each.cause for each in (await troubles(broker)).troubles]

    await until(is_gone)
    monkeypatch.setattr(type(broker.server.services.partitions), "is_disk_full", property(lambda _: True))
    found = await troubles(broker)
    assert [each.cause for each in found.troubles] == ["disk_full", "client_gone", "successor", "nothing_committed"]
    assert found.troubles[1].what.startswith("readers of orders-0 wait since ")
    assert found.troubles[3].what.endswith("nothing for 1 partition of its members, with up to 3 offsets to read")
    assert (await broker.explain("broker")).cause == "disk_full"


@pytest.mark.process
async def test_a_cluster_tells_its_offline_partitions_and_readers_that_wait_for_a_live_client(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "WAITED_MS", 0)  # any wait is long
    await (await broker.producer("slow")).append(ORDERS_0, 3)
    log = broker.server.services.partitions.get(ORDERS_1)
    assert isinstance(log, PartitionLog)
    log.failure = OSError(5, "Input/output error")
    try:
        found = await troubles(broker)
    finally:
        log.failure = None
    assert [each.cause for each in found.troubles] == ["offline", "open_transaction"]
    offline, waiting = lines(found)
    assert offline.startswith("the log of orders-1 is offline ([Errno 5] Input/output error): eosin explain orders-1")
    assert waiting.startswith("readers of orders-0 wait since ")
    assert waiting.endswith("for the transaction of slow: eosin explain slow")


@pytest.mark.process
async def test_a_broker_without_a_recorder_says_what_it_does_not_tell() -> None:
    async with observed_broker(eosin_http_listener="") as broker, Client(broker.address) as client:
        cluster = ClusterFacts(client, http=None, token=None, timeout_ms=5000)
        found = troubles_of(await TroubleSearch(client, cluster).run())
    assert (found.troubles, len(found.untold)) == ((), 1)
    assert "only an Eosin that is started with --http records them" in found.untold[0]


@pytest.mark.process
def test_a_cluster_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
