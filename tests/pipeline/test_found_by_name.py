"""`format("eosin")` without `register`: Spark finds it by the name of an installed module."""

import importlib
import pickle
import sys

import pytest

from eosin.pipeline.common import errors

NAME = "eosin.pipeline.spark.pyspark_eosin"
SOURCE = "eosin.pipeline.format.data_source"


def test_spark_is_given_the_source_and_every_worker_can_load_it() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import DataSource

    source = importlib.import_module(NAME).DefaultSource
    assert issubclass(source, DataSource)
    assert (source.name(), source.__module__) == ("eosin", SOURCE)
    assert pickle.loads(pickle.dumps(source)) is source


def test_without_the_spark_extra_the_import_raises_nothing_that_would_end_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise errors.MissingDependency("pandas is missing")

    monkeypatch.setattr(errors, "require_spark", missing)
    for name in (NAME, SOURCE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert not hasattr(importlib.import_module(NAME), "DefaultSource")
    for name in (NAME, SOURCE):
        monkeypatch.delitem(sys.modules, name, raising=False)
