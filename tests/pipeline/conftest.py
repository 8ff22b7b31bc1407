"""One Spark session, and brokers in processes of their own, for the tests of pipelines.

A test that uses `spark` gets the mark of the same name from here. Without Spark or Java it is skipped with the reason;
where CI=true it fails.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import maven
import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from local_broker import ThreadedBroker
from pipeline_copier import Copier, Killer
from toolchains import skipped_without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                # The first one waits for the session, and a call to Java that is cut off spoils all after it.
                item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The one session of this run: starting one takes as long as many tests."""
    from eosin.pipeline.common.errors import MissingDependency

    try:
        from eosin.pipeline.spark.session import session

        warehouse = tmp_path_factory.mktemp("warehouse")
        running = session("tests", conf={**SETTINGS, "spark.sql.warehouse.dir": str(warehouse)})
    except MissingDependency as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


@pytest.fixture
def with_kafka(spark: "SparkSession") -> "SparkSession":
    """The session of all tests, which gets Spark's own Kafka source while it runs."""
    with skipped_without():
        jars = maven.jars("spark-kafka")
    jvm: Any = spark._jvm
    context: Any = spark._jsc
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    there = {str(each.getPath()) for each in loader.getURLs()}
    for jar in jars.glob("*.jar"):
        if str(jar) not in there:
            context.sc().addJar(str(jar))
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return spark


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own, in a process of its own, its logs in memory."""
    with BrokerProcess(tmp_path / "broker", durability="memory") as running:
        yield running


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Apache Kafka in a process of its own."""
    with skipped_without():
        kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    with kafka:
        yield kafka.address


@pytest.fixture
def java() -> None:
    """For tests that start Spark in processes of their own."""
    from eosin.pipeline.common.errors import MissingDependency

    try:
        from eosin.pipeline.spark.session import require_java

        require_java()
    except MissingDependency as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


@pytest.fixture
def copier(tmp_path: Path, java: None) -> Iterator[Copier]:
    """A pipeline whose input is there and which has not run yet."""
    killer = Killer()
    with ThreadedBroker(hooks=killer) as broker:
        yield Copier(tmp_path, killer, broker)
