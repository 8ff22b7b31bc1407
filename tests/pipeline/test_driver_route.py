"""Route `driver` without Spark: what it does with a frame that is too large to come at once."""

from collections.abc import Iterator
from typing import Any

import pytest

from eosin.pipeline.common.errors import BatchTooLarge
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.job.supervisor import is_hopeless
from eosin.pipeline.sink.driver_route import DriverRoute

pyarrow = pytest.importorskip("pyarrow")


class Frame:
    """A frame that is not deterministic: each computation of a partition has a number of its own."""

    columns = ("value",)

    def __init__(self, *, computed: list[str] | None = None) -> None:
        self._computed = computed

    def _rows(self) -> Iterator[str]:
        if self._computed is not None:
            yield from self._computed
            return
        for partition in range(2):  # an executor is lost before each one
            Frame.computations += 1
            yield f"{partition} of computation {Frame.computations}"

    computations = 0

    def toArrow(self) -> Any:
        return pyarrow.table({"value": list(self._rows())})

    def localCheckpoint(self, eager: bool) -> "Frame":
        assert eager
        Frame.computations += 1
        return Frame(computed=[f"{partition} of computation {Frame.computations}" for partition in range(2)])

    def toLocalIterator(self, prefetchPartitions: bool) -> Iterator[dict[str, str]]:
        return ({"value": each} for each in self._rows())


class Writer:
    """Keeps the values that it is given."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._rows = 0

    async def write_arrow(self, batch: Any) -> None:
        self._rows += batch.num_rows

    async def write(self, rows: Any) -> None:
        self.values += rows.values
        self._rows += len(rows)

    async def finish(self) -> dict[str, Any]:
        return {"t": type("Written", (), {"rows": self._rows})}


def test_a_large_batch_has_rows_of_one_computation_alone() -> None:
    loop = LoopThread("test")
    try:
        route = DriverRoute(loop, max_rows=1)
        for each in range(2):  # the first one tells that there are many rows
            writer = Writer()
            assert route.write(Frame(), writer) == 2, each  # type: ignore[arg-type]
    finally:
        loop.close()
    assert len({value.split()[-1] for value in writer.values}) == 1, writer.values


def test_a_batch_beyond_sparks_limit_names_the_other_route_and_is_not_tried_again() -> None:
    errors = pytest.importorskip("pyspark.errors")

    class TooLarge(Frame):
        def toArrow(self) -> Any:
            raise errors.SparkRuntimeException(
                "Job aborted due to stage failure: Total size of serialized results of 2 tasks (1536.0 KiB) is bigger"
                " than spark.driver.maxResultSize 1024.0 KiB."
            )

    loop = LoopThread("test")
    try:
        with pytest.raises(BatchTooLarge, match="route executors") as raised:
            DriverRoute(loop).write(TooLarge(), Writer())  # type: ignore[arg-type]
    finally:
        loop.close()
    assert is_hopeless(raised.value)
