"""The options of `format("eosin")`: Spark's own names and values, and all that is wrong in one sentence."""

from pathlib import Path

import pytest

from eosin.client.security.settings import ClientSecurityProtocol
from eosin.pipeline.common.errors import BadRows, ConflictingSettings
from eosin.pipeline.format.checkpoint_folder import UNKNOWN_RANGE, CheckpointFolder
from eosin.pipeline.format.read_options import includes_headers, parse_read
from eosin.pipeline.format.task_rows import written_columns
from eosin.pipeline.format.write_options import WriteOptions
from eosin.pipeline.source.log_offsets import cut, divided
from eosin.pipeline.source.options import SourceOptions, Timestamps
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.compression import Compression

READ = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
WRITE = {"kafka.bootstrap.servers": "localhost:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_read_has_the_defaults_of_sparks_own_source_and_sees_only_committed_records() -> None:
    stream, batch = parse_read(READ, streaming=True), parse_read(READ, streaming=False)
    assert stream == SourceOptions("localhost:9092", ("t",), starting="latest")
    assert (batch.starting, batch.ending) == ("earliest", "latest")
    assert stream.isolation is IsolationLevel.READ_COMMITTED
    assert not includes_headers(READ)
    assert includes_headers({"INCLUDEHEADERS": "True"})


def test_offsets_and_times_are_given_as_sparks_own_source_takes_them() -> None:
    assert parse_read({**READ, "startingOffsets": '{"t": {"0": 7, "1": -2}}'}).starting == {T0: 7, T1: -2}
    assert parse_read({**READ, "startingTimestamp": "5", "startingOffsets": "latest"}).starting == Timestamps(
        5, {}, True
    )
    times = {"endingOffsetsByTimestamp": '{"t": {"1": 9}}'}
    assert parse_read({**READ, **times}).ending == Timestamps(None, {T1: 9}, False)
    loose = {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}
    assert parse_read({**READ, **loose}).starting == Timestamps(5, {}, False)


def test_topics_come_by_name_by_pattern_or_by_partition() -> None:
    bootstrap = {"kafka.bootstrap.servers": "localhost:9092"}
    assert parse_read({**bootstrap, "subscribe": "u, t"}).topics == ("u", "t")
    assert parse_read({**bootstrap, "subscribePattern": "t.*"}).pattern == "t.*"
    assigned = parse_read({**bootstrap, "assign": '{"t": [1, 0]}'})
    assert (assigned.topics, assigned.assigned) == (("t",), (T0, T1))


def test_security_comes_by_the_names_that_spark_passes_on() -> None:
    found = parse_read({**READ, "kafka.security.protocol": "SSL"})
    assert found.security.protocol is ClientSecurityProtocol.SSL


def test_names_of_txnlog_are_known_too() -> None:
    found = parse_read({"bootstrap.servers": "h:1", "subscribe": "t", "maxRowsPerTrigger": "3"})
    assert (found.bootstrap, found.max_rows_per_trigger) == ("h:1", 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": ""}, "no topic is given: set one of subscribe, subscribePattern and assign"),
        ({"assign": '{"t": [0]}'}, "subscribe and assign are given: set one of"),
        ({"subscribePattern": "(", "subscribe": ""}, "no regular expression"),
        ({"assign": '{"t": 0}', "subscribe": ""}, "assign has 0 for topic t, and must be JSON like"),
        ({"startingOffset": "latest"}, "no option startingOffset (did you mean startingOffsets?)"),
        ({"startingOffsets": "newest"}, "startingOffsets is 'newest', and can be earliest, latest or JSON like"),
        ({"startingOffsets": "{t}"}, "startingOffsets is '{t}', and must be JSON like"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets has {'0': -3} for topic t, and must be JSON like"),
        ({"endingOffsets": "latest"}, "endingOffsets ends a batch, and a stream has no end"),
        ({"kafka.group.id": "g"}, "kafka.group.id of Spark's own Kafka source is not supported: leave it out, since"),
        ({"maxTriggerDelay": "1s"}, "let the query's trigger say how often a batch is made"),
        ({"kafka.fetch.min.bytes": "1"}, "kafka.fetch.min.bytes has no meaning for Eosin's own client: leave it out"),
        ({"colour": "red"}, "there is no option colour: leave it out, or see docs/pipelines.md"),
        ({"bootstrap.servers": "other:1"}, "kafka.bootstrap.servers is given twice, with different values"),
        ({"kafka.security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"command.config": "f", "kafka.security.protocol": "SSL"}, "are both given: leave out one"),
        ({"minPartitions": "0"}, "minPartitions is '0', and must be a number from 1 on"),
    ],
)
def test_a_wrong_option_of_a_read_is_refused_with_what_to_do(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConflictingSettings) as refused:
        parse_read({**READ, **options}, streaming=True)
    assert said in str(refused.value)


def test_a_batch_that_would_read_nothing_is_refused() -> None:
    with pytest.raises(ConflictingSettings, match="a batch that begins there reads nothing: use readStream"):
        parse_read({**READ, "startingOffsets": "latest"}, streaming=False)


def test_all_that_is_wrong_is_told_in_one_error() -> None:
    with pytest.raises(ConflictingSettings) as refused:
        parse_read({"subscibe": "t", "failOnDataLoss": "maybe", "minPartitions": "many"})
    for said in (
        "did you mean subscribe?",
        "failOnDataLoss is 'maybe'",
        "minPartitions is 'many'",
        "servers is missing",
    ):
        assert said in str(refused.value)


def test_a_write_takes_the_options_of_sparks_own_sink_and_of_its_producer() -> None:
    options = {"topic": "t", "kafka.compression.type": "zstd", "kafka.acks": "all", "kafka.enable.idempotence": "true"}
    found = WriteOptions.parse(
        {**WRITE, **options, "kafka.batch.size": "16384", "asyncProgressTrackingEnabled": "false"}
    )
    assert (found.topic, found.compression, found.batch_bytes) == ("t", Compression.ZSTD, 16384)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.acks": "1"}, "kafka.acks is '1', and can be all or -1"),
        ({"kafka.transactional.id": "x"}, "the option pipeline names the transactional id"),
        ({"asyncProgressTrackingEnabled": "true"}, "lets Spark replay more than its last batch"),
        ({"topics": "t"}, "there is no option topics (did you mean topic?)"),
    ],
)
def test_a_wrong_option_of_a_write_is_refused_with_what_to_do(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConflictingSettings) as refused:
        WriteOptions.parse({**WRITE, **options})
    assert said in str(refused.value)


def test_a_pipeline_has_the_name_that_it_is_given_or_the_querys_name_or_its_id() -> None:
    given = {**WRITE, "queryname": "totals", "checkpointlocation": "/c"}
    assert WriteOptions.parse({**given, "pipeline": "p"}).pipeline_of("q") == "p"
    assert WriteOptions.parse(given).pipeline_of("q") == "totals"
    assert WriteOptions.parse(WRITE).pipeline_of("q") == "eosin-q"
    assert WriteOptions.parse(WRITE).pipeline_of(None) is None


def test_columns_are_those_of_sparks_own_sink_and_others_are_dropped() -> None:
    types = [("Value", "string"), ("topic", "string"), ("amount", "double"), ("key", "binary")]
    assert written_columns(types, None) == ("key", "Value", "topic")
    assert written_columns(types, "t") == ("key", "Value")
    for wrong, said in (
        ([("key", "string")], "the sink needs a column value, and the frame has key"),
        ([("value", "string")], "a row needs a topic: set the option topic, or add a column topic"),
        ([("value", "int"), ("topic", "string")], "column value is int"),
    ):
        with pytest.raises(BadRows, match=said):
            written_columns(wrong, None)


def test_ranges_are_divided_for_as_many_tasks_as_are_wanted() -> None:
    assert divided([90, 10], at_least=None, at_most=None) == [1, 1]
    assert divided([90, 10], at_least=10, at_most=None) == [9, 1]
    assert divided([90, 10], at_least=None, at_most=40) == [3, 1]
    assert divided([1, 1], at_least=8, at_most=None) == [1, 1]
    assert divided([], at_least=8, at_most=3) == []
    assert cut(5, 12, 3) == [(5, 7), (7, 9), (9, 12)]


def test_a_checkpoint_on_another_machine_tells_nothing_and_one_here_must_be_whole(tmp_path: Path) -> None:
    far = CheckpointFolder("s3a://bucket/checkpoint")
    assert (far.query_id(), far.range_hash(0)) == (None, UNKNOWN_RANGE)
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    for near in (CheckpointFolder(str(tmp_path)), CheckpointFolder(tmp_path.as_uri())):
        assert near.query_id() == "q"
        assert near.range_hash(0) not in (UNKNOWN_RANGE, "")
        with pytest.raises(ConflictingSettings, match="the checkpoint has no"):
            near.range_hash(1)


def test_a_topic_is_not_overwritten() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StructType

    from eosin.pipeline.format.data_source import Eosin

    with pytest.raises(ConflictingSettings, match="a topic cannot be overwritten"):
        Eosin({**WRITE, "topic": "t"}).writer(StructType(), overwrite=True)
