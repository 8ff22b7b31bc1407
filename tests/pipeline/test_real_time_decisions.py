"""What Real-time Mode decides before a query runs: plans, columns, positions, checkpoints. No Spark, no broker."""

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import HANG_S

from eosin.pipeline.common.errors import (
    BadRows,
    BrokenCheckpoint,
    ConflictingSettings,
    MissingDependency,
    MissingOffsets,
    PipelineFenced,
)
from eosin.pipeline.realtime.checkpoint_entries import CheckpointEntries
from eosin.pipeline.realtime.plan import KafkaSource, Plan, leaves_out, without_source
from eosin.pipeline.realtime.positions import (
    PartitionMarker,
    WrittenPosition,
    is_of,
    starting_offsets,
    transactional_id,
)
from eosin.pipeline.realtime.query import RealTimeQuery, RealTimeSettings, check_new_checkpoint, reason_of
from eosin.pipeline.realtime.writer_jar import SOURCE, compiled, jar_name, pack
from eosin.protocol.names import TopicPartition

ORDERS = TopicPartition("orders", 0)
SOURCE_COLUMN = ("source", "struct<topic:string,partition:int,offset:bigint>")
STEPS = ["Project", "StreamingRelationV2"]


def source(**options: str) -> tuple[str, dict[str, str]]:
    """A reader of Spark's Kafka source."""
    return "kafka", {"kafka.bootstrap.servers": "one:9092", "subscribe": "orders", **options}


def settings(**given: object) -> RealTimeSettings:
    usual = {
        "pipeline": "p",
        "bootstrap": "one:9092",
        "topic": "out",
        "progress_topic": "p-progress",
        "commit_interval_ms": 50,
        "transaction_timeout_ms": 60_000,
        "task_timeout_ms": 300_000,
        "request_timeout_ms": 30_000,
        "adopt_checkpoint": False,
    }
    return RealTimeSettings(**{**usual, **given})  # type: ignore[arg-type]


def test_a_chain_of_steps_for_single_rows_passes() -> None:
    Plan(["Project", "Generate", "Filter", "Union", *STEPS], [source(), source(subscribe="more")]).check()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (Plan(["Aggregate", *STEPS], [source()]), "a step Aggregate"),
        (Plan(["RepartitionByExpression", *STEPS], [source()]), "a step RepartitionByExpression"),
        (Plan(["Join", *STEPS], [source(), source(subscribe="more")]), "a step Join"),
        (Plan(["Generate", *STEPS], [source()], is_deterministic=False), "not deterministic"),
        (Plan(STEPS, [("rate", {})]), "reads format 'rate'"),
        (Plan(["LocalRelation"], []), "a step LocalRelation"),
        (Plan(["Project"], []), "reads no stream"),
        (Plan(STEPS, [source(), source()]), "topic orders is read by two sources"),
        (Plan(STEPS, [source(), source(**{"kafka.bootstrap.servers": "two:9092"})]), "several clusters"),
        (Plan(STEPS, [source(), ("kafka", {"kafka.bootstrap.servers": "one:9092", "subscribepattern": ".*"})]), "name"),
        (Plan(STEPS, [source(**{"kafka.bootstrap.servers": "one:x"})]), "kafka.bootstrap.servers"),
    ],
)
def test_a_plan_that_could_not_write_each_row_once_is_refused_with_a_sentence(plan: Plan, why: str) -> None:
    with pytest.raises(ConflictingSettings, match=re.escape(why)):
        plan.check()


def test_a_frame_has_to_name_the_source_of_each_row() -> None:
    assert without_source([SOURCE_COLUMN, ("value", "binary")]) == [("value", "binary")]
    with pytest.raises(BadRows, match=r"struct\('topic', 'partition', 'offset'\)"):
        without_source([("value", "binary")])
    with pytest.raises(BadRows, match="column source is string"):
        without_source([("source", "string"), ("value", "binary")])


def test_a_position_counts_the_rows_of_its_last_record() -> None:
    position = WrittenPosition.of(8, '{"v":1,"offset":7,"rows":2,"topic_id":"abc","owner":"x"}')
    assert position == WrittenPosition(7, 2, "abc")
    assert position.next_offset == 7, "more rows of it may be missing"
    assert WrittenPosition.of(position.committed, position.metadata(5)) == position


@pytest.mark.parametrize("metadata", ["", "written by hand", '{"v":1,"offset":3,"rows":2,"topic_id":"","owner":""}'])
def test_an_offset_that_a_tool_has_set_counts_for_all_rows_before_it(metadata: str) -> None:
    position = WrittenPosition.of(8, metadata)
    assert (position.next_offset, position.committed) == (8, 8)
    assert WrittenPosition.of(8, position.metadata(5)) == position, "committing it again changes nothing"
    assert position.metadata(5) != position.metadata(6), "others see that it was committed again"


def test_a_marker_is_read_as_java_writes_it() -> None:
    marker = PartitionMarker.parse(b'{"v":1,"topic":"orders","partition":0,"topic_id":"abc"}')
    assert marker == PartitionMarker(ORDERS, "abc")
    with pytest.raises(ValueError, match="version 2"):
        PartitionMarker.parse(b'{"v":2}')
    with pytest.raises(ValueError, match="no marker"):
        PartitionMarker.parse(b"\xff")


def test_transactional_ids_of_two_pipelines_never_meet() -> None:
    assert transactional_id("p", ORDERS) == "p:orders:0"
    assert is_of("p", "p:orders:0")
    assert not is_of("p", "p-2:orders:0")
    assert not is_of("p", "p")


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({}, True),
        ({"startingoffsets": "latest"}, True),
        ({"startingoffsets": "earliest"}, False),
        ({"startingoffsets": '{"orders": {"0": 7}}'}, False),
        ({"startingoffsets": '{"orders": {"0": 8}}'}, True),
        ({"startingoffsets": '{"orders": {"0": -1}}'}, True),
        ({"startingoffsets": '{"orders": {"1": 99}}'}, False),
        ({"startingtimestamp": "5", "startingoffsets": "earliest"}, True),
    ],
)
def test_a_new_checkpoint_may_not_begin_behind_what_is_written(options: dict[str, str], lost: bool) -> None:
    assert leaves_out(KafkaSource(options), "orders", 0, 7) is lost


def test_the_sentence_about_a_new_checkpoint_has_the_offsets_to_begin_with() -> None:
    plan = Plan(STEPS, [source()])
    positions = {TopicPartition("orders", 1): WrittenPosition(4, 1), ORDERS: WrittenPosition(7, 1)}
    with pytest.raises(MissingOffsets, match=re.escape('{"orders": {"0": 7, "1": 4}}')):
        check_new_checkpoint(plan, positions, "p")
    assert starting_offsets({}) == "{}"
    check_new_checkpoint(plan, {TopicPartition("other", 0): WrittenPosition(4, 1)}, "p")


@pytest.mark.parametrize("offsets", [(), (5, 6)])
def test_a_checkpoint_whose_last_batch_has_no_offsets_is_refused_with_the_place_to_begin(
    offsets: tuple[int, ...],
) -> None:
    entries = CheckpointEntries(frozenset(offsets), frozenset((5, 6, 7)), knows_its_begin=True)
    with pytest.raises(BrokenCheckpoint, match=re.escape("has commits/7 and no offsets/7")) as refused:
        entries.check("/data/c", {ORDERS: WrittenPosition(7, 1)})
    assert '{"orders": {"0": 7}}' in str(refused.value)


@pytest.mark.parametrize(
    ("offsets", "commits", "knows", "has_begun"),
    [
        ((), (), False, False),
        ((), (), True, True),
        ((0,), (), False, False),
        ((0,), (0,), False, True),
        ((6, 7), (5, 6), True, True),
    ],
)
def test_a_checkpoint_has_begun_once_its_sources_know_where(
    offsets: tuple[int, ...], commits: tuple[int, ...], *, knows: bool, has_begun: bool
) -> None:
    """Offsets alone are nothing: Spark deletes those of a batch that is not done."""
    entries = CheckpointEntries(frozenset(offsets), frozenset(commits), knows)
    entries.check("/data/c", {})
    assert entries.has_begun is has_begun


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"commit_interval_ms": 0}, "must be 1 or more"),
        ({"commit_interval_ms": 40_000}, "twice as long"),
        ({"pipeline": "a:b"}, "no colon"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ConflictingSettings, match=why):
        settings(**given).check()
    settings().check()


def test_to_close_a_query_does_not_wait_for_brokers_that_do_not_answer() -> None:
    """The supervisor of a query that has failed starts it again once it is closed."""
    pytest.importorskip("pyspark")
    begun = threading.Event()

    class Unanswered:
        async def refresh(self) -> None:
            begun.set()
            await asyncio.Event().wait()

    class Running:
        def awaitTermination(self, timeout: int) -> bool:
            return False

    query = RealTimeQuery(settings(refresh_ms=1))
    takeover: Any = Unanswered()
    running: Any = Running()
    query.watch(takeover, running)
    assert begun.wait(HANG_S)
    closing = threading.Thread(target=query.close, daemon=True)
    closing.start()
    closing.join(HANG_S)
    assert not closing.is_alive()


def test_the_sentence_of_the_writer_is_found_in_what_spark_says() -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted: org.apache.kafka.common.errors."
        "InterruptException: java.lang.InterruptedException\n\tat org.apache.kafka.A.b(A.java:1)\n"
        "\tSuppressed: java.lang.IllegalStateException: {}\n\t\tat eosin.realtime.TxnWriter$Partition.run(Txn.java:7)"
    )
    fenced = reason_of(said.format("pipeline p was taken over by another driver or task (orders-0)"))
    assert isinstance(fenced, PipelineFenced)
    assert str(fenced) == "pipeline p was taken over by another driver or task (orders-0)"
    assert not isinstance(reason_of(said.format("rows of orders-0 are out of order")), PipelineFenced | None)
    anew = reason_of(said.format("topic orders was deleted and created anew since pipeline p has read it"))
    assert isinstance(anew, MissingOffsets)
    gone = reason_of("OffsetOutOfRangeException: Fetch position is out of range for partition orders-0\n\tat a.b")
    assert isinstance(gone, MissingOffsets)
    assert str(gone).startswith("orders-0 does not have the offset any more")
    assert reason_of("[STREAM_FAILED] executor lost") is None


def test_secrets_of_clients_are_not_shown() -> None:
    assert "hidden" not in repr(settings(client_settings={"sasl.jaas.config": "hidden"}))


def test_options_of_a_source_become_settings_of_kafkas_client() -> None:
    found = KafkaSource(source(**{"kafka.security.protocol": "SSL", "kafka.isolation.level": "read_committed"})[1])
    assert found.client_settings() == {"bootstrap.servers": "one:9092", "security.protocol": "SSL"}
    assert KafkaSource({"assign": '{"orders": [0]}'}).topics == frozenset({"orders"})


def test_a_jar_is_named_after_its_source_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    assert jar_name(SOURCE.read_bytes()) != jar_name(b"")
    (tmp_path / "eosin").mkdir()
    (tmp_path / "eosin" / "A.class").write_bytes(b"a")
    pack(tmp_path, tmp_path / "1.jar")
    pack(tmp_path, tmp_path / "2.jar")
    assert (tmp_path / "1.jar").read_bytes() == (tmp_path / "2.jar").read_bytes()


def test_a_java_without_a_compiler_takes_a_jar_that_was_made_before_and_otherwise_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EOSIN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    system = SimpleNamespace(getProperty=lambda name: str(tmp_path / "jre"))
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    with pytest.raises(MissingDependency, match="on a Java without a compiler: run Spark on a JDK 17 or later once"):
        compiled(jvm, None)
    there = tmp_path / jar_name(SOURCE.read_bytes())
    there.touch()
    assert compiled(jvm, None) == there
