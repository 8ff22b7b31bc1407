"""Route `driver`: the driver collects the rows of a micro-batch, and one producer writes them.

Always true: Spark may retry a task as often as it likes, since its rows are written only after they have arrived here;
and all rows of a batch are of one computation of its frame.
"""

import contextlib
import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from eosin.pipeline.common.errors import BatchTooLarge
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.pipeline.sink.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DRIVER_MAX_ROWS: Final = 1_000_000
"""`driver.max.rows`: larger batches are collected piece by piece; the route `executors` suits them better."""
_PIECE: Final = 10_000
_SPARKS_LIMIT: Final = "spark.driver.maxResultSize"
"""Spark ends a job whose results are larger."""

log = logging.getLogger(__name__)


class DriverRoute:
    """Collects rows for a writer in the driver."""

    def __init__(self, loop: LoopThread, *, max_rows: int = DRIVER_MAX_ROWS) -> None:
        self._loop = loop
        self._max_rows = max_rows
        self._too_many = False

    def write(self, frame: "DataFrame", writer: RowWriter) -> int:
        """Write every row of a frame, which is computed once; returns their number. Raises BatchTooLarge."""
        with _naming_the_other_route():
            rows = self._write_pieces(frame, writer) if self._too_many else self._write_at_once(frame, writer)
        written = self._loop.run(writer.finish())
        assert sum(each.rows for each in written.values()) == rows
        if rows > self._max_rows and not self._too_many:
            log.warning(
                "a micro-batch has %d rows, more than driver.max.rows=%d: try route executors", rows, self._max_rows
            )
        self._too_many = rows > self._max_rows
        return rows

    def _write_at_once(self, frame: "DataFrame", writer: RowWriter) -> int:
        """Collect all partitions in one job: the fastest way for a batch that fits into memory."""
        table = frame.toArrow()
        for batch in table.to_batches():
            self._loop.run(writer.write_arrow(batch))
        return int(table.num_rows)

    def _write_pieces(self, frame: "DataFrame", writer: RowWriter) -> int:
        # Each piece is a job of its own. An executor that is lost between two of them takes its part of a shuffle with
        # it, which the next job would compute anew: a frame that is not deterministic would come in pieces of two
        # computations. What was computed before, and is lost, fails the batch instead.
        rows = frame.localCheckpoint(eager=True).toLocalIterator(prefetchPartitions=True)
        count = 0
        while piece := list(islice(rows, _PIECE)):
            self._loop.run(writer.write(Rows.from_spark(piece, frame.columns)))
            count += len(piece)
        return count


@contextlib.contextmanager
def _naming_the_other_route() -> Iterator[None]:
    """Raise BatchTooLarge in place of Spark's error about its limit, which does not know what else there is."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if _SPARKS_LIMIT not in str(error):
            raise
        raise BatchTooLarge(
            f"the rows of this batch are more than {_SPARKS_LIMIT} lets come to the driver: use route executors, raise"
            " that setting, or let a batch have fewer rows"
        ) from error
