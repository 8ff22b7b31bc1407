"""Spark's progress of a query, with the topics and the rows that Spark does not tell."""

from eosin.pipeline.common.query_progress import RowsOfBatches, readable

JAVA = "org.apache.spark.sql.execution.datasources.v2.python"
SOURCE = {
    "description": f"{JAVA}.PythonMicroBatchStreamWithTriggerAvailableNow@a59dc3b",
    "endOffset": {"b:0": 2, "a:1": 2, "a:id": "O_Hm3l51hCoJ-lPI_hP1qA"},
    "numInputRows": 2,
}


def test_source_and_sink_of_the_format_have_names() -> None:
    progress = {
        "batchId": 3,
        "sources": [SOURCE],
        "sink": {"description": f"{JAVA}.PythonTable@6a024701", "numOutputRows": 2},
    }
    assert readable(progress) == {
        "batchId": 3,
        "sources": [{**SOURCE, "description": "eosin a, b"}],
        "sink": {"description": "eosin", "numOutputRows": 2},
    }


def test_the_rows_of_a_function_of_foreach_batch_are_those_that_the_sink_wrote() -> None:
    written = RowsOfBatches()
    for batch in range(2000):
        written.note(batch, batch * 10)
    sink = {"description": "ForeachBatchSink", "numOutputRows": -1}
    found = [readable({"batchId": batch, "sources": [], "sink": sink}, written)["sink"] for batch in (0, 1999)]
    assert [each["numOutputRows"] for each in found] == [-1, 19990]
    assert readable({"batchId": 1999, "sink": sink})["sink"] == sink


def test_another_source_stays_as_spark_describes_it() -> None:
    kafka = {"description": "KafkaV2[Subscribe[a]]", "endOffset": {"a": {"0": 2}}}
    assert readable({"batchId": 0, "sources": [kafka], "sink": {}})["sources"] == [kafka]
