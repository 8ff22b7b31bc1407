"""A session has what the sink relies on, and one that has not is refused (S7)."""

import sys
from typing import TYPE_CHECKING

import pytest

from eosin.pipeline.common.errors import ConflictingSettings, MissingDependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def test_workers_run_this_interpreter(spark: "SparkSession") -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


def test_a_frame_is_counted(spark: "SparkSession") -> None:
    assert spark.range(10).count() == 10


@pytest.mark.parametrize(
    ("setting", "value"), [("spark.speculation", "true"), ("spark.stage.maxConsecutiveAttempts", "4")]
)
def test_a_spark_setting_that_would_run_a_task_twice_is_refused(setting: str, value: str) -> None:
    from eosin.pipeline.spark.session import session

    with pytest.raises(ConflictingSettings, match=f"{setting} is {value} and must be"):
        session("refused", conf={setting: value})


def test_a_session_whose_workers_have_no_chosen_interpreter_is_refused(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    from eosin.pipeline.common.session_settings import check_session

    monkeypatch.delenv("PYSPARK_PYTHON")
    with pytest.raises(ConflictingSettings, match="PYSPARK_PYTHON is not set"):
        check_session(spark)


def test_a_foreign_session_without_the_required_settings_is_refused(spark: "SparkSession") -> None:
    from eosin.pipeline.common.session_settings import check_session

    settings = spark.sparkContext._conf
    settings.set("spark.stage.maxConsecutiveAttempts", "4")
    try:
        with pytest.raises(ConflictingSettings, match=r"maxConsecutiveAttempts is 4 and must be 1"):
            check_session(spark)
    finally:
        settings.set("spark.stage.maxConsecutiveAttempts", "1")


def test_a_session_of_spark_connect_is_refused_in_a_sentence() -> None:
    from eosin.pipeline.common.session_settings import check_session

    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConflictingSettings, match="is a session of Spark Connect, and the sink needs a classic one"):
        check_session(remote)


def test_a_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from eosin.pipeline.spark.session import require_java

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependency, match="no java on the PATH"):
        require_java()


def test_all_wrong_settings_are_told_at_once() -> None:
    from eosin.pipeline.spark.session import session

    with pytest.raises(ConflictingSettings) as refused:
        session("refused", conf={"spark.speculation": "true", "spark.stage.maxConsecutiveAttempts": "4"})
    assert "spark.speculation is true and must be false" in str(refused.value)
    assert "; spark.stage.maxConsecutiveAttempts is 4 and must be 1" in str(refused.value)


def test_a_foreign_session_is_told_of_its_settings_and_its_interpreter_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from eosin.pipeline.common.session_settings import check_session

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context = type("Context", (), {"getConf": dict, "pythonExec": "python3"})()
    with pytest.raises(ConflictingSettings, match=r"Attempts is 4 \(the default\) and must be 1: .*; PYSPARK_PYTHON"):
        check_session(type("SparkSession", (), {"sparkContext": context})())


@pytest.mark.parametrize(
    ("spark_version", "release"),
    [("4.3.0", "4.2.0"), ("4.2.0", "4.2.0"), ("4.0.1", "4.0.1"), ("5.0.0.dev1", "4.2.0")],
)
def test_the_connector_of_a_newer_spark_is_the_newest_that_is_published(spark_version: str, release: str) -> None:
    from eosin.pipeline.source.streams import jvm_packages

    packages = {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release}"}
    assert jvm_packages(spark_version) == packages
