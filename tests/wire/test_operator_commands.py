"""`eosin transactions`, `producers` and `cluster`: what they print and how they end, against Eosin and Apache Kafka."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import wire as wire_module
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from toolchains import skipped_without
from wire import Wire, now_ms, unique
from wire_producer import RawProducer, transactional

from eosin.cli.__main__ import main
from eosin.protocol.names import TopicPartition

HOUR_MS = 3_600_000
CARELESS = {"transaction.partition.verification.enable": "false"}
"""Records of transactions that nobody has begun are taken: the only way to one that hangs."""

Run = Callable[..., Awaitable[tuple[int, list[str]]]]


def ended(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as exit_code:
        return int(exit_code.code or 0)


@pytest.fixture(scope="module", params=["Eosin", "Apache Kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A careless broker of each kind."""
    folder = tmp_path_factory.mktemp("careless")
    if request.param == "Eosin":
        with BrokerProcess(folder / "data", settings=CARELESS) as broker:
            yield broker.address
        return
    with skipped_without():
        kafka = ApacheKafka(folder, settings=CARELESS)
    with kafka, pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_module, "OTHER_BROKER", True)
        yield kafka.address


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against the broker under test: its exit code, and the lines that it printed."""

    async def command(*arguments: str, bootstrap_server: str = bootstrap) -> tuple[int, list[str]]:
        given = [*arguments, "--bootstrap-server", bootstrap_server]
        code = await asyncio.to_thread(ended, given)  # a command has an event loop of its own
        out, err = capsys.readouterr()
        assert (not err) == (code == 0)
        assert "Traceback" not in err
        return code, (out or err).splitlines()

    return command


async def rows(run: Run, *arguments: str, **how: str) -> list[dict[str, Any]]:
    """What a command prints with `--json`."""
    code, lines = await run(*arguments, "--json", **how)
    assert code == 0, lines
    return [json.loads(line) for line in lines]


async def begun(wire: Wire, *partitions: TopicPartition) -> RawProducer:
    producer = await transactional(wire, level=1)
    await producer.add(*partitions)
    for partition in partitions:
        await producer.append(partition, 3)
    return producer


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


# --- what is there


async def test_transactions_are_listed_by_filter(wire: Wire, run: Run) -> None:
    producer = await begun(wire, await wire.partition())
    pid = str(producer.producer_id)
    (found,) = await rows(run, "transactions", "list", "--producer-id", pid)
    assert (found["transactional_id"], found["producer_id"], found["state"]) == (
        producer.transactional_id,
        producer.producer_id,
        "Ongoing",
    )
    assert await rows(run, "transactions", "list", "--producer-id", pid, "--state", "Empty") == []
    assert await rows(run, "transactions", "list", "--producer-id", pid, "--longer-than", "60000") == []
    names = await rows(run, "transactions", "list", "--pattern", f"{producer.transactional_id}|nothing")
    assert [each["transactional_id"] for each in names] == [producer.transactional_id]


async def test_open_transactions_come_first_the_oldest_at_the_top(wire: Wire, run: Run) -> None:
    prefix = unique("a-order")
    await transactional(wire, f"{prefix}-0")
    older = await transactional(wire, f"{prefix}-2", level=1)
    await older.add(await wire.partition())
    younger = await transactional(wire, f"{prefix}-1", level=1)
    await younger.add(await wire.partition())
    found = await rows(run, "transactions", "list", "--pattern", f"{prefix}.*")
    by_age = sorted(found[:2], key=lambda row: row["duration_ms"], reverse=True)
    assert [row["transactional_id"] for row in found[:2]] == [row["transactional_id"] for row in by_age]
    assert [row["state"] for row in found] == ["Ongoing", "Ongoing", "Empty"]
    for row in found[:2]:
        assert row["duration_ms"] >= 0
        assert 0 < row["time_left_ms"] <= 60_000
    assert (found[2]["duration_ms"], found[2]["time_left_ms"], found[2]["client"]) == (-1, -1, None)
    _, (_, line, *_) = await run("transactions", "list", "--pattern", f"{prefix}.*")
    assert cells(line)[5].endswith(" s")


async def test_a_table_is_aligned(wire: Wire, run: Run) -> None:
    for _ in range(2):
        await transactional(wire, unique("aligned"))
    code, (title, *lines) = await run("transactions", "list", "--pattern", "aligned-.*")
    assert code == 0
    assert cells(title) == [
        *("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER ID", "STATE"),
        *("OPEN FOR", "TIME LEFT", "CLIENT"),
    ]
    assert {line.index("Empty") for line in lines} == {title.index("STATE")}


async def test_a_transactional_id_is_described(wire: Wire, run: Run) -> None:
    before = now_ms()
    left, right = await wire.partition(), await wire.partition()
    producer = await begun(wire, left, right)
    (found,) = await rows(run, "transactions", "describe", producer.transactional_id or "")
    assert found["state"] == "Ongoing"
    assert (found["producer_id"], found["producer_epoch"]) == producer.pair
    assert found["timeout_ms"] == 60_000
    assert found["partitions"] == sorted([str(left), str(right)])
    assert before <= found["start_ms"] <= found["start_ms"] + found["duration_ms"] <= now_ms()
    await producer.commit()
    await producer.completed()
    _, (title, line) = await run("transactions", "describe", producer.transactional_id or "")
    assert cells(title)[-2:] == ["OPEN FOR", "PARTITIONS"]
    assert cells(line)[-2:] == ["-", "-"]


async def test_producers_of_a_partition_are_shown(wire: Wire, run: Run) -> None:
    before = now_ms()
    partition = await wire.partition()
    producer = await begun(wire, partition)
    (found,) = await rows(run, "producers", partition.topic, "0")
    assert before <= found.pop("last_timestamp") <= now_ms()
    assert found == {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": -1,
        "last_sequence": 2,
        "transaction_start_offset": 0,
    }
    _, (title, line) = await run("producers", partition.topic, "0")
    assert cells(title)[:4] == ["PRODUCER ID", "EPOCH", "COORDINATOR EPOCH", "LAST SEQUENCE"]
    assert cells(line)[:4] == [*map(str, producer.pair), "-", "2"]
    assert cells(line)[4].endswith("Z"), "a time as people write it"


async def test_an_open_transaction_is_aborted_where_it_starts(wire: Wire, run: Run) -> None:
    partition = await wire.partition()
    producer = await begun(wire, partition)
    (found,) = await rows(run, "transactions", "abort", partition.topic, "0", "--start-offset", "0")
    assert (found["producer_id"], found["coordinator_epoch"]) == (producer.producer_id, -1)
    assert await wire.stable_offset(partition) == 4
    answer = await wire.fetch_committed(partition)
    assert [each.first_offset for each in answer.aborted_transactions or ()] == [0]
    code, (said,) = await run("transactions", "abort", partition.topic, "0", "--start-offset", "0")
    assert (code, said) == (
        1,
        f"eosin transactions abort: no transaction that starts at offset 0 is open in {partition}",
    )


async def test_a_transaction_is_aborted_by_its_pair(wire: Wire, run: Run) -> None:
    partition = await wire.partition()
    producer = await begun(wire, partition)
    pair = ("--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.producer_epoch))
    await rows(run, "transactions", "abort", partition.topic, "0", *pair, "--coordinator-epoch", "0")
    assert await wire.stable_offset(partition) == 4


async def test_a_transaction_that_its_coordinator_knows_does_not_hang(wire: Wire, run: Run) -> None:
    partition = await wire.partition()
    producer = await transactional(wire, level=1)
    await producer.add(partition)
    await producer.append(partition, timestamp=now_ms() - HOUR_MS)
    assert await rows(run, "transactions", "find-hanging", "--topic", partition.topic) == []


# --- hanging transactions


async def test_a_hanging_transaction_is_found_and_ended(wire: Wire, run: Run) -> None:
    topic = await wire.topic(2)
    other, partition = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await wire.append(partition, 2)
    lost, alive, young = [await transactional(wire, level=1) for _ in range(3)]
    await lost.append(partition, timestamp=now_ms() - HOUR_MS)
    await alive.add(other)
    await alive.append(other, timestamp=now_ms() - HOUR_MS)
    await young.append(other)

    (found,) = await rows(run, "transactions", "find-hanging", "--topic", topic)
    assert (found["topic"], found["partition"], found["transaction_start_offset"]) == (topic, 1, 2)
    assert (found["producer_id"], found["producer_epoch"]) == lost.pair
    assert found["duration_ms"] >= HOUR_MS
    assert await rows(run, "transactions", "find-hanging") == [
        {**found, "duration_ms": pytest.approx(found["duration_ms"], abs=30_000)}
    ]
    where = ("--topic", topic, "--partition", "0")
    assert await rows(run, "transactions", "find-hanging", *where) == []
    assert await rows(run, "transactions", "find-hanging", "--max-transaction-timeout", "120") == []

    code, (title, line) = await run("transactions", "find-hanging", "--topic", topic)
    assert code == 0
    assert cells(title)[:3] == ["TOPIC", "PARTITION", "PRODUCER ID"]
    assert cells(line)[:3] == [topic, "1", str(lost.producer_id)]
    code, (title, line) = await run("transactions", "abort", topic, "1", "--start-offset", "2")
    assert code == 0
    assert cells(title) == ["TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "COORDINATOR EPOCH"]
    assert cells(line) == [topic, "1", *map(str, lost.pair), "-"]
    assert await wire.stable_offset(partition) == 4
    assert await rows(run, "transactions", "find-hanging") == []
    assert await run("transactions", "find-hanging") == (0, ["no transaction hangs"])


async def test_an_open_transaction_of_an_older_epoch_hangs(wire: Wire, run: Run) -> None:
    partition = await wire.partition()
    name = unique("tx")
    lost = await transactional(wire, name, level=1)
    await lost.append(partition, timestamp=now_ms() - HOUR_MS)
    await (await transactional(wire, name, level=1)).add(partition)
    found = await rows(run, "transactions", "find-hanging", "--topic", partition.topic)
    assert [(each["producer_id"], each["producer_epoch"]) for each in found] == [lost.pair]
    await rows(run, "transactions", "abort", partition.topic, "0", "--start-offset", "0")


# --- what is not there


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["transactions", "describe", "nobody-at-all"],
            1,
            "there is no transactional id 'nobody-at-all'",
        ),
        (["transactions", "list", "--pattern", "("], 2, "INVALID_REGULAR_EXPRESSION"),
        (["transactions", "list", "--state", "Sleeping"], 2, "there is no state 'Sleeping'"),
        (["transactions", "find-hanging", "--topic", "no-such-topic"], 1, "there is no topic 'no-such-topic'"),
        (["transactions", "find-hanging", "--broker-id", "4711"], 1, "there is no broker 4711"),
        (["transactions", "find-hanging", "--partition", "1"], 2, "--partition needs --topic"),
        (["transactions", "abort", "no-such-topic", "0", "--start-offset", "1"], 1, "there is no topic"),
        (["transactions", "abort", "t", "0"], 2, "give --start-offset, or else"),
        (
            ["transactions", "abort", "t", "0", "--producer-id", "1", "--start-offset", "1"],
            2,
            "give --start-offset, or else",
        ),
        (["transactions", "fly"], 2, "no action 'fly'; there are list"),
        (["producers", "no-such-topic", "0"], 1, "there is no topic 'no-such-topic'"),
        (["cluster", "describe", "--topic", "no-such-topic"], 1, "there is no topic 'no-such-topic'"),
        (["cluster", "describe", "--topic", "t", "--group", "g"], 2, "not for both"),
        (["cluster", "fly"], 2, "no action 'fly'; there are describe"),
        (["producers", "topic", "first"], 2, "invalid int value: 'first'"),
    ],
)
async def test_a_command_that_fails_prints_one_sentence(
    run: Run, arguments: list[str], code: int, sentence: str
) -> None:
    given, (said,) = await run(*arguments)
    assert given == code
    assert said.startswith(f"eosin {arguments[0]}")
    assert sentence in said


async def test_a_cluster_of_one_broker_is_described(wire: Wire, run: Run, bootstrap: str) -> None:
    topic = await wire.topic(partitions=2)
    producer = await begun(wire, TopicPartition(topic, 0))
    (broker,) = await rows(run, "cluster", "describe")
    assert (broker["address"], broker["state"], broker["out_of_sync"]) == (bootstrap, "alive", 0)
    assert broker["leads"] == broker["replicas"] >= 2
    described = await rows(run, "cluster", "describe", "--topic", topic)
    assert [(each["partition"], each["state"], each["leader"], each["in_sync"]) for each in described] == [
        (index, "ok", broker["node_id"], [broker["node_id"]]) for index in range(2)
    ]
    assert await rows(run, "cluster", "describe", "--under-replicated") == []
    (found,) = await rows(run, "cluster", "describe", "--transactional-id", producer.transactional_id)
    assert (found["coordinator"], found["topic"]) == (broker["node_id"], "__transaction_state")
    assert found["leader"] == broker["node_id"]


async def test_an_unknown_partition_is_reported(wire: Wire, run: Run) -> None:
    topic = await wire.topic()
    assert await run("producers", topic, "3") == (1, [f"eosin producers: topic {topic!r} has no partition 3"])


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no address:x", "host.invalid:9092"])
@pytest.mark.parametrize("arguments", [["transactions", "list"], ["producers", "topic", "0"], ["cluster", "describe"]])
async def test_a_command_without_a_broker_exits_with_code_2(run: Run, arguments: list[str], address: str) -> None:
    code, said = await run(*arguments, bootstrap_server=address)
    assert code == 2
    assert len(said) == 1
