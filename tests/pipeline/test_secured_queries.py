"""Queries at a broker that asks for TLS, a login and rights: the user has those that the pages name, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess
from topic_load import TopicLoad
from waiting import wait_until

from eosin.cli import acls, users

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

USER = "app"
PASSWORD = 'se"cr\\et'
RIGHTS = (
    ("DESCRIBE,READ", "--topic", "words"),
    ("DESCRIBE,WRITE", "--topic", "copied"),
    ("DESCRIBE,DESCRIBE_CONFIGS,READ,WRITE", "--topic", "words-", "--prefixed"),
    ("CREATE", "--topic", "words-format-progress"),
    ("READ", "--group", "words"),
    ("READ", "--group", "spark-kafka-", "--prefixed"),
    ("DESCRIBE,WRITE", "--transactional-id", "words", "--prefixed"),
)


class Secured:
    """A broker whose first listener is for the test, and whose second one is for the user."""

    def __init__(self, folder: Path, tls_files: Any) -> None:
        folder.mkdir()
        self.password = folder / "password"
        self.password.write_text(PASSWORD)
        added = ["add", USER, "--data-dir", str(folder / "data"), "--password-file", str(self.password)]
        assert users.main([*added, "--iterations", "4096"]) == 0
        self.process = BrokerProcess(
            folder / "data",
            settings={
                "listener.security.protocol.map": "SECURE:SASL_SSL",
                "ssl.keystore.location": tls_files.broker,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "transaction.state.log.num.partitions": "2",
                "offsets.topic.num.partitions": "2",
            },
        )
        self.process.options = ("--listen", "SECURE=127.0.0.1:0")
        self.process.start()
        self.address = "127.0.0.1:{}".format(re.findall(r"127\.0\.0\.1:(\d+)", self.process.ready_line)[1])
        for operations, *resource in RIGHTS:
            allowed = ["add", "--principal", f"User:{USER}", "--allow", operations, *resource]
            assert acls.main([*allowed, "--bootstrap-server", self.process.address]) == 0
        self.load = TopicLoad(self.process.address)
        self.load.create("words")
        self.load.create("copied")
        self.load.create("words-progress", cleanup_policy="compact")  # the user may not create it
        self.command_config = folder / "client.properties"
        self.command_config.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.location={tls_files.ca}\nsasl.mechanism=SCRAM-SHA-512\n"
            f"eosin.sasl.username={USER}\neosin.sasl.password.file={self.password}\n"
        )
        password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        self.options = {
            "kafka.bootstrap.servers": self.address,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": tls_files.ca,
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
        }


@pytest.fixture
def secured(tls_files: Any, tmp_path: Path) -> Iterator[Secured]:
    running = Secured(tmp_path / "broker", tls_files)
    yield running
    running.process.stop()
    assert PASSWORD not in running.process.log


def test_a_query_of_the_format_and_one_in_real_time_log_in_over_tls(
    with_kafka: "SparkSession", secured: Secured, tmp_path: Path
) -> None:
    load = secured.load
    load.transaction("words", [(0, "a"), (0, "b")])
    of_format(with_kafka, secured, tmp_path / "format")
    assert load.values("copied", 1) == [b"a", b"b"]
    in_real_time(with_kafka, secured, tmp_path / "real-time")
    assert load.values("copied", 1) == [b"a", b"a", b"b", b"b"]


def of_format(spark: "SparkSession", secured: Secured, checkpoint: Path) -> None:
    """Copy by `format("eosin")`, with the options of Spark's own source and sink."""
    reader = spark.readStream.format("eosin").options(**secured.options).option("subscribe", "words")
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    writer = frame.writeStream.format("eosin").options(**secured.options, topic="copied", pipeline="words-format")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def in_real_time(spark: "SparkSession", secured: Secured, checkpoint: Path) -> None:
    """Copy by the class of Java, which logs in as the file says."""
    from pyspark.sql import functions as f

    from eosin.pipeline import TxnSink

    reader = spark.readStream.format("kafka").options(**secured.options).option("subscribe", "words")
    rows = reader.option("startingOffsets", "earliest").load()
    rows = rows.select(f.struct("topic", "partition", "offset").alias("source"), "value")
    sink = TxnSink("words", secured.address, "copied", command_config=str(secured.command_config))
    query = sink.start(rows, checkpoint=str(checkpoint), trigger="real-time", real_time_batch="1 minute")
    try:
        wait_until(
            lambda: query.exception() is not None or len(secured.load.values("copied", 1)) >= 4,
            lambda: f"{query.exception()}",
            every_s=0.2,
        )
    finally:
        query.stop()
        sink.close()
