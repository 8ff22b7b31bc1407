"""Workers of Spark do not search what they have imported for garbage: Spark has them search after every task."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from eosin.pipeline.common.worker_heap import exempt_modules_from_collection

pytest.importorskip("pyspark")

from eosin.pipeline.format.read_options import parse_read
from eosin.pipeline.source.txnlog import LogRange, TxnLogReader
from eosin.protocol.names import TopicPartition


@pytest.fixture
def new_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker that has just imported a module, with a heap of which nothing is exempt."""
    gc.unfreeze()
    monkeypatch.setitem(sys.modules, "a_module_that_is_new", ModuleType("a_module_that_is_new"))
    monkeypatch.setattr("eosin.pipeline.common.worker_heap._modules_seen", 0)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("new_module")
def test_the_modules_of_a_worker_are_exempt_from_garbage_collection() -> None:
    exempt_modules_from_collection()
    exempt = gc.get_freeze_count()
    assert exempt > 1000
    later = [[index] for index in range(5000)]
    exempt_modules_from_collection()
    assert gc.get_freeze_count() <= exempt, "nothing new was imported"
    assert len(later) == 5000


@pytest.mark.usefixtures("new_module")
def test_a_task_that_has_read_leaves_them_exempt() -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    options = parse_read({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}, streaming=False)
    reader = TxnLogReader(options, StructType([StructField("value", BinaryType())]))
    nothing = LogRange(TopicPartition("orders", 0), 5, 5, 1000, None)
    assert list(reader.read(nothing)) == []
    assert gc.get_freeze_count() > 1000
