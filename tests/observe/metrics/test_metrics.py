"""`/metrics`: its names, types and labels, and that the numbers are those of what was done (console.md 4.2 and 4.3)."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from call_counter import counted
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from waiting import until
from wire_group import RawMember
from wire_producer import idempotent

from eosin.broker.markers import LocalMarkers
from eosin.network.request_stats import Latencies, RequestStats
from eosin.observe.metrics import exposition
from eosin.observe.metrics.exposition import LINE, PLAIN, write
from eosin.observe.metrics.families import column, labels_text
from eosin.observe.survey.slices import SLICE
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersionsRequest

pytestmark = pytest.mark.process

GOLDEN = Path(__file__).parent / "metrics.txt"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

STRIMZI = {
    "kafka_server_replicamanager_leadercount": set(),
    "kafka_server_replicamanager_partitioncount": set(),
    "kafka_server_replicamanager_underreplicatedpartitions": set(),
    "kafka_server_replicamanager_underminisrpartitioncount": set(),
    "kafka_server_replicamanager_atminisrpartitioncount": set(),
    "kafka_server_replicamanager_offlinereplicacount": set(),
    "kafka_controller_kafkacontroller_activecontrollercount": set(),
    "kafka_controller_kafkacontroller_offlinepartitionscount": set(),
    "kafka_controller_controllerstats_uncleanleaderelections_total": set(),
    "kafka_server_brokertopicmetrics_bytesin_total": {"topic"},
    "kafka_server_brokertopicmetrics_bytesout_total": {"topic"},
    "kafka_server_brokertopicmetrics_messagesin_total": {"topic"},
    "kafka_server_brokertopicmetrics_totalproducerequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_failedproducerequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": {"topic"},
    "kafka_network_requestmetrics_requests_total": {"request", "version"},
    "kafka_network_requestmetrics_totaltimems": {"request", "quantile"},
    "kafka_network_socketserver_networkprocessoravgidle_percent": set(),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": set(),
    "kafka_server_socket_server_metrics_connection_count": {"listener", "networkProcessor"},
    "kafka_log_log_size": {"topic", "partition"},
    "kafka_cluster_partition_underminisr": {"topic", "partition"},
    "kafka_cluster_partition_atminisr": {"topic", "partition"},
    "kafka_cluster_partition_replicascount": {"topic", "partition"},
    # Its exporter dashboard:
    "kafka_brokers": set(),
    "kafka_topic_partitions": {"topic"},
    "kafka_topic_partition_replicas": {"topic", "partition"},
    "kafka_topic_partition_in_sync_replica": {"topic", "partition"},
    "kafka_topic_partition_under_replicated_partition": {"topic", "partition"},
    "kafka_topic_partition_leader_is_preferred": {"topic", "partition"},
    "kafka_topic_partition_current_offset": {"topic", "partition"},
    "kafka_topic_partition_oldest_offset": {"topic", "partition"},
    "kafka_consumergroup_current_offset": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_lag": {"consumergroup", "topic", "partition"},
}
"""What the two dashboards of Strimzi query, with the labels that they group or select by; not the JVM, not the disk."""


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


async def scrape(broker: ObservedBroker) -> dict[str, Metric]:
    answer = await broker.get("metrics")
    assert answer.status == 200
    return {family.name: family for family in parse_text(answer.body.decode())}


async def samples(broker: ObservedBroker) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in (await scrape(broker)).values()
        for sample in family.samples
    }


async def number(broker: ObservedBroker, name: str, **labels: str) -> float:
    broker.forget_scrape()
    return (await samples(broker))[name, frozenset(labels.items())]


async def busy(broker: ObservedBroker) -> None:
    """Something for each family."""
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 3)
    await producer.commit_offsets("readers", ORDERS_0, 1)
    await producer.commit()
    await producer.completed()
    await broker.producer("invoicing", client_id="orders-2")
    await producer.add(ORDERS_0)
    await producer.wire.fetch(ORDERS_0, 0)


def labels_of(family: Metric) -> str:
    return ",".join(sorted({key for each in family.samples for key in each.labels}))


async def test_names_types_and_labels_are_those_of_the_golden_file(broker: ObservedBroker) -> None:
    """`GOLDEN=1` writes the file; the difference is what gets reviewed."""
    await busy(broker)
    found = "".join(
        f"{family.name} {family.type} {labels_of(family)}".strip() + "\n"
        for family in sorted((await scrape(broker)).values(), key=lambda each: each.name)
        if not family.name.startswith("process_")
    )
    if os.environ.get("GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


async def test_the_metrics_of_strimzis_dashboards_are_there(broker: ObservedBroker) -> None:
    await busy(broker)
    found: dict[str, set[str]] = {}
    for name, labels in await samples(broker):
        found.setdefault(name, set()).update(key for key, _ in labels)
    missing = {name: labels for name, labels in STRIMZI.items() if not labels <= found.get(name, {"missing"})}
    assert not missing


async def test_openmetrics_is_written_for_who_accepts_it(broker: ObservedBroker) -> None:
    await busy(broker)
    answer = await broker.get("metrics", accept=OPENMETRICS)
    assert answer.body.endswith(b"# EOF\n")
    assert {family.name for family in parse_openmetrics(answer.body.decode())} >= {"eosin_transactions"}


async def test_transactions_are_counted_by_their_outcome(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    for commit in (True, True, False):
        await producer.append(ORDERS_0)
        await producer.end(commit=commit)
        await producer.completed()
    await producer.append(ORDERS_0)
    assert await number(broker, "eosin_transactions_open") == 1
    await broker.producer("invoicing", client_id="orders-2")
    await producer.end(commit=True)
    assert await number(broker, "eosin_transactions_total", outcome="commit", protocol="tv2") == 2
    assert await number(broker, "eosin_transactions_total", outcome="abort", protocol="tv2") == 1
    assert await number(broker, "eosin_transactions_total", outcome="fenced", protocol="tv2") == 1
    assert await number(broker, "eosin_producer_fenced_total", cause="successor") == 1
    assert await number(broker, "eosin_transactions_open") == 0
    assert await number(broker, "eosin_transaction_duration_seconds_count") == 4


async def test_traffic_is_counted_by_topic_and_in_all(broker: ObservedBroker) -> None:
    producer = await idempotent(await broker.wire())
    await producer.append(ORDERS_0, 5)
    await producer.append(ORDERS_0, 2)
    await producer.send(ORDERS_0, sequence=99)
    await producer.wire.fetch(ORDERS_0, 0)
    name = "kafka_server_brokertopicmetrics_{}_total"
    for labels in ({"topic": "orders"}, {}):
        assert await number(broker, name.format("messagesin"), **labels) == 7
        assert await number(broker, name.format("totalproducerequests"), **labels) == 3
        assert await number(broker, name.format("failedproducerequests"), **labels) == 1
        assert await number(broker, name.format("totalfetchrequests"), **labels) == 1
    written = await number(broker, name.format("bytesin"), topic="orders")
    assert written == await number(broker, name.format("bytesout"), topic="orders") > 0
    assert await number(broker, "kafka_log_log_size", topic="orders", partition="0") == written


async def test_a_held_last_stable_offset_has_its_lag_and_its_age(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 4)
    labels = {"topic": "orders", "partition": "0"}
    assert await number(broker, "eosin_partition_lso_lag_records", **labels) == 4
    first = await number(broker, "eosin_partition_lso_stuck_seconds", **labels)
    assert await number(broker, "eosin_partition_lso_stuck_seconds", **labels) >= first
    assert await number(broker, "eosin_transaction_oldest_open_seconds") >= 0
    await producer.commit()
    await producer.completed()
    assert await number(broker, "eosin_partition_lso_lag_records", **labels) == 0
    assert await number(broker, "eosin_partition_lso_stuck_seconds", **labels) == 0


async def test_a_groups_lag_is_the_high_watermark_minus_what_it_has_committed(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 4)
    await producer.commit_offsets("readers", ORDERS_0, 1)
    await producer.commit()
    await producer.completed()
    labels = {"consumergroup": "readers", "topic": "orders", "partition": "0"}
    assert await number(broker, "kafka_consumergroup_current_offset", **labels) == 1
    assert await number(broker, "kafka_consumergroup_lag", **labels) == 4  # three records and a marker


async def test_a_groups_record_lag_leaves_out_what_its_readers_do_not_get(broker: ObservedBroker) -> None:
    labels = {"consumergroup": "readers", "topic": "orders", "partition": "0", "isolation": "read_committed"}
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 4)
    await producer.commit_offsets("readers", ORDERS_0, 1)
    await producer.commit()
    await producer.completed()
    name = "eosin_consumergroup_record_lag"
    assert await number(broker, name, **labels) == 3, "the marker is no record"
    await producer.append(ORDERS_0, 10)
    assert await number(broker, name, **labels) == 3, "undecided"
    await producer.abort()
    await producer.completed()
    assert await number(broker, name, **labels) == 3, "aborted"
    await producer.append(ORDERS_0, 2)
    await producer.commit()
    await producer.completed()
    assert await number(broker, name, **labels) == 5
    await producer.commit_offsets("readers", ORDERS_0, 19)
    await producer.commit()
    await producer.completed()
    assert await number(broker, name, **labels) == 0


async def test_a_group_that_is_blocked_and_has_committed_nothing_is_counted(broker: ObservedBroker) -> None:
    """Kafka's own names keep to what kafka_exporter tells: it knows nothing of partitions without a commit."""
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 7)
    reader = await RawMember(await broker.wire(), "blocked").assigned(ORDERS_0, TopicPartition("orders", 1))
    labels = {"consumergroup": "blocked", "topic": "orders"}
    assert await number(broker, "eosin_consumergroup_unread_offsets", **labels) == 7
    assert await number(broker, "eosin_consumergroup_uncommitted_partitions", **labels) == 2
    record_lag = {**labels, "partition": "0", "isolation": "read_committed"}
    assert await number(broker, "eosin_consumergroup_record_lag", **record_lag) == 0, "all of it is undecided"
    await producer.commit()
    await producer.completed()
    assert await number(broker, "eosin_consumergroup_record_lag", **record_lag) == 7
    text = (await broker.get("metrics")).body.decode()
    assert 'kafka_consumergroup_lag_sum{consumergroup="blocked"' not in text
    await reader.commit(ORDERS_0, 8)
    assert await number(broker, "eosin_consumergroup_uncommitted_partitions", **labels) == 1
    assert await number(broker, "eosin_consumergroup_unread_offsets", **labels) == 0
    assert await number(broker, "kafka_consumergroup_current_offset_sum", **labels) == 8
    assert await number(broker, "eosin_consumergroup_last_commit_timestamp_seconds", **labels) > 0


async def test_the_way_of_a_commit_is_timed(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    for commit in (True, False):
        await producer.append(ORDERS_0)
        await producer.end(commit=commit)
        await producer.completed()
    assert await number(broker, "eosin_transaction_commit_seconds_count") == 1
    assert await number(broker, "eosin_transaction_markers_seconds_count") == 2
    assert await number(broker, "eosin_verification_total", result="NONE") == 2
    assert await number(broker, "eosin_verification_seconds_count") == 2


async def test_flushes_are_timed(tmp_path: Path) -> None:
    async with observed_broker(eosin_durability="fsync", log_dirs=(str(tmp_path),)) as broker:
        before = await number(broker, "eosin_flush_seconds_count")
        producer = await idempotent(await broker.wire())
        for _ in range(5):
            await producer.append(ORDERS_0)
        assert await number(broker, "eosin_flush_seconds_count") >= before + 5
        assert await number(broker, "eosin_compaction_total") == 0


async def test_flushes_have_their_bytes_and_producers_their_wait(tmp_path: Path) -> None:
    async with observed_broker(eosin_durability="fsync", log_dirs=(str(tmp_path),)) as broker:
        flushed = await number(broker, "eosin_flush_bytes_sum")
        producer = await idempotent(await broker.wire())
        for _ in range(3):
            await producer.append(ORDERS_0, size=5000)
        log = broker.server.services.partitions.get(ORDERS_0)
        size = log.size_bytes  # type: ignore[union-attr]
        assert await number(broker, "eosin_flush_bytes_sum") - flushed >= size > 15_000
        assert await number(broker, "eosin_flush_bytes_bucket", le="1024.0") < await number(
            broker, "eosin_flush_bytes_bucket", le="16384.0"
        )
        assert await number(broker, "eosin_durable_wait_seconds_count") == 3
        assert await number(broker, "eosin_durable_wait_seconds_sum") > 0


async def test_the_parts_of_a_start_are_timed(broker: ObservedBroker) -> None:
    parts = {each.labels["phase"]: each.value for each in (await scrape(broker))["eosin_start_seconds"].samples}
    assert set(parts) == {"open", "load", "listen"}
    assert all(seconds > 0 for seconds in parts.values())


async def test_a_wait_for_the_transaction_before_is_timed(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await broker.producer("invoicing", level=1)
    await producer.add(ORDERS_0)
    gate, write_markers = asyncio.Event(), LocalMarkers.write_markers

    async def held(here: LocalMarkers, markers: Any) -> Any:
        await gate.wait()
        return await write_markers(here, markers)

    monkeypatch.setattr(LocalMarkers, "write_markers", held)
    await producer.end(commit=True)
    beginning = asyncio.create_task(producer.add(ORDERS_0))

    async def is_waiting() -> bool:
        entry = broker.server.services.transactions.entry("invoicing")
        return entry is not None and bool(entry.waiting)

    try:
        await until(is_waiting)
    finally:
        gate.set()
    await beginning
    assert await number(broker, "eosin_concurrent_transactions_wait_seconds_count") == 1
    assert await number(broker, "eosin_concurrent_transactions_waits_total") == 0


async def test_refusals_are_counted_by_the_request_that_got_them(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    await broker.producer("invoicing", client_id="successor")
    await old.end(commit=True)
    await old.commit_offsets("readers", ORDERS_0, 1)
    await old.send(ORDERS_0)
    errors = (await scrape(broker))["eosin_transaction_errors"].samples
    # At transaction version 2 both of the others add partitions first.
    assert {each.labels["api"] for each in errors if each.value} == {
        "EndTxn",
        "AddPartitionsToTxn",
        "TxnOffsetCommit",
        "Produce",
    }


async def test_partitions_beyond_the_limit_are_counted_and_left_out() -> None:
    async with observed_broker(eosin_metrics_max_partitions=1) as broker:
        producer = await idempotent(await broker.wire())
        for partition in (ORDERS_0, ORDERS_0._replace(partition=1)):
            await producer.append(partition)
        sizes = (await scrape(broker))["kafka_log_log_size"].samples
        assert len(sizes) == 1
        assert await number(broker, "eosin_metrics_partitions_left_out") == 1
        assert await number(broker, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 2


async def test_others_get_turns_while_many_series_are_written() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    keys = [labels_text(("topic",), (f"topic-{number}",)) for number in range(50_000)]
    written = await write([column("kafka_log_log_size", "Bytes.", keys, range(50_000))], PLAIN)
    other.cancel()
    slices = 50_000 // (SLICE // LINE)
    assert turns == 2 * slices, "the loop turns until it is this walk's turn, and once more until it goes on"
    assert max(map(len, written)) < 200_000
    found = {family.name: family for family in parse_text(b"".join(written).decode())}
    assert [sample.value for sample in found["kafka_log_log_size"].samples] == list(range(50_000))


async def test_sums_over_all_topics_do_not_fall_when_a_topic_is_deleted(broker: ObservedBroker) -> None:
    producer = await idempotent(await broker.wire())
    await producer.append(ORDERS_0, 5)
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert await number(broker, name) == 5
    await broker.server.cluster.delete_topic("orders")
    assert await number(broker, name) == 5
    assert await number(broker, name) == 5


async def test_accept_headers_of_clients_add_nothing_to_what_is_kept(broker: ObservedBroker) -> None:
    for version in range(1, 20):
        accept = f"application/openmetrics-text; version={version}.0.0"
        assert (await broker.get("metrics", accept=accept)).body.endswith(b"# EOF\n")
    assert broker.server.observability is not None
    assert broker.server.observability.served.exposition is not None
    assert len(broker.server.observability.served.exposition._kept) == 1


async def test_scrapes_that_come_together_share_one_answer(broker: ObservedBroker) -> None:
    first = await broker.get("metrics")
    await (await broker.wire()).init(None)
    assert (await broker.get("metrics")).body == first.body


async def test_ids_of_producers_and_transactions_are_never_labels(broker: ObservedBroker) -> None:
    await busy(broker)
    labels = {key for _, pairs in await samples(broker) for key, _ in pairs}
    assert not [label for label in labels if "transactional" in label or "producer" in label]


async def test_libraries_beyond_a_hundred_have_no_series(broker: ObservedBroker) -> None:
    for version in range(110):
        wire = await broker.wire()
        await wire.ask(ApiVersionsRequest("library", str(version)), 3)
    found = await scrape(broker)
    assert len(found["kafka_server_socket_server_metrics_connections_software"].samples) == 100


async def test_a_group_that_calls_itself_what_it_likes_breaks_no_line(broker: ObservedBroker) -> None:
    name = 'readers"} 1\n# \\ \u2603'
    producer = await broker.producer("invoicing")
    await producer.commit_offsets(name, ORDERS_0, 1)
    await producer.commit()
    await producer.completed()
    labels = {"consumergroup": name, "topic": "orders", "partition": "0"}
    assert await number(broker, "kafka_consumergroup_current_offset", **labels) == 1


def test_quantiles_lie_within_their_bucket() -> None:
    latencies = Latencies()
    assert latencies.quantile_ms(0.5) == 0
    for _ in range(99):
        latencies.observe(700_000)
    latencies.observe(20_000_000_000)
    assert 0.5 <= latencies.quantile_ms(0.5) <= 1
    assert latencies.quantile_ms(1) == 10_000


def test_requests_are_counted_by_api_and_version() -> None:
    stats = RequestStats()
    stats.record(0, 12, 1)
    stats.record(0, 12, 1)
    stats.record(26, 5, 1)
    assert stats.versions == {12: 2, 26 << 16 | 5: 1}


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_a_scrape_of_thousands_of_partitions_and_ids_is_cut_into_short_pieces() -> None:
    async with observed_broker() as broker:
        server = broker.server
        await server.cluster.create_topic("wide", partitions=3000)
        wire = await broker.wire()
        for number in range(3000):
            await wire.append(TopicPartition("wide", number))
        for number in range(3000):
            await wire.init(f"id-{number:05}", timeout_ms=60_000)
        producer = await broker.producer("shop-1")
        await producer.send(ORDERS_0)
        assert server.observability is not None
        assert server.observability.served.exposition is not None
        for kind in (PLAIN, exposition.OPENMETRICS):
            written, turns = await counted(server.observability.served.exposition._write(kind))
            assert b"".join(written).count(b"kafka_log_log_size{") > 1000  # of the largest alone
            assert sum(turns) > 100_000
            assert max(turns) < 20_000
