"""Pipelines at brokers with TLS: a file of settings on the driver's machine reaches every worker (security.md 1.6)."""

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from local_broker import ThreadedBroker
from waiting import HANG_S

from eosin.cli.__main__ import main
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.security.settings import read_settings
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.security import connection_security
from eosin.pipeline.source.options import SourceOptions
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"bootstrap.servers": "127.0.0.1:9093", "subscribe": "orders"}


def config(folder: Path, tls_files: Any, **others: str) -> str:
    """A file of settings for a broker with TLS."""
    (folder / "ca.pem").write_text(tls_files.ca_text)
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(folder / "ca.pem")}
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in (given | others).items()))
    return str(path)


@pytest.mark.process
def test_settings_for_workers_are_complete_and_show_no_secret(tls_files: Any, tmp_path: Path) -> None:
    own = {"ssl.keystore.location": tls_files.broker}
    path = config(tmp_path, tls_files, **own)
    options = pickle.loads(pickle.dumps(SourceOptions.parse({**OPTIONS, "command.config": path})))
    for file in tmp_path.iterdir():
        file.unlink()  # as on another machine
    assert connection_security(options.security) is not None
    assert "PRIVATE KEY" not in repr(options)
    assert SourceOptions.parse(OPTIONS).security.tls is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"^command\.config: cannot read .*: No such file"),
        ("security.protocol=TLS", r"^command\.config: .*security.protocol must be one of"),
        ("security.protocol=SSL\nssl.truststore.location=/nowhere", r"^command\.config: cannot read /nowhere"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_the_driver(text: str | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConflictingSettings, match=sentence):
        SourceOptions.parse({**OPTIONS, "command.config": str(path)})


@pytest.fixture
def secured(tls_files: Any) -> Iterator[ThreadedBroker]:
    settings = {"listeners": ("SSL://127.0.0.1:0",), "ssl_keystore_location": tls_files.broker}
    with ThreadedBroker(**settings) as broker:
        yield broker


def client(broker: ThreadedBroker, path: str) -> Client:
    return Client(broker.address, security=connection_security(read_settings(path)))


async def filled(broker: ThreadedBroker, path: str) -> None:
    from eosin.client.producer import Producer

    async with client(broker, path) as own:
        for topic in ("orders", "out"):
            await Admin(own).create_topic(topic, 2)
        producer = Producer(own, "filler")
        await producer.init()
        producer.begin()
        for number in range(10):
            await producer.send(TopicPartition("orders", number % 2), [NewRecord(None, b"%d" % number)], timestamp=1)
        await producer.commit()


async def visible(broker: ThreadedBroker, path: str) -> list[bytes]:
    async with client(broker, path) as own:
        consumer = Consumer(own)
        await consumer.assign_from([TopicPartition("out", index) for index in range(2)])
        return sorted(each.record.value or b"" for each in await consumer.read_to_end())


def test_a_pipeline_reads_and_writes_over_tls(
    spark: "SparkSession", secured: ThreadedBroker, tls_files: Any, tmp_path: Path
) -> None:
    from eosin.pipeline import Pipeline

    path = config(tmp_path, tls_files)
    asyncio.run(filled(secured, path))
    plans = []

    def same(frame: Any) -> Any:
        plans.append(frame._jdf.queryExecution().toString())
        return frame.select("value")

    job = Pipeline(
        "secured",
        same,
        bootstrap=secured.address,
        topics="orders",
        output="out",
        checkpoint=str(tmp_path / "checkpoint"),
        route="executors",
        trigger="available-now",
        command_config=path,
    )
    job.run(spark)
    assert asyncio.run(visible(secured, path)) == [b"%d" % number for number in range(10)]
    assert plans
    assert "CERTIFICATE" not in plans[0]


@pytest.mark.process
async def test_a_runner_works_over_tls(secured: ThreadedBroker, tls_files: Any, tmp_path: Path) -> None:
    from eosin.pipeline import Output, Runner

    path = config(tmp_path, tls_files)
    await filled(secured, path)

    def committed(report: Any) -> None:
        if runner.metrics()["records_out_total"] >= 10:
            runner.stop()

    runner = Runner(
        secured.address,
        "copier",
        "orders",
        lambda record: [Output("out", record.record.value, partition=record.partition.partition)],
        on_commit=committed,
        command_config=path,
    )
    await asyncio.wait_for(runner.run(), HANG_S)
    assert await visible(secured, path) == [b"%d" % number for number in range(10)]


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_says_in_one_sentence_that_a_secured_cluster_needs_settings(
    secured: ThreadedBroker, java: None, tls_files: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    example = ["pipeline", "example", "orders"]
    assert main([*example, "--bootstrap-server", secured.address]) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"eosin pipeline example: {secured.address}")
    assert said.endswith("perhaps its listener asks for TLS or a login (security.protocol)\n")
    assert said.count("\n") == 1
    assert main([*example, "--command-config", config(tmp_path, tls_files)]) == 2
    assert capfd.readouterr().err.endswith("--command-config is for a cluster of yours: it needs --bootstrap-server\n")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_example_runs_over_tls(secured: ThreadedBroker, java: None, tls_files: Any, tmp_path: Path) -> None:
    where = ["--bootstrap-server", secured.address, "--command-config", config(tmp_path, tls_files)]
    assert main(["pipeline", "example", "orders", *where, "--records", "60"]) == 0
